//! RIP, versions 1 and 2 (RFC 1058, RFC 2453 section 4): version and command; with `-v` the routes.

use std::net::Ipv4Addr;

use crate::bytes::{Bytes, Result};
use crate::context::Context;
use crate::line::{Address, end, name_in, put};

const HEADER: usize = 4;
const ENTRY: usize = 20;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
const IPV4: u16 = 2;
/// RFC 2453 section 4.1: an entry of this family is for authentication.
const AUTHENTICATION: u16 = 0xffff;
const SIMPLE_PASSWORD: u16 = 2;

const COMMANDS: [(u8, &str); 6] = [
    (REQUEST, "Request"),
    (RESPONSE, "Response"),
    (3, "Trace on"),
    (4, "Trace off"),
    (5, "Poll"),
    (6, "Poll Entry"),
];

/// Prints a message of `length` bytes.
pub(super) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("rip");
    data.part(0, HEADER)?;
    let (command, version) = (data.u8_at(0)?, data.u8_at(1)?);
    if cx.verbose() {
        cx.line.str("\n\t");
    }
    put!(cx.line, "RIPv{version}");
    if version == 0 {
        return Ok(());
    }
    cx.line.str(", ");
    let name = name_in(&COMMANDS, command);
    cx.line
        .name(name, format_args!("unknown command ({command})"));
    put!(cx.line, ", length: {length}");
    if !cx.verbose() {
        return Ok(());
    }
    let routes = (length - HEADER) / ENTRY;
    match (version, command) {
        (1, REQUEST | RESPONSE) => put!(cx.line, ", routes: {routes}"),
        // An entry may be for authentication.
        (2, REQUEST | RESPONSE) => put!(cx.line, ", routes: {routes} or less"),
        _ => return Ok(()),
    }
    for index in 0..routes {
        if cx.line.is_full() {
            break;
        }
        let entry = data.part(HEADER + index * ENTRY, ENTRY)?;
        if version == 1 {
            route(cx, entry)?;
        } else {
            route_v2(cx, entry)?;
        }
    }
    Ok(())
}

/// Prints a route of version 1. Entries of other families than IPv4, or with bits set where none
/// are valid, are skipped.
fn route(cx: &mut Context<'_>, entry: &[u8]) -> Result {
    let unused = entry.u16_at(2)? == 0 && entry.array_at(8)? == [0; 8];
    if entry.u16_at(0)? == IPV4 && unused {
        let (address, metric) = (Address::V4(entry.array_at(4)?), entry.u32_at(16)?);
        put!(cx.line, "\n\t  {address}, metric: {metric}");
    }
    Ok(())
}

fn route_v2(cx: &mut Context<'_>, entry: &[u8]) -> Result {
    match entry.u16_at(0)? {
        IPV4 => cx.line.str("\n\t  AFI IPv4, "),
        0 => cx.line.str("\n\t  AFI 0, "),
        AUTHENTICATION if entry.u16_at(2)? == SIMPLE_PASSWORD => {
            cx.line.str("\n\t  Simple Text Authentication data: ");
            cx.line.escaped_string(entry.rest(4));
            return Ok(());
        }
        AUTHENTICATION => return Ok(()),
        other => {
            return end!(cx.line, "\n\t  AFI Unknown ({other})");
        }
    }
    let prefix = Ipv4Addr::from(entry.array_at::<4>(4)?);
    put!(cx.line, "{prefix:>15}/");
    match mask_length(entry.u32_at(8)?) {
        Some(length) => put!(cx.line, "{length:<2}"),
        None => cx.line.str("-1"),
    }
    let (tag, metric) = (entry.u16_at(2)?, entry.u32_at(16)?);
    put!(cx.line, ", tag 0x{tag:04x}, metric: {metric}, next-hop: ");
    match entry.array_at(12)? {
        [0, 0, 0, 0] => cx.line.str("self"),
        next => cx.line.ipv4(next),
    }
    Ok(())
}

/// Returns the length of a prefix, or `None` if the mask is not contiguous.
fn mask_length(mask: u32) -> Option<u32> {
    (mask.leading_ones() + mask.trailing_zeros() >= u32::BITS).then(|| mask.leading_ones())
}
