//! Frames of IEEE 802.11-2020 section 9.3: management, control, data.

use super::codes::{self, ACTIONS, CATEGORIES};
use super::elements::Elements;
use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::{Mac, end, name_in, put};
use crate::link;

/// Additions to a frame beside its own fields, according to the radio header.
#[derive(Clone, Copy, Default)]
pub(super) struct Trailer {
    /// Whether the checksum follows the body.
    pub(super) checksum: bool,
    /// Whether the header is padded to a multiple of four bytes.
    pub(super) padded: bool,
}

const CHECKSUM: usize = 4;
const MANAGEMENT: u8 = 0;
const CONTROL: u8 = 1;
const DATA: u8 = 2;

const TO_SYSTEM: u8 = 0x01;
const FROM_SYSTEM: u8 = 0x02;
const PROTECTED: u8 = 0x40;

/// The offset of the addresses.
const FIRST: usize = 4;
const SECOND: usize = 10;
const THIRD: usize = 16;
const FOURTH: usize = 24;

/// Prints a frame of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize, trailer: Trailer) -> Result {
    cx.enter("802.11");
    let length = match trailer.checksum {
        true => length.checked_sub(CHECKSUM).ok_or(Truncated)?,
        false => length,
    };
    let data = data.up_to(length);
    let [control, flags] = data.array_at(0)?;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    let size = header_size(kind, subtype, flags);
    let size = match trailer.padded {
        true => size.next_multiple_of(4),
        false => size,
    };
    data.part(0, size)?;
    cx.header += size;
    let body = data.rest(size);
    match kind {
        MANAGEMENT => management(cx, data, subtype, flags, body),
        CONTROL => print_control(cx, data, subtype),
        DATA => print_data(cx, data, subtype, flags, (body, length - size)),
        _ => end!(cx.line, "unknown 802.11 frame type ({kind})"),
    }
}

fn header_size(kind: u8, subtype: u8, flags: u8) -> usize {
    const BASE: usize = 24;
    match (kind, subtype) {
        (MANAGEMENT, _) => BASE,
        (CONTROL, 8) => 20,
        (CONTROL, 7 | 10 | 11 | 14 | 15) => 16,
        (CONTROL, 9 | 12 | 13) => 10,
        (DATA, _) => {
            let relayed = flags & TO_SYSTEM != 0 && flags & FROM_SYSTEM != 0;
            BASE + if relayed { 6 } else { 0 } + if subtype & 8 != 0 { 2 } else { 0 }
        }
        _ => 2,
    }
}

fn address(cx: &mut Context<'_>, name: &str, data: &[u8], at: usize) -> Result {
    end!(cx.line, "{name}:{} ", Mac(data.part(at, 6)?))
}

/// Prints the vector at the start of an encrypted body.
fn vector(cx: &mut Context<'_>, body: &[u8]) -> Result {
    let vector = body.u32_at(0)?.swap_bytes();
    let (pad, key) = (vector >> 24 & 0x3f, vector >> 30);
    let vector = vector & 0xff_ffff;
    end!(cx.line, " IV:{vector:3x} Pad {pad:x} KeyID {key:x}")
}

fn management(cx: &mut Context<'_>, data: &[u8], subtype: u8, flags: u8, body: &[u8]) -> Result {
    if cx.options.link_header {
        address(cx, "BSSID", data, THIRD)?;
        address(cx, "DA", data, FIRST)?;
        address(cx, "SA", data, SECOND)?;
    }
    match codes::MANAGEMENT[usize::from(subtype)] {
        "" => put!(cx.line, "Unhandled Management subtype({subtype:x})"),
        name => cx.line.str(name),
    }
    if flags & PROTECTED != 0 {
        return vector(cx, body);
    }
    let sender = Mac(data.part(SECOND, 6)?);
    match subtype {
        0 => network_and_rates(cx, body, 4),
        1 | 3 => association_response(cx, body),
        2 => reassociation_request(cx, body),
        4 => network_and_rates(cx, body, 0),
        5 | 8 => beacon(cx, body, subtype == 8),
        10 => end!(cx.line, ": {}", reason(body)?),
        11 => authentication(cx, body),
        12 => end!(cx.line, " ({sender}): {}", reason(body)?),
        13 => action(cx, &sender, body),
        _ => Ok(()),
    }
}

