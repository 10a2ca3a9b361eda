//! The radiotap header: an adapter's data about a received or sent frame, field by field.
//!
//! The header and its fields are defined at <https://www.radiotap.org>; a field is aligned to its
//! size, counted from the start of the header. The rates of an index are those of IEEE 802.11-2020
//! section 19.5.

use super::frame::{self, Trailer};
use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::put;

/// The size of version, padding, length and one word of presence.
const MIN_HEADER: usize = 8;
/// The most words of presence that are read.
const MAX_WORDS: usize = 16;

const NEXT_RADIOTAP: u32 = 1 << 29;
const NEXT_VENDOR: u32 = 1 << 30;
const MORE: u32 = 1 << 31;
/// The bit of the field with the index of a high-throughput rate.
const MCS: u32 = 1 << 19;
const EXTENDED_CHANNEL: u32 = 1 << 18;

const FLAGS: [(u8, &str); 5] = [
    (0x01, "cfp "),
    (0x02, "short preamble "),
    (0x04, "wep "),
    (0x08, "fragmented "),
    (0x40, "bad-fcs "),
];
const CHECKSUM_INCLUDED: u8 = 0x10;
const HEADER_PADDED: u8 = 0x20;

/// Prints header and frame.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("802.11_radio");
    data.part(0, MIN_HEADER)?;
    let size = usize::from(data.u16_at(2)?.swap_bytes());
    let mut fields = Fields {
        data: data.part(0, size)?,
        at: 4,
        flags: 0,
    };
    if size < MIN_HEADER {
        return Err(Truncated);
    }
    let mut words = 0;
    while words < MAX_WORDS && fields.u32()? & MORE != 0 {
        words += 1;
    }
    if print_all(cx, &mut fields, words).is_err() {
        cx.line.str(" ");
        cx.line.truncated("802.11_radio");
    }
    let trailer = Trailer {
        checksum: fields.flags & CHECKSUM_INCLUDED != 0,
        padded: fields.flags & HEADER_PADDED != 0,
    };
    cx.header += size;
    frame::print(cx, data.rest(size), length.saturating_sub(size), trailer)
}

/// The header's bytes, the offset of the next field, and the flags that were read.
struct Fields<'a> {
    data: &'a [u8],
    at: usize,
    flags: u8,
}

