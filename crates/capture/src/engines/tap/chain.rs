//! Other programs at the hooks of a capture, which come later and are put before it.

use std::time::{Duration, Instant};

use super::TapSource;
use crate::hook::{Place, Standing};
use crate::{Error, Result};

/// How often the kernel is asked.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Received and sent packets.
const HOOKS: usize = 2;

/// What is known of the programs before the capture's.
#[derive(Debug)]
pub(super) struct ChainWatch {
    asked: Instant,
    /// Those that were reported, by hook.
    reported: [usize; HOOKS],
    /// The kernel does not tell: the right to ask was given up.
    refused: bool,
}

impl ChainWatch {
    pub(super) fn new() -> Self {
        Self {
            asked: Instant::now(),
            reported: [0; HOOKS],
            refused: false,
        }
    }
}

impl TapSource {
    /// Whether a chain is watched: on one interface, at tcx.
    pub(super) fn watches_chain(&self) -> bool {
        let at_tcx = |place| matches!(place, Place::Tcx(_));
        let mut hooks = self.attached.hooks.iter();
        self.options.watch_chain && self.any.is_none() && hooks.any(|hook| at_tcx(hook.place()))
    }

    /// Reports programs that were put before the capture's since it was asked last.
    pub(super) fn look_at_chain(&mut self) -> Result<()> {
        if self.chain.refused || self.chain.asked.elapsed() < ASK_EVERY || !self.watches_chain() {
            return Ok(());
        }
        self.chain.asked = Instant::now();
        let hooks = self.attached.hooks.iter_mut();
        for (hook, reported) in hooks.zip(&mut self.chain.reported) {
            let others = match hook.standing() {
                Ok(Standing::Behind { others }) => others,
                // Interfaces that are gone are told elsewhere.
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
}
