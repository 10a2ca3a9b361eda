//! ATA over Ethernet (the AoE specification, revision 11): version and flags.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Flags, end, put};

const VERSION: u8 = 1;
/// The size of the header before command and tag, in bytes.
const HEADER: usize = 10;

const FLAGS: [(u32, &str); 4] = [(8, "Response"), (4, "Error"), (2, "MBZ-1"), (1, "MBZ-0")];

/// Prints a frame of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("aoe");
    put!(cx.line, "AoE length {length}");
    if length == 0 {
        return end!(cx.line, " (invalid)");
    }
    let first = data.u8_at(0)?;
    put!(cx.line, ", Ver {}", first >> 4);
    if first >> 4 != VERSION {
        return Ok(());
    }
    if length < HEADER {
        return end!(cx.line, " (invalid)");
    }
    let flags = Flags(u32::from(first & 0x0f), &FLAGS);
    end!(cx.line, ", Flags: [{flags}]")
}
