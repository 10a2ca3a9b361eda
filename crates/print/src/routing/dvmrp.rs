//! DVMRP (RFC 1075; version 3: draft-ietf-idmr-dvmrp-v3), in messages of IGMP.

use super::{duration, named};
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{end, put};

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
    named(cx, &NAMES, kind, |cx| put!(cx.line, " [type {kind}]"));
    let body = length - HEADER;
    match kind {
        PROBE if cx.verbose() => put!(cx.line, " genid {}", data.u32_at(HEADER)?),
        NEIGHBORS_OLD => neighbors_old(cx, data, body)?,
        NEIGHBORS => {
            data.part(0, HEADER)?;
            put!(cx.line, " (v {}.{}):", data.u8_at(7)?, data.u8_at(6)?);
            neighbors(cx, data, body)?;
        }
        PRUNE => {
            source_and_group(cx, data)?;
            cx.line.str(" timer ");
            duration(cx, data.u32_at(16)?);
        }
        GRAFT | GRAFT_ACKNOWLEDGEMENT => source_and_group(cx, data)?,
        _ => {}
    }
    Ok(())
}

fn source_and_group(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let (source, group) = (data.array_at(8)?, data.array_at(12)?);
    cx.line.str(" src ");
    cx.line.ipv4(source);
    cx.line.str(" grp ");
    cx.line.ipv4(group);
    Ok(())
}

/// Returns whether `need` bytes of a list are missing; if so, prints a note.
fn is_short(cx: &mut Context<'_>, left: usize, need: usize) -> bool {
    if left < need {
        put!(cx.line, " [length {left} < {need}] (invalid)");
    }
    left < need
}

/// Prints the routers after each interface, without flags.
fn neighbors_old(cx: &mut Context<'_>, data: &[u8], body: usize) -> Result {
    const ENTRY: usize = 7;
    let end = HEADER + body;
    let mut at = HEADER;
    while at < end && !cx.line.is_full() {
        if is_short(cx, end - at, ENTRY) {
            return Ok(());
        }
        data.part(at, ENTRY)?;
        let interface = data.array_at(at)?;
        let (metric, threshold) = (data.u8_at(at + 4)?, data.u8_at(at + 5)?);
        let count = data.u8_at(at + 6)?;
        at += ENTRY;
        for _ in 0..count {
            if is_short(cx, end - at, 4) {
                return Ok(());
            }
            cx.line.str(" [");
            cx.line.ipv4(interface);
            cx.line.str(" ->");
            let neighbor = data.array_at(at)?;
            cx.line.str(" ");
            cx.line.ipv4(neighbor);
            put!(cx.line, ", ({metric}/{threshold})]");
            at += 4;
        }
    }
    Ok(())
}

/// Prints the routers after each interface.
fn neighbors(cx: &mut Context<'_>, data: &[u8], body: usize) -> Result {
    const ENTRY: usize = 8;
    let end = HEADER + body;
    let mut at = HEADER;
    while at < end && !cx.line.is_full() {
        if is_short(cx, end - at, ENTRY) {
            return Ok(());
        }
        data.part(at, ENTRY)?;
        let interface = data.array_at(at)?;
        let (metric, threshold) = (data.u8_at(at + 4)?, data.u8_at(at + 5)?);
        let (flags, count) = (data.u8_at(at + 6)?, data.u8_at(at + 7)?);
        at += ENTRY;
        for _ in 0..count {
            if at >= end {
                return end!(cx.line, " [invalid ncount] (invalid)");
            }
            if is_short(cx, end - at, 4) {
                return Ok(());
            }
            cx.line.str(" [");
            cx.line.ipv4(interface);
            cx.line.str(" -> ");
            cx.line.ipv4(data.array_at(at)?);
            put!(cx.line, " ({metric}/{threshold}");
            for (bit, name) in NEIGHBOR_FLAGS {
                if flags & bit != 0 {
                    cx.line.str(name);
                }
            }
            cx.line.str(")]");
            at += 4;
        }
    }
    Ok(())
}
