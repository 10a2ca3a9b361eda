//! LDP (RFC 5036 section 3.1): the first protocol data unit.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::end;

const HEADER: usize = 10;
const MESSAGE_HEADER: usize = 8;
const VERSION: u16 = 1;
/// The size of the identifier, which the unit's length includes.
const IDENTIFIER: u16 = 6;

/// Prints the header of a unit, if `length` bytes have room for one with a message.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    if length <= HEADER + MESSAGE_HEADER {
        return Ok(());
    }
    cx.enter("ldp");
    data.part(0, HEADER)?;
    let (version, unit) = (data.u16_at(0)?, data.u16_at(2)?);
    cx.line.str("LDP");
    if version != VERSION {
        return end!(cx.line, " version {version} packet not supported");
    }
    if unit < IDENTIFIER {
        return end!(cx.line, ", pdu-length: {unit} (too short, < {IDENTIFIER})");
    }
    cx.line.str(", Label-Space-ID: ");
    cx.line.ipv4(data.array_at(4)?);
    end!(cx.line, ":{}, pdu-length: {unit}", data.u16_at(8)?)
}
