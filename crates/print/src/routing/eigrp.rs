//! EIGRP (RFC 7868 section 6.1): the operation.

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::end;

const HEADER: usize = 20;
const VERSION: u8 = 2;

const OPERATIONS: [(u8, &str); 6] = [
    (1, "Update"),
    (3, "Query"),
    (4, "Reply"),
    (5, "Hello"),
    (6, "IPX SAP"),
    (7, "Probe"),
];

/// Prints a packet of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("eigrp");
    data.part(0, HEADER)?;
    let (version, kind) = (data.u8_at(0)?, data.u8_at(1)?);
    cx.line.str("EIGRP ");
    if version != VERSION {
        return end!(cx.line, "version {version} packet not supported");
    }
    named(cx, &OPERATIONS, kind, format_args!("unknown ({kind})"));
    end!(cx.line, ", length: {length}")
}
