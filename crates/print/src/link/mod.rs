//! The link layer: from the link type of a packet to its network layer.

mod chdlc;
pub(crate) mod cooked;
mod ethernet;
mod frame_relay;
pub(crate) mod llc;
mod ppi;
mod ppp;
mod ppp_authentication;
mod pppoe;
pub(crate) mod q933;

use ringtap_packet::{LinkType, Packet, ether_type};

use super::bytes::{Bytes, Result};
use super::context::Context;
use super::line::{end, put};
use super::routing::osi;
use super::small;
use super::{access, app, arp, ip, wireless};

pub(crate) use ringtap_packet::ether_type::{
    ARP, BRIDGED, EAPOL, IPV4, IPV6, JUMBO, LLDP, LOOPBACK, MPLS, MPLS_MULTICAST, PPP,
    PPPOE_DISCOVERY, PPPOE_SESSION, QINQ, QINQ_9100, QINQ_9200, REVERSE_ARP, VLAN,
};

/// The Ethernet type that Cisco's routers write for OSI packets, after one byte of padding.
pub(crate) const OSI: u16 = 0xfefe;
/// A bundle of Frame Relay links (FRF.16).
const BUNDLE: LinkType = LinkType(182);
/// Slow protocols (IEEE 802.3 annex 57A).
const SLOW: u16 = 0x8809;
const AOE: u16 = 0x88a2;
/// Precision time (IEEE 1588).
const PTP: u16 = 0x88f7;
const CFM: u16 = 0x8902;
const CFM_OLD: u16 = 0xabcd;

/// Prints a packet from its link layer up, with a note if bytes are missing. Returns the length of
/// the link-layer header in bytes.
pub(crate) fn print(
    cx: &mut Context<'_>,
    packet: &Packet<'_>,
    link_type: LinkType,
    interface: Option<&str>,
) -> usize {
    let result = dispatch(cx, packet, link_type, interface);
    if result.is_err() {
        let protocol = cx.line.protocol;
        cx.line.str(" ");
        cx.line.truncated(protocol);
    }
    cx.header
}

fn dispatch(
    cx: &mut Context<'_>,
    packet: &Packet<'_>,
    link_type: LinkType,
    interface: Option<&str>,
) -> Result {
    let data = packet.data;
    // Damaged files may state less than was captured.
    let length = usize::try_from(packet.len)
        .unwrap_or(usize::MAX)
        .max(data.len());
    match link_type.canonical() {
        LinkType::ETHERNET => ethernet::print(cx, data, length),
        LinkType::LINUX_SLL => cooked::print(cx, data, length),
        LinkType::LINUX_SLL2 => cooked::print_v2(cx, data, length, interface),
        LinkType::RAW | LinkType::RAW_OPENBSD | LinkType::IPV4 | LinkType::IPV6 => {
            if cx.options.link_header {
                cx.line.str("ip: ");
            }
            ip::any(cx, data, length)
        }
        LinkType::NULL | LinkType::LOOP => null(cx, data, length, link_type),
        LinkType::PPP | LinkType::PPP_PPPD => ppp::print(cx, data, length),
        LinkType::PPP_HDLC => ppp::serial(cx, data, length),
        LinkType::C_HDLC => chdlc::print(cx, data, length),
        LinkType::FRELAY => frame_relay::print(cx, data, length),
        BUNDLE => frame_relay::bundle(cx, data, length),
        LinkType::PPP_ETHER => pppoe::print(cx, data, length),
        LinkType::PPI => ppi::print(cx, packet, length, interface),
        LinkType::IEEE802_11 => wireless::frame(cx, data, length),
        LinkType::IEEE802_11_PRISM | LinkType::IEEE802_11_AVS => wireless::prism(cx, data, length),
        LinkType::IEEE802_11_RADIOTAP => wireless::radiotap(cx, data, length),
        _ => {
            cx.enter("link");
            end!(cx.line, "link type {}, length {length}", link_type.0)
        }
    }
}

/// Prints BSD loopback: a protocol family of the capturing host, in its byte order (network order
/// for LOOP). The numbers for IPv6 differ between systems.
fn null(cx: &mut Context<'_>, data: &[u8], length: usize, link_type: LinkType) -> Result {
    const HEADER: usize = 4;
    const INET: u32 = 2;
    cx.enter(if link_type == LinkType::LOOP {
        "loop"
    } else {
        "null"
    });
    let family = data.u32_at(0)?;
    cx.header += HEADER;
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
            Ok(true)
        }
    }
    .map(|_| ())
}

