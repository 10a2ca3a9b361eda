//! IS-IS (ISO/IEC 10589 section 9; over IP networks: RFC 1195): the sender, and the part of the
//! database.

use super::osi;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

const VERSION: u8 = 1;
/// The size of the header that all types share.
const COMMON: usize = 8;
/// The size of a system identifier in bytes.
const SYSTEM: usize = 6;

const TOO_MANY_AREAS: u8 = 255;

/// The types: number, name, size of the fixed header, printed form.
const TYPES: [(u8, &str, usize, Form); 9] = [
    (15, "L1 Lan IIH", 27, Form::LanHello),
    (16, "L2 Lan IIH", 27, Form::LanHello),
    (17, "p2p IIH", 20, Form::Hello),
    (18, "L1 LSP", 27, Form::LinkState),
    (20, "L2 LSP", 27, Form::LinkState),
    (24, "L1 CSNP", 33, Form::SequenceNumbers),
    (25, "L2 CSNP", 33, Form::SequenceNumbers),
    (26, "L1 PSNP", 17, Form::SequenceNumbers),
    (27, "L2 PSNP", 17, Form::SequenceNumbers),
];

#[derive(Clone, Copy)]
enum Form {
    LanHello,
    Hello,
    LinkState,
    SequenceNumbers,
}

/// Prints a packet of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("isis");
    data.part(0, COMMON)?;
    osi::begin(cx, "IS-IS");
    if !is_supported(cx, data, length)? {
        return Ok(());
    }
    osi::separate(cx);
    let kind = data.u8_at(4)?;
    let known = TYPES.iter().find(|(number, ..)| *number == kind);
    let Some(&(_, name, header, form)) = known else {
        return end!(cx.line, "unknown PDU-Type {kind}, length {length}");
    };
    cx.line.str(name);
    let stated = usize::from(data.u8_at(1)?);
    if stated != header {
        return end!(
            cx.line,
            ", bogus fixed header length {stated} should be {header}"
        );
    }
    data.part(0, header)?;
    match form {
        Form::LanHello => {
            identifier(cx, ", src-id ", data.part(COMMON + 1, SYSTEM)?);
            identifier(cx, ", lan-id ", data.part(COMMON + 12, SYSTEM + 1)?);
            put!(cx.line, ", prio {}", data.u8_at(COMMON + 11)?);
        }
        Form::Hello => identifier(cx, ", src-id ", data.part(COMMON + 1, SYSTEM)?),
        Form::LinkState => {
            identifier(cx, ", lsp-id ", data.part(COMMON + 4, SYSTEM + 2)?);
            let (sequence, lifetime) = (data.u32_at(COMMON + 12)?, data.u16_at(COMMON + 2)?);
            put!(cx.line, ", seq 0x{sequence:08x}, lifetime {lifetime:5}s");
        }
        Form::SequenceNumbers => identifier(cx, ", src-id ", data.part(COMMON + 2, SYSTEM + 1)?),
    }
    end!(cx.line, ", length {length}")
}

/// Returns whether versions and lengths are supported; otherwise the line names the unsupported one.
fn is_supported(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<bool> {
    let (header, system) = (usize::from(data.u8_at(1)?), data.u8_at(3)?);
    if data.u8_at(2)? != VERSION {
        put!(cx.line, "version {} packet not supported", data.u8_at(2)?);
    } else if system != 0 && usize::from(system) != SYSTEM {
        // 0 means 6.
        put!(cx.line, "system ID length of {system} is not supported");
    } else if data.u8_at(5)? != VERSION {
        put!(cx.line, "version {} packet not supported", data.u8_at(5)?);
    } else if header < COMMON {
        put!(cx.line, "fixed header length {header}");
        put!(cx.line, " < minimum header size {COMMON}");
    } else if header > length {
        put!(cx.line, "fixed header length {header}");
        put!(cx.line, " > packet length {length}");
    } else if data.u8_at(7)? == TOO_MANY_AREAS {
        put!(cx.line, "bad packet -- {TOO_MANY_AREAS} areas");
    } else {
        return Ok(true);
    }
    Ok(false)
}

/// Prints a system, the number of one of its links, and the fragment of its link states:
/// `1921.6800.1001.00-00`.
fn identifier(cx: &mut Context<'_>, before: &str, octets: &[u8]) {
    cx.line.str(before);
    for (index, &octet) in octets.iter().enumerate() {
        match index {
            2 | 4 | SYSTEM => cx.line.str("."),
            7 => cx.line.str("-"),
            _ => {}
        }
        cx.line.hex_byte(octet);
    }
}
