//! LLDP (IEEE 802.1AB): the system's name.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const SYSTEM_NAME: u16 = 5;

/// Prints a frame of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("lldp");
    put!(cx.line, "LLDP, length {length}");
    let mut at = 0;
    while at + 2 <= length {
        let header = data.u16_at(at)?;
        let (kind, size) = (header >> 9, usize::from(header & 0x1ff));
        // The end of the list; every other element has a value.
        if kind == 0 || size == 0 {
            break;
        }
        let value = data.part(at + 2, size)?;
        if kind == SYSTEM_NAME && !cx.verbose() {
            cx.line.str(": ");
            cx.line.escaped_string(value);
        }
        at += 2 + size;
    }
    Ok(())
}
