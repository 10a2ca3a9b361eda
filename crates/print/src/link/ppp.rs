//! PPP (RFC 1661), with HDLC framing (RFC 1662) or without.

use super::{chdlc, ppp_authentication};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::ip;
use crate::line::{Flags, end, put};
use crate::routing::osi;
use crate::small;

const ADDRESS: u8 = 0xff;
const CONTROL: u8 = 0x03;
const IN: u8 = 0x00;
const OUT: u8 = 0x01;

use ringtap_packet::ether_type::ppp::{IPV4, IPV6, LCP, MPLS};

const OSI: u16 = 0x0023;
const MULTILINK: u16 = 0x003d;
/// TCP and IP with headers that are not compressed, but could be (RFC 1144).
const UNCOMPRESSED: u16 = 0x002f;
const COMPRESSED: u16 = 0x00fd;
const MPLS_MULTICAST: u16 = 0x0283;
const IPCP: u16 = 0x8021;
const OSICP: u16 = 0x8023;
const IPV6CP: u16 = 0x8057;
const CCP: u16 = 0x80fd;
const MPLSCP: u16 = 0x8281;
const PAP: u16 = 0xc023;
const CHAP: u16 = 0xc223;

fn protocol_name(protocol: u16) -> Option<&'static str> {
    Some(match protocol {
        IPV4 => "IP",
        OSI => "OSI",
        0x0025 => "NS",
        0x0029 => "APPLE",
        0x002b => "IPX",
        0x002d => "VJC IP",
        UNCOMPRESSED => "VJNC IP",
        0x0031 => "BRPDU",
        0x0033 => "STII",
        0x0035 => "VINES",
        MULTILINK => "MLPPP",
        IPV6 => "IP6",
        COMPRESSED => "Compressed",
        0x0201 => "HELLO",
        MPLS | MPLS_MULTICAST => "MPLS",
        IPCP => "IPCP",
        OSICP => "OSICP",
        0x8025 => "NSCP",
        0x8029 => "APPLECP",
        0x802b => "IPXCP",
        0x8033 => "STIICP",
        0x8035 => "VINESCP",
        IPV6CP => "IP6CP",
        CCP => "CCP",
        MPLSCP => "MPLSCP",
        LCP => "LCP",
        PAP => "PAP",
        0xc025 => "LQM",
        0xc227 => "EAP",
        CHAP => "CHAP",
        _ => return None,
    })
}

/// Prints a frame of `length` bytes, address and control field compressed or not.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ppp");
    let mut at = match data.array_at(0)? {
        [ADDRESS, CONTROL] => 2,
        // Some systems write the direction in place of the address.
        [direction @ (IN | OUT), CONTROL] => {
            if cx.options.link_header {
                cx.line.str(if direction == IN { "In  " } else { "Out " });
            }
            2
        }
        _ => 0,
    };
    let first = data.u8_at(at)?;
    let protocol = if first & 1 == 1 {
        // A compressed protocol field: one byte, odd.
        at += 1;
        u16::from(first)
    } else {
        at += 2;
        data.u16_at(at - 2)?
    };
    cx.header += at;
    if cx.options.link_header {
        let Some(name) = protocol_name(protocol) else {
            return end!(cx.line, "unknown (0x{protocol:04x}), length {length}");
        };
        put!(cx.line, "{name} (0x{protocol:04x}), length {length}: ");
    }
    payload(cx, protocol, data.rest(at), length.saturating_sub(at))
}

fn put_protocol(cx: &mut Context<'_>, protocol: u16) {
    let name = protocol_name(protocol);
    cx.line
        .name(name, format_args!("unknown PPP protocol ({protocol:#06x})"));
}

/// Prints a frame of a serial line that had `length` bytes on the wire: PPP, or Cisco's HDLC.
pub(super) fn serial(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    const HEADER: usize = 4;
    cx.enter("ppp_hdlc");
    data.part(0, 2)?;
    let (address, control) = (data.u8_at(0)?, data.u8_at(1)?);
    if matches!(address, chdlc::UNICAST | chdlc::BROADCAST) {
        return chdlc::print(cx, data, length);
    }
    data.part(0, HEADER)?;
    if cx.options.link_header {
        put!(cx.line, "{address:02x} {control:02x} {length} ");
    }
    let protocol = data.u16_at(2)?;
    if address != ADDRESS {
        // As in tcpdump: these are the two bytes after the address and the control field.
        let [address, control] = protocol.to_be_bytes();
        return end!(cx.line, "unknown addr {address:02x}; ctrl {control:02x}");
    }
    cx.header += HEADER;
    put_protocol(cx, protocol);
    cx.line.str(": ");
    payload(
        cx,
        protocol,
        data.rest(HEADER),
        length.saturating_sub(HEADER),
    )
}

