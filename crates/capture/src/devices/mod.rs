//! The devices that can be captured on, with all that bears on what a capture shows.
//!
//! What it is: a snapshot of the interfaces of the calling thread's network namespace. What it is
//! not: it opens no capture and changes nothing; it needs no privilege, and what the system keeps
//! from an ordinary user is missing or named in [`DeviceInfo::unread`].
//!
//! Data in: nothing, or a name. Data out: [`DeviceInfo`]s.

mod flags;
mod list;
mod offloads;
mod support;

use ringtap_packet::LinkType;

use crate::hook::StealHazard;
pub use ringtap_sys::ethtool::{
    Channels, Driver, Feature, LinkMode, Rings, Statistic, Timestamping,
};
pub use ringtap_sys::netlink::{
    Address, Counters, DefaultRoute, Name, OperationalState, Vlan, XdpMode, XdpProgram, escape,
};
pub use ringtap_sys::privileges::Capability;

pub use flags::Flags;
pub use list::{by_name, default_device, list, position, timestamping};
pub use offloads::{ActiveOffload, Effect};
pub use support::{EngineSupport, Obstacle};

/// The name of the pseudo-device that stands for all interfaces.
pub const ANY: &str = "any";

/// A device: an interface, or the pseudo-device [`ANY`].
#[derive(Debug)]
pub struct DeviceInfo {
    /// Its name.
    pub name: Name,
    /// Its number in its network namespace; 0 for the pseudo-device.
    pub index: u32,
    /// Its alternative names.
    pub altnames: Vec<Name>,
    /// The text that the administrator gave it.
    pub alias: Option<Name>,
    /// The kind of a virtual interface, such as `veth`, `vlan`, `bond`, `bridge`.
    pub kind: Option<Name>,
    /// The kernel's type of its link layer (`ARPHRD_…`, `include/uapi/linux/if_arp.h`).
    pub hardware_type: u16,
    /// What its packets begin with in a capture by the engine `packet`.
    pub link_type: LinkType,
    /// Its flags.
    pub flags: Flags,
    /// Its operational state.
    pub state: OperationalState,
    /// Whether it has carrier.
    pub carrier: Option<bool>,
    /// Its link-layer address (MAC); empty where it has none.
    pub mac: Vec<u8>,
    /// The link-layer address that it was made with.
    pub permanent_mac: Option<Vec<u8>>,
    /// Its link-layer broadcast address.
    pub mac_broadcast: Vec<u8>,
    /// Its network addresses.
    pub addresses: Vec<Address>,
    /// The default routes that leave by it.
    pub default_routes: Vec<DefaultRoute>,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// The interface that it runs on (VLAN, macvlan) or is joined to (veth).
    pub parent: Option<Relation>,
    /// The bond or bridge that it is a port of.
    pub master: Option<Relation>,
    /// Its VLAN, where it is a VLAN sub-interface.
    pub vlan: Option<Vlan>,
    /// How many parties want it promiscuous.
    pub promiscuity: u32,
    /// Receive queues that the stack knows.
    pub rx_queues: Option<u32>,
    /// Transmit queues that the stack knows.
    pub tx_queues: Option<u32>,
    /// Queues of the adapter.
    pub channels: Option<Channels>,
    /// Descriptor rings of the adapter.
    pub rings: Option<Rings>,
    /// The packet scheduler on its transmit side.
    pub scheduler: Option<Name>,
    /// Largest packet that the stack hands over for segmentation, in bytes.
    pub gso_max_size: Option<u32>,
    /// Largest packet that received segments are merged to, in bytes.
    pub gro_max_size: Option<u32>,
    /// Its driver.
    pub driver: Option<Driver>,
    /// Speed and duplex.
    pub link_mode: Option<LinkMode>,
    /// All features of the driver.
    pub features: Vec<Feature>,
    /// What can be timestamped in hardware.
    pub timestamping: Option<Timestamping>,
    /// XDP programs attached.
    pub xdp: Vec<XdpProgram>,
    /// What the interface has sent, received and lost; nothing for the pseudo-device.
    pub counters: Option<Counters>,
    /// The adapter's own counters.
    pub statistics: Vec<Statistic>,
    /// What of the host hangs on it: stealing its packets needs consent where there is anything.
    pub steal_hazards: Vec<StealHazard>,
    /// What could not be found out, and why.
    pub unread: Vec<ringtap_sys::Error>,
}

/// Another interface that an interface belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its number, in its namespace.
    pub index: u32,
    /// Its name, where it is in the same namespace.
    pub name: Option<Name>,
    /// The identifier of its namespace, where that is another one.
    pub namespace: Option<i32>,
}

/// Why devices could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The interfaces could not be read.
    #[error(transparent)]
    Netlink(#[from] ringtap_sys::netlink::Error),
    /// A system call failed.
    #[error(transparent)]
    Call(#[from] ringtap_sys::Error),
    /// There is no device of this name, alternative name or number.
    #[error("no such device: {name:?}")]
    NoSuchDevice {
        /// What was looked for.
        name: Name,
    },
}

impl DeviceInfo {
    /// Whether it is the pseudo-device that stands for all interfaces.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.index == 0
    }

    /// Whether the device goes by this name: its own, an alternative one, or its number.
    #[must_use]
    pub fn is_called(&self, name: &[u8]) -> bool {
        let number = std::str::from_utf8(name)
            .ok()
            .and_then(|text| text.parse().ok());
        let names = std::iter::once(&self.name).chain(&self.altnames);
        names.into_iter().any(|known| known.as_bytes() == name)
            || !self.is_any() && number == Some(self.index)
    }
}
