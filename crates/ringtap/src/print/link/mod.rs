//! The link layer: from the link type of a packet to its network layer.

mod cooked;
mod ethernet;
mod llc;
mod ppp;

use ringtap_packet::{LinkType, Packet};

use super::bytes::{Bytes, Truncated};
use super::context::Context;
use super::line::put;
use super::small;
use super::{arp, hex, ip};

pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const ARP: u16 = 0x0806;
pub(crate) const BRIDGED: u16 = 0x6558;
pub(crate) const REVERSE_ARP: u16 = 0x8035;
pub(crate) const VLAN: u16 = 0x8100;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const PPP: u16 = 0x880b;
pub(crate) const MPLS: u16 = 0x8847;
pub(crate) const MPLS_MULTICAST: u16 = 0x8848;
pub(crate) const PPPOE_DISCOVERY: u16 = 0x8863;
pub(crate) const PPPOE_SESSION: u16 = 0x8864;
pub(crate) const JUMBO: u16 = 0x8870;
pub(crate) const EAPOL: u16 = 0x888e;
pub(crate) const QINQ: u16 = 0x88a8;
pub(crate) const LLDP: u16 = 0x88cc;
pub(crate) const LOOPBACK: u16 = 0x9000;
pub(crate) const QINQ_9100: u16 = 0x9100;
pub(crate) const QINQ_9200: u16 = 0x9200;

/// Prints a packet from its link layer up, and the note where bytes are missing. Gives the length
/// of the link-layer header in bytes.
pub(crate) fn print(
    cx: &mut Context<'_>,
    packet: &Packet<'_>,
    link_type: LinkType,
    interface: Option<&str>,
) -> usize {
    let mut header = 0;
    let result = dispatch(cx, packet, link_type, interface, &mut header);
    if result.is_err() {
        let protocol = cx.line.protocol;
        cx.line.str(" ");
        cx.line.truncated(protocol);
    }
    header
}

fn dispatch(
    cx: &mut Context<'_>,
    packet: &Packet<'_>,
    link_type: LinkType,
    interface: Option<&str>,
    header: &mut usize,
) -> Result<(), Truncated> {
    let data = packet.data;
    // Damaged files may state less than was captured.
    let length = usize::try_from(packet.len)
        .unwrap_or(usize::MAX)
        .max(data.len());
    match link_type.canonical() {
        LinkType::ETHERNET => ethernet::print(cx, data, length, header),
        LinkType::LINUX_SLL => cooked::print(cx, data, length, header),
        LinkType::LINUX_SLL2 => cooked::print_v2(cx, data, length, interface, header),
        LinkType::RAW | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            if cx.options.link_header {
                cx.line.str("ip: ");
            }
            ip::any(cx, data, length)
        }
        LinkType::NULL | LinkType::LOOP => null(cx, data, length, link_type, header),
        LinkType::PPP | LinkType::PPP_HDLC => ppp::print(cx, data, length, header),
        LinkType::PPP_ETHER => ppp::session(cx, data, length),
        _ => {
            cx.enter("link");
            put!(cx.line, "link type {}, length {length}:", link_type.0);
            unknown_payload(cx, data, length);
            Ok(())
        }
    }
}

/// BSD loopback: a protocol family of the capturing host, in its byte order (network order for
/// LOOP). The numbers for IPv6 differ between systems.
fn null(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
    link_type: LinkType,
    header: &mut usize,
) -> Result<(), Truncated> {
    const HEADER: usize = 4;
    const INET: u32 = 2;
    cx.enter(if link_type == LinkType::LOOP {
        "loop"
    } else {
        "null"
    });
    let family = data.u32_at(0)?;
    *header = HEADER;
    let family = if link_type != LinkType::LOOP && family > 0xffff {
        family.swap_bytes()
    } else {
        family
    };
    let (packet, rest) = (data.rest(HEADER), length.saturating_sub(HEADER));
    let name = match family {
        INET => "IPv4",
        10 | 24 | 28 | 30 => "IPv6",
        _ => "Unknown",
    };
    if cx.options.link_header {
        if cx.options.quiet {
            put!(cx.line, "{name}");
        } else {
            put!(cx.line, "AF {name} ({family})");
        }
        put!(cx.line, ", length {length}: ");
    }
    match name {
        "IPv4" => network(cx, IPV4, packet, rest),
        "IPv6" => network(cx, IPV6, packet, rest),
        _ => {
            if !cx.options.link_header {
                put!(cx.line, "AF Unknown ({family}), length {length}: ");
            }
            unknown_payload(cx, packet, rest);
            Ok(true)
        }
    }
    .map(|_| ())
}

