//! Generic routing encapsulation (RFC 2784, RFC 2890; version 1 of RFC 2637).

use super::{nested, v4, v6};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Flags, end, put};
use crate::link;
use crate::routing::osi;

/// A packet of OSI (RFC 1701).
const OSI: u16 = 0x00fe;
const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const ACKNOWLEDGEMENT: u16 = 0x0080;
const FLAGS: [(u32, &str); 7] = [
    (CHECKSUM as u32, "checksum present"),
    (ROUTING as u32, "routing present"),
    (KEY as u32, "key present"),
    (SEQUENCE as u32, "sequence# present"),
    (0x0800, "source routing present"),
    (0x0700, "recursion control"),
    (ACKNOWLEDGEMENT as u32, "ack present"),
];

/// Prints a GRE header and its payload.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("gre");
    let version = data.u16_at(0)? & 7;
    put!(cx.line, "GREv{version}");
    if version > 1 {
        return end!(cx.line, " ERROR: unknown-version");
    }
    let flags = data.u16_at(0)?;
    if cx.verbose() {
        put!(cx.line, ", Flags [{}]", Flags(u32::from(flags), &FLAGS));
    }
    let protocol = data.u16_at(2)?;
    let mut at = 4;
    if version == 0 {
        if flags & (CHECKSUM | ROUTING) != 0 {
            let (sum, offset) = (data.u16_at(at)?, data.u16_at(at + 2)?);
            if cx.verbose() && flags & CHECKSUM != 0 {
                put!(cx.line, ", sum 0x{sum:x}");
            }
            put!(cx.line, ", off 0x{offset:x}");
            at += 4;
        }
        if flags & KEY != 0 {
            put!(cx.line, ", key=0x{:x}", data.u32_at(at)?);
            at += 4;
        }
        if flags & SEQUENCE != 0 {
            put!(cx.line, ", seq {}", data.u32_at(at)?);
            at += 4;
        }
    } else {
        at = version_one(cx, data, flags)?;
    }
    if cx.options.link_header {
        let name = link::ether_type_known(protocol).unwrap_or("unknown");
        put!(cx.line, ", proto {name} (0x{protocol:04x})");
    }
    put!(cx.line, ", length {length}");
    cx.line.str(if cx.verbose() { "\n\t" } else { ": " });
    carried(cx, protocol, data.rest(at), length.saturating_sub(at))
}

fn version_one(cx: &mut Context<'_>, data: &[u8], flags: u16) -> Result<usize> {
    let mut at = 4;
    if flags & KEY != 0 {
        put!(cx.line, ", call {}", data.u16_at(at + 2)?);
        at += 4;
    }
    if flags & SEQUENCE != 0 {
        put!(cx.line, ", seq {}", data.u32_at(at)?);
        at += 4;
    }
    if flags & ACKNOWLEDGEMENT != 0 {
        put!(cx.line, ", ack {}", data.u32_at(at)?);
        at += 4;
    }
    if flags & SEQUENCE == 0 {
        cx.line.str(", no-payload");
    }
    Ok(at)
}

fn carried(cx: &mut Context<'_>, protocol: u16, data: &[u8], length: usize) -> Result {
    let named = cx.options.link_header;
    match protocol {
        link::IPV4 => nested(cx, |cx| v4::announced(cx, data, length, named)),
        link::IPV6 => nested(cx, |cx| v6::announced(cx, data, length)),
        link::BRIDGED => nested(cx, |cx| link::nested_ethernet(cx, data, length)),
        OSI => nested(cx, |cx| osi::print(cx, data, length)),
        link::MPLS | link::MPLS_MULTICAST => nested(cx, |cx| {
            link::network(cx, protocol, data, length).map(|_| ())
        }),
        link::PPP => nested(cx, |cx| link::nested_ppp(cx, data, length)),
        _ => end!(cx.line, "gre-proto-0x{protocol:x}"),
    }
}