impl Fields<'_> {
    fn align(&mut self, alignment: usize) {
        self.at = self.at.next_multiple_of(alignment);
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.data.array_at(self.at)?;
        self.at += N;
        Ok(bytes)
    }

    fn u8(&mut self) -> Result<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn i8(&mut self) -> Result<i8> {
        self.take().map(i8::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16> {
        self.align(2);
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.align(4);
        self.take().map(u32::from_le_bytes)
    }
}

/// The owner of the fields in a word of presence.
#[derive(Clone, Copy)]
enum Owner {
    Radiotap,
    Vendor,
}

/// Prints the fields; `words` of presence follow the first.
fn print_all(cx: &mut Context<'_>, fields: &mut Fields<'_>, words: usize) -> Result {
    let (mut owner, mut first_bit) = (Owner::Radiotap, 0);
    for index in 0..=words {
        let present = fields.data.u32_at(4 + 4 * index)?.swap_bytes();
        let own = present & !(NEXT_RADIOTAP | NEXT_VENDOR | MORE);
        if matches!(owner, Owner::Radiotap) {
            for bit in (0..29).filter(|bit| own & 1 << bit != 0) {
                if !field(cx, fields, first_bit + bit, present)? {
                    return Ok(());
                }
            }
        }
        first_bit += 32;
        if present & NEXT_RADIOTAP != 0 {
            (owner, first_bit) = (Owner::Radiotap, 0);
        } else if present & NEXT_VENDOR != 0 {
            fields.align(2);
            let [_, _, _, _, low, high] = fields.take()?;
            fields.at += usize::from(u16::from_le_bytes([low, high]));
            (owner, first_bit) = (Owner::Vendor, 0);
        }
    }
    Ok(())
}

/// Prints the field of a bit; returns false for an unknown one, after which no field can be found.
fn field(cx: &mut Context<'_>, fields: &mut Fields<'_>, bit: u32, present: u32) -> Result<bool> {
    match bit {
        0 => {
            fields.align(8);
            put!(cx.line, "{}us tsft ", u64::from_le_bytes(fields.take()?));
        }
        1 => {
            fields.flags = fields.u8()?;
            cx.line.marks(fields.flags, &FLAGS);
        }
        2 => match fields.u8()? {
            index @ 0x80..=0x8f => put!(cx.line, "MCS {} ", index & 0x0f),
            rate => {
                half(cx, rate);
                cx.line.str(" Mb/s ");
            }
        },
        3 => {
            let (frequency, kind) = (fields.u16()?, fields.u16()?);
            // The longer form of the same field has more detail.
            if present & EXTENDED_CHANNEL == 0 {
                put!(cx.line, "{frequency} MHz");
                channel(cx, u32::from(kind), present);
            }
        }
        4 => {
            put!(cx.line, "fhset {} fhpat {} ", fields.u8()?, fields.u8()?);
        }
        5..=13 => level(cx, fields, bit)?,
        14 => {
            fields.u16()?;
        }
        18 => {
            let (kind, frequency) = (fields.u32()?, fields.u16()?);
            fields.take::<2>()?;
            put!(cx.line, "{frequency} MHz");
            channel(cx, kind, present);
        }
        19 => {
            let [known, flags, index] = fields.take()?;
            high_throughput(cx, known, flags, index);
        }
        20 => {
            fields.align(4);
            fields.take::<8>()?;
        }
        21 => very_high_throughput(cx, fields)?,
        _ => {
            put!(cx.line, "[bit {bit}] ");
            return Ok(false);
        }
    }
    Ok(true)
}

/// Prints the strength or quality of a signal.
fn level(cx: &mut Context<'_>, fields: &mut Fields<'_>, bit: u32) -> Result {
    match bit {
        5 => put!(cx.line, "{}dBm signal ", fields.i8()?),
        6 => put!(cx.line, "{}dBm noise ", fields.i8()?),
        7 => put!(cx.line, "{} sq ", fields.u16()?),
        8 => {
            fields.align(2);
            let power = i16::from_le_bytes(fields.take()?);
            put!(cx.line, "{} tx power ", -i32::from(power));
        }
        9 => {
            let attenuation = fields.i8()?;
            put!(cx.line, "{}dB tx attenuation ", -i32::from(attenuation));
        }
        10 => put!(cx.line, "{}dBm tx power ", fields.i8()?),
        11 => put!(cx.line, "antenna {} ", fields.u8()?),
        12 => put!(cx.line, "{}dB signal ", fields.u8()?),
        13 => put!(cx.line, "{}dB noise ", fields.u8()?),
        _ => {}
    }
    Ok(())
}

/// Prints a number given in halves.
pub(super) fn half(cx: &mut Context<'_>, halves: u8) {
    put!(cx.line, "{}.{}", halves / 2, halves % 2 * 5);
}

/// Prints the kind of a channel: modulation and band together name the amendment of the standard.
fn channel(cx: &mut Context<'_>, kind: u32, present: u32) {
    let is = |bits| kind & bits == bits;
    if present & MCS != 0 {
        cx.line.str(" 11n");
    } else {
        modulation(cx, kind);
    }
    if is(0x1_0000) {
        cx.line.str(" ht/20");
    } else if is(0x4_0000) {
        cx.line.str(" ht/40-");
    } else if is(0x2_0000) {
        cx.line.str(" ht/40+");
    }
    cx.line.str(" ");
}

fn modulation(cx: &mut Context<'_>, kind: u32) {
    const HALF: u32 = 0x4000;
    const QUARTER: u32 = 0x8000;
    let is = |bits| kind & bits == bits;
    let width = match kind {
        _ if is(HALF) => "/10Mhz",
        _ if is(QUARTER) => "/5Mhz",
        _ => "",
    };
    if is(0x880) {
        cx.line.str(" FHSS");
    }
    if is(0x140) {
        put!(cx.line, " 11a{width}");
    }
    if is(0xc0) || is(0x480) {
        put!(cx.line, " 11g{width}");
    } else if is(0xa0) {
        cx.line.str(" 11b");
    }
    if is(0x10) {
        cx.line.str(" Turbo");
    }
}

/// Data bits per subcarrier and symbol, in halves, of one stream; further streams have as many
/// each.
const EQUAL: [u16; 8] = [1, 2, 3, 4, 6, 8, 9, 10];
/// The same for the indices from 33 on, whose streams differ.
const UNEQUAL: [u16; 44] = [
    6, 8, 10, 9, 12, 15, 8, 10, 10, 12, 14, 14, 16, 12, 15, 15, 18, 21, 21, 24, 10, 12, 14, 12, 14,
    16, 18, 16, 18, 20, 20, 22, 15, 18, 21, 18, 21, 24, 27, 24, 27, 30, 30, 33,
];
/// An index with a rate of its own, for 40 MHz only: half a bit on 48 subcarriers.
const DUPLICATE: u8 = 32;

/// Returns the rate of an index in tenths of Mb/s.
fn rate(index: u8, wide: bool, short: bool) -> Option<u32> {
    let (halves, subcarriers) = match index {
        DUPLICATE if wide => (1, 48),
        DUPLICATE => return None,
        0..DUPLICATE => {
            let streams = u16::from(index / 8) + 1;
            let bits = EQUAL[usize::from(index % 8)];
            (bits * streams, if wide { 108 } else { 52 })
        }
        _ => {
            let bits = *UNEQUAL.get(usize::from(index - DUPLICATE - 1))?;
            (bits, if wide { 108 } else { 52 })
        }
    };
    // A symbol lasts 4 µs with the long guard interval and 3.6 µs with the short one.
    let (numerator, denominator) = if short { (100, 72) } else { (10, 8) };
    let product = u32::from(halves) * subcarriers * numerator;
    Some((product + denominator / 2) / denominator)
}

fn high_throughput(cx: &mut Context<'_>, known: u8, flags: u8, index: u8) {
    const WIDTH: u8 = 0x01;
    const INDEX: u8 = 0x02;
    const GUARD: u8 = 0x04;
    const WIDTHS: [&str; 4] = ["20 MHz ", "40 MHz ", "20 MHz (L) ", "20 MHz (U) "];
    let short = flags & 0x04 != 0;
    if known & INDEX != 0 {
        let tenths = rate(index, flags & 3 == 1, short);
        if let Some(tenths) = tenths.filter(|_| known & (WIDTH | GUARD) != 0) {
            put!(cx.line, "{}.{} Mb/s ", tenths / 10, tenths % 10);
        }
        put!(cx.line, "MCS {index} ");
    }
    if known & WIDTH != 0 {
        cx.line.str(WIDTHS[usize::from(flags & 3)]);
    }
    if known & GUARD != 0 {
        cx.line.str(guard(short));
    }
    if known & 0x08 != 0 {
        cx.line.str(if flags & 0x08 != 0 {
            "greenfield "
        } else {
            "mixed "
        });
    }
    if known & 0x10 != 0 {
        cx.line.str(correction(flags & 0x10 != 0));
    }
    if known & 0x20 != 0 {
        put!(cx.line, "RX-STBC{} ", flags >> 5 & 3);
    }
}

fn guard(short: bool) -> &'static str {
    if short { "short GI " } else { "long GI " }
}

