//! Link layers whose payload always begins with an LLC header (IEEE 802.2): FDDI, Token Ring, ATM
//! and IP over Fibre Channel.

use super::ethertype as et;
use super::{Addresses, EtherProto, HeaderOffsets, LLC_MAX, LinkLayer, equals, snap};
use crate::ir::{Condition, Offset, Size, Values};

/// The length of an LLC and a SNAP header (RFC 1042) before the EtherType's payload, in bytes.
pub(super) const LLC_SNAP_BYTES: u32 = 8;
/// The length of the LLC header of an unnumbered frame, which precedes an OSI header, in bytes.
pub(super) const LLC_BYTES: u32 = 3;

pub(super) struct Llc {
    name: &'static str,
    /// The offset of the LLC header.
    header: u32,
    addresses: Option<Addresses>,
    /// Whether the types of LLC frames can be tested.
    types: bool,
}

impl Llc {
    /// RFC 1483 (now 2684), LLC encapsulation.
    pub(super) const ATM: Self = Self {
        name: "ATM with LLC encapsulation",
        header: 0,
        addresses: None,
        types: true,
    };
    pub(super) const ATM_CLIP: Self = Self {
        name: "Linux classical IP over ATM",
        types: false,
        ..Self::ATM
    };
    pub(super) const FDDI: Self = Self::new("FDDI", 13, Addresses { dst: 1, src: 7 });
    pub(super) const TOKEN_RING: Self = Self::new("Token Ring", 14, Addresses { dst: 2, src: 8 });
    /// RFC 2625: the destination and source addresses have 8 bytes; the last 6 have the Ethernet
    /// form.
    pub(super) const FIBRE_CHANNEL: Self = Self {
        types: false,
        ..Self::new("IP over Fibre Channel", 16, Addresses { dst: 2, src: 10 })
    };

    const fn new(name: &'static str, header: u32, addresses: Addresses) -> Self {
        Self {
            name,
            header,
            addresses: Some(addresses),
            types: true,
        }
    }
}

impl LinkLayer for Llc {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        place(self.header)
    }

    fn addresses(&self) -> Option<Addresses> {
        self.addresses
    }

    fn llc(&self, _: &mut Values, _: HeaderOffsets) -> Option<Condition> {
        self.types.then_some(Condition::Constant(true))
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        protocol(values, place.payload, proto)
    }
}

/// Returns the offsets with the LLC header at this distance from the packet's start.
pub(super) fn place(header: u32) -> HeaderOffsets {
    HeaderOffsets {
        network: Offset::from(header + LLC_SNAP_BYTES),
        osi: LLC_BYTES,
        ..HeaderOffsets::fixed(header, header)
    }
}

/// Tests whether the LLC header at `llc` is one of this protocol. As in libpcap, an EtherType is
/// read where a SNAP header has it, whether there is one or not.
pub(super) fn protocol(values: &mut Values, llc: Offset, proto: EtherProto) -> Condition {
    const ETHERTYPE_IN_SNAP: u32 = 6;
    match proto {
        et::SAP_ISO | et::SAP_NETBEUI | et::SAP_IP => {
            equals(values, Size::Half, llc, proto << 8 | proto)
        }
        et::ATALK => snap(values, llc, et::ATALK),
        _ if proto <= LLC_MAX => equals(values, Size::Byte, llc, proto),
        _ => equals(values, Size::Half, llc + ETHERTYPE_IN_SNAP, proto),
    }
}
