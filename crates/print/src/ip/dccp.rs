//! DCCP (RFC 4340 section 5): the type, the acknowledged number, service and reason.

use crate::bytes::{Bytes, Result};
use crate::context::{Context, Network};
use crate::line::{end, put};

/// The size of the generic header with sequence numbers of 24 and of 48 bits.
const SHORT: usize = 12;
const LONG: usize = 16;

const REQUEST: u8 = 0;
const RESPONSE: u8 = 1;
const DATA: u8 = 2;
const RESET: u8 = 7;

/// The types, and the number of bytes after the generic header.
const TYPES: [(&str, usize); 10] = [
    ("DCCP-Request", 4),
    ("DCCP-Response", 12),
    ("DCCP-Data", 0),
    ("DCCP-Ack", 8),
    ("DCCP-DataAck", 8),
    ("DCCP-CloseReq", 8),
    ("DCCP-Close", 8),
    ("DCCP-Reset", 12),
    ("DCCP-Sync", 8),
    ("DCCP-SyncAck", 8),
];
/// The reasons of section 5.6.
const REASONS: [&str; 12] = [
    "unspecified",
    "closed",
    "aborted",
    "no_connection",
    "packet_error",
    "option_error",
    "mandatory_error",
    "connection_refused",
    "bad_service_code",
    "too_busy",
    "bad_init_cookie",
    "aggression_penalty",
];

/// Prints a packet of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter("dccp");
    data.part(0, SHORT)?;
    let control = data.u8_at(8)?;
    let long = control & 1 != 0;
    let fixed = if long { LONG } else { SHORT };
    if length < fixed {
        let missing = fixed - length;
        return end!(cx.line, "truncated-dccp - {missing} bytes missing!");
    }
    data.part(0, fixed)?;
    net.ports(cx.line, data.u16_at(0)?, data.u16_at(2)?);
    cx.line.str("DCCP ");
    if cx.options.quiet {
        let header = usize::from(data.u8_at(4)?) * 4;
        cx.line.size(length.saturating_sub(header));
        return Ok(());
    }
    let kind = control >> 1 & 0x0f;
    let known = TYPES.get(usize::from(kind));
    if let Some((_, more)) = known.filter(|(_, more)| length >= fixed + more) {
        data.part(0, fixed + more)?;
    }
    match known {
        Some((name, more)) if length < fixed + more => {
            let missing = fixed + more - length;
            return end!(cx.line, "truncated-{name} - {missing} bytes missing!");
        }
        Some((name, _)) => put!(cx.line, "{name} "),
        None => put!(cx.line, "unknown-type-{kind} "),
    }
    match kind {
        REQUEST => put!(cx.line, "(service={}) ", data.u32_at(fixed)?),
        RESPONSE => put!(cx.line, "(service={}) ", data.u32_at(fixed + 8)?),
        RESET => {
            let reason = usize::from(data.u8_at(fixed + 8)?);
            let name = REASONS.get(reason).unwrap_or(&"invalid");
            put!(cx.line, "(code={name}) ");
        }
        _ => {}
    }
    if kind != REQUEST && kind != DATA {
        let acknowledged = if long {
            data.u48_at(fixed + 2)?
        } else {
            u64::from(data.u24_at(fixed + 1)?)
        };
        put!(cx.line, "(ack={acknowledged}) ");
    }
    Ok(())
}
