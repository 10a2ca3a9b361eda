//! Names of header fields: which field is at an offset, given the facts that earlier comparisons
//! have established.

use std::rc::Rc;

use ringtap_packet::ether_type::ppp;

use super::behind::{self, Start};
use super::number::Style;
use super::symbol::{Kind, Symbol};
use super::trace::Facts;
use crate::LinkType;
use crate::link::ethertype as et;

/// A field: its offset in the header and its length in bytes, its name, and its number style.
type Row = (u32, u32, &'static str, Style);

/// A field of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) style: Style,
    /// The first byte and the length of the part that is read, if it is not the whole field.
    pub(super) part: Option<(u32, u32)>,
}

/// Bits of a field that have a name of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    pub(super) name: &'static str,
    pub(super) style: Style,
}

/// Where a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// At this many bytes from the start of the packet.
    Packet(u32),
    /// At this many bytes after the IPv4 header.
    BehindIpv4(u32),
    /// At this many bytes from a variable offset.
    From(Start, u32),
}

/// Returns the field that a load reads, and where it is.
pub(super) fn of(link: LinkType, facts: &Facts, value: &Symbol) -> Option<(Field, Where)> {
    let Kind::Load {
        bytes,
        index,
        offset,
    } = &value.kind
    else {
        return None;
    };
    let Some(index) = index else {
        let field = at(link, facts, *offset, *bytes)?;
        return Some((field, Where::Packet(*offset)));
    };
    if let Kind::HeaderLength(header) = index.kind {
        let behind = offset.checked_sub(header)?;
        let protocol = Symbol::field(1, header.checked_add(IPV4_PROTOCOL)?);
        let field = find(transport(facts.of(&protocol)?, 4)?, behind, *bytes)?;
        return Some((field, Where::BehindIpv4(behind)));
    }
    if let Some((start, constant)) = behind::place(link, index) {
        let distance = constant.checked_add(*offset)?;
        let layers = layers_from(start, facts, &|bytes, at| {
            Symbol::new(Kind::Load {
                bytes,
                index: Some(Rc::clone(index)),
                offset: at.wrapping_sub(constant),
            })
        });
        let field = in_layers(&layers, distance, *bytes)?;
        return Some((field, Where::From(start, distance)));
    }
    let (at, header, distance) = behind::behind_ipv4(link, index)?;
    let protocol = Symbol::new(Kind::Load {
        bytes: 1,
        index: Some(at),
        offset: header.wrapping_add(IPV4_PROTOCOL),
    });
    let behind = distance.wrapping_add(*offset);
    let field = find(transport(facts.of(&protocol)?, 4)?, behind, *bytes)?;
    Some((field, Where::BehindIpv4(behind)))
}

/// The offset of the protocol byte in the IPv4 header.
const IPV4_PROTOCOL: u32 = 9;

/// Returns the headers from a variable offset on; `load` makes loads relative to it.
fn layers_from(start: Start, facts: &Facts, load: Load<'_>) -> Vec<Layer> {
    /// LLC and SNAP headers before the payload (IEEE 802.2, RFC 1042).
    const SNAP_TYPE: u32 = 6;
    const SNAP_BYTES: u32 = 8;
    /// Address families of the systems that have pf, and of Linux.
    const INET: u32 = 2;
    const INET6: [u32; 4] = [10, 24, 28, 30];
    let mut layers = Vec::new();
    match start {
        Start::Frame => layers.push(layer(0, WLAN)),
        Start::Payload => {
            layers.push(layer(0, SNAP));
            let place = (SNAP_TYPE, SNAP_BYTES);
            follow(&mut layers, facts, place, by_ethertype, load);
        }
        Start::Logged => {
            let family = |number| match number {
                INET => Some(et::IP),
                number => INET6.contains(&number).then_some(et::IP6),
            };
            let families = facts.of(&Symbol::field(1, 1));
            if let Some(number) = families.and_then(|numbers| common(numbers, family)) {
                network(&mut layers, facts, 0, number, load);
            }
        }
    }
    layers
}

/// Makes a load of this many bytes at an offset relative to the first layer.
type Load<'a> = &'a dyn Fn(u32, u32) -> Rc<Symbol>;

/// Returns the field at `offset` bytes from the start of the packet.
pub(super) fn at(link: LinkType, facts: &Facts, offset: u32, bytes: u32) -> Option<Field> {
    in_layers(&layers(link, facts), offset, bytes)
}