/// The capability bit (IEEE 802.11-2020 section 9.4.1.4) for encryption.
const PRIVACY: u16 = 0x0010;
/// The capability bit for an access point.
const INFRASTRUCTURE: u16 = 0x0001;

fn little(data: &[u8], at: usize) -> Result<u16> {
    data.u16_at(at).map(u16::swap_bytes)
}

/// Prints a beacon or a probe response: time, interval and capabilities come before the elements.
fn beacon(cx: &mut Context<'_>, body: &[u8], is_beacon: bool) -> Result {
    const FIXED: usize = 12;
    body.part(0, FIXED)?;
    let capabilities = little(body, 10)?;
    let elements = Elements::of(body.rest(FIXED));
    elements.print_network(cx);
    elements.print_rates(cx);
    if is_beacon {
        cx.line.str(if capabilities & INFRASTRUCTURE != 0 {
            " ESS"
        } else {
            " IBSS"
        });
    }
    elements.print_channel(cx, capabilities & PRIVACY != 0);
    elements.check()
}

/// Prints a request whose elements come after `fixed` bytes.
fn network_and_rates(cx: &mut Context<'_>, body: &[u8], fixed: usize) -> Result {
    body.part(0, fixed)?;
    let elements = Elements::of(body.rest(fixed));
    elements.print_network(cx);
    elements.print_rates(cx);
    elements.check()
}

fn reassociation_request(cx: &mut Context<'_>, body: &[u8]) -> Result {
    const FIXED: usize = 10;
    body.part(0, FIXED)?;
    let elements = Elements::of(body.rest(FIXED));
    elements.print_network(cx);
    put!(cx.line, " AP : {}", Mac(body.part(4, 6)?));
    elements.check()
}

fn association_response(cx: &mut Context<'_>, body: &[u8]) -> Result {
    const FIXED: usize = 6;
    /// The bits of an identifier; the two highest bits are set in a valid one.
    const IDENTIFIER: u16 = 0x3fff;
    body.part(0, FIXED)?;
    let private = little(body, 0)? & PRIVACY != 0;
    put!(
        cx.line,
        " AID({:x}) :{}: {}",
        little(body, 4)? & IDENTIFIER,
        if private { " PRIVACY " } else { "" },
        codes::status(little(body, 2)?)
    );
    Elements::of(body.rest(FIXED)).check()
}

fn authentication(cx: &mut Context<'_>, body: &[u8]) -> Result {
    const FIXED: usize = 6;
    const SHARED_KEY: u16 = 1;
    body.part(0, FIXED)?;
    let (algorithm, step) = (little(body, 0)?, little(body, 2)?);
    let name = match algorithm {
        0 => "Open System",
        SHARED_KEY => "Shared Key",
        2 => "EAP",
        _ => "Reserved",
    };
    // The requesting station has no status yet; its steps are the even ones here.
    let status = if step % 2 == 1 {
        codes::status(little(body, 4)?)
    } else {
        ""
    };
    put!(cx.line, " ({name})-{step:x}");
    cx.line
        .str(if algorithm == SHARED_KEY && (step == 2 || step == 3) {
            " [Challenge Text] "
        } else {
            ": "
        });
    cx.line.str(status);
    Elements::of(body.rest(FIXED)).check()
}

fn reason(body: &[u8]) -> Result<&'static str> {
    Ok(codes::reason(little(body, 0)?))
}

