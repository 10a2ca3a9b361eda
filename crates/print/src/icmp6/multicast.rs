//! Multicast listener discovery, version 2 (RFC 3810).

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::groups::{self, IPV6};
use crate::line::{end, put};

/// Prints a query of version 2.
pub(super) fn query_v2(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.line.str(" v2");
    let code = u32::from(data.u16_at(4)?);
    // Section 5.1.3: from 32768 on a floating-point number of milliseconds.
    let delay = if code < 0x8000 {
        code
    } else {
        ((code & 0xfff) | 0x1000) << ((code >> 12 & 7) + 3)
    };
    if cx.verbose() {
        put!(cx.line, " [max resp delay={delay}]");
    }
    cx.line.str(" [gaddr ");
    cx.line.ipv6(data.array_at(8)?);
    let sources = usize::from(data.u16_at(26)?);
    if cx.verbose() {
        let (flags, interval) = (data.u8_at(24)?, data.u8_at(25)?);
        if flags & 8 != 0 {
            cx.line.str(" sflag");
        }
        if flags & 7 != 0 {
            put!(cx.line, " robustness={}", flags & 7);
        }
        put!(cx.line, " qqi={}", groups::time(interval));
    }
    if sources > 0 {
        if length < 28 + sources * 16 {
            put!(cx.line, " [invalid number of sources]");
        } else if cx.very_verbose() {
            groups::addresses(cx, data, 28, sources, &IPV6)?;
        } else {
            put!(cx.line, ", {sources} source(s)");
        }
    }
    end!(cx.line, "]")
}