/// Prints the protocol of an EtherType; returns false for an unknown one.
pub(crate) fn network(
    cx: &mut Context<'_>,
    ether_type: u16,
    data: &[u8],
    length: usize,
) -> Result<bool> {
    match ether_type {
        IPV4 => {
            ip::v4::announced(cx, data, length, cx.options.link_header)?;
        }
        IPV6 => {
            cx.enter("ip6");
            data.part(0, ip::v6::HEADER)?;
            ip::v6::announced(cx, data, length)?;
        }
        ARP | REVERSE_ARP => arp::print(cx, data, length)?,
        EAPOL => small::eapol::print(cx, data)?,
        LLDP => small::lldp::print(cx, data, length)?,
        AOE => access::aoe::print(cx, data, length)?,
        CFM | CFM_OLD => access::cfm::print(cx, data, length)?,
        PTP => app::ptp::print(cx, data, length)?,
        SLOW => access::slow::print(cx, data, length)?,
        LOOPBACK => small::loopback::print(cx, data, length)?,
        MPLS | MPLS_MULTICAST => small::mpls::print(cx, data, length)?,
        PPPOE_DISCOVERY | PPPOE_SESSION => pppoe::print(cx, data, length)?,
        OSI => osi::print(cx, data.rest(1), length.saturating_sub(1))?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Prints an Ethernet frame inside a tunnel.
pub(crate) fn nested_ethernet(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    tunnelled(cx, |cx| ethernet::print(cx, data, length))
}

/// Prints a PPP frame inside a tunnel.
pub(crate) fn nested_ppp(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    tunnelled(cx, |cx| ppp::print(cx, data, length))
}

/// Prints a frame whose header is none of the packet's own link layer.
fn tunnelled(cx: &mut Context<'_>, print: impl FnOnce(&mut Context<'_>) -> Result) -> Result {
    let header = cx.header;
    let result = print(cx);
    cx.header = header;
    result
}

/// Returns the name of an EtherType, `Unknown` if there is none.
pub(crate) fn ether_type_name(ether_type: u16) -> &'static str {
    ether_type_known(ether_type).unwrap_or("Unknown")
}

/// Returns the name of a known EtherType.
pub(crate) fn ether_type_known(ether_type: u16) -> Option<&'static str> {
    Some(match ether_type {
        IPV4 => "IPv4",
        ARP => "ARP",
        REVERSE_ARP => "Reverse ARP",
        IPV6 => "IPv6",
        0x0500 => "Sprite",
        0x0600 => "NS",
        0x0707 => "GeoNet (old)",
        0x1000 => "Trail",
        0x1111 => "CALM FAST",
        ether_type::MOP_DUMP_LOAD => "MOP DL",
        ether_type::MOP_CONSOLE => "MOP RC",
        ether_type::DECNET => "DN",
        ether_type::LAT => "LAT",
        ether_type::SCA => "SCA",
        0x8038 => "Lanbridge",
        0x803c => "DEC DNS",
        0x803e => "DEC DTS",
        0x805b => "VEXP",
        0x805c => "VPROD",
        BRIDGED => "TEB",
        ether_type::APPLETALK => "Appletalk",
        ether_type::APPLETALK_ARP => "Appletalk ARP",
        ether_type::IPX => "IPX",
        VLAN => "802.1Q",
        QINQ => "802.1Q-QinQ",
        QINQ_9100 => "802.1Q-9100",
        QINQ_9200 => "802.1Q-9200",
        0x8808 => "MPCP",
        SLOW => "Slow Protocols",
        PPP => "PPP",
        MPLS => "MPLS unicast",
        MPLS_MULTICAST => "MPLS multicast",
        PPPOE_DISCOVERY => "PPPoE D",
        PPPOE_SESSION => "PPPoE S",
        0x886f => "MS NLB heartbeat",
        JUMBO => "Jumbo",
        EAPOL => "EAPOL",
        0x8899 => "Realtek protocols",
        AOE => "AoE",
        LLDP => "LLDP",
        0x88ca => "TIPC",
        ether_type::MACSEC => "802.1AE MACsec",
        PTP => "PTP",
        CFM => "CFM",
        0x893a => "IEEE1905.1",
        0x8947 => "GeoNet",
        0x894f => "NSH",
        LOOPBACK => "Loopback",
        CFM_OLD => "CFM (old)",
        0xd28b => "Arista Vendor Specific Protocol",
        0xfefe => "OSI",
        _ => return None,
    })
}
