//! Link layers: the offset of the type field, its values, and the length of the header.
//!
//! Each link layer has its own file. It returns conditions over offsets from [`HeaderOffsets`],
//! which moves after `vlan` and the like in an expression. Code above the link layer uses only
//! [`LinkLayer`].

pub(crate) mod atm;
mod ethernet;
mod family;
mod hdlc;
mod juniper;
mod llc;
mod loopback;
mod ppp;
mod raw;
mod sll;
mod typed;
mod untyped;
mod wlan;

use ringtap_packet::ether_type;

use crate::CompileOptions;
use crate::ir::{Condition, Offset, Relation, Size, Test, ValueId, Values};
use crate::language::frame::FrameAddress;

/// The offsets of the packet's parts that later tests refer to.
///
/// An [`Offset`] is a constant if everything before it has a constant length. Behind headers of
/// variable length it has a base. A link layer computes it once, in [`LinkLayer::prologue`]; a
/// primitive that finds an inner packet (`geneve`) computes it where it matches. Both store it in a
/// cell with [`Condition::Set`]. Code that loads from an offset need not know which kind it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeaderOffsets {
    /// The link-layer header, with the hardware addresses; `link[0]` reads here.
    pub(crate) header: Offset,
    /// The field that names the protocol of the payload.
    pub(crate) type_field: Offset,
    /// The payload of the link-layer header: where LLC begins, if there is any.
    pub(crate) payload: Offset,
    /// The network layer: after parts that are always present (SNAP, MPLS labels), otherwise at the payload.
    pub(crate) network: Offset,
    /// The bytes of LLC between the payload and an OSI network layer, which needs no SNAP.
    pub(crate) osi: u32,
}

impl HeaderOffsets {
    /// Returns constant offsets, in bytes, in a packet that begins with the link-layer header.
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

/// The greatest length in an 802.3 header; greater numbers are EtherTypes (IEEE 802.3, 3.2.6).
pub(crate) const LLC_MAX: u32 = ether_type::MAX_LENGTH as u32;

/// Numbers of `ether proto` that the compiler itself uses.
pub(crate) mod ethertype {
    use super::ether_type;

    pub(crate) const IP: u32 = ether_type::IPV4 as u32;
    pub(crate) const ARP: u32 = ether_type::ARP as u32;
    pub(crate) const RARP: u32 = ether_type::REVERSE_ARP as u32;
    pub(crate) const IP6: u32 = ether_type::IPV6 as u32;
    pub(crate) const VLAN: u32 = ether_type::VLAN as u32;
    pub(crate) const QINQ: u32 = ether_type::QINQ as u32;
    pub(crate) const QINQ_OLD: u32 = ether_type::QINQ_9100 as u32;
    pub(crate) const ATALK: u32 = ether_type::APPLETALK as u32;
    pub(crate) const AARP: u32 = ether_type::APPLETALK_ARP as u32;
    pub(crate) const IPX: u32 = ether_type::IPX as u32;
    pub(crate) const DECNET: u32 = ether_type::DECNET as u32;
    pub(crate) const PPPOE_DISCOVERY: u32 = ether_type::PPPOE_DISCOVERY as u32;
    pub(crate) const PPPOE_SESSION: u32 = ether_type::PPPOE_SESSION as u32;
    pub(crate) const MPLS: u32 = ether_type::MPLS as u32;
    pub(crate) const MPLS_MULTICAST: u32 = ether_type::MPLS_MULTICAST as u32;
    pub(crate) const BRIDGED: u32 = ether_type::BRIDGED as u32;
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

/// The field that records the direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectionField {
    pub(crate) size: Size,
    pub(crate) offset: u32,
    /// The value for packets that the host received; `None` if that is every packet that it did not
    /// send.
    pub(crate) incoming: Option<Bits>,
    /// The value for packets that the host sent; `None` if that is every packet that it did not
    /// receive.
    pub(crate) outgoing: Option<Bits>,
}

/// A value of some bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bits {
    /// The bits that are compared, if not all.
    pub(crate) mask: Option<u32>,
    pub(crate) value: u32,
}

