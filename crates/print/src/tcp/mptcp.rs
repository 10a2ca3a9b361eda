//! The options of Multipath TCP (RFC 8684 section 3, RFC 6824).

use super::{ACK, SYN};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const CAPABLE: u8 = 0;
const JOIN: u8 = 1;
const DATA_SEQUENCE: u8 = 2;
const ADD_ADDRESS: u8 = 3;
const REMOVE_ADDRESS: u8 = 4;
const PRIORITY: u8 = 5;
const FAIL: u8 = 6;
const FAST_CLOSE: u8 = 7;

const NAMES: [&str; 8] = [
    "capable",
    "join",
    "dss",
    "add-addr",
    "rem-addr",
    "prio",
    "fail",
    "fast-close",
];

/// Prints an option with `body` after its length; returns false if its size is invalid.
pub(super) fn print(cx: &mut Context<'_>, body: &[u8], flags: u8) -> Result<bool> {
    let Some(&first) = body.first() else {
        return Ok(false);
    };
    let (kind, low) = (first >> 4, first & 0x0f);
    put!(cx.line, " {} ", body.len() + 2);
    cx.line
        .str(NAMES.get(usize::from(kind)).unwrap_or(&"unknown"));
    let synchronizes = flags & SYN != 0;
    match kind {
        CAPABLE => capable(cx, low, body, synchronizes),
        JOIN => join(cx, low, body, flags),
        DATA_SEQUENCE if !synchronizes => data_sequence(cx, body),
        ADD_ADDRESS => add_address(cx, low, body),
        REMOVE_ADDRESS if body.len() > 1 => {
            cx.line.str(" id");
            for id in &body[1..] {
                put!(cx.line, " {id}");
            }
            Ok(true)
        }
        PRIORITY if body.len() <= 2 => {
            cx.line.str(if low & 1 == 0 {
                " non-backup"
            } else {
                " backup"
            });
            if let Some(id) = body.get(1) {
                put!(cx.line, " id {id}");
            }
            Ok(true)
        }
        FAIL if body.len() == 10 => {
            put!(cx.line, " seq {}", body.u64_at(2)?);
            Ok(true)
        }
        FAST_CLOSE if body.len() == 10 => {
            put!(cx.line, " key 0x{:x}", body.u64_at(2)?);
            Ok(true)
        }
        _ => Ok(usize::from(kind) >= NAMES.len()),
    }
}

/// Prints section 3.1: the version, the keys of the sender and, in the third segment, of the
/// receiver.
fn capable(cx: &mut Context<'_>, version: u8, body: &[u8], synchronizes: bool) -> Result<bool> {
    const CHECKSUMS: u8 = 0x80;
    let keys = match (body.len(), synchronizes) {
        (2, true) => 0,
        (10, true) => 1,
        // With or without the length of data in the segment.
        (18 | 20, false) => 2,
        _ => return Ok(false),
    };
    if version > 1 {
        put!(cx.line, " Unknown Version ({version})");
        return Ok(true);
    }
    put!(cx.line, " v{version}");
    if body.u8_at(1)? & CHECKSUMS != 0 {
        cx.line.str(" csum");
    }
    for index in 0..keys {
        let open = if index == 0 { " {" } else { "," };
        put!(cx.line, "{open}0x{:x}", body.u64_at(2 + 8 * index)?);
    }
    if keys > 0 {
        cx.line.str("}");
    }
    Ok(true)
}

/// Prints section 3.2: the three segments that add a path.
fn join(cx: &mut Context<'_>, low: u8, body: &[u8], flags: u8) -> Result<bool> {
    let (synchronizes, acknowledges) = (flags & SYN != 0, flags & ACK != 0);
    let lead = |cx: &mut Context<'_>, id: u8| {
        cx.line.str(if low & 1 == 0 { "" } else { " backup" });
        put!(cx.line, " id {id}");
    };
    match body.len() {
        10 if synchronizes => {
            lead(cx, body.u8_at(1)?);
            let (token, nonce) = (body.u32_at(2)?, body.u32_at(6)?);
            put!(cx.line, " token 0x{token:x} nonce 0x{nonce:x}");
        }
        14 if synchronizes && acknowledges => {
            lead(cx, body.u8_at(1)?);
            let (code, nonce) = (body.u64_at(2)?, body.u32_at(10)?);
            put!(cx.line, " hmac 0x{code:x} nonce 0x{nonce:x}");
        }
        22 if acknowledges => {
            cx.line.str(" hmac 0x");
            cx.line.hex(body.rest(2));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Prints section 3.3: an acknowledgement, and the position of the segment's data, each of four or
/// eight bytes.
fn data_sequence(cx: &mut Context<'_>, body: &[u8]) -> Result<bool> {
    const ACKNOWLEDGES: u8 = 0x01;
    const LONG_ACKNOWLEDGEMENT: u8 = 0x02;
    const MAPS: u8 = 0x04;
    const LONG_SEQUENCE: u8 = 0x08;
    const FINISHES: u8 = 0x10;
    let Ok(flags) = body.u8_at(1) else {
        return Ok(false);
    };
    let mut at = 2;
    let mut number = |cx: &mut Context<'_>, long: bool| {
        let value = if long {
            body.u64_at(at)
        } else {
            body.u32_at(at).map(u64::from)
        };
        at += if long { 8 } else { 4 };
        value.map(|value| cx.line.number(value)).is_ok()
    };
    if flags & FINISHES != 0 {
        cx.line.str(" fin");
    }
    if flags & ACKNOWLEDGES != 0 {
        cx.line.str(" ack ");
        if !number(cx, flags & LONG_ACKNOWLEDGEMENT != 0) {
            return Ok(false);
        }
    }
    if flags & MAPS != 0 {
        cx.line.str(" seq ");
        if !number(cx, flags & LONG_SEQUENCE != 0) {
            return Ok(false);
        }
        let Ok(position) = body.u32_at(at) else {
            return Ok(false);
        };
        put!(cx.line, " subseq {position}");
        let Ok(length) = body.u16_at(at + 4) else {
            return Ok(false);
        };
        put!(cx.line, " len {length}");
        at += 6;
        if let Ok(checksum) = body.u16_at(at) {
            put!(cx.line, " csum 0x{checksum:x}");
            at += 2;
        }
    }
    Ok(body.len() == at)
}

/// Prints section 3.4.1: an address, optionally with a port and a code that proves its origin.
fn add_address(cx: &mut Context<'_>, low: u8, body: &[u8]) -> Result<bool> {
    const CODE: usize = 8;
    let size = if body.len() < 18 { 4 } else { 16 };
    let (port, code) = match body.len().checked_sub(2 + size) {
        Some(0) => (false, false),
        Some(2) => (true, false),
        Some(8) => (false, true),
        Some(10) => (true, true),
        _ => return Ok(false),
    };
    match low {
        0 => cx.line.str(" v1"),
        1 => cx.line.str(" v1-echo"),
        4 => cx.line.str(" v0-ip4"),
        6 => cx.line.str(" v0-ip6"),
        _ => put!(cx.line, " [bad version/echo]"),
    }
    put!(cx.line, " id {} ", body.u8_at(1)?);
    if size == 4 {
        cx.line.ipv4(body.array_at(2)?);
    } else {
        cx.line.ipv6(body.array_at(2)?);
    }
    if port {
        put!(cx.line, ":{}", body.u16_at(2 + size)?);
    }
    if code {
        put!(cx.line, " hmac 0x{:x}", body.u64_at(body.len() - CODE)?);
    }
    Ok(true)
}
