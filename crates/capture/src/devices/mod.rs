//! Lists the devices that can be captured on, with everything that affects a capture.
//!
//! The list is a snapshot of the interfaces in the calling thread's network namespace. It opens no capture,
//! changes nothing and needs no privilege. Data that the system hides from ordinary users is missing, or
//! named in [`DeviceInfo::unread`].
//!
//! Nothing, or a name, goes in. [`DeviceInfo`]s come out.

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
    /// The administrator's description.
    pub alias: Option<Name>,
    /// The kind of a virtual interface, such as `veth`, `vlan`, `bond`, `bridge`.
    pub kind: Option<Name>,
    /// The kernel's type of its link layer (`ARPHRD_…`, `include/uapi/linux/if_arp.h`).
    pub hardware_type: u16,
    /// The link type in a capture by the engine `packet`.
    pub link_type: LinkType,
    /// Its flags.
    pub flags: Flags,
    /// Its operational state.
    pub state: OperationalState,
    /// Whether it has carrier.
    pub carrier: Option<bool>,
    /// Its link-layer address (MAC); empty where it has none.
    pub mac: Vec<u8>,
    /// The link-layer address that it was created with.
    pub permanent_mac: Option<Vec<u8>>,
    /// Its link-layer broadcast address.
    pub mac_broadcast: Vec<u8>,
    /// Its network addresses.
    pub addresses: Vec<Address>,
    /// The default routes through it.
    pub default_routes: Vec<DefaultRoute>,
    /// Largest payload of a frame, in bytes.
    pub mtu: u32,
    /// The interface that it runs on (VLAN, macvlan) or is joined to (veth).
    pub parent: Option<Relation>,
    /// The bond or bridge that it is a port of.
    pub master: Option<Relation>,
    /// Its VLAN, where it is a VLAN sub-interface.
    pub vlan: Option<Vlan>,
    /// The number of requests for promiscuous mode.
    pub promiscuity: u32,
    /// Receive queues of the stack.
    pub rx_queues: Option<u32>,
    /// Transmit queues of the stack.
    pub tx_queues: Option<u32>,
    /// Queues of the adapter.
    pub channels: Option<Channels>,
    /// Descriptor rings of the adapter.
    pub rings: Option<Rings>,
    /// The packet scheduler on its transmit side.
    pub scheduler: Option<Name>,
    /// Largest packet that the stack passes for segmentation, in bytes.
    pub gso_max_size: Option<u32>,
    /// Largest merged received packet, in bytes.
    pub gro_max_size: Option<u32>,
    /// Its driver.
    pub driver: Option<Driver>,
    /// Speed and duplex.
    pub link_mode: Option<LinkMode>,
    /// All features of the driver.
    pub features: Vec<Feature>,
    /// Hardware timestamping.
    pub timestamping: Option<Timestamping>,
    /// XDP programs attached.
    pub xdp: Vec<XdpProgram>,
    /// The counters of sent, received and lost packets. `None` for the pseudo-device.
    pub counters: Option<Counters>,
    /// The adapter's own counters.
    pub statistics: Vec<Statistic>,
    /// The connections of the host that use it: stealing its packets needs consent if there are any.
    pub steal_hazards: Vec<StealHazard>,
    /// The data that could not be read, with the reason.
    pub unread: Vec<ringtap_sys::Error>,
}

/// Another interface that this one belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Its number, in its namespace.
    pub index: u32,
    /// Its name, if it is in the same namespace.
    pub name: Option<Name>,
    /// The identifier of its namespace, if it is another one.
    pub namespace: Option<i32>,
}

/// The reason why devices could not be listed.
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
        /// The name that was not found.
        name: Name,
    },
}

impl DeviceInfo {
    /// Returns whether it is the pseudo-device for all interfaces.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.index == 0
    }

    /// Returns whether the device has this name: its own, an alternative one, or its number.
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