fn payload(cx: &mut Context<'_>, protocol: u16, data: &[u8], length: usize) -> Result {
    match protocol {
        IPV4 | UNCOMPRESSED => ip::v4::announced(cx, data, length, cx.options.link_header),
        IPV6 => super::network(cx, super::IPV6, data, length).map(|_| ()),
        OSI => osi::print(cx, data, length),
        MPLS | MPLS_MULTICAST => small::mpls::print(cx, data, length),
        MULTILINK => multilink(cx, data, length),
        LCP | IPCP | OSICP | IPV6CP | CCP | MPLSCP => control(cx, protocol, data, length),
        PAP => ppp_authentication::password(cx, data, length),
        CHAP => ppp_authentication::challenge(cx, data, length),
        COMPRESSED => end!(cx.line, "compressed PPP data"),
        _ if is_flag(protocol) => escaped(cx, protocol, data),
        _ => {
            put_protocol(cx, protocol);
            end!(cx.line, " ")
        }
    }
}

/// Prints a frame as it is on an asynchronous line (RFC 1662 section 4): a flag, which was taken
/// for the first byte of the protocol, then escaped bytes.
fn escaped(cx: &mut Context<'_>, protocol: u16, data: &[u8]) -> Result {
    const ESCAPE: u8 = 0x7d;
    const CHANGED: u8 = 0x20;
    /// The most bytes of a frame that are read; a longer one counts as cut there.
    const MAX_FRAME: usize = 2048;
    let mut frame = [0; MAX_FRAME];
    let mut length = 0;
    let [_, first] = protocol.to_be_bytes();
    let mut bytes = std::iter::once(first).chain(data.iter().copied());
    while let Some(mut byte) = bytes.next() {
        if byte == ESCAPE {
            let Some(next) = bytes.next() else {
                break;
            };
            byte = next ^ CHANGED;
        }
        if let Some(place) = frame.get_mut(length) {
            *place = byte;
        }
        length += 1;
    }
    let frame = frame.up_to(length);
    let begin = if frame.starts_with(&[ADDRESS, CONTROL]) {
        2
    } else {
        0
    };
    let (protocol, at) = match u16::from(frame.u8_at(begin)?) {
        short @ (IPV4 | IPV6) if begin == 0 => (short, 1),
        _ => (frame.u16_at(begin)?, begin + 2),
    };
    if is_flag(protocol) {
        return end!(cx.line, "(protocol 0x{protocol:04x} invalid)");
    }
    payload(cx, protocol, frame.rest(at), length - at)
}

/// Returns whether the first byte of a protocol number is the flag between frames.
fn is_flag(protocol: u16) -> bool {
    protocol >> 8 == 0x7e
}

/// Prints a control protocol's packet (RFC 1661 section 5): code and identifier.
fn control(cx: &mut Context<'_>, protocol: u16, data: &[u8], length: usize) -> Result {
    const HEADER: usize = 4;
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
        "Disc-Req",
        "Ident",
        "Time-Rem",
        "Reset-Req",
        "Reset-Ack",
    ];
    let name = protocol_name(protocol).unwrap_or("unknown");
    put!(cx.line, "{name}, ");
    let (Some(&[code, id]), HEADER..) = (data.first_chunk(), length) else {
        cx.line.truncated(name);
        return Ok(());
    };
    let name = CODES.get(usize::from(code)).unwrap_or(&"Unknown Opcode");
    let length = length + 2;
    end!(cx.line, "{name} (0x{code:02x}), id {id}, length {length}")
}

/// Prints a fragment of a packet that several links carry (RFC 1990 section 3).
fn multilink(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    const FLAGS: [(u32, &str); 2] = [(0x8000, "begin"), (0x4000, "end")];
    if !cx.options.link_header {
        cx.line.str("MLPPP, ");
    }
    if length < 2 {
        cx.line.truncated("mlppp");
        return Ok(());
    }
    let field = data.u16_at(0)?;
    let flags = Flags(u32::from(field), &FLAGS);
    put!(cx.line, "seq 0x{:03x}, Flags [{flags}]", field & 0xfff);
    end!(cx.line, ", length {length}")
}
