//! LMP (RFC 4204 section 12.1): the type of a message.

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const HEADER: usize = 8;
const VERSION: u8 = 1;

const TYPES: [(u8, &str); 20] = [
    (1, "Config"),
    (2, "Config ACK"),
    (3, "Config NACK"),
    (4, "Hello"),
    (5, "Begin Verify"),
    (6, "Begin Verify ACK"),
    (7, "Begin Verify NACK"),
    (8, "End Verify"),
    (9, "End Verify ACK"),
    (10, "Test"),
    (11, "Test Status Success"),
    (12, "Test Status Failure"),
    (13, "Test Status ACK"),
    (14, "Link Summary"),
    (15, "Link Summary ACK"),
    (16, "Link Summary NACK"),
    (17, "Channel Status"),
    (18, "Channel Status ACK"),
    (19, "Channel Status Request"),
    (20, "Channel Status Response"),
];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("lmp");
    data.part(0, HEADER)?;
    let (version, kind) = (data.u8_at(0)? >> 4, data.u8_at(3)?);
    if version != VERSION {
        return end!(cx.line, "LMP version {version} packet not supported");
    }
    put!(cx.line, "LMPv{version} ");
    named(cx, &TYPES, kind, format_args!("unknown ({kind})"));
    end!(cx.line, " Message, length: {length}")
}
