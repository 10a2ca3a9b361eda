//! OSPF, version 2 (RFC 2328 appendix A.3) and version 3 (RFC 5340 appendix A.3): the type of a packet.

use crate::bytes::{Bytes, Result};
use crate::context::{Context, Network};
use crate::line::{Address, end, name_in, put};

/// The bytes that must have been captured; for version 2, all up to the type of authentication.
const HEADER_V2: usize = 16;
const HEADER_V3: usize = 2;

const TYPES: [(u8, &str); 5] = [
    (1, "Hello"),
    (2, "Database Description"),
    (3, "LS-Request"),
    (4, "LS-Update"),
    (5, "LS-Ack"),
];

/// Prints a packet of `length` bytes; the version of IP determines its format.
pub(super) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    let over_ipv4 = matches!(net.source, Address::V4(_));
    cx.enter(if over_ipv4 { "ospf2" } else { "ospf3" });
    data.part(0, if over_ipv4 { HEADER_V2 } else { HEADER_V3 })?;
    let (version, kind) = (data.u8_at(0)?, data.u8_at(1)?);
    put!(cx.line, "OSPFv{version}, ");
    let name = name_in(&TYPES, kind);
    if over_ipv4 {
        cx.line.name(name, format_args!("unknown LS-type {kind}"));
    } else {
        cx.line
            .name(name, format_args!("unknown packet type ({kind})"));
    }
    end!(cx.line, ", length {length}")
}
