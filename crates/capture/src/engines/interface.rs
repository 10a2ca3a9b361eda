//! The interface of a capture: found by any of its names, with its own counters.

use std::collections::BTreeMap;

use ringtap_savefile::Interface;
use ringtap_sys::netlink::{Link, Netlink};

use super::link;
use crate::lookup::find_link;
use crate::{Error, LinkType, Result};

/// The largest packet that segmentation offload makes, unless the interface says otherwise.
const USUAL_LARGEST: u32 = 65_536;
/// Room for link-layer headers beyond what the interface states, in bytes.
const HEADERS: u32 = 256;

/// The kind of interface that a capture is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Scope {
    /// The loopback interface, which shows each packet going out and coming in.
    Loopback,
    /// Another interface.
    Interface,
    /// All interfaces, loopback among them.
    Any,
}

/// The interfaces of a capture.
#[derive(Debug)]
pub(in crate::engines) enum Target {
    /// All interfaces.
    Any,
    /// One interface, as it was when the capture was opened.
    One(Box<Link>),
}

impl Target {
    /// Finds the interface by name, alternative name (Linux 5.5), or name with an alias's suffix.
    pub(in crate::engines) fn find(
        netlink: &mut Netlink,
        device: &str,
        given: &str,
    ) -> Result<Self> {
        if device == "any" {
            return Ok(Self::Any);
        }
        match find_link(netlink, device)? {
            Some(link) => Ok(Self::One(Box::new(link))),
            None => Err(Error::NoSuchDevice {
                device: given.to_owned(),
            }),
        }
    }

    /// Returns the kernel's number; 0 for all interfaces.
    pub(in crate::engines) fn ifindex(&self) -> u32 {
        match self {
            Self::Any => 0,
            Self::One(link) => link.index,
        }
    }

    /// Returns the kernel's name.
    pub(in crate::engines) fn name(&self) -> String {
        match self {
            Self::Any => "any".to_owned(),
            Self::One(link) => String::from_utf8_lossy(link.name.as_bytes()).into_owned(),
        }
    }

    pub(in crate::engines) fn scope(&self) -> Scope {
        match self {
            Self::Any => Scope::Any,
            Self::One(link) if link.hardware_type == link::LOOPBACK => Scope::Loopback,
            Self::One(_) => Scope::Interface,
        }
    }

    pub(in crate::engines) fn link_layer(&self) -> (LinkType, ringtap_sys::packet::LinkLayer) {
        match self {
            Self::Any => link::cooked(),
            Self::One(link) => link::link_of(link.hardware_type),
        }
    }

    /// Returns the longest possible packet, in bytes, so that blocks are not larger than necessary. A longer
    /// one would be cut; its length shows it.
    pub(in crate::engines) fn largest_packet(&self) -> u32 {
        let stated = match self {
            Self::Any => 0,
            Self::One(link) => {
                let sizes = [link.gso_max_size, link.gro_max_size, Some(link.mtu)];
                sizes.into_iter().flatten().max().unwrap_or_default()
            }
        };
        stated.max(USUAL_LARGEST).saturating_add(HEADERS)
    }

    /// Returns the interface in the form that packets refer to.
    pub(in crate::engines) fn description(&self, link_type: LinkType, snaplen: u32) -> Interface {
        let mut interface = Interface::new(link_type, snaplen);
        interface.name = Some(self.name());
        if let Self::One(link) = self {
            interface.mac = link.address.as_slice().try_into().ok();
        }
        interface
    }
}

/// Losses before the capture, counted from the opening on.
#[derive(Debug)]
pub(in crate::engines) struct InterfaceLosses {
    /// Bound to the network namespace of the thread that opened the capture.
    netlink: Netlink,
    ifindex: u32,
    at_opening: u64,
}

impl InterfaceLosses {
    /// Returns the interface's counters. `None` for all interfaces together, some of which come and go.
    pub(in crate::engines) fn new(netlink: Netlink, target: &Target) -> Option<Self> {
        match target {
            Target::Any => None,
            Target::One(link) => Some(Self {
                netlink,
                ifindex: link.index,
                at_opening: losses(link),
            }),
        }
    }

    /// Returns the losses since the opening. `None` if the interface is gone, or its counters were reset.
    pub(in crate::engines) fn since_opening(&mut self) -> Option<u64> {
        let link = self.netlink.link_at(self.ifindex).ok()?;
        losses(&link).checked_sub(self.at_opening)
    }
}

/// The losses before the capture of all interfaces together, which come and go.
#[derive(Debug)]
pub(in crate::engines) struct AllLosses {
    /// Bound to the network namespace of the thread that opened the capture.
    netlink: Netlink,
    last: BTreeMap<u32, u64>,
    total: u64,
}

impl AllLosses {
    /// Counts from now on, with the present interfaces. A later one counts from when it is first seen.
    pub(in crate::engines) fn new(netlink: Netlink, links: &[Link]) -> Self {
        Self {
            netlink,
            last: links
                .iter()
                .map(|link| (link.index, losses(link)))
                .collect(),
            total: 0,
        }
    }

    /// Returns the losses since the opening.
    pub(in crate::engines) fn since_opening(&mut self) -> Option<u64> {
        let links = self.netlink.links().ok()?;
        let now: BTreeMap<u32, u64> = links
            .iter()
            .map(|link| (link.index, losses(link)))
            .collect();
        for (index, count) in &now {
            let before = self.last.get(index).unwrap_or(count);
            // After a reset a counter starts again.
            self.total += count.saturating_sub(*before);
        }
        self.last = now;
        Some(self.total)
    }
}

fn losses(link: &Link) -> u64 {
    link.counters
        .rx_missed_errors
        .saturating_add(link.counters.rx_fifo_errors)
}
