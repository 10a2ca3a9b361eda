//! Ping of label-switched paths (RFC 8029 section 3): message and sequence number.

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 32;
const VERSION: u16 = 1;

const TYPES: [(u8, &str); 2] = [(1, "MPLS Echo Request"), (2, "MPLS Echo Reply")];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("lspping");
    if length < HEADER {
        return end!(cx.line, "\n\t\t packet is too short");
    }
    data.part(0, HEADER)?;
    let (version, kind) = (data.u16_at(0)?, data.u8_at(4)?);
    cx.line.str("LSP-PING");
    if version != VERSION {
        return end!(cx.line, " version {version} packet not supported");
    }
    put!(cx.line, "v{version}, ");
    named(cx, &TYPES, kind, format_args!("unknown ({kind})"));
    end!(cx.line, ", seq {}, length: {length}", data.u32_at(12)?)
}
