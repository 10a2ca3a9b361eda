//! Link layers: where the type field is, what values it takes, how long the header is.
//!
//! One file each. A link layer answers with conditions over offsets from [`Place`], which moves
//! when `vlan` and its like are met in an expression; everything above the link layer asks only
//! through [`LinkLayer`].

mod ethernet;
mod loopback;
mod ppp;
mod raw;
mod sll;

use crate::CompileOptions;
use crate::ir::{Condition, Offset, Relation, Size, Test, Values};

/// The kind of link-layer header, by its `LINKTYPE_` number in capture files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: a 4-byte address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// PPP.
    pub const PPP: Self = Self(9);
    /// PPP in HDLC-like framing.
    pub const PPP_HDLC: Self = Self(50);
    /// PPP over Ethernet, beginning with the PPPoE header.
    pub const PPP_ETHER: Self = Self(51);
    /// IPv4 or IPv6 without a link-layer header.
    pub const RAW: Self = Self(101);
    /// OpenBSD loopback: like [`NULL`](Self::NULL), in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4 only.
    pub const IPV4: Self = Self(228);
    /// IPv6 only.
    pub const IPV6: Self = Self(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// Where the parts of the packet are that later tests refer to.
///
/// An [`Offset`] is a constant where everything before it has a constant length. Behind headers of
/// variable length it has a base: a link layer computes it once, in [`LinkLayer::prologue`], a
/// primitive that finds an inner packet (`geneve`) where it matches; both put it into a cell by
/// [`Condition::Set`]. Nobody who loads from a place needs to know which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where the link-layer header begins, which has the hardware addresses and which `link[0]`
    /// looks at.
    pub(crate) header: Offset,
    /// The field that names the protocol of the payload.
    pub(crate) type_field: Offset,
    /// The payload of the link-layer header: where LLC begins, if there is such.
    pub(crate) payload: Offset,
    /// Where the network layer begins: behind what is always between (SNAP, MPLS labels), and at
    /// the payload otherwise.
    pub(crate) network: Offset,
    /// The bytes of LLC between the payload and an OSI network layer, which need no SNAP.
    pub(crate) osi: u32,
}

impl Place {
    /// In a packet that begins with the link-layer header, at constant distances in bytes.
    pub(crate) fn fixed(type_field: u32, payload: u32) -> Self {
        Self {
            header: Offset::from(0),
            type_field: type_field.into(),
            payload: payload.into(),
            network: payload.into(),
            osi: 0,
        }
    }
}

/// A protocol as `ether proto` numbers it: an EtherType, or an LLC service access point if it is
/// not greater than [`LLC_MAX`].
pub(crate) type EtherProto = u32;

/// The greatest length that an 802.3 header states; greater numbers are EtherTypes (IEEE 802.3,
/// 3.2.6).
pub(crate) const LLC_MAX: u32 = 1500;

/// Numbers of `ether proto` that the compiler itself uses.
pub(crate) mod ethertype {
    pub(crate) const IP: u32 = 0x0800;
    pub(crate) const ARP: u32 = 0x0806;
    pub(crate) const RARP: u32 = 0x8035;
    pub(crate) const IP6: u32 = 0x86dd;
    pub(crate) const VLAN: u32 = 0x8100;
    pub(crate) const QINQ: u32 = 0x88a8;
    pub(crate) const QINQ_OLD: u32 = 0x9100;
    pub(crate) const ATALK: u32 = 0x809b;
    pub(crate) const AARP: u32 = 0x80f3;
    pub(crate) const IPX: u32 = 0x8137;
    pub(crate) const DECNET: u32 = 0x6003;
    pub(crate) const PPPOE_DISCOVERY: u32 = 0x8863;
    pub(crate) const PPPOE_SESSION: u32 = 0x8864;
    pub(crate) const MPLS: u32 = 0x8847;
    /// 802.2 service access points.
    pub(crate) const SAP_IP: u32 = 0x06;
    pub(crate) const SAP_ISO: u32 = 0xfe;
    pub(crate) const SAP_IPX: u32 = 0xe0;
    pub(crate) const SAP_STP: u32 = 0x42;
    pub(crate) const SAP_NETBEUI: u32 = 0xf0;
}

/// Offsets of the hardware addresses, in bytes from the start of the link-layer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) src: u32,
    pub(crate) dst: u32,
}

/// Where the direction of a packet is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectionField {
    pub(crate) size: Size,
    pub(crate) offset: u32,
    /// The value of packets that the host sent.
    pub(crate) outgoing: u32,
}

/// What the compiler asks of a link layer.
pub(crate) trait LinkLayer {
    /// The name for messages.
    fn name(&self) -> &'static str;

    /// Where things are before any `vlan`. Link layers of variable length make cells here, which
    /// [`prologue`](Self::prologue) sets.
    fn place(&self, values: &mut Values) -> Place;

