//! The Ethernet configuration test protocol ("Loopback").

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const REPLY: u16 = 1;
const FORWARD: u16 = 2;

/// Prints a frame of `length` bytes; its fields are little-endian.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("loopback");
    cx.line.str("Loopback");
    if length < 4 {
        return end!(cx.line, " (invalid)");
    }
    let skip = data.u16_at(0)?.swap_bytes();
    put!(cx.line, ", skipCount {skip}");
    if skip % 8 != 0 {
        cx.line.str(" (bogus)");
    }
    if usize::from(skip) > length - 4 {
        return end!(cx.line, " (invalid)");
    }
    let at = 2 + usize::from(skip);
    let function = data.u16_at(at)?.swap_bytes();
    let rest = length - at - 2;
    match function {
        REPLY if rest >= 2 => {
            let receipt = data.u16_at(at + 2)?.swap_bytes();
            put!(cx.line, ", Reply, receipt number {receipt}");
            put!(cx.line, ", data ({} octets)", rest - 2);
        }
        FORWARD if rest >= 6 => {
            cx.line.str(", Forward Data, forwarding address ");
            cx.line.link_address(data.part(at + 2, 6)?);
            put!(cx.line, ", data ({} octets)", rest - 6);
        }
        REPLY | FORWARD => cx.line.str(" (invalid)"),
        _ => put!(cx.line, ", unknown (0x{function:04x})"),
    }
    Ok(())
}
