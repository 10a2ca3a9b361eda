//! IPv6 extension headers (RFC 8200 section 4).

use super::Step;
use crate::bytes::{Bytes, Result};
use crate::context::{Context, Network};
use crate::line::{Address, put};

const PAD1: u8 = 0;
const PADN: u8 = 1;
const ROUTER_ALERT: u8 = 5;
const JUMBO: u8 = 0xc2;
const HOME_ADDRESS: u8 = 0xc9;

/// Prints hop-by-hop and destination options. A jumbo payload option (RFC 2675) sets `length`.
pub(super) fn options(
    cx: &mut Context<'_>,
    name: &str,
    protocol: &'static str,
    data: &[u8],
    length: &mut usize,
) -> Result<Option<Step>> {
    cx.enter(protocol);
    cx.line.str(name);
    cx.line.str(" ");
    let next = data.u8_at(0)?;
    let header = (usize::from(data.u8_at(1)?) + 1) * 8;
    let body = data.part(0, header)?;
    let captured = data.len();
    let mut at = 2;
    while at < header {
        let kind = body.u8_at(at)?;
        if kind == PAD1 {
            note(cx, "(pad1)");
            at += 1;
            continue;
        }
        let Ok(size) = body.u8_at(at + 1) else {
            break;
        };
        let size = usize::from(size);
        if at + 2 + size > header {
            break;
        }
        let value = body.part(at + 2, size)?;
        option(cx, kind, value)?;
        if kind == JUMBO && size == 4 {
            jumbo(cx, value.u32_at(0)?, captured, length);
        }
        at += 2 + size;
    }
    if cx.verbose() {
        cx.line.str(" ");
    }
    Ok(Some(Step {
        next,
        length: header,
    }))
}

fn note(cx: &mut Context<'_>, text: &str) {
    if cx.verbose() {
        cx.line.str(text);
    }
}

fn jumbo(cx: &mut Context<'_>, stated: u32, captured: usize, length: &mut usize) {
    let stated = usize::try_from(stated).unwrap_or(usize::MAX);
    if stated > *length.max(&mut captured.clone()) {
        let missing = stated - *length;
        put!(cx.line, "truncated-ip6 - {missing} bytes missing!");
    }
    *length = stated;
}

fn option(cx: &mut Context<'_>, kind: u8, value: &[u8]) -> Result {
    if !cx.verbose() {
        return Ok(());
    }
    match (kind, value.len()) {
        (PADN, _) => cx.line.str("(padn)"),
        (ROUTER_ALERT, 2) => put!(cx.line, "(rtalert: 0x{:04x})", value.u16_at(0)?),
        (JUMBO, 4) => put!(cx.line, "(jumbo: {})", value.u32_at(0)?),
        (HOME_ADDRESS, 16) => put!(cx.line, "(homeaddr: {})", Address::V6(value.array_at(0)?)),
        (ROUTER_ALERT, size) => put!(cx.line, "(rtalert: invalid len {size})"),
        (JUMBO, size) => put!(cx.line, "(jumbo: invalid len {size})"),
        (HOME_ADDRESS, size) => put!(cx.line, "(homeaddr: invalid len {size})"),
        (_, size) => put!(cx.line, "(opt_type 0x{kind:02x}: len={size})"),
    }
    Ok(())
}

const SEGMENT_ROUTING: u8 = 4;

/// Prints the routing header; types 0, 2 and 4 (RFC 8754) list addresses.
pub(super) fn routing(
    cx: &mut Context<'_>,
    net: &mut Network,
    data: &[u8],
) -> Result<Option<Step>> {
    cx.enter("rt6");
    let (next, units) = (data.u8_at(0)?, data.u8_at(1)?);
    let (kind, left) = (data.u8_at(2)?, data.u8_at(3)?);
    put!(cx.line, "RT6 (len={units}, type={kind}");
    if kind == 0 {
        cx.line.str(" [Deprecated]");
    }
    put!(cx.line, ", segleft={left}");
    let header = (usize::from(units) + 1) * 8;
    match kind {
        0 | 2 => {
            let reserved = data.u32_at(4)?;
            if reserved != 0 || cx.verbose() {
                put!(cx.line, ", rsv=0x{reserved:x}");
            }
        }
        SEGMENT_ROUTING => {
            put!(cx.line, ", last-entry={}", data.u8_at(4)?);
            if cx.verbose() {
                put!(cx.line, ", flags=0x{:x}", data.u8_at(5)?);
            }
            put!(cx.line, ", tag={:x}", data.u16_at(6)?);
        }
        _ => {
            cx.line.str(" (unknown type) (invalid)");
            return Ok(None);
        }
    }
    if units % 2 != 0 && kind != SEGMENT_ROUTING {
        cx.line.str(" (invalid length)");
        return Ok(None);
    }
    for index in 0..usize::from(units / 2) {
        let hop = Address::V6(data.array_at(8 + index * 16)?);
        put!(cx.line, ", [{index}]{hop}");
        // The checksum covers the last address of the route.
        if left > 0 && (kind != SEGMENT_ROUTING || index == 0) {
            net.destination = hop;
        }
    }
    cx.line.str(") ");
    Ok(Some(Step {
        next,
        length: header,
    }))
}

/// Prints the fragment header; only the payload of a first fragment is printed.
pub(super) fn fragment(
    cx: &mut Context<'_>,
    net: &mut Network,
    data: &[u8],
    length: usize,
) -> Result<Option<Step>> {
    cx.enter("frag6");
    let next = data.u8_at(0)?;
    let field = data.u16_at(2)?;
    let offset = field & 0xfff8;
    // A length that cannot hold the header is printed as the negative number that results.
    let size = i64::try_from(length).unwrap_or(i64::MAX) - 8;
    let size = size.cast_unsigned();
    if cx.verbose() {
        put!(cx.line, "frag (0x{:08x}:{offset}|{size})", data.u32_at(4)?);
    } else {
        put!(cx.line, "frag ({offset}|{size})");
    }
    net.fragmented = true;
    if offset != 0 {
        return Ok(None);
    }
    cx.line.str(" ");
    Ok(Some(Step { next, length: 8 }))
}
