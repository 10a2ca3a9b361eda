//! The mobility header of IPv6 (RFC 6275 section 6.1).

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::{Address, end, put};

/// The number that drafts used before 135 was assigned.
pub(super) const OLD: u8 = 62;

const HOME_TEST: u8 = 3;
const CARE_OF_TEST: u8 = 4;
const UPDATE: u8 = 5;
const ACKNOWLEDGEMENT: u8 = 6;
const ERROR: u8 = 7;

const NAMES: [&str; 8] = ["BRR", "HoTI", "CoTI", "HoT", "CoT", "BU", "BA", "BE"];
/// The least length of each type's header in bytes.
const LENGTHS: [usize; 8] = [8, 16, 16, 24, 24, 12, 12, 24];
/// Flags of a binding update.
const FLAGS: [(u16, &str); 4] = [(0x8000, "A"), (0x4000, "H"), (0x2000, "L"), (0x1000, "K")];

/// Prints a header; it has no payload.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.enter("mobility");
    let size = (usize::from(data.u8_at(1)?) + 1) * 8;
    let kind = data.u8_at(2)?;
    if LENGTHS
        .get(usize::from(kind))
        .is_some_and(|least| size < *least)
    {
        put!(
            cx.line,
            "(header length {size} is too small for type {kind})"
        );
        return Err(Truncated);
    }
    let name = NAMES.get(usize::from(kind)).copied();
    let units = data.u8_at(1)?;
    cx.line.str("mobility: ");
    cx.line.name(name, format_args!("type-#{kind} len={units}"));
    match kind {
        HOME_TEST | CARE_OF_TEST => {
            put!(cx.line, " nonce id=0x{:x}", data.u16_at(6)?);
        }
        UPDATE => {
            put!(cx.line, " seq#={}", data.u16_at(6)?);
            let flags = data.u16_at(8)?;
            if FLAGS.iter().any(|(bit, _)| flags & bit != 0) {
                cx.line.str(" ");
            }
            cx.line.marks(flags, &FLAGS);
            lifetime(cx, data)?;
        }
        ACKNOWLEDGEMENT => {
            put!(cx.line, " status={}", data.u8_at(6)?);
            if data.u8_at(7)? & 0x80 != 0 {
                cx.line.str(" K");
            }
            put!(cx.line, " seq#={}", data.u16_at(8)?);
            lifetime(cx, data)?;
        }
        ERROR => {
            put!(cx.line, " status={}", data.u8_at(6)?);
            put!(cx.line, " homeaddr {}", Address::V6(data.array_at(8)?));
        }
        _ => {}
    }
    Ok(())
}

/// Prints a lifetime in units of four seconds.
fn lifetime(cx: &mut Context<'_>, data: &[u8]) -> Result {
    end!(cx.line, " lifetime={}", u32::from(data.u16_at(10)?) * 4)
}
