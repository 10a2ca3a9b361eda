//! The device that programs are attached to, with the properties that decide on a hook.

use ringtap_packet::LinkType;
use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Link, Netlink, XdpProgram};
use ringtap_sys::netns::Namespace;

use super::TagRestorer;
use crate::devices::Flags;
use crate::engines::link_type;
use crate::lookup::find_link;
use crate::{Error, Result};

/// The drivers' features that remove tags from received packets.
const TAKES_TAGS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// A device as it was when it was found.
#[derive(Clone, Debug)]
pub struct HookDevice {
    /// The kernel's name.
    pub name: String,
    /// Its number in the network namespace of the calling thread.
    pub index: u32,
    /// The type of its link layer (`ARPHRD_…`, linux/if_arp.h).
    pub hardware_type: u16,
    /// The link type of its packets.
    pub link_type: LinkType,
    /// The kind of virtual device (`veth`, `tun`). `None` for an adapter.
    pub kind: Option<String>,
    /// Whether it is loopback, which shows each packet going out and coming in.
    pub is_loopback: bool,
    /// Whether it is up.
    pub is_up: bool,
    /// XDP programs that are attached already.
    pub xdp: Vec<XdpProgram>,
    /// Whether the driver removes VLAN tags from received packets.
    pub takes_tags: bool,
    /// Restores such tags at XDP, if the driver reports them. Only [`HookDevice::restoring_tags`] sets it.
    pub tag_restorer: Option<TagRestorer>,
    /// Its network namespace, if it is stored.
    pub home: Option<Namespace>,
}

impl HookDevice {
    /// Finds a device of the calling thread's network namespace by name, alternative name, or name with an
    /// old-style alias's suffix. It needs no privilege.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`], or the interfaces cannot be read.
    pub fn find(name: &str) -> Result<Self> {
        let mut netlink = Netlink::open().map_err(Error::interface(name))?;
        let link = find_link(&mut netlink, name)?;
        let link = link.ok_or_else(|| Error::NoSuchDevice {
            device: name.to_owned(),
        })?;
        Self::of(&link)
    }

    /// Finds a device of the calling thread's network namespace by its number. Also returns its description. It needs
    /// no privilege.
    ///
    /// # Errors
    /// The same as [`HookDevice::find`].
    pub(crate) fn at(index: u32) -> Result<(Link, Self)> {
        let found = Netlink::open().and_then(|mut netlink| netlink.link_at(index));
        let link = found.map_err(|_| Error::NoSuchDevice {
            device: format!("if{index}"),
        })?;
        let device = Self::of(&link)?;
        Ok((link, device))
    }

    fn of(link: &Link) -> Result<Self> {
        let takes_tags = takes_tags(link)?;
        let kind = link.kind.as_ref();
        let kind = kind.map(|kind| String::from_utf8_lossy(kind.as_bytes()).into_owned());
        Ok(Self {
            takes_tags,
            tag_restorer: None,
            home: None,
            name: String::from_utf8_lossy(link.name.as_bytes()).into_owned(),
            index: link.index,
            kind,
            hardware_type: link.hardware_type,
            link_type: link_type(link.hardware_type),
            is_loopback: Flags(link.flags).is_loopback(),
            is_up: Flags(link.flags).is_up(),
            xdp: link.xdp.clone(),
        })
    }

    /// Finds a way to restore VLAN tags, for programs at XDP. The device must be in the calling thread's
    /// network namespace. Callers without such programs save the time.
    ///
    /// # Errors
    /// The same errors as [`TagRestorer::find`].
    pub fn restoring_tags(mut self) -> Result<Self> {
        if self.takes_tags {
            let found = TagRestorer::find(self.index, self.kind.as_deref());
            self.tag_restorer = found.map_err(Error::interface(&self.name))?;
        }
        Ok(self)
    }

    /// Stores the calling thread's network namespace as its own, by a file descriptor. Then threads in other
    /// namespaces can load programs for this device.
    #[must_use]
    pub fn remembering_home(self) -> Self {
        // Without /proc they must be loaded in this namespace.
        let home = Namespace::current().ok();
        Self { home, ..self }
    }
}

fn takes_tags(link: &Link) -> Result<bool> {
    let features = Ethtool::open()?.features(&link.name);
    // A driver that does not answer has no such feature.
    let features = features.unwrap_or_default();
    let takes = |name: &[u8]| TAKES_TAGS.iter().any(|taking| taking.as_bytes() == name);
    Ok(features
        .iter()
        .any(|feature| feature.active && takes(feature.name.as_bytes())))
}

/// Returns whether the kernel has `PREEMPT_RT`, by this file. Programs on one processor may interrupt one
/// another there.
pub(crate) fn is_realtime_kernel() -> bool {
    let flag = std::fs::read_to_string("/sys/kernel/realtime").unwrap_or_default();
    flag.trim() == "1"
}
