//! Watches other programs at the hooks of a capture: programs that are placed before its own, and its own
//! programs that are removed or replaced. Without a privilege it only notices that packets no longer come
//! ([`crate::hook::Sight`]). The kernel shows the other programs only with `CAP_NET_ADMIN`.

use std::time::{Duration, Instant};

use super::TapSource;
use crate::hook::{HookPoint, News, Sight, Standing, Thieves};
use crate::{Error, Result};

/// How often the kernel is queried.
pub(super) const ASK_EVERY: Duration = Duration::from_secs(1);
/// Received and sent packets.
const HOOKS: usize = 2;

/// The known programs before the capture's.
#[derive(Debug)]
pub(super) struct ChainWatch {
    asked: Instant,
    /// Those that were reported, by hook.
    reported: [usize; HOOKS],
    /// The kernel does not show them: the privilege was given up.
    refused: bool,
    /// When the capture's own programs were last checked.
    looked: Instant,
}

impl ChainWatch {
    pub(super) fn new() -> Self {
        Self {
            asked: Instant::now(),
            reported: [0; HOOKS],
            refused: false,
            looked: Instant::now(),
        }
    }
}

impl TapSource {
    /// Returns whether a chain is watched: on one interface, at tcx.
    pub(super) fn watches_chain(&self) -> bool {
        let at_tcx = |place| matches!(place, HookPoint::Tcx(_));
        let mut hooks = self.attached.hooks.iter();
        self.options.watch_chain && self.any.is_none() && hooks.any(|hook| at_tcx(hook.place()))
    }

    /// Reports programs that were placed before the capture's since the last check.
    pub(super) fn ask_for_chain(&mut self) -> Result<()> {
        if self.chain.refused || self.chain.asked.elapsed() < ASK_EVERY || !self.watches_chain() {
            return Ok(());
        }
        self.chain.asked = Instant::now();
        let hooks = self.attached.hooks.iter_mut();
        for (hook, reported) in hooks.zip(&mut self.chain.reported) {
            let others = match hook.standing() {
                Ok(Standing::Behind { others }) => others,
                // Removed interfaces are reported elsewhere.
                Ok(Standing::First | Standing::Gone) => 0,
                Err(error) => {
                    self.chain.refused = Error::from(error).is_permission_denied();
                    return Ok(());
                }
            };
            if others > std::mem::replace(reported, others) {
                return Err(Error::Overtaken {
                    device: self.device.clone(),
                    hook: hook.place().to_string(),
                    others,
                });
            }
        }
        Ok(())
    }

    /// Reports that received packets no longer reach the program, or do again.
    pub(super) fn look_at_sight(&mut self) -> Result<()> {
        let Some(sight) = self.sight.as_mut().filter(|sight| sight.is_due()) else {
            return Ok(());
        };
        let mut hooks = self.attached.hooks.iter();
        let Some(hook) = hooks.find(|hook| hook.place().is_ingress()) else {
            return Ok(());
        };
        let change = sight.look(self.control.take_received());
        let told = change.map(|change| change.into_error(self.device.clone(), hook.place()));
        told.map_or(Ok(()), Err)
    }

    /// Reports another capture that takes packets before this one, and its end.
    pub(super) fn look_at_thieves(&mut self) -> Result<()> {
        let Some(news) = self.thieves.as_mut().and_then(Thieves::look) else {
            return Ok(());
        };
        let (News::Came(theft) | News::Went(theft)) = &news;
        let mut hooks = self.attached.hooks.iter();
        let Some(hook) = hooks.find(|hook| hook.device().index == theft.index) else {
            return Ok(());
        };
        Err(news.into_error(hook.device().name.clone()))
    }

    /// Returns the received packets that did not reach the program. `None` if the number is unknown.
    pub(super) fn missed(&mut self) -> Option<u64> {
        let is_known = !self.thieves.as_ref().is_some_and(Thieves::hide_some);
        let sight = self.sight.as_mut().filter(|_| is_known);
        sight.map(Sight::missed)
    }

    /// Reports a program that was removed from its hook, or replaced. The end of the capture is reported
    /// after its packets.
    pub(super) fn look_at_programs(&mut self) -> Result<()> {
        if self.chain.looked.elapsed() < ASK_EVERY {
            return Ok(());
        }
        let hooks = &mut self.attached.hooks;
        let Some(at) = hooks.iter_mut().position(|hook| !hook.is_attached()) else {
            self.chain.looked = Instant::now();
            return Ok(());
        };
        let (index, goes_on) = (hooks[at].device().index, hooks.len() > 1);
        if !goes_on && self.reader.available() > 0 {
            return Ok(());
        }
        let links = self
            .netlink
            .links()
            .map_err(Error::interface(&self.device))?;
        if links.iter().all(|link| link.index != index) {
            // A removed interface is reported elsewhere, or another process attends to the interfaces.
            if self.is_everywhere() && goes_on {
                self.attached.hooks.remove(at);
            }
            self.changed = true;
            self.chain.looked = Instant::now();
            return Ok(());
        }
        let hook = &self.attached.hooks[at];
        let told = Error::Detached {
            device: hook.device().name.clone(),
            hook: hook.place().to_string(),
            goes_on,
        };
        // The last one stays, so that it is reported each time.
        if goes_on {
            self.attached.hooks.remove(at);
            self.chain.reported.copy_within(1.., 0);
        }
        Err(told)
    }
}