impl Bits {
    /// Returns a value of the whole field.
    pub(crate) const fn all(value: u32) -> Self {
        Self { mask: None, value }
    }

    /// Returns a value of the bits in `mask`.
    pub(crate) const fn under(mask: u32, value: u32) -> Self {
        Self {
            mask: Some(mask),
            value,
        }
    }
}

/// A field with a hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressField {
    Src,
    Dst,
    Frame(FrameAddress),
}

/// A link layer, as the compiler uses it.
pub(crate) trait LinkLayer {
    /// Returns the name for messages.
    fn name(&self) -> &'static str;

    /// Returns the offsets before any `vlan`. Link layers of variable length make cells here, which
    /// [`prologue`](Self::prologue) sets.
    fn place(&self, values: &mut Values) -> HeaderOffsets;

    /// Returns the code that runs first and sets the cells of [`place`](Self::place): a condition
    /// that is always true. It is called after the whole expression was lowered, and only if the
    /// expression reads one of the cells; [`Values::is_used`] reports which.
    fn prologue(&self, _values: &mut Values, _place: HeaderOffsets) -> Option<Condition> {
        None
    }

    /// Returns a condition that every accepted packet must fulfil.
    fn requirement(&self, _values: &mut Values) -> Option<Condition> {
        None
    }

    /// Returns whether the header identifies protocols. If not, [`protocol`](Self::protocol) must not be
    /// called.
    fn tells_protocols(&self) -> bool {
        true
    }

    /// Returns whether a field of the header names the payload's protocol. If not, a host's name stands for
    /// its IP addresses only, not for those in ARP.
    fn has_type_field(&self) -> bool {
        true
    }

    /// Tests whether the payload is of this protocol.
    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition;

    /// Returns the hardware addresses, if the header has them in the Ethernet form.
    fn addresses(&self) -> Option<Addresses> {
        None
    }

    /// Returns addresses of one byte, if the header has them: ARCNET and BACnet MS/TP.
    fn stations(&self) -> Option<Addresses> {
        None
    }

    /// Tests for a hardware address; `None` if the header has no such addresses.
    fn address(
        &self,
        values: &mut Values,
        place: HeaderOffsets,
        which: AddressField,
        address: [u8; 6],
    ) -> Option<Condition> {
        let addresses = self.addresses()?;
        let offset = match which {
            AddressField::Src => addresses.src,
            AddressField::Dst => addresses.dst,
            AddressField::Frame(_) => return None,
        };
        Some(equals_address(values, place.header + offset, address))
    }

    /// Tests whether the packet is for all hosts; `None` if the header does not say.
    fn broadcast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        self.address(values, place, AddressField::Dst, [0xff; 6])
    }

    /// Tests whether the packet is for a group of hosts; `None` if the header does not say.
    fn multicast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        const GROUP: u32 = 1;
        let at = place.header + self.addresses()?.dst;
        Some(field(values, Size::Byte, at, Relation::AnyBit, GROUP))
    }

    /// Returns the offset of the header of an OSI network protocol.
    fn osi_header(&self, place: HeaderOffsets) -> Offset {
        place.payload + place.osi
    }

    /// Tests whether the payload is the OSI network protocol of this identifier (ISO/IEC TR 9577).
    fn osi(&self, values: &mut Values, place: HeaderOffsets, identifier: u32) -> Condition {
        let at = self.osi_header(place);
        let osi = self.protocol(values, place, ethertype::SAP_ISO);
        osi.and(equals(values, Size::Byte, at, identifier))
    }

    /// Tests whether the payload begins with an LLC header; `None` if that is unknown.
    fn llc(&self, _values: &mut Values, _place: HeaderOffsets) -> Option<Condition> {
        None
    }

    /// Returns whether the packet begins with a header about its reception by radio.
    fn has_radio(&self) -> bool {
        false
    }

    /// Returns the offset of the frame control field of 802.11 frames.
    fn frame_control(&self, _place: HeaderOffsets) -> Option<Offset> {
        None
    }

    /// Returns whether the link-layer header is that of ATM cells.
    fn is_atm(&self) -> bool {
        false
    }

    /// Returns whether the header is that of the pf log.
    fn is_pf(&self) -> bool {
        false
    }

    /// Returns the offset of the signal unit (Q.703) of signalling system 7.
    fn signal_unit(&self) -> Option<u32> {
        None
    }

    /// Returns the protocol number of MPLS labels, if they can follow.
    fn mpls(&self) -> Option<EtherProto> {
        None
    }

    /// Returns whether 802.1Q tags can follow.
    fn has_vlan(&self) -> bool {
        false
    }

    /// Returns the field that separates incoming from outgoing packets.
    fn direction(&self) -> Option<DirectionField> {
        None
    }

    /// Returns the offset of a 4-byte interface index.
    fn interface_index(&self) -> Option<u32> {
        None
    }
}

