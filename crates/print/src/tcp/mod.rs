//! TCP (RFC 9293).

mod mptcp;
mod options;
pub(crate) mod sequences;

use super::bytes::{Bytes, Result};
use super::checksum;
use super::context::{Context, Network};
use super::line::{end, put};
use super::{app, dns, routing};
use sequences::Shown;

const HEADER: usize = 20;
const DNS: u16 = 53;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
const FLAGS: [(u8, &str); 8] = [
    (FIN, "F"),
    (SYN, "S"),
    (RST, "R"),
    (0x08, "P"),
    (ACK, "."),
    (URG, "U"),
    (0x40, "E"),
    (0x80, "W"),
];

/// Prints a segment of `length` bytes; `data` is its captured part.
pub(crate) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter("tcp");
    if data.len() < 4 {
        if net.endpoints {
            net.addresses(cx.line);
        }
        cx.line.truncated("tcp");
        return Ok(());
    }
    let (source, destination) = (data.u16_at(0)?, data.u16_at(2)?);
    net.ports(cx.line, source, destination);
    data.part(0, HEADER)?;
    let header = usize::from(data.u8_at(12)? >> 4) * 4;
    if header < HEADER {
        return end!(
            cx.line,
            " tcp {} [bad hdr length {header} - too short, < {HEADER}]",
            wrapping_difference(length, header)
        );
    }
    if cx.options.quiet {
        put!(cx.line, "tcp {}", wrapping_difference(length, header));
        if header > length {
            too_long(cx, header, length);
        }
        return Ok(());
    }
    let flags = data.u8_at(13)?;
    // This is done even if the line ends early, to remember the connection's numbers.
    let shown = numbers(cx, net, data, flags)?;
    print_flags(cx, flags);
    if header > length {
        too_long(cx, header, length);
        return Ok(());
    }
    let verify = cx.verbose() && !cx.options.skip_checksums;
    if verify && !net.fragmented && data.len() >= length {
        print_checksum(cx, net, data.u16_at(16)?, data.up_to(length));
    }
    let payload_length = length - header;
    print_numbers(cx, flags, shown, payload_length);
    put!(cx.line, ", win {}", data.u16_at(14)?);
    if flags & URG != 0 {
        put!(cx.line, ", urg {}", data.u16_at(18)?);
    }
    if header > HEADER && !options::print(cx, data, header, shown.ack_origin)? {
        return Ok(());
    }
    cx.line.str(", length ");
    cx.line.size(payload_length);
    if payload_length == 0 {
        return Ok(());
    }
    payload(
        cx,
        (source, destination),
        flags,
        data.rest(header),
        payload_length,
    )
}

/// Returns the numbers to print: relative to the connection's first, unless the segment has no
/// acknowledgement yet.
fn numbers(cx: &mut Context<'_>, net: &Network, data: &[u8], flags: u8) -> Result<Shown> {
    let ports = (data.u16_at(0)?, data.u16_at(2)?);
    let (seq, ack) = (data.u32_at(4)?, data.u32_at(8)?);
    if cx.options.absolute_seq || flags & ACK == 0 {
        return Ok(Shown {
            seq,
            ack,
            ack_origin: 0,
        });
    }
    Ok(cx
        .sequences
        .relative(net, ports, (seq, ack), flags & SYN != 0))
}

fn print_numbers(cx: &mut Context<'_>, flags: u8, shown: Shown, payload_length: usize) {
    if payload_length > 0 || flags & (FIN | SYN | RST) != 0 || cx.very_verbose() {
        cx.line.str(", seq ");
        cx.line.number(shown.seq);
        if payload_length > 0 {
            cx.line.str(":");
            let payload = u32::try_from(payload_length).unwrap_or(u32::MAX);
            cx.line.number(shown.seq.wrapping_add(payload));
        }
    }
    if flags & ACK != 0 {
        cx.line.str(", ack ");
        cx.line.number(shown.ack);
    }
}

fn too_long(cx: &mut Context<'_>, header: usize, length: usize) {
    put!(cx.line, " [bad hdr length {header} - too long, > {length}]");
}

/// Returns `length - header` wrapped to 32 bits, which makes a damaged header visible.
fn wrapping_difference(length: usize, header: usize) -> u32 {
    let low = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    low(length).wrapping_sub(low(header))
}

fn print_flags(cx: &mut Context<'_>, flags: u8) {
    cx.line.str("Flags [");
    if flags == 0 {
        cx.line.str("none");
    }
    cx.line.marks(flags, &FLAGS);
    cx.line.str("]");
}

fn print_checksum(cx: &mut Context<'_>, net: &Network, field: u16, segment: &[u8]) {
    let sum = checksum::with_pseudo_header(net, ringtap_packet::protocol::TCP, segment);
    put!(cx.line, ", cksum 0x{field:04x}");
    if sum.checksum() == 0 {
        cx.line.str(" (correct)");
    } else {
        put!(cx.line, " (incorrect -> 0x{:04x})", sum.corrected(field));
    }
}

fn payload(
    cx: &mut Context<'_>,
    ports: (u16, u16),
    flags: u8,
    data: &[u8],
    length: usize,
) -> Result {
    // RFC 9293 section 3.5.3: a reset may carry its reason as text.
    if flags & RST != 0 && cx.verbose() {
        reset_reason(cx, data, length);
        return Ok(());
    }
    if routing::over_tcp(cx, ports, data, length)? || app::stream(cx, ports, data, length)? {
        return Ok(());
    }
    if ports.0 == DNS || ports.1 == DNS {
        return dns::print_stream(cx, data, length);
    }
    Ok(())
}

/// Prints the text of a reset, `+` if it is longer than printed, `!` if it was not captured
/// completely.
fn reset_reason(cx: &mut Context<'_>, data: &[u8], length: usize) {
    const SHOWN: usize = 30;
    cx.line.str(if data.len() < length {
        " [!RST"
    } else {
        " [RST"
    });
    cx.line.str(if length > SHOWN { "+ " } else { " " });
    cx.line.escaped(data.up_to(length.min(SHOWN)));
    cx.line.str("]");
}