fn in_layers(layers: &[Layer], offset: u32, bytes: u32) -> Option<Field> {
    let in_layer = |layer: &Layer| {
        let behind = offset.checked_sub(layer.offset)?;
        find(layer.rows, behind, bytes)
    };
    layers.iter().rev().find_map(in_layer)
}

/// Returns the name of the bits of a field under a mask.
pub(super) fn bits(field: &str, mask: u32) -> Option<Bits> {
    let found = BITS.iter().find(|row| row.0 == field && row.1 == mask);
    found.map(|&(_, _, name, style)| Bits { name, style })
}

const BITS: &[(&str, u32, &str, Style)] = &[
    ("version", 0xf0, "IP version", Style::Shifted(4)),
    ("IPv4 version", 0xf0, "IP version", Style::Shifted(4)),
    (
        "IPv4 version",
        0x0f,
        "IPv4 header length in words",
        Style::Decimal,
    ),
    (
        "flags and fragment offset",
        0x1fff,
        "fragment offset",
        Style::Decimal,
    ),
    (
        "flags and fragment offset",
        0x3fff,
        "fragment offset and the flag for more",
        Style::Hex,
    ),
    (
        "flags and fragment offset",
        0x2000,
        "flag for more fragments",
        Style::Hex,
    ),
    (
        "flags and fragment offset",
        0x4000,
        "flag against fragmenting",
        Style::Hex,
    ),
    ("flags", 0x20, "flag for more fragments", Style::Hex),
    ("flags", 0x40, "flag against fragmenting", Style::Hex),
    ("VLAN tag", 0x0fff, "VLAN", Style::Decimal),
    ("VLAN tag", 0xe000, "VLAN priority", Style::Shifted(13)),
    ("MPLS entry", 0xffff_f000, "MPLS label", Style::Shifted(12)),
    ("frame control", 0x0c, "frame type", Style::Shifted(2)),
    ("frame control", 0xf0, "frame subtype", Style::Shifted(4)),
    ("frame control", 0xfc, "frame type and subtype", Style::Hex),
    ("frame flags", 0x03, "direction", Style::Decimal),
    (
        "list of the radiotap fields",
        0x0100_0000,
        "mark of a radiotap timestamp",
        Style::Hex,
    ),
    (
        "list of the radiotap fields",
        0x0200_0000,
        "mark of radiotap flags",
        Style::Hex,
    ),
    (
        "list of the radiotap fields",
        0x80,
        "mark of a second list of radiotap fields",
        Style::Hex,
    ),
    (
        "destination address",
        1,
        "group bit of the destination address",
        Style::Decimal,
    ),
    (
        "TCP header length",
        0xf0,
        "TCP header length in words",
        Style::Shifted(4),
    ),
];

fn find(rows: &[Row], offset: u32, bytes: u32) -> Option<Field> {
    let &(start, length, name, style) = rows
        .iter()
        .find(|row| row.0 <= offset && offset.saturating_add(bytes) <= row.0 + row.1)?;
    let part = (length != bytes).then_some((offset - start, bytes));
    let style = if part.is_some() { Style::Hex } else { style };
    Some(Field { name, style, part })
}

/// A header, and where it begins.
struct Layer {
    offset: u32,
    rows: &'static [Row],
}

fn layer(offset: u32, rows: &'static [Row]) -> Layer {
    Layer { offset, rows }
}