/// Offsets in an Ethernet header, in bytes.
pub(crate) const ETHERNET_TYPE: u32 = 12;
pub(crate) const ETHERNET_HEADER: u32 = 14;

/// Returns the link layer of a packet in a tunnel: Ethernet, or a network layer with its EtherType.
pub(crate) fn in_tunnel() -> &'static dyn LinkLayer {
    &ethernet::Ethernet::PLAIN
}

/// Returns the link layer of a tunnel that carries IPv4 or IPv6 without a field for the version.
pub(crate) fn bare_ip() -> &'static dyn LinkLayer {
    &raw::Raw::EITHER
}

/// Returns the link layer inside a PPPoE session.
pub(crate) fn in_pppoe() -> &'static dyn LinkLayer {
    &ppp::Ppp::PPP
}

/// Returns the link layer of a link type, or `None` if it is not supported.
pub(crate) fn link_layer(options: &CompileOptions) -> Option<Box<dyn LinkLayer>> {
    use family::{Ipnet, PfLog};
    use juniper::Magic;
    use llc::Llc;
    use loopback::Loopback;
    use ppp::Ppp;
    use raw::Raw;
    use typed::{Arcnet, EtherTyped, LocalTalk};
    use wlan::{Prefix, Wlan};

    // LINKTYPE_ values.
    Some(match options.link_type.canonical().0 {
        0 => Box::new(Loopback::null(options)),
        1 => Box::new(ethernet::Ethernet::PLAIN),
        6 => Box::new(Llc::TOKEN_RING),
        7 => Box::new(Arcnet::ARCNET),
        8 => Box::new(Raw::SLIP),
        9 => Box::new(Ppp::PPP),
        10 => Box::new(Llc::FDDI),
        100 => Box::new(Llc::ATM),
        // OpenBSD writes 14.
        14 | 101 => Box::new(Raw::EITHER),
        102 => Box::new(Raw::SLIP_BSDOS),
        103 => Box::new(Ppp::BSDOS),
        106 => Box::new(Llc::ATM_CLIP),
        50 => Box::new(Ppp::SERIAL),
        51 => Box::new(Ppp::ETHER),
        99 => Box::new(EtherTyped::SYMANTEC),
        104 | 112 => Box::new(hdlc::CiscoHdlc),
        105 => Box::new(Wlan::new(Prefix::None)),
        107 => Box::new(hdlc::FrameRelay),
        108 => Box::new(Loopback::network_order(options)),
        109 => Box::new(Loopback::enc(options)),
        113 => Box::new(sll::Sll),
        114 => Box::new(LocalTalk),
        117 => Box::new(PfLog),
        119 => Box::new(Wlan::new(Prefix::Prism)),
        122 => Box::new(Llc::FIBRE_CHANNEL),
        123 => Box::new(atm::SunAtm),
        127 => Box::new(Wlan::new(Prefix::Radiotap)),
        129 => Box::new(Arcnet::LINUX),
        130 | 131 | 134 | 179..=181 => Box::new(Magic::PPP),
        132 | 136 | 183 | 194 | 200 | 232..=234 | 238 => Box::new(Magic::OTHER),
        133 | 164 => Box::new(Magic::GGSN),
        135 => Box::new(Magic::ATM2),
        137 => Box::new(Magic::ATM1),
        138 => Box::new(EtherTyped::FIREWIRE),
        163 => Box::new(Wlan::new(Prefix::Avs)),
        165 => Box::new(untyped::BacnetMsTp),
        166 => Box::new(Ppp::PPPD),
        167 | 178 => Box::new(Magic::ETHERNET),
        168 => Box::new(Magic::PPPOE_ATM),
        192 => Box::new(Wlan::new(Prefix::Ppi)),
        226 => Box::new(Ipnet),
        228 => Box::new(Raw::V4),
        229 => Box::new(Raw::V6),
        240 => Box::new(ethernet::Ethernet::NETANALYZER),
        241 => Box::new(ethernet::Ethernet::NETANALYZER_TRANSPARENT),
        276 => Box::new(sll::Sll2),
        281 => Box::new(ethernet::Ethernet::BROADCOM),
        284 => Box::new(ethernet::Ethernet::MARVELL),
        other => Box::new(untyped::Untyped::new(other)?),
    })
}

