//! DVMRP (RFC 1075; version 3: draft-ietf-idmr-dvmrp-v3), in messages of IGMP.

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, Duration, end, put};

const HEADER: usize = 8;
const PROBE: u8 = 1;
const NEIGHBORS_OLD: u8 = 4;
const NEIGHBORS: u8 = 6;
const PRUNE: u8 = 7;
const GRAFT: u8 = 8;
const GRAFT_ACKNOWLEDGEMENT: u8 = 9;

const NAMES: [(u8, &str); 9] = [
    (PROBE, " Probe"),
    (2, " Report"),
    (3, " Ask-neighbors(old)"),
    (NEIGHBORS_OLD, " Neighbors(old)"),
    (5, " Ask-neighbors2"),
    (NEIGHBORS, " Neighbors2"),
    (PRUNE, " Prune"),
    (GRAFT, " Graft"),
    (GRAFT_ACKNOWLEDGEMENT, " Graft-ACK"),
];

const NEIGHBOR_FLAGS: [(u8, &str); 5] = [
    (0x01, "/tunnel"),
    (0x02, "/srcrt"),
    (0x40, "/querier"),
    (0x20, "/disabled"),
    (0x10, "/down"),
];

/// Prints a message of `length` bytes, the header of IGMP included.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.line.str("igmp dvmrp");
    cx.enter("dvmrp");
    if length < HEADER {
        return end!(cx.line, " [len {length}]");
    }
    let kind = data.u8_at(1)?;
    named(cx, &NAMES, kind, format_args!(" [type {kind}]"));
    let body = length - HEADER;
    match kind {
        PROBE if cx.verbose() => put!(cx.line, " genid {}", data.u32_at(HEADER)?),
        NEIGHBORS_OLD => neighbors(cx, data, body, true)?,
        NEIGHBORS => {
            data.part(0, HEADER)?;
            put!(cx.line, " (v {}.{}):", data.u8_at(7)?, data.u8_at(6)?);
            neighbors(cx, data, body, false)?;
        }
        PRUNE => {
            source_and_group(cx, data)?;
            cx.line.str(" timer ");
            put!(cx.line, "{}", Duration(data.u32_at(16)?));
        }
        GRAFT | GRAFT_ACKNOWLEDGEMENT => source_and_group(cx, data)?,
        _ => {}
    }
    Ok(())
}

fn source_and_group(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let [source, group] = [data.array_at(8)?, data.array_at(12)?].map(Address::V4);
    end!(cx.line, " src {source} grp {group}")
}

/// Returns whether `need` bytes of a list are missing; if so, prints a note.
fn is_short(cx: &mut Context<'_>, left: usize, need: usize) -> bool {
    if left < need {
        put!(cx.line, " [length {left} < {need}] (invalid)");
    }
    left < need
}

/// Prints the routers after each interface; those of the `old` form have no flags.
fn neighbors(cx: &mut Context<'_>, data: &[u8], body: usize, old: bool) -> Result {
    let entry = if old { 7 } else { 8 };
    let end = HEADER + body;
    let mut at = HEADER;
    while at < end && !cx.line.is_full() {
        if is_short(cx, end - at, entry) {
            return Ok(());
        }
        data.part(at, entry)?;
        let interface = Address::V4(data.array_at(at)?);
        let (metric, threshold) = (data.u8_at(at + 4)?, data.u8_at(at + 5)?);
        let (flags, count) = (data.u8_at(at + 6)?, data.u8_at(at + entry - 1)?);
        at += entry;
        for _ in 0..count {
            if !old && at >= end {
                return end!(cx.line, " [invalid ncount] (invalid)");
            }
            if is_short(cx, end - at, 4) {
                return Ok(());
            }
            put!(cx.line, " [{interface} ->{}", if old { "" } else { " " });
            let neighbor = Address::V4(data.array_at(at)?);
            if old {
                put!(cx.line, " {neighbor}, ({metric}/{threshold})]");
            } else {
                put!(cx.line, "{neighbor} ({metric}/{threshold}");
                cx.line.marks(flags, &NEIGHBOR_FLAGS);
                cx.line.str(")]");
            }
            at += 4;
        }
    }
    Ok(())
}
