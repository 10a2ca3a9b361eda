//! Follows the interfaces while a capture runs: members of a bond that come and go, interfaces that go down
//! or are removed.

use ringtap_sys::netlink::Link;

use super::SocketSource;
use super::members::members_of;
use crate::devices::Flags;
use crate::{Error, Result};

/// The places of the programs.
const HOOK: &str = "XDP";

/// Whether all changes of interfaces are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Followed {
    All,
    /// Packets must be delivered first.
    Later,
}

impl SocketSource {
    /// Follows the changes of interfaces, up to the first that is reported.
    pub(super) fn follow(&mut self, links: &[Link]) -> Result<Followed> {
        let is_gone = links.iter().all(|link| link.index != self.device.index);
        match (is_gone, self.ready()) {
            (true, Some(_)) => return Ok(Followed::Later),
            (true, None) => {
                return Err(Error::InterfaceGone {
                    device: self.device.name.clone(),
                });
            }
            (false, _) => {}
        }
        if !self.is_aggregate {
            self.follow_states(links)?;
            return Ok(Followed::All);
        }
        self.follow_leaving(links)?;
        self.follow_states(links)?;
        self.follow_joining(links)
    }

    /// Handles members that have left the bond: their packets go to the host again.
    fn follow_leaving(&mut self, links: &[Link]) -> Result<()> {
        let master = self.device.index;
        let is_member = |index: u32| members_of(links, master).any(|link| link.index == index);
        self.refused.retain(|index| is_member(*index));
        let mut members = self.members.iter_mut().filter(|member| !member.has_left);
        match members.find(|member| !is_member(member.device.index)) {
            None => Ok(()),
            Some(member) => {
                member.leave();
                Err(Error::MemberGone {
                    device: self.device.name.clone(),
                    member: member.device.name.clone(),
                })
            }
        }
    }

    /// Reports interfaces that have gone down, once each.
    fn follow_states(&mut self, links: &[Link]) -> Result<()> {
        let members = self.members.iter().filter(|member| !member.has_left);
        let members: Vec<u32> = members.map(|member| member.device.index).collect();
        for link in links {
            if link.index != self.device.index && !members.contains(&link.index) {
                continue;
            }
            let is_up = Flags(link.flags).is_up();
            let was_down = self.down.contains(&link.index);
            if is_up {
                self.down.retain(|index| *index != link.index);
            } else if !was_down {
                self.down.push(link.index);
                return Err(Error::InterfaceDown {
                    device: link.name.to_string(),
                });
            }
        }
        Ok(())
    }

    /// Opens interfaces that have become members, if possible.
    fn follow_joining(&mut self, links: &[Link]) -> Result<Followed> {
        let mut followed = Followed::All;
        for link in members_of(links, self.device.index) {
            if self.refused.contains(&link.index) {
                continue;
            }
            let mut known = self.members.iter();
            match known.find(|member| member.device.index == link.index) {
                Some(member) if member.has_left => followed = Followed::Later,
                Some(_) => {}
                None => self.join(link)?,
            }
        }
        Ok(followed)
    }

    fn join(&mut self, link: &Link) -> Result<()> {
        let (opener, plan) = (&self.opener, &self.plan);
        let opened = match &self.device.home {
            Some(home) => home.within(|| opener.open(link, plan)),
            None => Ok(opener.open(link, plan)),
        };
        match opened.map_err(Error::from).and_then(|opened| opened) {
            Ok(member) => {
                self.members.push(member);
                Ok(())
            }
            Err(error) => {
                self.refused.push(link.index);
                Err(Error::MemberNotCaptured {
                    device: self.device.name.clone(),
                    member: link.name.to_string(),
                    source: Box::new(error),
                })
            }
        }
    }

    /// Drops members that have left, once all their packets were delivered.
    pub(super) fn let_go(&mut self) -> Result<()> {
        while let Some(at) = self.members.iter().position(|member| member.has_left) {
            let mut member = self.members.swap_remove(at);
            let losses = member.losses()?;
            self.past.ring += losses.ring;
        }
        Ok(())
    }

    /// Reports programs that were removed or replaced.
    pub(super) fn look_at_programs(&mut self) -> Result<()> {
        let mut members = self.members.iter_mut().filter(|member| !member.has_left);
        let Some(member) = members.find_map(|member| (!member.is_attached()).then_some(member))
        else {
            return Ok(());
        };
        let device = || self.device.name.clone();
        let links = self
            .netlink
            .links()
            .map_err(Error::interface(&self.device.name))?;
        let exists = links.iter().any(|link| link.index == member.device.index);
        let name = member.device.name.clone();
        if self.is_aggregate {
            member.leave();
        }
        Err(match (exists, self.is_aggregate) {
            (true, goes_on) => Error::Detached {
                device: name,
                hook: HOOK.to_owned(),
                goes_on,
            },
            (false, false) => Error::InterfaceGone { device: device() },
            (false, true) => Error::MemberGone {
                device: device(),
                member: name,
            },
        })
    }
}
