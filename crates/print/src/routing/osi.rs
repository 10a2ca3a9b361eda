//! OSI's network layer: the protocol identifier at the start of a packet (ISO/IEC TR 9577), and its
//! addresses.

use super::{clnp, isis};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::ip;
use crate::line::{end, put};
use crate::link;

const NULL: u8 = 0x00;
const Q933: u8 = 0x08;
pub(crate) const CLNP: u8 = 0x81;
pub(crate) const ES_IS: u8 = 0x82;
pub(crate) const IS_IS: u8 = 0x83;
pub(crate) const IPV6: u8 = 0x8e;
pub(crate) const IPV4: u8 = 0xcc;
pub(crate) const PPP: u8 = 0xcf;

/// The longest address of a network service access point (ISO/IEC 8348).
const MAX_ADDRESS: usize = 20;

/// Returns the name of an identifier, as the link-layer header shows it.
pub(crate) fn name(identifier: u8) -> Option<&'static str> {
    Some(match identifier {
        NULL => "NULL",
        Q933 => "Q.933",
        0x09 => "LMI",
        0x80 => "SNAP",
        CLNP => "CLNP",
        ES_IS => "ES-IS",
        IS_IS => "IS-IS",
        0x84 => "CONS",
        0x85 => "IDRP",
        0x8a => "X25 ES-IS",
        0xb1 => "FRF.15",
        0xc1 => "ISIS_SPB",
        IPV6 => "IPv6",
        IPV4 => "IPv4",
        PPP => "PPP",
        _ => return None,
    })
}

/// Prints a packet of `length` bytes that begins with its identifier.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("isoclns");
    let identifier = data.u8_at(0)?;
    let named = cx.options.link_header;
    if named {
        let name = name(identifier).unwrap_or("Unknown");
        put!(cx.line, "OSI NLPID {name} (0x{identifier:02x}): ");
    }
    let (inner, rest) = (data.rest(1), length.saturating_sub(1));
    match identifier {
        CLNP => clnp::print(cx, data, length),
        ES_IS => clnp::end_system(cx, data, length),
        IS_IS => isis::print(cx, data, length),
        Q933 => link::q933::print(cx, inner, rest),
        IPV4 => ip::nested(cx, |cx| ip::v4::announced(cx, inner, rest, named)),
        IPV6 => link::network(cx, link::IPV6, inner, rest).map(|_| ()),
        PPP => ip::nested(cx, |cx| link::nested_ppp(cx, inner, rest)),
        _ => {
            if !named && identifier != NULL {
                put!(cx.line, "OSI NLPID 0x{identifier:02x} unknown");
            }
            separate(cx);
            end!(cx.line, "length: {length}")
        }
    }
}

/// Writes the name of a protocol, unless the link-layer header has printed it.
pub(super) fn begin(cx: &mut Context<'_>, protocol: &str) {
    if !cx.options.link_header {
        cx.line.str(protocol);
    }
}

/// Writes the separator between the protocol's name and the rest.
pub(super) fn separate(cx: &mut Context<'_>) {
    if !cx.options.link_header {
        cx.line.str(", ");
    }
}

/// Writes an address: its first byte, then pairs of bytes (`49.0001.1921.6800.1001.00`).
pub(super) fn address(cx: &mut Context<'_>, octets: &[u8]) {
    if octets.is_empty() || octets.len() > MAX_ADDRESS {
        cx.line.str("isonsap_string: illegal length");
        return;
    }
    for (index, &octet) in octets.iter().enumerate() {
        if index % 2 == 1 {
            cx.line.str(".");
        }
        cx.line.hex_byte(octet);
    }
}

/// Writes the bytes of a packet whose header is too short to be valid.
pub(super) fn below_minimum(cx: &mut Context<'_>, indicator: u8, data: &[u8]) {
    put!(cx.line, " length indicator {indicator} < min PDU size:");
    for octet in data {
        put!(cx.line, "{octet:02X}");
    }
}
