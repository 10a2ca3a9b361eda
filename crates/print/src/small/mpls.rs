//! MPLS label stacks (RFC 3032) and the IP packet under them.

use crate::bytes::{Bytes, Truncated};
use crate::context::Context;
use crate::ip;
use crate::line::put;

const BOTTOM: u32 = 0x100;
/// Labels shown of one stack.
const MAX_LABELS: usize = 16;

const NAMES: [&str; 4] = [
    " (IPv4 explicit NULL)",
    " (router alert)",
    " (IPv6 explicit NULL)",
    " (implicit NULL)",
];

/// Prints a frame of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<(), Truncated> {
    cx.enter("mpls");
    cx.line.str("MPLS");
    let mut at = 0;
    for _ in 0..MAX_LABELS {
        let entry = data.u32_at(at)?;
        at += 4;
        let label = entry >> 12;
        put!(
            cx.line,
            "{}(label {label}",
            if cx.verbose() && at > 4 { "\n\t" } else { " " }
        );
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
            break;
        }
    }
    let packet = data.rest(at);
    let length = length.saturating_sub(at);
    let version = match packet.first() {
        Some(&first) => first >> 4,
        None => return Ok(()),
    };
    if version != 4 && version != 6 {
        return Ok(());
    }
    cx.line.str(if cx.verbose() { "\n\t" } else { " " });
    ip::nested(cx, |cx| {
        if version == 4 {
            ip_prefix(cx, "IP ");
            ip::v4::print(cx, packet, length)
        } else {
            ip_prefix(cx, "IP6 ");
            ip::v6::print(cx, packet, length)
        }
    })
}

fn ip_prefix(cx: &mut Context<'_>, name: &str) {
    if !cx.options.link_header {
        cx.line.str(name);
    }
}