fn action(cx: &mut Context<'_>, sender: &Mac<'_>, body: &[u8]) -> Result {
    let [category, number] = body.array_at(0)?;
    put!(cx.line, " ({sender}): ");
    let name = name_in(&CATEGORIES, category);
    cx.line.name(name, format_args!("Reserved({category})"));
    cx.line.str(" ");
    let name = name_in(&ACTIONS, (category, number));
    cx.line.name(name, format_args!("Act#{number}"));
    Ok(())
}

fn print_control(cx: &mut Context<'_>, data: &[u8], subtype: u8) -> Result {
    let all = cx.options.link_header;
    let name = codes::CONTROL[usize::from(subtype)];
    if name.is_empty() {
        return end!(cx.line, "unknown 802.11 ctrl frame subtype ({subtype})");
    }
    if all {
        match subtype {
            11 => {
                address(cx, "RA", data, FIRST)?;
                address(cx, "TA", data, SECOND)?;
            }
            10 => {
                address(cx, "BSSID", data, FIRST)?;
                address(cx, "TA", data, SECOND)?;
            }
            14 | 15 => {
                address(cx, "RA", data, FIRST)?;
                address(cx, "BSSID", data, SECOND)?;
            }
            9 | 12 | 13 => address(cx, "RA", data, FIRST)?,
            8 => {
                cx.line.str(" ");
                block_request(cx, data)?;
            }
            _ => {}
        }
    }
    cx.line.str(name);
    match subtype {
        10 => put!(cx.line, " AID({:x})", little(data, 2)?),
        _ if all => {}
        8 => {
            cx.line.str(" ");
            block_request(cx, data)?;
        }
        11 => {
            cx.line.str(" ");
            address(cx, "TA", data, SECOND)?;
        }
        9 | 12..=15 => {
            cx.line.str(" ");
            address(cx, "RA", data, FIRST)?;
        }
        _ => {}
    }
    Ok(())
}

fn block_request(cx: &mut Context<'_>, data: &[u8]) -> Result {
    address(cx, "RA", data, FIRST)?;
    address(cx, "TA", data, SECOND)?;
    let (control, sequence) = (little(data, 16)?, little(data, 18)?);
    end!(cx.line, "CTL({control:x}) SEQ({sequence}) ")
}

fn print_data(
    cx: &mut Context<'_>,
    data: &[u8],
    subtype: u8,
    flags: u8,
    (body, length): (&[u8], usize),
) -> Result {
    /// The subtypes without a body.
    const EMPTY: u8 = 4;
    // The path through the distribution system decides the meaning of the addresses (section
    // 9.3.2.1.2).
    let (names, target, source): (&[(&str, usize)], _, _) =
        match (flags & TO_SYSTEM != 0, flags & FROM_SYSTEM != 0) {
            (false, false) => (
                &[("DA", FIRST), ("SA", SECOND), ("BSSID", THIRD)],
                FIRST,
                SECOND,
            ),
            (true, false) => (
                &[("BSSID", FIRST), ("SA", SECOND), ("DA", THIRD)],
                THIRD,
                SECOND,
            ),
            (false, true) => (
                &[("DA", FIRST), ("BSSID", SECOND), ("SA", THIRD)],
                FIRST,
                THIRD,
            ),
            (true, true) => (
                &[("RA", FIRST), ("TA", SECOND), ("DA", THIRD), ("SA", FOURTH)],
                THIRD,
                FOURTH,
            ),
        };
    if cx.options.link_header {
        if subtype & 8 != 0 {
            cx.line.str("CF +QoS ");
        }
        for &(name, at) in names {
            address(cx, name, data, at)?;
        }
    }
    if subtype & EMPTY != 0 {
        return Ok(());
    }
    if flags & PROTECTED != 0 {
        cx.line.str("Data");
        return vector(cx, body);
    }
    let mut addresses = [0; 12];
    addresses[..6].copy_from_slice(data.part(target, 6)?);
    addresses[6..].copy_from_slice(data.part(source, 6)?);
    link::llc::print(cx, body, length, Some(&addresses))
}
