//! PPP over Ethernet (RFC 2516; a tag of RFC 4638): the session's frames, and the tags of
//! discovery.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, name_in, put};

const HEADER: usize = 6;
const TAG_HEADER: usize = 4;
const SESSION: u8 = 0;
const INITIATION: u8 = 0x09;
/// RFC 2516 section 5.1 reserves room for a relay's tag: above this many bytes, tcpdump marks the
/// length.
const LARGE: usize = 1478;
const END_OF_LIST: u16 = 0;

const CODES: [(u8, &str); 6] = [
    (SESSION, ""),
    (INITIATION, "PADI"),
    (0x07, "PADO"),
    (0x19, "PADR"),
    (0x65, "PADS"),
    (0xa7, "PADT"),
];

const TAGS: [(u16, &str); 11] = [
    (END_OF_LIST, "EOL"),
    (0x0101, "Service-Name"),
    (0x0102, "AC-Name"),
    (0x0103, "Host-Uniq"),
    (0x0104, "AC-Cookie"),
    (0x0105, "Vendor-Specific"),
    (0x0110, "Relay-Session-ID"),
    (0x0120, "PPP-Max-Payload"),
    (0x0201, "Service-Name-Error"),
    (0x0202, "AC-System-Error"),
    (0x0203, "Generic-Error"),
];

/// Prints a packet of either stage in `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("pppoe");
    if length < HEADER {
        return end!(cx.line, " (length {length} < {HEADER}) (invalid)");
    }
    data.part(0, HEADER)?;
    let (version, code) = (data.u8_at(0)?, data.u8_at(1)?);
    let (id, stated) = (data.u16_at(2)?, usize::from(data.u16_at(4)?));
    if version >> 4 != 1 {
        put!(cx.line, " [ver {}]", version >> 4);
    }
    if version & 15 != 1 {
        put!(cx.line, " [type {}]", version & 15);
    }
    cx.line.str("PPPoE ");
    cx.line
        .name(name_in(&CODES, code), format_args!("PAD-{code:x}"));
    let room = length - HEADER;
    if code == INITIATION && stated > LARGE {
        put!(cx.line, " [len {stated}!]");
    }
    if stated > room {
        put!(cx.line, " [len {stated} > {room}!]");
    }
    if id != 0 {
        put!(cx.line, " [ses 0x{id:x}]");
    }
    let rest = stated.min(room);
    if code == SESSION {
        cx.line.str(" ");
        return super::nested_ppp(cx, data.rest(HEADER).up_to(rest), rest);
    }
    tags(cx, data, HEADER + rest)
}

fn tags(cx: &mut Context<'_>, data: &[u8], end: usize) -> Result {
    let mut at = HEADER;
    while at < end && !cx.line.is_full() {
        let (kind, size) = (data.u16_at(at)?, usize::from(data.u16_at(at + 2)?));
        let value = data.part(at + TAG_HEADER, size)?;
        at += TAG_HEADER + size;
        cx.line.str(" [");
        cx.line
            .name(name_in(&TAGS, kind), format_args!("TAG-0x{kind:x}"));
        if !value.is_empty() {
            cx.line.str(" ");
            tag_value(cx, value);
        }
        cx.line.str("]");
        if kind == END_OF_LIST {
            break;
        }
    }
    Ok(())
}

/// Prints a value as text if most of its start is text, otherwise in hexadecimal.
fn tag_value(cx: &mut Context<'_>, value: &[u8]) {
    const SHOWN: usize = 79;
    let begin = value.up_to(SHOWN);
    let is_text = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let visible = begin.iter().filter(|&&byte| is_text(byte)).count();
    if visible <= begin.len() - visible {
        cx.line.str("0x");
        for byte in value {
            put!(cx.line, "{byte:02X}");
        }
        return;
    }
    cx.line.str("\"");
    for &byte in begin {
        cx.line.bytes(&[if is_text(byte) { byte } else { b'.' }]);
    }
    cx.line.str("\"");
}
