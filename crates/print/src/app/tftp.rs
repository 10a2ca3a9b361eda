//! TFTP (RFC 1350) with options (RFC 2347): operation, file, block.

use crate::bytes::{Bytes, Result, Truncated};
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
            data.u8_at(2)?;
            cx.line.str(" \"");
            let at = string(cx, data, 2, "\"")?;
            data.u8_at(at)?;
            cx.line.str(" ");
            let at = string(cx, data, at, "")?;
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
            match ERRORS.get(usize::from(code)) {
                Some(name) => put!(cx.line, " {name}"),
                None => put!(cx.line, " tftp-err-#{code} \""),
            }
            data.u8_at(4)?;
            cx.line.str(" \"");
            string(cx, data, 4, "\"")?;
        }
        _ => put!(cx.line, ", tftp-#{operation}"),
    }
    Ok(())
}

/// Prints the string at `at` and `close`, and returns the offset after it.
fn string(cx: &mut Context<'_>, data: &[u8], at: usize, close: &str) -> Result<usize> {
    let rest = data.rest(at);
    let end = rest.iter().position(|&byte| byte == 0);
    cx.line.escaped(rest.up_to(end.unwrap_or(rest.len())));
    cx.line.str(close);
    end.map(|end| at + end + 1).ok_or(Truncated)
}

/// Prints names of options and their values.
fn strings(cx: &mut Context<'_>, data: &[u8], mut at: usize, length: usize) -> Result {
    while at < length && !cx.line.is_full() {
        if data.u8_at(at)? != 0 {
            cx.line.str(" ");
        }
        at = string(cx, data, at, "")?;
    }
    Ok(())
}
