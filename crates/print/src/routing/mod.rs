//! Protocols between routers: routing protocols, their labels, liveness and redundancy, multicast
//! groups.
//!
//! Each protocol has a file of its own. The tables here map protocol numbers and ports to
//! protocols.

mod bfd;
pub(crate) mod clnp;
mod dvmrp;
mod eigrp;
mod hsrp;
mod igmp;
pub(crate) mod isis;
mod ldp;
mod lmp;
mod lsp_ping;
pub(crate) mod osi;
mod ospf;
mod pim;
mod rip;
mod ripng;
mod rsvp;
mod vrrp;

use std::fmt;

use crate::bytes::Result;
use crate::context::{Context, Network};
use crate::ip::{self, IGMP, PIM, VRRP};
use crate::line::name_in;
use crate::small;

const RSVP: u8 = 46;
const EIGRP: u8 = 88;
const OSPF: u8 = 89;

const BGP: u16 = 179;
const RIP: u16 = 520;
const RIPNG: u16 = 521;
const LDP: u16 = 646;
const LMP: u16 = 701;
const HSRP: u16 = 1985;
const LSP_PING: u16 = 3503;
/// RFC 7510.
const MPLS: u16 = 6635;

/// Prints the protocol of an IP protocol number; returns false if it is none of these.
pub(crate) fn over_ip(
    cx: &mut Context<'_>,
    net: &Network,
    protocol: u8,
    data: &[u8],
    length: usize,
) -> Result<bool> {
    match protocol {
        IGMP if cx.options.quiet => cx.line.str("igmp"),
        IGMP => igmp::print(cx, data, length)?,
        EIGRP => eigrp::print(cx, data, length)?,
        OSPF => ospf::print(cx, net, data, length)?,
        PIM => pim::print(cx, data, length)?,
        RSVP => rsvp::print(cx, data, length)?,
        VRRP => vrrp::print(cx, net, data, length)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Prints the protocol of a datagram's ports; returns false if it is none of these.
pub(crate) fn over_udp(
    cx: &mut Context<'_>,
    ports: (u16, u16),
    data: &[u8],
    length: usize,
) -> Result<bool> {
    match ports {
        (RIP, _) | (_, RIP) => rip::print(cx, data, length)?,
        (RIPNG, _) | (_, RIPNG) => ripng::print(cx, data, length)?,
        (LDP, _) | (_, LDP) => ldp::print(cx, data, length)?,
        (LMP, _) | (_, LMP) => lmp::print(cx, data, length)?,
        (LSP_PING, _) | (_, LSP_PING) => lsp_ping::print(cx, data, length)?,
        (MPLS, _) | (_, MPLS) => ip::nested(cx, |cx| small::mpls::print(cx, data, length))?,
        (_, HSRP) => hsrp::print(cx, data, length)?,
        (_, destination) => return bfd::print(cx, destination, data, length),
    }
    Ok(true)
}

/// Prints the protocol of a segment's ports; returns false if it is none of these.
pub(crate) fn over_tcp(
    cx: &mut Context<'_>,
    ports: (u16, u16),
    data: &[u8],
    length: usize,
) -> Result<bool> {
    match ports {
        (BGP, _) | (_, BGP) => cx.line.str(": BGP"),
        (LDP, _) | (_, LDP) => ldp::print(cx, data, length)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Prints the name for `value`, or other text for an unknown value.
fn named(
    cx: &mut Context<'_>,
    names: &[(u8, &'static str)],
    value: u8,
    unknown: fmt::Arguments<'_>,
) {
    cx.line.name(name_in(names, value), unknown);
}
