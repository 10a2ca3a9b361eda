//! Slow protocols (IEEE 802.3 annex 57A): aggregation and its markers (IEEE 802.1AX), OAM (IEEE 802.3 clause 57).

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const AGGREGATION: u8 = 1;
const MARKER: u8 = 2;
const OAM: u8 = 3;
/// The only version of aggregation and markers.
const VERSION: u8 = 1;

/// Prints a frame of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("slow");
    let too_short = " (packet is too short)";
    if length == 0 {
        cx.line.str(too_short);
        return Ok(());
    }
    let protocol = data.u8_at(0)?;
    let name = match protocol {
        AGGREGATION | MARKER if length < 2 => {
            cx.line.str(too_short);
            return Ok(());
        }
        AGGREGATION => "LACP",
        MARKER => "MARKER",
        OAM => {
            return end!(cx.line, "OAM, length {length}");
        }
        _ => {
            return end!(cx.line, "unknown ({protocol}), length {length}");
        }
    };
    let version = data.u8_at(1)?;
    if version == VERSION {
        put!(cx.line, "{name}v{version}, length {length}");
    } else {
        put!(cx.line, "{name} version {version} packet not supported");
    }
    Ok(())
}
