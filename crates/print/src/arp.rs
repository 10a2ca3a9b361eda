//! ARP and its relatives (RFC 826, RFC 903, RFC 2390).

use super::bytes::{Bytes, Result, Truncated};
use super::context::Context;
use super::line::{end, put};
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
    if !message(cx, operation, &parties)? {
        return Ok(());
    }
    end!(cx.line, ", length {length}")
}

fn types(cx: &mut Context<'_>, hardware: u16, network: u16, link_length: u8, net_length: u8) {
    match hardware_name(hardware) {
        Some(name) => cx.line.str(name),
        None => put!(cx.line, "Unknown Hardware ({hardware})"),
    }
    put!(cx.line, " (len {link_length}), ");
    match link::ether_type_known(network) {
        Some(name) => cx.line.str(name),
        None => put!(cx.line, "Unknown Protocol (0x{network:04x})"),
    }
    put!(cx.line, " (len {net_length})");
}

fn hardware_name(hardware: u16) -> Option<&'static str> {
    Some(match hardware {
        ETHERNET => "Ethernet",
        6 => "TokenRing",
        7 => "ArcNet",
        15 => "FrameRelay",
        17 => "Strip",
        24 => "IEEE 1394",
        32 => "InfiniBand",
        _ => return None,
    })
}

/// Prints a request or reply; returns false for an unknown operation.
fn message(cx: &mut Context<'_>, operation: u16, who: &Parties<'_>) -> Result<bool> {
    match operation {
        REQUEST => {
            cx.line.str("Request who-has ");
            network_address(cx, who, who.target)?;
            if who.target_link.iter().any(|&octet| octet != 0) {
                cx.line.str(" (");
                link_address(cx, who.target_link);
                cx.line.str(")");
            }
            cx.line.str(" tell ");
            network_address(cx, who, who.source)?;
        }
        REPLY => {
            cx.line.str("Reply ");
            network_address(cx, who, who.source)?;
            cx.line.str(" is-at ");
            link_address(cx, who.source_link);
        }
        REVERSE_REQUEST => {
            cx.line.str("Reverse Request who-is ");
            link_address(cx, who.target_link);
            cx.line.str(" tell ");
            link_address(cx, who.source_link);
        }
        REVERSE_REPLY => {
            cx.line.str("Reverse Reply ");
            link_address(cx, who.target_link);
            cx.line.str(" at ");
            network_address(cx, who, who.target)?;
        }
        INVERSE_REQUEST => {
            cx.line.str("Inverse Request who-is ");
            link_address(cx, who.target_link);
            cx.line.str(" tell ");
            link_address(cx, who.source_link);
        }
        INVERSE_REPLY => {
            cx.line.str("Inverse Reply ");
            link_address(cx, who.source_link);
            cx.line.str(" at ");
            network_address(cx, who, who.source)?;
        }
        other => {
            put!(cx.line, "Unknown ({other}) ");
            return Ok(false);
        }
    }
    Ok(true)
}

fn network_address(cx: &mut Context<'_>, who: &Parties<'_>, address: &[u8]) -> Result {
    if address.is_empty() {
        cx.line.str("<No address>");
    } else if who.network == link::IPV4 && address.len() == 4 {
        cx.line.ipv4(address.array_at(0)?);
    } else if who.network == link::IPV4 {
        cx.line.str("<wrong proto type>");
    } else {
        cx.line.hex(address);
    }
    Ok(())
}

fn link_address(cx: &mut Context<'_>, address: &[u8]) {
    if address.is_empty() {
        cx.line.str("<No address>");
    } else {
        cx.line.link_address(address);
    }
}
