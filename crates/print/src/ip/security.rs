//! IPsec headers (RFC 4302, RFC 4303): the fields that are not encrypted.

use super::Step;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

/// Prints the authentication header.
pub(super) fn authentication(cx: &mut Context<'_>, data: &[u8]) -> Result<Option<Step>> {
    const FIXED: usize = 12;
    cx.enter("ah");
    cx.line.str("AH(");
    let (next, units) = (data.u8_at(0)?, data.u8_at(1)?);
    let header = (usize::from(units) + 2) * 4;
    if cx.verbose() {
        put!(cx.line, "length={units}({header}-bytes),");
    }
    let reserved = data.u16_at(2)?;
    if reserved != 0 {
        put!(cx.line, "reserved=0x{reserved:x}[MustBeZero],");
    }
    let (spi, sequence) = (data.u32_at(4)?, data.u32_at(8)?);
    put!(cx.line, "spi=0x{spi:08x},seq=0x{sequence:x},icv=0x");
    let check = data.rest(FIXED).up_to(header.saturating_sub(FIXED));
    cx.line.hex(check);
    data.part(0, header.max(FIXED))?;
    cx.line.str("): ");
    Ok(Some(Step {
        next,
        length: header.max(FIXED),
    }))
}

/// Prints the encapsulating security payload.
pub(crate) fn payload(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("esp");
    // A packet that ends with its header is empty.
    data.part(0, 9)?;
    let (spi, sequence) = (data.u32_at(0)?, data.u32_at(4)?);
    put!(cx.line, "ESP(spi=0x{spi:08x},seq=0x{sequence:x})");
    end!(cx.line, ", length {length}")
}
