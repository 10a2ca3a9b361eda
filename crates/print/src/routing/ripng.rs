//! RIPng (RFC 2080 section 2.1): the routes.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, end, put};

const HEADER: usize = 4;
const ENTRY: usize = 20;
const VERSION: u8 = 1;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
/// RFC 2080 section 2.4.1: a request with only this entry is for the whole table.
const INFINITY: u8 = 16;

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ripng");
    let (command, version) = (data.u8_at(0)?, data.u8_at(1)?);
    if version != VERSION {
        return end!(cx.line, " [vers {version}] (invalid)");
    }
    let name = match command {
        REQUEST => " ripng-req",
        RESPONSE => " ripng-resp",
        _ => {
            return end!(cx.line, " ripng-{command} ?? {length} (invalid)");
        }
    };
    let Some(body) = length.checked_sub(HEADER) else {
        return end!(cx.line, " (invalid)");
    };
    let whole_table = command == REQUEST && body == ENTRY && is_whole_table(data)?;
    cx.line.str(name);
    if whole_table {
        return end!(cx.line, " dump");
    }
    let entries = body / ENTRY;
    put!(cx.line, " {entries}");
    let damaged = !body.is_multiple_of(ENTRY);
    if damaged {
        put!(cx.line, "[{length}]");
    }
    cx.line.str(":");
    for index in 0..entries {
        if cx.line.is_full() {
            break;
        }
        cx.line.str(if cx.very_verbose() { "\n\t" } else { " " });
        entry(cx, data.rest(HEADER + index * ENTRY), command)?;
    }
    if damaged {
        cx.line.str(" (invalid)");
    }
    Ok(())
}

fn is_whole_table(data: &[u8]) -> Result<bool> {
    let entry = data.part(HEADER, ENTRY)?;
    Ok(entry.u8_at(19)? == INFINITY && entry.array_at(0)? == [0; 16])
}

/// Prints a route: prefix, its length, and in responses the metric.
fn entry(cx: &mut Context<'_>, data: &[u8], command: u8) -> Result {
    let prefix = Address::V6(data.array_at(0)?);
    let (tag, bits) = (data.u16_at(16)?, data.u8_at(18)?);
    put!(cx.line, "{prefix}/{bits}");
    if tag != 0 {
        put!(cx.line, " [{tag}]");
    }
    let metric = data.u8_at(19)?;
    if command == RESPONSE && metric != 0 {
        put!(cx.line, " ({metric})");
    }
    Ok(())
}