/// Prints what an EtherType announces; false where it announces nothing known.
pub(crate) fn network(
    cx: &mut Context<'_>,
    ether_type: u16,
    data: &[u8],
    length: usize,
) -> Result<bool, Truncated> {
    match ether_type {
        IPV4 => {
            ip::v4::announced(cx, data, length, cx.options.link_header)?;
        }
        IPV6 => {
            cx.enter("ip6");
            data.part(0, ip::v6::HEADER)?;
            if !cx.options.link_header {
                cx.line.str("IP6 ");
            }
            ip::v6::print(cx, data, length)?;
        }
        ARP | REVERSE_ARP => arp::print(cx, data, length)?,
        EAPOL => small::eapol::print(cx, data)?,
        LLDP => small::lldp::print(cx, data, length)?,
        LOOPBACK => small::loopback::print(cx, data, length)?,
        MPLS | MPLS_MULTICAST => small::mpls::print(cx, data, length)?,
        PPPOE_SESSION => ppp::session(cx, data, length)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// A payload that no decoder knows: its bytes, unless less is wanted.
pub(crate) fn unknown_payload(cx: &mut Context<'_>, data: &[u8], length: usize) {
    if !cx.options.quiet {
        hex::dump_into_line(cx.line, data.up_to(length));
    }
}

/// An Ethernet frame inside a tunnel.
pub(crate) fn nested_ethernet(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
) -> Result<(), Truncated> {
    ethernet::print(cx, data, length, &mut 0)
}

/// A PPP frame inside a tunnel.
pub(crate) fn nested_ppp(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
) -> Result<(), Truncated> {
    ppp::print(cx, data, length, &mut 0)
}

/// The name of an EtherType, `Unknown` where there is none.
pub(crate) fn ether_type_name(ether_type: u16) -> &'static str {
    ether_type_known(ether_type).unwrap_or("Unknown")
}

/// The name of an EtherType.
pub(crate) fn ether_type_known(ether_type: u16) -> Option<&'static str> {
    Some(match ether_type {
        IPV4 => "IPv4",
        ARP => "ARP",
        REVERSE_ARP => "Reverse ARP",
        IPV6 => "IPv6",
        0x6001 => "MOP DL",
        0x6002 => "MOP RC",
        0x6003 => "DN",
        0x6004 => "LAT",
        0x6007 => "SCA",
        BRIDGED => "TEB",
        0x809b => "Appletalk",
        0x80f3 => "Appletalk ARP",
        0x8137 => "IPX",
        VLAN => "802.1Q",
        QINQ => "802.1Q-QinQ",
        QINQ_9100 => "802.1Q-9100",
        QINQ_9200 => "802.1Q-9200",
        0x8808 => "Flow Control",
        0x8809 => "Slow Protocols",
        PPP => "PPP",
        MPLS => "MPLS unicast",
        MPLS_MULTICAST => "MPLS multicast",
        PPPOE_DISCOVERY => "PPPoE D",
        PPPOE_SESSION => "PPPoE S",
        JUMBO => "Jumbo",
        EAPOL => "EAPOL",
        0x8899 => "RRCP",
        0x88a2 => "AoE",
        LLDP => "LLDP",
        0x88e5 => "MACsec",
        0x88f7 => "PTP",
        0x8902 => "CFM",
        LOOPBACK => "Loopback",
        _ => return None,
    })
}
