//! OpenFlow (ONF TS-001 for 1.0, TS-006 for 1.3): the header of each message in a segment, on a line of its own.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const HEADER: usize = 8;

const VERSIONS: [&str; 6] = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];
const TYPES_1_0: [&str; 22] = [
    "HELLO",
    "ERROR",
    "ECHO_REQUEST",
    "ECHO_REPLY",
    "VENDOR",
    "FEATURES_REQUEST",
    "FEATURES_REPLY",
    "GET_CONFIG_REQUEST",
    "GET_CONFIG_REPLY",
    "SET_CONFIG",
    "PACKET_IN",
    "FLOW_REMOVED",
    "PORT_STATUS",
    "PACKET_OUT",
    "FLOW_MOD",
    "PORT_MOD",
    "STATS_REQUEST",
    "STATS_REPLY",
    "BARRIER_REQUEST",
    "BARRIER_REPLY",
    "QUEUE_GET_CONFIG_REQUEST",
    "QUEUE_GET_CONFIG_REPLY",
];
const TYPES_1_3: [&str; 30] = [
    "HELLO",
    "ERROR",
    "ECHO_REQUEST",
    "ECHO_REPLY",
    "EXPERIMENTER",
    "FEATURES_REQUEST",
    "FEATURES_REPLY",
    "GET_CONFIG_REQUEST",
    "GET_CONFIG_REPLY",
    "SET_CONFIG",
    "PACKET_IN",
    "FLOW_REMOVED",
    "PORT_STATUS",
    "PACKET_OUT",
    "FLOW_MOD",
    "GROUP_MOD",
    "PORT_MOD",
    "TABLE_MOD",
    "MULTIPART_REQUEST",
    "MULTIPART_REPLY",
    "BARRIER_REQUEST",
    "BARRIER_REPLY",
    "QUEUE_GET_CONFIG_REQUEST",
    "QUEUE_GET_CONFIG_REPLY",
    "ROLE_REQUEST",
    "ROLE_REPLY",
    "GET_ASYNC_REQUEST",
    "GET_ASYNC_REPLY",
    "SET_ASYNC",
    "METER_MOD",
];

/// Prints a segment's payload of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("openflow");
    cx.line.str("OpenFlow");
    let mut at = 0;
    while at < length && !cx.line.is_full() {
        match message(cx, data.rest(at), length - at)? {
            Some(size) => at += size,
            None => break,
        }
    }
    Ok(())
}

/// Prints a message; returns its size if another one can follow.
fn message(cx: &mut Context<'_>, data: &[u8], left: usize) -> Result<Option<usize>> {
    let (version, kinds) = version(data.u8_at(0)?);
    match version {
        Some(name) => put!(cx.line, "\n\tversion {name}"),
        None => put!(cx.line, "\n\tversion unknown (0x{:02x})", data.u8_at(0)?),
    }
    if left < 2 {
        return Ok(ended(cx));
    }
    let kind = data.u8_at(1)?;
    match kinds.get(usize::from(kind)) {
        Some(name) => put!(cx.line, ", type {name}"),
        None => put!(cx.line, ", type unknown (0x{kind:02x})"),
    }
    if left < 4 {
        return Ok(ended(cx));
    }
    let size = usize::from(data.u16_at(2)?);
    let short = size < HEADER;
    put!(
        cx.line,
        ", length {size}{}",
        if short { " (too short!)" } else { "" }
    );
    if left < HEADER {
        return Ok(ended(cx));
    }
    put!(cx.line, ", xid 0x{:08x}", data.u32_at(4)?);
    if short {
        cx.line.str(" (invalid)");
        return Ok(None);
    }
    data.part(0, size).map(|_| Some(size))
}

fn ended(cx: &mut Context<'_>) -> Option<usize> {
    cx.line.str(" (end of TCP payload)");
    None
}

fn version(version: u8) -> (Option<&'static str>, &'static [&'static str]) {
    let name = usize::from(version)
        .checked_sub(1)
        .and_then(|index| VERSIONS.get(index));
    let kinds: &[&str] = match version {
        1 => &TYPES_1_0,
        4 => &TYPES_1_3,
        _ => &[],
    };
    (name.copied(), kinds)
}
