//! Overlay networks: VXLAN (RFC 7348) and Geneve (RFC 8926), with the inner packet.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::ip::{nested, v4, v6};
use crate::line::{end, put};
use crate::link;

/// The size of either header without options, in bytes.
const HEADER: usize = 8;
/// VXLAN's flag for a valid network number.
const VALID: u8 = 0x08;
/// Geneve's flags for a control packet and for critical options.
const CONTROL: u8 = 0x80;
const CRITICAL: u8 = 0x40;

/// Prints a VXLAN header, and on the next line the inner frame.
pub(crate) fn vxlan(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("vxlan");
    cx.line.str("VXLAN");
    if length < HEADER {
        return end!(cx.line, " (invalid)");
    }
    let flags = data.u8_at(0)?;
    let name = if flags & VALID == 0 { "invalid" } else { "I" };
    let network = data.u32_at(4)? >> 8;
    put!(cx.line, ", flags [{name}] (0x{flags:02x}), vni {network}\n");
    frame(cx, data.rest(HEADER), length - HEADER)
}

/// Prints an OTV header (draft-hasmit-otv-04 section 4.7), and on the next line the inner frame.
pub(crate) fn otv(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("otv");
    cx.line.str("OTV, ");
    if length < HEADER {
        return end!(cx.line, "[length {length} < {HEADER}] (invalid)");
    }
    let flags = data.u8_at(0)?;
    let name = if flags & VALID == 0 { "." } else { "I" };
    let (overlay, instance) = (data.u24_at(1)?, data.u24_at(4)?);
    put!(cx.line, "flags [{name}] (0x{flags:02x}), overlay {overlay}");
    put!(cx.line, ", instance {instance}\n");
    data.part(0, HEADER)?;
    frame(cx, data.rest(HEADER), length - HEADER)
}

/// Prints a Geneve header and its payload. Options are counted, not parsed.
pub(crate) fn geneve(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("geneve");
    cx.line.str("Geneve");
    if length < HEADER {
        return end!(cx.line, " [length {length} < {HEADER}] (invalid)");
    }
    let first = data.u8_at(0)?;
    if first >> 6 != 0 {
        return end!(cx.line, " ERROR: unknown-version {}", first >> 6);
    }
    let (flags, protocol) = (data.u8_at(1)?, data.u16_at(2)?);
    let control = if flags & CONTROL == 0 { "" } else { "O" };
    let critical = if flags & CRITICAL == 0 { "" } else { "C" };
    let none = if flags & (CONTROL | CRITICAL) == 0 {
        "none"
    } else {
        ""
    };
    let network = data.u32_at(4)? >> 8;
    put!(cx.line, ", Flags [{control}{critical}{none}]");
    put!(cx.line, ", vni 0x{network:x}");
    if cx.options.link_header {
        let name = link::ether_type_known(protocol).unwrap_or("unknown");
        put!(cx.line, ", proto {name} (0x{protocol:04x})");
    }
    let options = usize::from(first & 0x3f) * 4;
    let at = HEADER + options;
    if length < at {
        return end!(cx.line, " [length {length} < {at}] (invalid)");
    }
    if options > 0 {
        put!(cx.line, ", options [{options} bytes]");
    }
    cx.line.str(if cx.verbose() { "\n\t" } else { ": " });
    let (inner, length) = (data.rest(at), length - at);
    let named = cx.options.link_header;
    match protocol {
        link::IPV4 => nested(cx, |cx| v4::announced(cx, inner, length, named)),
        link::IPV6 => nested(cx, |cx| v6::announced(cx, inner, length)),
        link::BRIDGED => frame(cx, inner, length),
        _ => end!(cx.line, "geneve-proto-0x{protocol:x}"),
    }
}

fn frame(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    nested(cx, |cx| link::nested_ethernet(cx, data, length))
}