/// Returns the test that packet bytes relate to a number.
pub(crate) fn field(
    values: &mut Values,
    size: Size,
    offset: impl Into<Offset>,
    relation: Relation,
    number: u32,
) -> Condition {
    let left = values.load(size, offset);
    compare(values, left, relation, number)
}

/// Returns the test that a value relates to a number.
pub(crate) fn compare(
    values: &mut Values,
    left: ValueId,
    relation: Relation,
    number: u32,
) -> Condition {
    let right = values.constant(number);
    Condition::Test(Test {
        left,
        relation,
        right,
    })
}

/// Returns the test that packet bytes equal a number.
pub(crate) fn equals(
    values: &mut Values,
    size: Size,
    offset: impl Into<Offset>,
    number: u32,
) -> Condition {
    field(values, size, offset, Relation::Equal, number)
}

/// Returns the test that masked packet bytes equal a number.
pub(crate) fn masked(
    values: &mut Values,
    size: Size,
    offset: impl Into<Offset>,
    mask: u32,
    number: u32,
) -> Condition {
    let load = values.load(size, offset);
    let left = values.masked(load, mask);
    compare(values, left, Relation::Equal, number)
}

/// Returns the test for a hardware address.
pub(crate) fn equals_address(values: &mut Values, at: Offset, address: [u8; 6]) -> Condition {
    let [a, b, c, d, e, f] = address.map(u32::from);
    let low = equals(values, Size::Word, at + 2, c << 24 | d << 16 | e << 8 | f);
    low.and(equals(values, Size::Half, at, a << 8 | b))
}

/// Returns the test for a SNAP header (RFC 1042) at `llc` with this protocol.
pub(crate) fn snap(values: &mut Values, llc: Offset, proto: EtherProto) -> Condition {
    const UI_TO_SNAP: u32 = 0xaaaa_0300;
    let organisation = match proto {
        ethertype::ATALK => OUI_APPLE,
        _ => OUI_ETHERNET,
    };
    let low = organisation << 16 | proto;
    let high = UI_TO_SNAP | organisation >> 16;
    equals(values, Size::Word, llc + 4, low).and(equals(values, Size::Word, llc, high))
}

/// The organisation of encapsulated Ethernet.
const OUI_ETHERNET: u32 = 0x00_0000;
/// The organisation of AppleTalk.
const OUI_APPLE: u32 = 0x08_0007;
