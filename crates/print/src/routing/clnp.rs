//! CLNP (ISO/IEC 8473-1, RFC 994) and ES-IS (ISO 9542, RFC 995).

use super::{named, osi};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::end;

const VERSION: u8 = 1;
/// The size of the header before the addresses, which is the same for both protocols.
const FIXED: usize = 9;

const TYPES: [(u8, &str); 5] = [
    (1, "Error Report"),
    (28, "Data"),
    (29, "MD"),
    (30, "Echo Request"),
    (31, "Echo Response"),
];

/// Prints a CLNP packet of `length` bytes: its source and destination.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("clnp");
    data.part(0, FIXED)?;
    osi::begin(cx, "CLNP");
    let (indicator, version) = (data.u8_at(1)?, data.u8_at(2)?);
    let header = usize::from(indicator);
    if version != VERSION {
        return end!(cx.line, "version {version} packet not supported");
    }
    if header < FIXED {
        osi::below_minimum(cx, indicator, data);
        return Ok(());
    }
    if header > length {
        return end!(
            cx.line,
            " length indicator({indicator}) > PDU size ({length})!"
        );
    }
    let Some((destination, at)) = counted(data, header, FIXED)? else {
        return too_short(cx);
    };
    let Some((source, _)) = counted(data, header, at)? else {
        return too_short(cx);
    };
    osi::separate(cx);
    osi::address(cx, source);
    cx.line.str(" > ");
    osi::address(cx, destination);
    cx.line.str(", ");
    let kind = data.u8_at(4)? & 0x1f;
    named(cx, &TYPES, kind, format_args!("unknown ({kind})"));
    end!(cx.line, ", length {length}")
}

/// Returns the address after its length at `at`, and where it ends; `None` if the header ends earlier.
fn counted(data: &[u8], header: usize, at: usize) -> Result<Option<(&[u8], usize)>> {
    if at >= header {
        return Ok(None);
    }
    let length = usize::from(data.u8_at(at)?);
    let end = at + 1 + length;
    if end > header {
        return Ok(None);
    }
    Ok(Some((data.part(at + 1, length)?, end)))
}

fn too_short(cx: &mut Context<'_>) -> Result {
    cx.line
        .str("li < size of fixed part of CLNP header and addresses");
    Ok(())
}

const ES_TYPES: [(u8, &str); 3] = [(2, "ESH"), (4, "ISH"), (6, "redirect")];

/// Prints an ES-IS packet of `length` bytes: its type.
pub(super) fn end_system(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    /// A header with an empty address.
    const MINIMUM: usize = FIXED + 2;
    cx.enter("esis");
    osi::begin(cx, "ES-IS");
    if length <= 2 {
        return end!(cx.line, "no header at all!");
    }
    data.part(0, FIXED)?;
    let (indicator, version) = (data.u8_at(1)?, data.u8_at(2)?);
    if version != VERSION {
        return end!(cx.line, " version {version} packet not supported");
    }
    if usize::from(indicator) > length {
        return end!(
            cx.line,
            " length indicator({indicator}) > PDU size ({length})!"
        );
    }
    if usize::from(indicator) < MINIMUM {
        osi::below_minimum(cx, indicator, data);
        return Ok(());
    }
    osi::separate(cx);
    let kind = data.u8_at(4)? & 0x1f;
    named(cx, &ES_TYPES, kind, format_args!("unknown type ({kind})"));
    end!(cx.line, ", length {length}")
}
