//! HSRP, version 0 (RFC 2281 section 5.1).

use super::named;
use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, put};

const OPERATIONS: [(u8, &str); 3] = [(0, "hello"), (1, "coup"), (2, "resign")];
const STATES: [(u8, &str); 6] = [
    (0, "initial"),
    (1, "learn"),
    (2, "listen"),
    (4, "speak"),
    (8, "standby"),
    (16, "active"),
];
const AUTHENTICATION: usize = 8;
const ADDRESS: usize = 16;

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("hsrp");
    let version = data.u8_at(0)?;
    put!(cx.line, "HSRPv{version}");
    if version != 0 {
        return Ok(());
    }
    cx.line.str("-");
    let kind = data.u8_at(1)?;
    named(cx, &OPERATIONS, kind, format_args!("unknown ({kind})"));
    put!(cx.line, " {length}: ");
    let state = data.u8_at(2)?;
    cx.line.str("state=");
    named(cx, &STATES, state, format_args!("Unknown ({state})"));
    cx.line.str(" ");
    put!(cx.line, "group={} ", data.u8_at(6)?);
    let reserved = data.u8_at(7)?;
    if reserved != 0 {
        put!(cx.line, "[reserved={reserved}!] ");
    }
    put!(cx.line, "addr={}", Address::V4(data.array_at(ADDRESS)?));
    if cx.verbose() {
        let [hello, hold, priority] = data.array_at(3)?;
        put!(cx.line, " hellotime={hello}s holdtime={hold}s");
        put!(cx.line, " priority={priority} auth=\"");
        cx.line.escaped_string(data.part(AUTHENTICATION, 8)?);
        cx.line.str("\"");
    }
    Ok(())
}
