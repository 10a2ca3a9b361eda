//! ARP and its relatives (RFC 826, RFC 903, RFC 2390).

use std::fmt;

use super::bytes::{Bytes, Result, Truncated};
use super::context::Context;
use super::line::{Address, Mac, end, name_in, put};
use super::link;

const ETHERNET: u16 = 1;
const FIXED: usize = 8;

const REQUEST: u16 = 1;
const REPLY: u16 = 2;
const REVERSE_REQUEST: u16 = 3;
const REVERSE_REPLY: u16 = 4;
const INVERSE_REQUEST: u16 = 8;
const INVERSE_REPLY: u16 = 9;

/// The four addresses of a message, with the lengths in its header.
struct Parties<'a> {
    source_link: &'a [u8],
    source: &'a [u8],
    target_link: &'a [u8],
    target: &'a [u8],
    network: u16,
}

/// Prints a message, for which the link layer carried `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("arp");
    let hardware = data.u16_at(0)?;
    let network = data.u16_at(2)?;
    let (link_length, net_length) = (data.u8_at(4)?, data.u8_at(5)?);
    let operation = data.u16_at(6)?;
    let (link_size, net_size) = (usize::from(link_length), usize::from(net_length));
    if data.len() < FIXED + 2 * (link_size + net_size) {
        return Err(Truncated);
    }
    if !cx.options.link_header {
        cx.line.str("ARP, ");
    }
    let readable = network == link::IPV4 && net_length == 4 && (link_length != 0 || cx.verbose());
    if !readable || cx.verbose() {
        types(cx, hardware, network, link_length, net_length);
        cx.line.str(if readable { ", " } else { "" });
    }
    if !readable {
        return end!(cx.line, ", length {length}");
    }
    let mut at = FIXED;
    let mut next = |size| {
        let part = data.part(at, size);
        at += size;
        part
    };
    let parties = Parties {
        source_link: next(link_size)?,
        source: next(net_size)?,
        target_link: next(link_size)?,
        target: next(net_size)?,
        network,
    };
    if message(cx, operation, &parties) {
        put!(cx.line, ", length {length}");
    }
    Ok(())
}

fn types(cx: &mut Context<'_>, hardware: u16, network: u16, link_length: u8, net_length: u8) {
    let name = name_in(&HARDWARE, hardware);
    cx.line
        .name(name, format_args!("Unknown Hardware ({hardware})"));
    put!(cx.line, " (len {link_length}), ");
    let name = link::ether_type_known(network);
    cx.line
        .name(name, format_args!("Unknown Protocol (0x{network:04x})"));
    put!(cx.line, " (len {net_length})");
}

const HARDWARE: [(u16, &str); 7] = [
    (ETHERNET, "Ethernet"),
    (6, "TokenRing"),
    (7, "ArcNet"),
    (15, "FrameRelay"),
    (17, "Strip"),
    (24, "IEEE 1394"),
    (32, "InfiniBand"),
];

/// Prints a request or reply; returns false for an unknown operation.
fn message(cx: &mut Context<'_>, operation: u16, who: &Parties<'_>) -> bool {
    let network = |address| NetworkAddress(who.network, address);
    let [source, target] = [who.source, who.target].map(network);
    let [from, to] = [who.source_link, who.target_link].map(LinkAddress);
    match operation {
        REQUEST => {
            put!(cx.line, "Request who-has {target}");
            if who.target_link.iter().any(|&octet| octet != 0) {
                put!(cx.line, " ({to})");
            }
            put!(cx.line, " tell {source}");
        }
        REPLY => put!(cx.line, "Reply {source} is-at {from}"),
        REVERSE_REQUEST => put!(cx.line, "Reverse Request who-is {to} tell {from}"),
        REVERSE_REPLY => put!(cx.line, "Reverse Reply {to} at {target}"),
        INVERSE_REQUEST => put!(cx.line, "Inverse Request who-is {to} tell {from}"),
        INVERSE_REPLY => put!(cx.line, "Inverse Reply {from} at {source}"),
        other => put!(cx.line, "Unknown ({other}) "),
    }
    matches!(
        operation,
        REQUEST..=REVERSE_REPLY | INVERSE_REQUEST | INVERSE_REPLY
    )
}

/// An address of the protocol with this EtherType.
struct NetworkAddress<'a>(u16, &'a [u8]);

impl fmt::Display for NetworkAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (_, []) => f.write_str("<No address>"),
            (link::IPV4, &[a, b, c, d]) => Address::V4([a, b, c, d]).fmt(f),
            (link::IPV4, _) => f.write_str("<wrong proto type>"),
            (_, octets) => octets.iter().try_for_each(|octet| write!(f, "{octet:02x}")),
        }
    }
}

struct LinkAddress<'a>(&'a [u8]);

impl fmt::Display for LinkAddress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("<No address>"),
            octets => Mac(octets).fmt(f),
        }
    }
}
