//! The authentication protocols of PPP: PAP (RFC 1334 section 2) and CHAP (RFC 1994).

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 4;

const REQUEST: u8 = 1;
const ACKNOWLEDGE: u8 = 2;
const REJECT: u8 = 3;

/// Prints a packet of PAP: the peer and its password.
pub(super) fn password(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    let code = data.u8_at(0)?;
    let name = match code {
        REQUEST => "Auth-Req",
        ACKNOWLEDGE => "Auth-ACK",
        REJECT => "Auth-NACK",
        _ => "unknown",
    };
    let stated = header(cx, "PAP", name, data)?;
    if stated > length {
        return end!(cx.line, ", length {stated} > packet size");
    }
    let Some(left) = stated.checked_sub(HEADER) else {
        return end!(cx.line, ", length {stated} < PAP header length");
    };
    match code {
        REQUEST if left < 2 => cx.line.truncated("pap"),
        ACKNOWLEDGE | REJECT if left < 1 => cx.line.truncated("pap"),
        REQUEST => {
            if let Some(left) = counted(cx, ", Peer ", data.rest(HEADER), left)? {
                counted(cx, ", Name ", data.rest(stated - left), left)?;
            }
        }
        ACKNOWLEDGE | REJECT => {
            counted(cx, ", Msg ", data.rest(HEADER), left)?;
        }
        _ => {}
    }
    Ok(())
}

/// Prints a text after its length. Returns the bytes after it, or `None` if the length exceeds the packet.
fn counted(cx: &mut Context<'_>, title: &str, data: &[u8], left: usize) -> Result<Option<usize>> {
    let Some(left) = left.checked_sub(1) else {
        return Ok(None);
    };
    let size = usize::from(data.u8_at(0)?);
    if size > left {
        return Ok(None);
    }
    cx.line.str(title);
    text(cx, data.rest(1), size)?;
    Ok(Some(left - size))
}

/// Prints this many bytes as text, or those of them that were captured.
fn text(cx: &mut Context<'_>, data: &[u8], size: usize) -> Result {
    cx.line.escaped(data.up_to(size));
    data.part(0, size).map(|_| ())
}

/// Prints name, code and identifier; returns the length that the packet states.
fn header(cx: &mut Context<'_>, protocol: &str, name: &str, data: &[u8]) -> Result<usize> {
    put!(cx.line, "{protocol}, {name} (0x{:02x})", data.u8_at(0)?);
    put!(cx.line, ", id {}", data.u8_at(1)?);
    Ok(usize::from(data.u16_at(2)?))
}

const CHALLENGE: u8 = 1;
const RESPONSE: u8 = 2;
const SUCCESS: u8 = 3;
const FAILURE: u8 = 4;

/// Prints a packet of CHAP: the challenge or the hash, and the name of its sender.
pub(super) fn challenge(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    let code = data.u8_at(0)?;
    let name = match code {
        CHALLENGE => "Challenge",
        RESPONSE => "Response",
        SUCCESS => "Success",
        FAILURE => "Fail",
        _ => "unknown",
    };
    let stated = header(cx, "CHAP", name, data)?;
    match code {
        CHALLENGE | RESPONSE if length > HEADER => {
            let size = usize::from(data.u8_at(HEADER)?);
            let value = HEADER + 1;
            if length - value < size {
                return Ok(());
            }
            cx.line.str(", Value ");
            cx.line.hex(data.rest(value).up_to(size));
            data.part(value, size)?;
            cx.line.str(", Name ");
            rest(cx, data, value + size, stated)
        }
        SUCCESS | FAILURE => {
            cx.line.str(", Msg ");
            rest(cx, data, HEADER, stated)
        }
        _ => Ok(()),
    }
}

/// Prints the text up to the length that the packet states; if that is too small, all captured
/// text.
fn rest(cx: &mut Context<'_>, data: &[u8], at: usize, stated: usize) -> Result {
    match stated.checked_sub(at) {
        Some(size) => text(cx, data.rest(at), size),
        None => {
            cx.line.escaped(data.rest(at));
            Err(Truncated)
        }
    }
}
