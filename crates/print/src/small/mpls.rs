//! MPLS label stacks (RFC 3032) and the packet under them: IP or OSI.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::ip;
use crate::line::{end, put};
use crate::link;
use crate::routing::osi;

const BOTTOM: u32 = 0x100;
const ENTRY: usize = 4;
const IPV4_EXPLICIT_NULL: u32 = 0;
const IPV6_EXPLICIT_NULL: u32 = 2;
const IMPLICIT_NULL: u32 = 3;

const NAMES: [&str; 4] = [
    " (IPv4 explicit NULL)",
    " (router alert)",
    " (IPv6 explicit NULL)",
    " (implicit NULL)",
];

/// Prints a frame of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("mpls");
    cx.line.str("MPLS");
    let mut at = 0;
    let label = loop {
        if at + ENTRY > length || cx.line.is_full() {
            return end!(cx.line, " (invalid)");
        }
        let entry = data.u32_at(at)?;
        at += ENTRY;
        let label = entry >> 12;
        let is_alone = cx.verbose() && at > ENTRY;
        cx.line.str(if is_alone { "\n\t" } else { " " });
        put!(cx.line, "(label {label}");
        if cx.verbose()
            && let Some(name) = usize::try_from(label)
                .ok()
                .and_then(|label| NAMES.get(label))
        {
            cx.line.str(name);
        }
        put!(cx.line, ", tc {}", entry >> 9 & 7);
        if entry & BOTTOM != 0 {
            cx.line.str(", [S]");
        }
        put!(cx.line, ", ttl {})", entry & 0xff);
        if entry & BOTTOM != 0 {
            break label;
        }
    };
    if at == length {
        return Ok(());
    }
    carried(cx, label, data.rest(at), length - at)
}

/// Prints the packet under the labels: the lowest label identifies it, otherwise the first byte.
fn carried(cx: &mut Context<'_>, label: u32, packet: &[u8], length: usize) -> Result {
    let first = packet.u8_at(0)?;
    let kind = match (label, first) {
        (IPV4_EXPLICIT_NULL | IMPLICIT_NULL, _) => link::IPV4,
        (IPV6_EXPLICIT_NULL, _) | (_, 0x60..=0x6f) => link::IPV6,
        (_, 0x45..=0x4f) => link::IPV4,
        (_, osi::CLNP | osi::ES_IS | osi::IS_IS) => link::OSI,
        _ => return Ok(()),
    };
    cx.line.str(if cx.verbose() { "\n\t" } else { " " });
    ip::nested(cx, |cx| match kind {
        link::OSI => osi::print(cx, packet, length),
        _ => link::network(cx, kind, packet, length).map(|_| ()),
    })
}