/// Returns the name of the error-correcting code.
fn correction(parity: bool) -> &'static str {
    if parity { "LDPC FEC " } else { "BCC FEC " }
}

fn very_high_throughput(cx: &mut Context<'_>, fields: &mut Fields<'_>) -> Result {
    const WIDTHS: [&str; 26] = [
        "20 MHz",
        "40 MHz",
        "20 MHz (L)",
        "20 MHz (U)",
        "80 MHz",
        "80 MHz (L)",
        "80 MHz (U)",
        "80 MHz (LL)",
        "80 MHz (LU)",
        "80 MHz (UL)",
        "80 MHz (UU)",
        "160 MHz",
        "160 MHz (L)",
        "160 MHz (U)",
        "160 MHz (LL)",
        "160 MHz (LU)",
        "160 MHz (UL)",
        "160 MHz (UU)",
        "160 MHz (LLL)",
        "160 MHz (LLU)",
        "160 MHz (LUL)",
        "160 MHz (UUU)",
        "160 MHz (ULL)",
        "160 MHz (ULU)",
        "160 MHz (UUL)",
        "160 MHz (UUU)",
    ];
    let known = fields.u16()?;
    let [flags, width, users @ .., coding, _group, _, _] = fields.take::<10>()?;
    for (user, index) in users.into_iter().enumerate() {
        if index & 0x0f != 0 {
            put!(cx.line, "User {user} MCS {} ", index >> 4);
            cx.line.str(correction(coding & 1 << user != 0));
        }
    }
    if known & 0x40 != 0 {
        let width = width & 0x1f;
        let name = WIDTHS.get(usize::from(width)).copied();
        cx.line.name(name, format_args!("unknown ({width})"));
        cx.line.str(" ");
    }
    if known & 0x04 != 0 {
        cx.line.str(guard(flags & 0x04 != 0));
    }
    Ok(())
}
