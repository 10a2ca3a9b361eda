//! Ethernet (IEEE 802.3) with VLAN tags (IEEE 802.1Q).

use super::{IPV4, JUMBO, QINQ, QINQ_9100, QINQ_9200, VLAN, ether_type_name, llc};
use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::put;

const HEADER: usize = 14;
const TAG: usize = 4;
pub(super) use ringtap_packet::ether_type::MAX_LENGTH;
/// The most tags read of one frame.
const MAX_TAGS: usize = 8;

/// Prints a frame that had `length` bytes on the wire.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ether");
    if data.len() < HEADER {
        cx.header += data.len();
        return Err(Truncated);
    }
    let mut kind = data.u16_at(12)?;
    let mut at = HEADER;
    cx.header += HEADER;
    if cx.options.link_header {
        addresses(cx, data)?;
        cx.line.str(", ");
        let shown = if kind <= MAX_LENGTH {
            usize::from(kind)
        } else {
            length
        };
        if kind != JUMBO {
            type_or_length(cx, kind);
            put!(cx.line, ", length {shown}: ");
        }
    }
    for _ in 0..MAX_TAGS {
        if !matches!(kind, VLAN | QINQ | QINQ_9100 | QINQ_9200) {
            break;
        }
        cx.enter("vlan");
        if data.len() < at + TAG {
            cx.header += data.len() - at;
            return Err(Truncated);
        }
        let tag = data.u16_at(at)?;
        kind = data.u16_at(at + 2)?;
        at += TAG;
        cx.header += TAG;
        if cx.options.link_header {
            let dei = if tag & 0x1000 != 0 { ", DEI" } else { "" };
            put!(cx.line, "vlan {}, p {}{dei}, ", tag & 0xfff, tag >> 13);
            if kind > MAX_LENGTH && kind != JUMBO {
                type_name(cx, kind);
                cx.line.str(", ");
            }
        }
    }
    let (payload, length) = (data.rest(at), length.saturating_sub(at));
    if kind <= MAX_LENGTH {
        // The length does not count padding.
        let stated = usize::from(kind);
        let shorter = stated < length;
        let length = if shorter { stated } else { length };
        let payload = payload.up_to(length);
        return llc::print(cx, payload, length, Some(data));
    }
    // Jumbo frames are too long for a length field and have this type instead.
    if kind == JUMBO {
        return llc::print(cx, payload, length, Some(data));
    }
    if !super::network(cx, kind, payload, length)? {
        unknown(cx, data, kind, length + at)?;
    }
    Ok(())
}

/// Prints `source > destination`.
pub(super) fn addresses(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.line.link_address(data.part(6, 6)?);
    cx.line.str(" > ");
    cx.line.link_address(data.part(0, 6)?);
    Ok(())
}

fn type_or_length(cx: &mut Context<'_>, kind: u16) {
    if kind <= MAX_LENGTH {
        cx.line.str("802.3");
    } else {
        type_name(cx, kind);
    }
}

fn type_name(cx: &mut Context<'_>, kind: u16) {
    let name = ether_type_name(kind);
    if !cx.options.quiet {
        put!(cx.line, "ethertype {name} (0x{kind:04x})");
    } else if name == "Unknown" {
        put!(cx.line, "Unknown Ethertype (0x{kind:04x})");
    } else {
        cx.line.str(name);
    }
}

fn unknown(cx: &mut Context<'_>, data: &[u8], kind: u16, length: usize) -> Result {
    debug_assert_ne!(kind, IPV4);
    if !cx.options.link_header {
        addresses(cx, data)?;
        cx.line.str(", ");
        type_or_length(cx, kind);
        put!(cx.line, ", length {length}: ");
    }
    Ok(())
}