/// Returns the headers that are known to be present, outermost first.
fn layers(link: LinkType, facts: &Facts) -> Vec<Layer> {
    let (rows, type_at, payload, numbering): (_, _, _, fn(u32) -> Option<Next>) = match link {
        LinkType::ETHERNET => (ETHERNET, 12, 14, by_ethertype),
        LinkType::DSA_TAG_BRCM | LinkType::DSA_TAG_DSA => (ETHERNET_DSA, 16, 18, by_ethertype),
        LinkType::LINUX_SLL => (SLL, 14, 16, by_ethertype),
        LinkType::LINUX_SLL2 => (SLL2, 0, 20, by_ethertype),
        LinkType::PPP | LinkType::PPP_HDLC => (PPP, 2, 4, by_ppp),
        LinkType::PPP_ETHER => (PPPOE, 6, 8, by_ppp),
        LinkType::RAW | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            return raw(link, facts);
        }
        LinkType::NULL | LinkType::LOOP => return vec![layer(0, LOOPBACK)],
        LinkType::BACNET_MS_TP => return vec![layer(0, BACNET)],
        LinkType::IEEE802_11 => return vec![layer(0, WLAN)],
        LinkType::PFLOG => return vec![layer(0, PF_LOG)],
        LinkType::IEEE802_11_RADIOTAP => return vec![layer(0, RADIOTAP)],
        LinkType::PPI => return vec![layer(0, PPI)],
        LinkType::IEEE802_11_AVS => return vec![layer(0, AVS)],
        LinkType::IEEE802_11_PRISM => return vec![layer(0, PRISM)],
        _ => return Vec::new(),
    };
    let mut layers = vec![layer(0, rows)];
    let place = (type_at, payload);
    follow(&mut layers, facts, place, numbering, &Symbol::field);
    layers
}

/// The header that a protocol number announces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Network(u32),
    Tag,
    Mpls,
    Pppoe,
}

fn by_ethertype(number: u32) -> Option<Next> {
    Some(match number {
        et::VLAN | et::QINQ | et::QINQ_OLD => Next::Tag,
        et::MPLS | et::MPLS_MULTICAST => Next::Mpls,
        et::PPPOE_DISCOVERY | et::PPPOE_SESSION => Next::Pppoe,
        et::RARP => Next::Network(et::ARP),
        number => Next::Network(number),
    })
}

fn by_ppp(number: u32) -> Option<Next> {
    const PPP_IP: u32 = ppp::IPV4 as u32;
    const PPP_IP6: u32 = ppp::IPV6 as u32;
    match number {
        PPP_IP => Some(Next::Network(et::IP)),
        PPP_IP6 => Some(Next::Network(et::IP6)),
        _ => None,
    }
}

/// Adds the headers after a field that names the protocol.
fn follow(
    layers: &mut Vec<Layer>,
    facts: &Facts,
    (mut type_at, mut payload): (u32, u32),
    mut numbering: fn(u32) -> Option<Next>,
    load: Load<'_>,
) {
    const MOST_LAYERS: usize = 8;
    while layers.len() < MOST_LAYERS {
        let numbers = facts.of(&load(2, type_at));
        let Some(next) = numbers.and_then(|numbers| common(numbers, numbering)) else {
            return;
        };
        match next {
            Next::Tag => {
                layers.push(layer(payload, VLAN_TAG));
                (type_at, payload) = (payload + 2, payload + 4);
            }
            Next::Pppoe => {
                layers.push(layer(payload, PPPOE));
                (type_at, payload) = (payload + 6, payload + 8);
                numbering = by_ppp;
            }
            Next::Mpls => return layers.push(layer(payload, MPLS)),
            Next::Network(number) => return network(layers, facts, payload, number, load),
        }
    }
}

fn network(layers: &mut Vec<Layer>, facts: &Facts, offset: u32, number: u32, load: Load<'_>) {
    let rows = match number {
        et::IP => IPV4,
        et::ARP => ARP,
        et::IP6 => IPV6,
        _ => return,
    };
    layers.push(layer(offset, rows));
    if number == et::IP6
        && let Some(numbers) = facts.of(&load(1, offset + 6))
        && let Some(rows) = transport(numbers, 6)
    {
        layers.push(layer(offset + 40, rows));
    }
}

fn raw(link: LinkType, facts: &Facts) -> Vec<Layer> {
    let version = {
        let mask = Symbol::constant(0xf0);
        let and = crate::program::opcode::AND;
        Symbol::new(Kind::Arithmetic(and, Symbol::field(1, 0), Rc::clone(&mask)))
    };
    let number = match (link, facts.of(&version)) {
        (LinkType::IPV4, _) | (_, Some([0x40])) => et::IP,
        (LinkType::IPV6, _) | (_, Some([0x60])) => et::IP6,
        _ => {
            return vec![layer(0, EITHER_IP)];
        }
    };
    let mut layers = Vec::new();
    network(&mut layers, facts, 0, number, &Symbol::field);
    layers
}

/// Returns the meaning that all of the numbers share.
fn common<T: PartialEq>(numbers: &[u32], says: impl Fn(u32) -> Option<T>) -> Option<T> {
    let mut said = numbers.iter().map(|&number| says(number));
    let first = said.next()??;
    said.all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}

