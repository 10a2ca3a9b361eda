//! PPP (RFC 1661), with HDLC framing (RFC 1662) or in a PPPoE session (RFC 2516).

use crate::bytes::{Bytes, Truncated};
use crate::context::Context;
use crate::ip;
use crate::line::put;

const ADDRESS: u8 = 0xff;
const CONTROL: u8 = 0x03;

use ringtap_packet::ether_type::ppp::{IPV4, IPV6, LCP, MPLS};

fn protocol_name(protocol: u16) -> Option<&'static str> {
    Some(match protocol {
        IPV4 => "IP",
        0x002d => "VJC",
        0x002f => "VJNC",
        IPV6 => "IP6",
        0x8021 => "IPCP",
        0x8057 => "IP6CP",
        0x80fd => "CCP",
        LCP => "LCP",
        0xc023 => "PAP",
        0xc025 => "LQM",
        0xc223 => "CHAP",
        0x00fd => "COMP",
        0x003d => "MLPPP",
        MPLS => "MPLS",
        _ => return None,
    })
}

/// Prints a frame of `length` bytes, address and control field compressed or not.
pub(super) fn print(
    cx: &mut Context<'_>,
    data: &[u8],
    length: usize,
    header: &mut usize,
) -> Result<(), Truncated> {
    cx.enter("ppp");
    let mut at = 0;
    if data.u8_at(0)? == ADDRESS && data.u8_at(1)? == CONTROL {
        at = 2;
    }
    let first = data.u8_at(at)?;
    let protocol = if first & 1 == 1 {
        // A compressed protocol field: one byte, odd.
        at += 1;
        u16::from(first)
    } else {
        at += 2;
        data.u16_at(at - 2)?
    };
    *header = at;
    if cx.options.link_header {
        let name = protocol_name(protocol).unwrap_or("unknown");
        put!(cx.line, "{name} (0x{protocol:04x}), length {length}: ");
    }
    payload(cx, protocol, data.rest(at), length.saturating_sub(at))
}

/// Prints a PPPoE session frame.
pub(super) fn session(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<(), Truncated> {
    const HEADER: usize = 6;
    cx.enter("pppoe");
    let (version, code) = (data.u8_at(0)?, data.u8_at(1)?);
    let (id, stated) = (data.u16_at(2)?, usize::from(data.u16_at(4)?));
    cx.line.str("PPPoE ");
    if version != 0x11 {
        put!(cx.line, " [ver {}] [type {}]", version >> 4, version & 15);
    }
    if code != 0 {
        put!(cx.line, " [code 0x{code:02x}]");
    }
    put!(cx.line, " [ses 0x{id:x}]");
    if stated + HEADER > length {
        put!(cx.line, " [length {stated} (invalid)]");
    }
    cx.line.str(" ");
    let rest = stated.min(length.saturating_sub(HEADER));
    print(cx, data.rest(HEADER).up_to(rest), rest, &mut 0)
}

fn payload(
    cx: &mut Context<'_>,
    protocol: u16,
    data: &[u8],
    length: usize,
) -> Result<(), Truncated> {
    let prefixed = !cx.options.link_header;
    match protocol {
        IPV4 => ip::v4::announced(cx, data, length, cx.options.link_header),
        IPV6 => {
            if prefixed {
                cx.line.str("IP6 ");
            }
            ip::v6::print(cx, data, length)
        }
        LCP | 0x8021 | 0x8057 | 0x80fd => control(cx, protocol, data),
        _ => {
            match protocol_name(protocol) {
                Some(name) if prefixed => put!(cx.line, "{name}, length {length}"),
                Some(_) => {}
                None if !prefixed => {}
                None => put!(cx.line, "unknown PPP protocol (0x{protocol:04x}) "),
            }
            Ok(())
        }
    }
}

/// A control protocol's packet (RFC 1661 section 5): code and identifier.
fn control(cx: &mut Context<'_>, protocol: u16, data: &[u8]) -> Result<(), Truncated> {
    const CODES: [&str; 16] = [
        "Vendor-Extension",
        "Conf-Request",
        "Conf-Ack",
        "Conf-Nack",
        "Conf-Reject",
        "Term-Request",
        "Term-Ack",
        "Code-Reject",
        "Prot-Reject",
        "Echo-Request",
        "Echo-Reply",
        "Discard-Request",
        "Identification",
        "Time-Remaining",
        "Reset-Req",
        "Reset-Ack",
    ];
    let (code, id, stated) = (data.u8_at(0)?, data.u8_at(1)?, data.u16_at(2)?);
    let name = CODES.get(usize::from(code)).copied().unwrap_or("Unknown");
    put!(
        cx.line,
        "{}, {name} (0x{code:02x}), id {id}, length {}",
        protocol_name(protocol).unwrap_or("unknown"),
        u32::from(stated) + 2
    );
    Ok(())
}
