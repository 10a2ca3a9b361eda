//! TFTP (RFC 1350) with options (RFC 2347): operation, file, block.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const READ: u16 = 1;
const WRITE: u16 = 2;
const DATA: u16 = 3;
const ACKNOWLEDGE: u16 = 4;
const ERROR: u16 = 5;
const OPTIONS: u16 = 6;

const ERRORS: [&str; 8] = [
    "EUNDEF",
    "ENOTFOUND",
    "EACCESS",
    "ENOSPACE",
    "EBADOP",
    "EBADID",
    "EEXISTS",
    "ENOUSER",
];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("tftp");
    put!(cx.line, "TFTP, length {length}");
    let operation = data.u16_at(0)?;
    match operation {
        READ | WRITE => {
            cx.line
                .str(if operation == READ { ", RRQ" } else { ", WRQ" });
            let at = quoted(cx, data, 2)?;
            data.u8_at(at)?;
            cx.line.str(" ");
            let at = cx.line.terminated(data, at)?;
            strings(cx, data, at, length)?;
        }
        OPTIONS => {
            cx.line.str(", OACK");
            strings(cx, data, 2, length)?;
        }
        DATA | ACKNOWLEDGE => {
            cx.line
                .str(if operation == DATA { ", DATA" } else { ", ACK" });
            put!(cx.line, " block {}", data.u16_at(2)?);
        }
        ERROR => {
            cx.line.str(", ERROR");
            let code = data.u16_at(2)?;
            let name = ERRORS.get(usize::from(code)).copied();
            cx.line.str(" ");
            cx.line.name(name, format_args!("tftp-err-#{code} \""));
            quoted(cx, data, 4)?;
        }
        _ => put!(cx.line, ", tftp-#{operation}"),
    }
    Ok(())
}

/// Prints the string at `at` in quotes, and returns the offset after it.
fn quoted(cx: &mut Context<'_>, data: &[u8], at: usize) -> Result<usize> {
    data.u8_at(at)?;
    cx.line.str(" \"");
    let after = cx.line.terminated(data, at);
    cx.line.str("\"");
    after
}

/// Prints names of options and their values.
fn strings(cx: &mut Context<'_>, data: &[u8], mut at: usize, length: usize) -> Result {
    while at < length && !cx.line.is_full() {
        if data.u8_at(at)? != 0 {
            cx.line.str(" ");
        }
        at = cx.line.terminated(data, at)?;
    }
    Ok(())
}
