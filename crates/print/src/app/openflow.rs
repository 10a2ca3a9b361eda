//! OpenFlow (ONF TS-001 for 1.0, TS-006 for 1.3): the header of each message in a segment, on a line of its own.

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::put;

const HEADER: usize = 8;

const VERSIONS: [&str; 6] = ["1.0", "1.1", "1.2", "1.3", "1.4", "1.5"];
/// The types of version 1.3.
const TYPES: [&str; 30] = [
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
    let version = data.u8_at(0)?;
    let name = VERSIONS.get(usize::from(version).wrapping_sub(1)).copied();
    cx.line.str("\n\tversion ");
    cx.line
        .name(name, format_args!("unknown (0x{version:02x})"));
    if left < 2 {
        return Ok(ended(cx));
    }
    let kind = data.u8_at(1)?;
    let name = type_name(version, kind);
    cx.line.str(", type ");
    cx.line.name(name, format_args!("unknown (0x{kind:02x})"));
    if left < 4 {
        return Ok(ended(cx));
    }
    let size = usize::from(data.u16_at(2)?);
    let short = size < HEADER;
    let note = if short { " (too short!)" } else { "" };
    put!(cx.line, ", length {size}{note}");
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

/// Returns the name of a type. Version 1.0 has other names for a few, and other numbers from 15 on.
fn type_name(version: u8, kind: u8) -> Option<&'static str> {
    let place = match (version, kind) {
        (1, 4) => return Some("VENDOR"),
        (1, 16) => return Some("STATS_REQUEST"),
        (1, 17) => return Some("STATS_REPLY"),
        (1, 15) => 16,
        (1, 18..=21) => kind + 2,
        (1, 0..=14) | (4, _) => kind,
        _ => return None,
    };
    TYPES.get(usize::from(place)).copied()
}
