//! Connectivity fault management (IEEE 802.1Q section 21): kind of message and maintenance level.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 4;

/// Prints a frame of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("cfm");
    if length < HEADER {
        return end!(cx.line, " (invalid)");
    }
    let [first, kind, ..] = data.array_at::<HEADER>(0)?;
    let (level, version) = (first >> 5, first & 0x1f);
    put!(cx.line, "CFMv{version}");
    if version != 0 {
        return end!(cx.line, " not supported, length {length}");
    }
    match kind {
        1 => cx.line.str(" Continuity Check Message"),
        2 => cx.line.str(" Loopback Reply"),
        3 => cx.line.str(" Loopback Message"),
        4 => cx.line.str(" Linktrace Reply"),
        5 => cx.line.str(" Linktrace Message"),
        _ => put!(cx.line, " unknown ({kind})"),
    }
    end!(cx.line, ", MD Level {level}, length {length}")
}