    /// What is computed before everything else, for the place that [`place`](Self::place) gave:
    /// a condition that is always true and sets the cells. Asked when the whole expression was
    /// lowered, and only if it looks at one of them; [`Values::is_used`] tells which.
    fn prologue(&self, _values: &mut Values, _place: Place) -> Option<Condition> {
        None
    }

    /// Whether the payload is of this protocol.
    fn protocol(&self, values: &mut Values, place: Place, proto: EtherProto) -> Condition;

    /// The hardware addresses, where the header has them in the Ethernet form.
    fn addresses(&self) -> Option<Addresses> {
        None
    }

    /// Whether the payload begins with an LLC header; `None` where that is not known.
    fn llc(&self, _values: &mut Values, _place: Place) -> Option<Condition> {
        None
    }

    /// The protocol number of MPLS labels, where they can follow.
    fn mpls(&self) -> Option<EtherProto> {
        None
    }

    /// Whether 802.1Q tags can follow.
    fn has_vlan(&self) -> bool {
        false
    }

    /// The field that tells incoming from outgoing packets.
    fn direction(&self) -> Option<DirectionField> {
        None
    }

    /// The offset of a 4-byte interface index.
    fn interface_index(&self) -> Option<u32> {
        None
    }
}

/// Offsets in an Ethernet header, in bytes.
pub(crate) const ETHERNET_TYPE: u32 = 12;
pub(crate) const ETHERNET_HEADER: u32 = 14;

/// The link layer of a packet in a tunnel: Ethernet, or a network layer with its EtherType.
pub(crate) fn in_tunnel() -> &'static dyn LinkLayer {
    &ethernet::Ethernet
}

/// The link layer of a tunnel that carries IPv4 or IPv6 without saying which.
pub(crate) fn bare_ip() -> &'static dyn LinkLayer {
    &raw::Raw::Either
}

/// The link layer inside a PPPoE session.
pub(crate) fn in_pppoe() -> &'static dyn LinkLayer {
    &ppp::Ppp::PPP
}

/// The link layer of a link type, where filters for it are supported.
pub(crate) fn link_layer(options: &CompileOptions) -> Option<Box<dyn LinkLayer>> {
    Some(match options.link_type {
        LinkType::ETHERNET => Box::new(ethernet::Ethernet),
        LinkType::NULL => Box::new(loopback::Loopback::null(options)),
        LinkType::LOOP => Box::new(loopback::Loopback::network_order(options)),
        // BSDs number raw IP differently inside a host than in files.
        LinkType::RAW | LinkType(12 | 14) => Box::new(raw::Raw::Either),
        LinkType::IPV4 => Box::new(raw::Raw::V4),
        LinkType::IPV6 => Box::new(raw::Raw::V6),
        LinkType::LINUX_SLL => Box::new(sll::Sll),
        LinkType::LINUX_SLL2 => Box::new(sll::Sll2),
        LinkType::PPP => Box::new(ppp::Ppp::PPP),
        LinkType::PPP_HDLC => Box::new(ppp::Ppp::SERIAL),
        LinkType::PPP_ETHER => Box::new(ppp::Ppp::ETHER),
        _ => return None,
    })
}

/// The test that packet bytes relate to a number.
pub(crate) fn field(
    values: &mut Values,
    size: Size,
    offset: impl Into<Offset>,
    relation: Relation,
    number: u32,
) -> Condition {
    let left = values.load(size, offset);
    let right = values.constant(number);
    Condition::Test(Test {
        left,
        relation,
        right,
    })
}

/// The test that packet bytes equal a number.
pub(crate) fn equals(
    values: &mut Values,
    size: Size,
    offset: impl Into<Offset>,
    number: u32,
) -> Condition {
    field(values, size, offset, Relation::Equal, number)
}

/// The test that masked packet bytes equal a number.
pub(crate) fn masked(
    values: &mut Values,
    size: Size,
    offset: impl Into<Offset>,
    mask: u32,
    number: u32,
) -> Condition {
    let load = values.load(size, offset);
    let left = values.masked(load, mask);
    let right = values.constant(number);
    Condition::Test(Test {
        left,
        relation: Relation::Equal,
        right,
    })
}

/// The test for a SNAP header (RFC 1042) at `llc` with this organisation and protocol.
pub(crate) fn snap(values: &mut Values, llc: Offset, organisation: u32, proto: u32) -> Condition {
    const UI_TO_SNAP: u32 = 0xaaaa_0300;
    let low = organisation << 16 | proto;
    let high = UI_TO_SNAP | organisation >> 16;
    equals(values, Size::Word, llc + 4, low).and(equals(values, Size::Word, llc, high))
}

/// The organisation of encapsulated Ethernet.
pub(crate) const OUI_ETHERNET: u32 = 0x00_0000;
/// The organisation of AppleTalk.
pub(crate) const OUI_APPLE: u32 = 0x08_0007;
