//! PIM, version 2 (RFC 7761 section 4.9), and version 1 in messages of IGMP (draft-ietf-pim-arch).

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, Duration, end, put};

const VERSION: u8 = 2;

const TYPES: [(u8, &str); 12] = [
    (0, "Hello"),
    (1, "Register"),
    (2, "Register Stop"),
    (3, "Join / Prune"),
    (4, "Bootstrap"),
    (5, "Assert"),
    (6, "Graft"),
    (7, "Graft Acknowledgement"),
    (8, "Candidate RP Advertisement"),
    (9, "Prune Refresh"),
    (10, "DF Election"),
    (11, "ECMP Redirect"),
];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("pim");
    let first = data.u8_at(0)?;
    put!(cx.line, "PIMv{}", first >> 4);
    if first >> 4 == VERSION {
        cx.line.str(", ");
        named(cx, &TYPES, first & 15, format_args!("Unknown Type"));
    }
    end!(cx.line, ", length {length}")
}

const QUERY: u8 = 0;
const REGISTER: u8 = 1;
const REGISTER_STOP: u8 = 2;
const ASSERT: u8 = 5;

const TYPES_V1: [(u8, &str); 8] = [
    (QUERY, " Query"),
    (REGISTER, " Register"),
    (REGISTER_STOP, " Register-Stop"),
    (3, " Join/Prune"),
    (4, " RP-reachable"),
    (ASSERT, " Assert"),
    (6, " Graft"),
    (7, " Graft-ACK"),
];

const MODES: [(u8, &str); 3] = [
    (0, " Dense-mode"),
    (1, " Sparse-mode"),
    (2, " Sparse-Dense-mode"),
];

/// Prints a message of version 1, the header of IGMP included.
pub(super) fn version_one(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.line.str("igmp pimv1");
    cx.enter("pimv1");
    let kind = data.u8_at(1)?;
    named(cx, &TYPES_V1, kind, format_args!(" [type {kind}]"));
    match kind {
        QUERY => query(cx, data)?,
        // The addresses are those of the encapsulated packet.
        REGISTER => between(cx, data, 20, 24)?,
        REGISTER_STOP => between(cx, data, 8, 12)?,
        ASSERT => assert(cx, data)?,
        _ => {}
    }
    let version = data.u8_at(4)? >> 4;
    if version != 1 {
        put!(cx.line, " [v{version}]");
    }
    Ok(())
}

fn query(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let Some(&mode) = data.get(8) else {
        return Ok(());
    };
    let mode = mode >> 4;
    named(cx, &MODES, mode, format_args!(" mode-{mode}"));
    if cx.verbose() {
        cx.line.str(" (Hold-time ");
        put!(cx.line, "{})", Duration(u32::from(data.u16_at(10)?)));
    }
    Ok(())
}

fn between(cx: &mut Context<'_>, data: &[u8], from: usize, to: usize) -> Result {
    let [from, to] = [data.array_at(from)?, data.array_at(to)?].map(Address::V4);
    end!(cx.line, " for {from} > {to}")
}

fn assert(cx: &mut Context<'_>, data: &[u8]) -> Result {
    /// The bit of a router that forwards on the tree of the rendezvous point.
    const SHARED_TREE: u32 = 0x8000_0000;
    let [group, mask, source] =
        [data.array_at(8)?, data.array_at(12)?, data.array_at(16)?].map(Address::V4);
    put!(cx.line, " for {source} > {group}/{mask}");
    let (preference, metric) = (data.u32_at(20)?, data.u32_at(24)?);
    let is_shared = preference & SHARED_TREE != 0;
    let tree = if is_shared { "RP" } else { "SPT" };
    let preference = preference & !SHARED_TREE;
    end!(cx.line, " {tree} pref {preference} metric {metric}")
}
