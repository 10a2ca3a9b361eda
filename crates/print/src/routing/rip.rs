//! RIP, versions 1 and 2 (RFC 1058, RFC 2453 section 4): version and command.

use super::named;
use crate::bytes::{Bytes, Truncated};
use crate::context::Context;
use crate::line::put;

const HEADER: usize = 4;

const COMMANDS: [(u8, &str); 6] = [
    (1, "Request"),
    (2, "Response"),
    (3, "Trace on"),
    (4, "Trace off"),
    (5, "Poll"),
    (6, "Poll Entry"),
];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<(), Truncated> {
    cx.enter("rip");
    data.part(0, HEADER)?;
    let (command, version) = (data.u8_at(0)?, data.u8_at(1)?);
    put!(cx.line, "RIPv{version}");
    if version == 0 {
        return Ok(());
    }
    cx.line.str(", ");
    named(cx, &COMMANDS, command, |cx| {
        put!(cx.line, "unknown command ({command})");
    });
    put!(cx.line, ", length: {length}");
    Ok(())
}
