//! RADIUS (RFC 2865 section 3, RFC 2866, RFC 5176): code, identifier, length.

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::{end, put};

/// The size of the header with its authenticator, in bytes.
const HEADER: usize = 20;

fn name(code: u8) -> &'static str {
    match code {
        1 => "Access-Request",
        2 => "Access-Accept",
        3 => "Access-Reject",
        4 => "Accounting-Request",
        5 => "Accounting-Response",
        11 => "Access-Challenge",
        12 => "Status-Server",
        13 => "Status-Client",
        40 => "Disconnect-Request",
        41 => "Disconnect-ACK",
        42 => "Disconnect-NAK",
        43 => "CoA-Request",
        44 => "CoA-ACK",
        45 => "CoA-NAK",
        255 => "Reserved",
        _ => "Unknown Command",
    }
}

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("radius");
    data.part(0, HEADER)?;
    let stated = usize::from(data.u16_at(2)?);
    if stated < HEADER {
        return Err(Truncated);
    }
    let (code, id) = (data.u8_at(0)?, data.u8_at(1)?);
    put!(cx.line, "RADIUS, {} ({code})", name(code));
    end!(cx.line, ", id: 0x{id:02x} length: {}", stated.min(length))
}