/// Returns the header of the transport protocols that the numbers allow.
fn transport(numbers: &[u32], version: u32) -> Option<&'static [Row]> {
    let alone = common(numbers, |number| {
        Some(match (number, version) {
            (6, _) => TCP,
            (17, _) => UDP,
            (132, _) => SCTP,
            (1, 4) => ICMP,
            (2, 4) => IGMP,
            (58, 6) => ICMP6,
            (44, 6) => FRAGMENT,
            _ => return None,
        })
    });
    let ported = !numbers.is_empty() && numbers.iter().all(|number| [6, 17, 132].contains(number));
    alone.or(ported.then_some(PORTS))
}

use Style::{Decimal, EtherType, Hex, IpProtocol, Ipv4, Port};

const ETHERNET: &[Row] = &[
    (0, 6, "destination address", Hex),
    (6, 6, "source address", Hex),
    (12, 2, "EtherType", EtherType),
];
const ETHERNET_DSA: &[Row] = &[
    (0, 6, "destination address", Hex),
    (6, 6, "source address", Hex),
    (12, 4, "switch's tag", Hex),
    (16, 2, "EtherType", EtherType),
];
const BACNET: &[Row] = &[
    (0, 2, "preamble", Hex),
    (2, 1, "frame type", Decimal),
    (3, 1, "destination station", Hex),
    (4, 1, "source station", Hex),
    (5, 2, "length", Decimal),
];
const SLL: &[Row] = &[
    (0, 2, "packet type", Style::PacketType),
    (2, 2, "hardware type", Decimal),
    (4, 2, "length of the sender's address", Decimal),
    (6, 8, "sender's address", Hex),
    (14, 2, "EtherType", EtherType),
];
const SLL2: &[Row] = &[
    (0, 2, "EtherType", EtherType),
    (4, 4, "interface index", Decimal),
    (8, 2, "hardware type", Decimal),
    (10, 1, "packet type", Style::PacketType),
    (11, 1, "length of the sender's address", Decimal),
    (12, 8, "sender's address", Hex),
];
const PPP: &[Row] = &[
    (0, 1, "PPP address", Hex),
    (1, 1, "PPP control", Hex),
    (2, 2, "PPP protocol", Style::PppProtocol),
];
const PPPOE: &[Row] = &[
    (0, 1, "PPPoE version and type", Hex),
    (1, 1, "PPPoE code", Hex),
    (2, 2, "PPPoE session", Decimal),
    (4, 2, "PPPoE length", Decimal),
    (6, 2, "PPP protocol", Style::PppProtocol),
];
const LOOPBACK: &[Row] = &[(0, 4, "address family", Hex)];
/// The first fields of 802.11 frames (IEEE 802.11, 9.2.3); flags decide what the addresses mean.
const WLAN: &[Row] = &[
    (0, 1, "frame control", Hex),
    (1, 1, "frame flags", Hex),
    (2, 2, "duration", Hex),
    (4, 6, "first address", Hex),
    (10, 6, "second address", Hex),
    (16, 6, "third address", Hex),
    (22, 2, "sequence control", Hex),
    (24, 6, "fourth address", Hex),
];
const SNAP: &[Row] = &[
    (0, 1, "LLC destination", Hex),
    (1, 1, "LLC source", Hex),
    (2, 1, "LLC control", Hex),
    (3, 3, "SNAP organisation", Hex),
    (6, 2, "EtherType", EtherType),
];
/// <https://www.radiotap.org>; numbers are little-endian.
const RADIOTAP: &[Row] = &[
    (0, 1, "radiotap version", Decimal),
    (2, 2, "length of the radiotap header", Hex),
    (4, 4, "list of the radiotap fields", Hex),
];
/// Per-Packet Information, of CACE Technologies; numbers are little-endian.
const PPI: &[Row] = &[
    (0, 1, "PPI version", Decimal),
    (1, 1, "PPI flags", Hex),
    (2, 2, "length of the PPI header", Hex),
    (4, 4, "link type after the PPI header", Style::LittleEndian),
];
const AVS: &[Row] = &[
    (0, 4, "AVS version", Hex),
    (4, 4, "length of the AVS header", Decimal),
];
/// The driver may write an AVS header instead of a Prism header.
const PRISM: &[Row] = &[
    (0, 4, "kind of the Prism or AVS header", Hex),
    (4, 4, "length of the Prism or AVS header", Decimal),
];
/// The header that pf writes before packets that it logs (pflog(4)).
const PF_LOG: &[Row] = &[
    (0, 1, "length of the pf header", Decimal),
    (1, 1, "address family", Decimal),
    (2, 1, "action of pf", Decimal),
    (3, 1, "reason of pf", Decimal),
    (4, 16, "name of the interface", Hex),
    (20, 16, "name of the rule set", Hex),
    (36, 4, "rule number", Decimal),
    (40, 4, "number in the rule set", Decimal),
    (60, 1, "direction", Decimal),
];
const VLAN_TAG: &[Row] = &[(0, 2, "VLAN tag", Hex), (2, 2, "EtherType", EtherType)];
const MPLS: &[Row] = &[(0, 4, "MPLS entry", Hex)];
const EITHER_IP: &[Row] = &[(0, 1, "version", Hex)];
const IPV4: &[Row] = &[
    (0, 1, "IPv4 version", Hex),
    (1, 1, "type of service", Hex),
    (2, 2, "IPv4 total length", Decimal),
    (4, 2, "IPv4 identification", Decimal),
    (6, 2, "flags and fragment offset", Hex),
    (6, 1, "flags", Hex),
    (8, 1, "time to live", Decimal),
    (9, 1, "IPv4 protocol", IpProtocol),
    (10, 2, "IPv4 checksum", Hex),
    (12, 4, "IPv4 source address", Ipv4),
    (16, 4, "IPv4 destination address", Ipv4),
];
const IPV6: &[Row] = &[
    (0, 4, "IPv6 version, class and flow label", Hex),
    (4, 2, "IPv6 payload length", Decimal),
    (6, 1, "IPv6 next header", IpProtocol),
    (7, 1, "hop limit", Decimal),
    (8, 16, "IPv6 source address", Hex),
    (24, 16, "IPv6 destination address", Hex),
];
const ARP: &[Row] = &[
    (0, 2, "ARP hardware type", Decimal),
    (2, 2, "ARP protocol type", EtherType),
    (4, 1, "ARP hardware length", Decimal),
    (5, 1, "ARP protocol length", Decimal),
    (6, 2, "ARP operation", Style::ArpOperation),
    (8, 6, "ARP sender's hardware address", Hex),
    (14, 4, "ARP sender's address", Ipv4),
    (18, 6, "ARP target's hardware address", Hex),
    (24, 4, "ARP target's address", Ipv4),
];
const TCP: &[Row] = &[
    (0, 2, "TCP source port", Port),
    (2, 2, "TCP destination port", Port),
    (4, 4, "TCP sequence number", Decimal),
    (8, 4, "TCP acknowledgement", Decimal),
    (12, 1, "TCP header length", Hex),
    (13, 1, "TCP flags", Style::TcpFlags),
    (14, 2, "TCP window", Decimal),
    (16, 2, "TCP checksum", Hex),
    (18, 2, "TCP urgent pointer", Decimal),
];
const UDP: &[Row] = &[
    (0, 2, "UDP source port", Port),
    (2, 2, "UDP destination port", Port),
    (4, 2, "UDP length", Decimal),
    (6, 2, "UDP checksum", Hex),
];
const SCTP: &[Row] = &[
    (0, 2, "SCTP source port", Port),
    (2, 2, "SCTP destination port", Port),
    (4, 4, "SCTP verification tag", Hex),
    (8, 4, "SCTP checksum", Hex),
];
/// The fields that TCP, UDP and SCTP share.
const PORTS: &[Row] = &[
    (0, 2, "source port", Port),
    (2, 2, "destination port", Port),
];
const ICMP: &[Row] = &[
    (0, 1, "ICMP type", Style::IcmpType),
    (1, 1, "ICMP code", Decimal),
    (2, 2, "ICMP checksum", Hex),
];
const ICMP6: &[Row] = &[
    (0, 1, "ICMPv6 type", Style::Icmp6Type),
    (1, 1, "ICMPv6 code", Decimal),
    (2, 2, "ICMPv6 checksum", Hex),
];
const IGMP: &[Row] = &[(0, 1, "IGMP type", Hex)];
const FRAGMENT: &[Row] = &[(0, 1, "next header after the fragment header", IpProtocol)];
