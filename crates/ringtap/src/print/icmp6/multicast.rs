//! Multicast listener discovery, version 2 (RFC 3810).

use crate::print::bytes::{Bytes, Truncated};
use crate::print::context::Context;
use crate::print::line::put;

/// A query of version 2.
pub(super) fn query_v2(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<(), Truncated> {
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
        let (flags, interval) = (data.u8_at(24)?, u32::from(data.u8_at(25)?));
        if flags & 8 != 0 {
            cx.line.str(" sflag");
        }
        if flags & 7 != 0 {
            put!(cx.line, " robustness={}", flags & 7);
        }
        let seconds = if interval < 128 {
            interval
        } else {
            ((interval & 15) | 16) << ((interval >> 4 & 7) + 3)
        };
        put!(cx.line, " qqi={seconds}");
    }
    if sources > 0 {
        if length < 28 + sources * 16 {
            put!(cx.line, " [invalid number of sources]");
        } else if cx.very_verbose() {
            addresses(cx, data, 28, sources)?;
        } else {
            put!(cx.line, ", {sources} source(s)");
        }
    }
    cx.line.str("]");
    Ok(())
}

/// A report of version 2.
pub(super) fn report_v2(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result<(), Truncated> {
    const KINDS: [&str; 7] = [
        "", " is_in", " is_ex", " to_in", " to_ex", " allow", " block",
    ];
    let groups = data.u16_at(6)?;
    put!(cx.line, ", {groups} group record(s)");
    if !cx.verbose() {
        return Ok(());
    }
    let mut at = 8;
    for _ in 0..groups {
        if cx.line.is_full() {
            break;
        }
        if at + 20 > length {
            cx.line.str(" [invalid number of groups]");
            break;
        }
        cx.line.str(" [gaddr ");
        cx.line.ipv6(data.array_at(at + 4)?);
        let (kind, sources) = (
            usize::from(data.u8_at(at)?),
            usize::from(data.u16_at(at + 2)?),
        );
        cx.line.str(
            KINDS
                .get(kind)
                .copied()
                .unwrap_or(" [icmp6 report bad type]"),
        );
        if at + 20 + sources * 16 > length {
            put!(cx.line, " [invalid number of sources {sources}]");
            break;
        }
        if cx.very_verbose() && sources > 0 {
            addresses(cx, data, at + 20, sources)?;
        } else {
            put!(cx.line, ", {sources} source(s)");
        }
        at += 20 + sources * 16;
        cx.line.str("]");
    }
    Ok(())
}

fn addresses(cx: &mut Context<'_>, data: &[u8], at: usize, count: usize) -> Result<(), Truncated> {
    cx.line.str(" {");
    for index in 0..count {
        cx.line.str(" ");
        cx.line.ipv6(data.array_at(at + index * 16)?);
    }
    cx.line.str(" }");
    Ok(())
}
