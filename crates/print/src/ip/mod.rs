//! The network layer: IPv4, IPv6 and the dispatch to transport layers.

mod dccp;
mod extensions;
mod gre;
mod mobility;
mod sctp;
pub(crate) mod security;
pub(crate) mod v4;
pub(crate) mod v6;

use super::bytes::{Bytes, Result};
use super::context::{Context, Network};
use super::line::{Address, end, put};
use super::{icmp, icmp6, link, routing, tcp, udp};

pub(crate) use ringtap_packet::protocol::{
    AUTHENTICATION, DCCP, DESTINATION_OPTIONS, ESP, FRAGMENT, GRE, HOP_BY_HOP, ICMP, ICMPV6, IGMP,
    IGRP, IPV4, IPV6, MOBILITY, NO_NEXT_HEADER, PIM, ROUTING, SCTP, TCP, UDP, VRRP,
};

/// The most extension headers read of one packet.
const MAX_HEADERS: u8 = 32;

/// Returns the name of a protocol number in a header line.
pub(crate) fn name(protocol: u8) -> &'static str {
    match protocol {
        HOP_BY_HOP => "Options",
        ICMP => "ICMP",
        IGMP => "IGMP",
        IPV4 => "IPIP",
        TCP => "TCP",
        8 => "EGP",
        IGRP => "IGRP",
        UDP => "UDP",
        DCCP => "DCCP",
        IPV6 => "IPv6",
        ROUTING => "Routing",
        FRAGMENT => "Fragment",
        46 => "RSVP",
        GRE => "GRE",
        ESP => "ESP",
        AUTHENTICATION => "AH",
        55 => "Mobile IP",
        ICMPV6 => "ICMPv6",
        88 => "EIGRP",
        89 => "OSPF",
        PIM => "PIM",
        108 => "Compressed IP",
        VRRP => "VRRP",
        113 => "PGM",
        SCTP => "SCTP",
        MOBILITY => "Mobility",
        _ => "unknown",
    }
}

/// Prints an IP packet of the version in its first nibble.
pub(crate) fn any(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ip");
    match data.u8_at(0)? >> 4 {
        4 => v4::announced(cx, data, length, cx.options.link_header),
        6 => link::network(cx, link::IPV6, data, length).map(|_| ()),
        version => end!(cx.line, "unknown ip {version}"),
    }
}

/// Prints the payload of a network header: `protocol` in `length` bytes, of which `data` were
/// captured. A loop reads extension headers up to a limit.
pub(crate) fn payload(
    cx: &mut Context<'_>,
    net: &mut Network,
    mut protocol: u8,
    mut data: &[u8],
    mut length: usize,
) -> Result {
    let over_ipv4 = matches!(net.source, Address::V4(_));
    for _ in 0..MAX_HEADERS {
        let step = match protocol {
            // These belong to IPv6.
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING | FRAGMENT if over_ipv4 => {
                return transport(cx, net, protocol, data, length);
            }
            HOP_BY_HOP => extensions::options(cx, "HBH", "hbhopt", data, &mut length)?,
            DESTINATION_OPTIONS => extensions::options(cx, "DSTOPT", "dstopt", data, &mut length)?,
            ROUTING => extensions::routing(cx, net, data)?,
            FRAGMENT => extensions::fragment(cx, net, data, length)?,
            AUTHENTICATION => security::authentication(cx, data)?,
            _ => return transport(cx, net, protocol, data, length),
        };
        let Some(step) = step else {
            return Ok(());
        };
        data = data.rest(step.length);
        length = length.saturating_sub(step.length);
        protocol = step.next;
        net.endpoints = false;
    }
    end!(cx.line, " [too many headers]")
}

/// An extension header that was printed: the next protocol, and the header's length in bytes.
struct Step {
    next: u8,
    length: usize,
}

fn transport(
    cx: &mut Context<'_>,
    net: &Network,
    protocol: u8,
    data: &[u8],
    length: usize,
) -> Result {
    let over_ipv4 = matches!(net.source, Address::V4(_));
    match protocol {
        ICMP | IGMP if !over_ipv4 => {
            let name = name(protocol);
            end!(cx.line, "[{name} requires IPv4] (invalid)")
        }
        ICMPV6 if over_ipv4 => end!(cx.line, "[ICMPv6 requires IPv6] (invalid)"),
        TCP => tcp::print(cx, net, data, length),
        UDP => udp::print(cx, net, data, length),
        ICMP => icmp::print(cx, net, data, length),
        ICMPV6 => icmp6::print(cx, net, data, length),
        SCTP => sctp::print(cx, net, data, length),
        GRE => gre::print(cx, data, length),
        ESP => security::payload(cx, data, length),
        IPV4 => nested(cx, |cx| v4::announced(cx, data, length, false)),
        IPV6 => nested(cx, |cx| {
            cx.line.str("IP6 ");
            v6::print(cx, data, length)
        }),
        DCCP => dccp::print(cx, net, data, length),
        MOBILITY | mobility::OLD => mobility::print(cx, data),
        NO_NEXT_HEADER => end!(cx.line, "no next header"),
        _ => {
            if !routing::over_ip(cx, net, protocol, data, length)? {
                put!(cx.line, " ip-proto-{protocol} {length}");
            }
            Ok(())
        }
    }
}

/// Prints a packet within a packet, unless that is too deep.
pub(crate) fn nested(
    cx: &mut Context<'_>,
    print: impl FnOnce(&mut Context<'_>) -> Result,
) -> Result {
    if !cx.descend() {
        return Ok(());
    }
    print(cx)?;
    cx.ascend();
    Ok(())
}
