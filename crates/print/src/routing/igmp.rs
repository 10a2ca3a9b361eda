//! IGMP (RFC 1112, RFC 2236, RFC 3376), and protocols with the same number: DVMRP, PIM version 1,
//! multicast traceroute (draft-ietf-idmr-traceroute-ipm).

use super::{dvmrp, pim};
use crate::bytes::{Bytes, Result};
use crate::checksum;
use crate::context::Context;
use crate::groups::{self, IPV4};
use crate::line::{Address, end, put};

const QUERY: u8 = 0x11;
const REPORT_V1: u8 = 0x12;
const REPORT_V2: u8 = 0x16;
const LEAVE: u8 = 0x17;
const DVMRP: u8 = 0x13;
const PIM: u8 = 0x14;
const TRACE_RESPONSE: u8 = 0x1e;
const TRACE: u8 = 0x1f;
const REPORT_V3: u8 = 0x22;

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("igmp");
    let kind = data.u8_at(0)?;
    match kind {
        QUERY => query(cx, data, length)?,
        REPORT_V1 | REPORT_V2 | LEAVE => {
            let group = data.array_at(4)?;
            cx.line.str(match kind {
                REPORT_V1 => "igmp v1 report ",
                REPORT_V2 => "igmp v2 report ",
                _ => "igmp leave ",
            });
            cx.line.ipv4(group);
            if kind == REPORT_V1 && length != 8 {
                put!(cx.line, " [len {length}]");
            }
        }
        DVMRP => dvmrp::print(cx, data, length)?,
        PIM => pim::version_one(cx, data)?,
        TRACE => trace(cx, "mtrace", data, length)?,
        TRACE_RESPONSE => trace(cx, "mresp", data, length)?,
        REPORT_V3 => report_v3(cx, data, length)?,
        _ => put!(cx.line, "igmp-{kind}"),
    }
    if cx.verbose() && data.len() >= length && checksum::plain(data.up_to(length)).checksum() != 0 {
        put!(cx.line, " bad igmp cksum {:x}!", data.u16_at(2)?);
    }
    Ok(())
}

fn query(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.line.str("igmp query");
    if length >= 12 {
        return query_v3(cx, data, length);
    }
    let code = data.u8_at(1)?;
    cx.line.str(if code == 0 { " v1" } else { " v2" });
    if code != 0 && code != 100 {
        put!(cx.line, " [max resp time {code}]");
    }
    let group = data.array_at(4)?;
    if group != [0; 4] {
        put!(cx.line, " [gaddr {}]", Address::V4(group));
    }
    if length != 8 {
        put!(cx.line, " [len {length}]");
    }
    Ok(())
}

fn query_v3(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.line.str(" v3");
    let delay = groups::time(data.u8_at(1)?);
    if delay != 100 {
        cx.line.str(" [max resp time ");
        match delay / 10 {
            seconds @ 0..60 => put!(cx.line, "{seconds}.{}s", delay % 10),
            seconds if seconds % 60 == 0 => put!(cx.line, "{}m", seconds / 60),
            seconds => put!(cx.line, "{}m{}s", seconds / 60, seconds % 60),
        }
        cx.line.str("]");
    }
    let group = data.array_at(4)?;
    if group == [0; 4] {
        return Ok(());
    }
    put!(cx.line, " [gaddr {}", Address::V4(group));
    let sources = usize::from(data.u16_at(10)?);
    if 12 + 4 * sources > length {
        cx.line.str(" [invalid number of sources]");
    } else if cx.very_verbose() && sources > 0 {
        groups::addresses(cx, data, 12, sources, &IPV4)?;
    } else if sources > 0 {
        put!(cx.line, ", {sources} source(s)");
    }
    end!(cx.line, "]")
}

fn report_v3(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.line.str("igmp v3 report");
    if length < 16 || !length.is_multiple_of(4) {
        return end!(cx.line, " [invalid len {length}]");
    }
    groups::records(cx, data, length, &IPV4)
}

/// Prints a trace of the path from a source to a receiver, or the answer.
fn trace(cx: &mut Context<'_>, name: &str, data: &[u8], length: usize) -> Result {
    const HEADER: usize = 24;
    /// The first nibble of multicast addresses.
    const MULTICAST: u8 = 0xe;
    if length < HEADER {
        return end!(cx.line, " [invalid len {length}]");
    }
    data.part(0, HEADER)?;
    let [source, receiver, reply_to] =
        [data.array_at(8)?, data.array_at(12)?, data.array_at(16)?].map(Address::V4);
    let query = data.u24_at(21)?;
    put!(cx.line, "{name} {query}: {source} to {receiver}");
    put!(cx.line, " reply-to {reply_to}");
    if data.u8_at(16)? >> 4 == MULTICAST {
        put!(cx.line, " with-ttl {}", data.u8_at(20)?);
    }
    Ok(())
}
