//! Neighbour discovery (RFC 4861) and its options (RFC 8106 for DNS).

use std::fmt;

use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::dns;
use crate::line::{Address, Flags, end, put};

const NEIGHBOUR_FLAGS: [(u32, &str); 3] = [
    (0x8000_0000, "router"),
    (0x4000_0000, "solicited"),
    (0x2000_0000, "override"),
];
const ROUTER_FLAGS: [(u32, &str); 3] = [
    (0x80, "managed"),
    (0x40, "other stateful"),
    (0x20, "home agent"),
];
const PREFIX_FLAGS: [(u32, &str); 3] = [(0x80, "onlink"), (0x40, "auto"), (0x20, "router")];
const INFINITY: u32 = u32::MAX;

/// Prints one of the five messages, after its name.
pub(super) fn print(cx: &mut Context<'_>, kind: u8, data: &[u8], length: usize) -> Result {
    let fixed = match kind {
        super::ROUTER_SOLICITATION => 8,
        super::ROUTER_ADVERTISEMENT => {
            if cx.verbose() {
                router_advertisement(cx, data)?;
            }
            16
        }
        super::NEIGHBOUR_SOLICITATION => {
            cx.line.str(", who has ");
            cx.line.ipv6(data.array_at(8)?);
            24
        }
        super::NEIGHBOUR_ADVERTISEMENT => {
            cx.line.str(", tgt is ");
            cx.line.ipv6(data.array_at(8)?);
            if cx.verbose() {
                let flags = Flags(data.u32_at(4)?, &NEIGHBOUR_FLAGS);
                put!(cx.line, ", Flags [{flags}]");
            }
            24
        }
        _ => {
            cx.line.str(", ");
            cx.line.ipv6(data.array_at(24)?);
            cx.line.str(" to ");
            cx.line.ipv6(data.array_at(8)?);
            40
        }
    };
    if cx.verbose() {
        options(cx, data, fixed, length)?;
    }
    Ok(())
}

fn preference(flags: u8) -> &'static str {
    match flags & 0x18 {
        0x08 => "high",
        0x00 => "medium",
        0x18 => "low",
        _ => "*reserved*",
    }
}

fn router_advertisement(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let flags = data.u8_at(5)?;
    let names = Flags(u32::from(flags), &ROUTER_FLAGS);
    put!(cx.line, "\n\thop limit {}, Flags [{names}", data.u8_at(4)?);
    end!(
        cx.line,
        "], pref {}, router lifetime {}s, reachable time {}ms, retrans timer {}ms",
        preference(flags),
        data.u16_at(6)?,
        data.u32_at(8)?,
        data.u32_at(12)?
    )
}

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MTU: u8 = 5;
const ADVERTISEMENT_INTERVAL: u8 = 7;
const HOME_AGENT: u8 = 8;
const ROUTE: u8 = 24;
const RDNSS: u8 = 25;
const DNSSL: u8 = 31;

fn option_name(kind: u8) -> &'static str {
    match kind {
        SOURCE_LINK => "source link-address",
        TARGET_LINK => "destination link-address",
        PREFIX => "prefix info",
        REDIRECTED => "redirected header",
        MTU => "mtu",
        ADVERTISEMENT_INTERVAL => "advertisement interval",
        HOME_AGENT => "homeagent information",
        ROUTE => "route info",
        RDNSS => "rdnss",
        DNSSL => "dnssl",
        _ => "unknown",
    }
}

fn options(cx: &mut Context<'_>, data: &[u8], mut at: usize, length: usize) -> Result {
    while at + 2 <= length && !cx.line.is_full() {
        let (kind, units) = (data.u8_at(at)?, data.u8_at(at + 1)?);
        let size = usize::from(units) * 8;
        put!(cx.line, "\n\t  {} option ({kind})", option_name(kind));
        put!(cx.line, ", length {size} ({units}): ");
        if size == 0 {
            return Err(Truncated);
        }
        let option = data.part(at, size)?;
        if at + size > length {
            return end!(cx.line, " (invalid)");
        }
        body(cx, kind, option)?;
        at += size;
    }
    Ok(())
}

/// A number of seconds.
struct Lifetime(u32);

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            INFINITY => f.write_str("infinity"),
            seconds => write!(f, "{seconds}s"),
        }
    }
}

fn body(cx: &mut Context<'_>, kind: u8, option: &[u8]) -> Result {
    match kind {
        SOURCE_LINK | TARGET_LINK => cx.line.link_address(option.rest(2)),
        PREFIX => {
            cx.line.ipv6(option.array_at(16)?);
            put!(
                cx.line,
                "/{}, Flags [{}], valid time {}, pref. time {}",
                option.u8_at(2)?,
                Flags(u32::from(option.u8_at(3)?), &PREFIX_FLAGS),
                Lifetime(option.u32_at(4)?),
                Lifetime(option.u32_at(8)?)
            );
        }
        MTU => put!(cx.line, " {}", option.u32_at(4)?),
        ADVERTISEMENT_INTERVAL => put!(cx.line, " {}ms", option.u32_at(4)?),
        HOME_AGENT => {
            let (preference, lifetime) = (option.u16_at(4)?, option.u16_at(6)?);
            put!(cx.line, " preference {preference}, lifetime {lifetime}");
        }
        RDNSS => {
            put!(cx.line, " lifetime {}s,", option.u32_at(4)?);
            for address in option.rest(8).as_chunks().0 {
                put!(cx.line, " addr: {}", Address::V6(*address));
            }
        }
        DNSSL => {
            put!(cx.line, " lifetime {}s, domain(s):", option.u32_at(4)?);
            let names = option.rest(8);
            let mut at = 0;
            while names.get(at).is_some_and(|&label| label != 0) && !cx.line.is_full() {
                cx.line.str(" ");
                let Some(next) = dns::names::print(cx.line, names, at)? else {
                    break;
                };
                at = next;
            }
        }
        ROUTE => {
            let mut prefix = [0; 16];
            let given = option.rest(8).up_to(16);
            prefix[..given.len()].copy_from_slice(given);
            put!(
                cx.line,
                " {}/{}, pref={}, lifetime={}",
                Address::V6(prefix),
                option.u8_at(2)?,
                preference(option.u8_at(3)?),
                Lifetime(option.u32_at(4)?)
            );
        }
        _ => {}
    }
    Ok(())
}
