//! TCP options.

use super::mptcp;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const ECHO: u8 = 6;
const ECHO_REPLY: u8 = 7;
const TIMESTAMPS: u8 = 8;
const CC: u8 = 11;
const CC_NEW: u8 = 12;
const CC_ECHO: u8 = 13;
const MD5: u8 = 19;
const SCPS: u8 = 20;
const USER_TIMEOUT: u8 = 28;
const AUTHENTICATION: u8 = 29;
const MPTCP: u8 = 30;
const FAST_OPEN: u8 = 34;
const EXPERIMENT_1: u8 = 253;
const EXPERIMENT_2: u8 = 254;

/// Experiment identifier of Fast Open (RFC 7413 section 4.1.1).
const FAST_OPEN_EXPERIMENT: u16 = 0xf989;

/// Prints `, options […]` of the header in `data`. Returns false if an option is damaged; the line
/// then ends with a note.
pub(super) fn print(
    cx: &mut Context<'_>,
    data: &[u8],
    header: usize,
    ack_origin: u32,
) -> Result<bool> {
    cx.line.str(", options [");
    let mut at = super::HEADER;
    let mut first = true;
    while at < header {
        if !first {
            cx.line.str(",");
        }
        first = false;
        let kind = data.u8_at(at)?;
        if kind == END || kind == NOP {
            cx.line.str(if kind == END { "eol" } else { "nop" });
            at += 1;
            if kind == END {
                break;
            }
            continue;
        }
        let room = header - at;
        if room < 2 {
            name(cx, kind);
            return Ok(bad(cx));
        }
        let stated = usize::from(data.u8_at(at + 1)?);
        if stated < 2 || stated > room {
            return Ok(bad(cx));
        }
        name(cx, kind);
        // The captured part of a long option is printed before the note.
        let body = data.rest(at + 2).up_to(stated - 2);
        let whole = body.len() == stated - 2;
        let valid = match kind {
            MPTCP if whole => mptcp::print(cx, body, data.u8_at(13)?)?,
            _ => option(cx, kind, body, stated - 2, ack_origin)?,
        };
        if !valid {
            return Ok(bad(cx));
        }
        data.part(at, stated)?;
        at += stated;
    }
    cx.line.str("]");
    Ok(true)
}

fn bad(cx: &mut Context<'_>) -> bool {
    cx.line.str("[bad opt]");
    false
}

fn name(cx: &mut Context<'_>, kind: u8) {
    let name = match kind {
        MSS => "mss",
        WINDOW_SCALE => "wscale",
        SACK_PERMITTED => "sackOK",
        SACK => "sack",
        ECHO => "echo",
        ECHO_REPLY => "echoreply",
        TIMESTAMPS => "TS",
        CC => "cc",
        CC_NEW => "ccnew",
        CC_ECHO => "ccecho",
        MD5 => "md5",
        SCPS => "scps",
        USER_TIMEOUT => "uto",
        AUTHENTICATION => "tcp-ao",
        MPTCP => "mptcp",
        FAST_OPEN => "tfo",
        EXPERIMENT_1 | EXPERIMENT_2 => "exp",
        _ => {
            put!(cx.line, "unknown-{kind}");
            return;
        }
    };
    cx.line.str(name);
}

/// Prints the body of an option; returns false if its length is invalid.
fn option(
    cx: &mut Context<'_>,
    kind: u8,
    body: &[u8],
    size: usize,
    ack_origin: u32,
) -> Result<bool> {
    match (kind, size) {
        (MSS, 2) => put!(cx.line, " {}", body.u16_at(0)?),
        (WINDOW_SCALE, 1) => put!(cx.line, " {}", body.u8_at(0)?),
        (SACK_PERMITTED, 0) => {}
        (SACK, length) if length > 0 && length.is_multiple_of(8) => sack(cx, body, ack_origin)?,
        (ECHO | ECHO_REPLY | CC | CC_NEW | CC_ECHO, 4) => put!(cx.line, " {}", body.u32_at(0)?),
        (TIMESTAMPS, 8) => {
            cx.line.str(" val ");
            cx.line.number(body.u32_at(0)?);
            cx.line.str(" ecr ");
            cx.line.number(body.u32_at(4)?);
        }
        (MD5, 16) => {
            cx.line.str(" ");
            cx.line.hex(body);
        }
        (SCPS, 2) => put!(cx.line, " cap {:02x} id {}", body.u8_at(0)?, body.u8_at(1)?),
        (USER_TIMEOUT, 2) => user_timeout(cx, body.u16_at(0)?),
        (AUTHENTICATION, 2..) => {
            let [key, next] = body.array_at(0)?;
            put!(cx.line, " keyid {key} rnextkeyid {next} mac 0x");
            cx.line.hex(body.rest(2));
        }
        // Captured only in part: the caller adds the note.
        (MPTCP, _) => {}
        (FAST_OPEN, length) => {
            cx.line.str(" ");
            return Ok(fast_open_cookie(cx, body, length));
        }
        (EXPERIMENT_1 | EXPERIMENT_2, 2..) => return experiment(cx, body),
        (
            MSS | WINDOW_SCALE | SACK_PERMITTED | SACK | ECHO | ECHO_REPLY | CC | CC_NEW | CC_ECHO
            | TIMESTAMPS | MD5 | SCPS | USER_TIMEOUT | AUTHENTICATION | EXPERIMENT_1 | EXPERIMENT_2,
            _,
        ) => return Ok(false),
        (_, 0) => {}
        _ => {
            cx.line.str(" 0x");
            cx.line.hex(body);
        }
    }
    Ok(true)
}

/// Prints a user timeout (RFC 5482 section 2): the highest bit means that the value is in minutes.
fn user_timeout(cx: &mut Context<'_>, value: u16) {
    let timeout = u32::from(value & 0x7fff);
    let unit = if value & 0x8000 != 0 { 60 } else { 1 };
    put!(cx.line, " 0x{value:x} {}", timeout * unit);
}

fn sack(cx: &mut Context<'_>, body: &[u8], ack_origin: u32) -> Result {
    put!(cx.line, " {} ", body.len() / 8);
    for block in body.chunks_exact(8) {
        let left = block.u32_at(0)?.wrapping_sub(ack_origin);
        let right = block.u32_at(4)?.wrapping_sub(ack_origin);
        put!(cx.line, "{{{left}:{right}}}");
    }
    Ok(())
}

/// Prints a fast-open cookie (RFC 7413) of 4 to 16 bytes, or none to request one.
fn fast_open_cookie(cx: &mut Context<'_>, cookie: &[u8], length: usize) -> bool {
    if length == 0 {
        cx.line.str(" cookiereq");
        return true;
    }
    if !(4..=16).contains(&length) || !length.is_multiple_of(2) {
        return false;
    }
    cx.line.str(" cookie ");
    cx.line.hex(cookie);
    true
}

/// Prints an experimental option (RFC 8684): its length and its subtype.
fn experiment(cx: &mut Context<'_>, body: &[u8]) -> Result<bool> {
    let id = body.u16_at(0)?;
    if id == FAST_OPEN_EXPERIMENT {
        cx.line.str("-tfo");
        return Ok(fast_open_cookie(cx, body.rest(2), body.len() - 2));
    }
    put!(cx.line, "-{id:04x}");
    Ok(true)
}
