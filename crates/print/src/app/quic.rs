//! QUIC (RFC 9000 section 17.2, RFC 9369): the long header of the packets that begin a connection.
//!
//! tcpdump prints nothing of QUIC, so it is printed only with `-v`.

use crate::bytes::Bytes;
use crate::context::Context;
use crate::line::put;

const LONG_HEADER: u8 = 0x80;
const FIXED_BIT: u8 = 0x40;
const VERSION_1: u32 = 1;
const VERSION_2: u32 = 0x6b33_43cf;
/// The drafts of version 1 have their number in the last byte.
const DRAFT: u32 = 0xff00_0000;
const MAX_IDENTIFIER: usize = 20;

/// The types of a packet by their two bits; RFC 9369 section 3.2 changes their order.
const TYPES: [&str; 4] = ["Initial", "0-RTT", "Handshake", "Retry"];

/// Appends version, type and connection identifiers of a packet with a long header.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8]) {
    let Some((first, version, destination, source)) = header(data) else {
        return;
    };
    let kind = usize::from(first >> 4 & 3);
    match version {
        VERSION_1 => put!(cx.line, ", QUIC v1 {}", TYPES[kind]),
        VERSION_2 => put!(cx.line, ", QUIC v2 {}", TYPES[(kind + 3) % 4]),
        _ => put!(cx.line, ", QUIC draft {} {}", version & 0xff, TYPES[kind]),
    }
    for (name, identifier) in [(", dcid ", destination), (", scid ", source)] {
        if !identifier.is_empty() {
            cx.line.str(name);
            cx.line.hex(identifier);
        }
    }
}

/// Returns the first byte, the version and both identifiers; `None` if this is no packet of a known
/// version.
fn header(data: &[u8]) -> Option<(u8, u32, &[u8], &[u8])> {
    let (first, version) = (data.u8_at(0).ok()?, data.u32_at(1).ok()?);
    let draft = version & 0xffff_ff00 == DRAFT && (1..=34).contains(&(version & 0xff));
    let known = version == VERSION_1 || version == VERSION_2 || draft;
    if first & (LONG_HEADER | FIXED_BIT) != LONG_HEADER | FIXED_BIT || !known {
        return None;
    }
    let identifier = |at: usize| {
        let size = usize::from(data.u8_at(at).ok()?);
        let bytes = data.part(at + 1, size).ok()?;
        (size <= MAX_IDENTIFIER).then_some(bytes)
    };
    let destination = identifier(5)?;
    let source = identifier(6 + destination.len())?;
    Some((first, version, destination, source))
}
