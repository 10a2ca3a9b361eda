//! Questions and resource records.

use super::{Message, names, type_name};
use crate::bytes::{Bytes, Result, Truncated};
use crate::context::Context;
use crate::line::{Address, Duration, end, name_in, put};

/// The kind of a list's entries.
#[derive(Clone, Copy)]
pub(super) enum Section {
    Question,
    Record,
}

const A: u16 = 1;
const NS: u16 = 2;
const CNAME: u16 = 5;
const SOA: u16 = 6;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;
const SRV: u16 = 33;
const DNAME: u16 = 39;
const OPT: u16 = 41;
const URI: u16 = 256;

const INTERNET: u16 = 1;
/// Multicast DNS: a unicast answer is requested (question), or other records are outdated (record).
const TOP_BIT: u16 = 0x8000;
/// The extended flag "DNSSEC OK" in the second half of an OPT record's time to live.
const DNSSEC_OK: u16 = 0x8000;

fn put_type(cx: &mut Context<'_>, kind: u16) {
    cx.line.name(type_name(kind), format_args!("Type{kind}"));
}

fn put_class(cx: &mut Context<'_>, class: u16) {
    match class {
        INTERNET => {}
        3 => cx.line.str(" CHAOS"),
        4 => cx.line.str(" HS"),
        255 => cx.line.str(" ANY"),
        _ => put!(cx.line, " (Class {class})"),
    }
}

/// Prints a blank and the name at `at`; returns the offset after it.
fn name(cx: &mut Context<'_>, data: &[u8], at: usize) -> Result<usize> {
    cx.line.str(" ");
    names::print(cx.line, data, at)?.ok_or(Truncated)
}

/// Prints a question: type, class if it is not the Internet's, name. Returns the offset after it.
pub(super) fn question(cx: &mut Context<'_>, message: &Message<'_>, at: usize) -> Result<usize> {
    let after = names::skip(message.data, at)?;
    let (kind, mut class) = (message.data.u16_at(after)?, message.data.u16_at(after + 2)?);
    cx.line.str(" ");
    put_type(cx, kind);
    let mut note = "";
    if message.multicast {
        note = if class & TOP_BIT != 0 {
            " (QU)"
        } else {
            " (QM)"
        };
        class &= !TOP_BIT;
    }
    put_class(cx, class);
    cx.line.str(note);
    cx.line.str("?");
    name(cx, message.data, at)?;
    Ok(after + 4)
}

/// Prints a record. Returns the offset after it, or `None` if the message ends inside its fixed fields.
pub(super) fn record(
    cx: &mut Context<'_>,
    message: &Message<'_>,
    at: usize,
) -> Result<Option<usize>> {
    let data = message.data;
    let after = if cx.verbose() {
        name(cx, data, at)?
    } else if at > data.len() && message.captured {
        return Ok(None);
    } else {
        names::skip(data, at)?
    };
    if data.part(after, 10).is_err() {
        return Ok(None);
    }
    let (kind, mut class) = (data.u16_at(after)?, data.u16_at(after + 2)?);
    if kind != OPT {
        let outdates = message.multicast && class & TOP_BIT != 0;
        if message.multicast {
            class &= !TOP_BIT;
        }
        put_class(cx, class);
        if outdates {
            cx.line.str(" (Cache flush)");
        }
        if cx.options.verbose > 2 {
            put!(cx.line, " [{}]", Duration(data.u32_at(after + 4)?));
        }
    }
    cx.line.str(" ");
    put_type(cx, kind);
    let size = usize::from(data.u16_at(after + 8)?);
    let begin = after + 10;
    let end = begin + size;
    if kind == OPT {
        edns(cx, class, data.u32_at(after + 4)?);
    }
    // A record captured in part is named; its data are not printed.
    if end > data.len() {
        return Err(Truncated);
    }
    if kind == OPT {
        edns_options(cx, data.part(begin, size)?)?;
    } else {
        body(cx, data, kind, begin, end)?;
    }
    Ok(Some(end))
}

/// Prints the fields of EDNS (RFC 6891): the class is the sender's buffer size, the time to live holds flags.
fn edns(cx: &mut Context<'_>, size: u16, lifetime: u32) {
    put!(cx.line, " UDPsize={size}");
    let flags = (lifetime & 0xffff) as u16;
    if flags & DNSSEC_OK != 0 {
        cx.line.str(" DO");
    }
}

/// Prints the options of EDNS (RFC 6891 section 6.1.2) that have a form of their own.
fn edns_options(cx: &mut Context<'_>, options: &[u8]) -> Result {
    const CLIENT_SUBNET: u16 = 8;
    const COOKIE: u16 = 10;
    const PADDING: u16 = 12;
    let mut at = 0;
    while at < options.len() && !cx.line.is_full() {
        cx.line.str(if at == 0 { " [" } else { "," });
        let (code, size) = (options.u16_at(at)?, usize::from(options.u16_at(at + 2)?));
        cx.line
            .name(name_in(&OPTIONS, code), format_args!("Opt{code}"));
        let value = options.part(at + 4, size)?;
        match code {
            _ if value.is_empty() => {}
            CLIENT_SUBNET => client_subnet(cx, value)?,
            PADDING => put!(cx.line, " ({size})"),
            COOKIE => {
                // RFC 7873 section 4: the client's part, then the server's.
                cx.line.str(" ");
                cx.line.hex(value.up_to(8));
                if size > 8 {
                    cx.line.str(" ");
                    cx.line.hex(value.rest(8));
                }
            }
            _ => {
                cx.line.str(" ");
                cx.line.hex(value);
            }
        }
        at += 4 + size;
    }
    if !options.is_empty() {
        cx.line.str("]");
    }
    Ok(())
}

const OPTIONS: [(u16, &str); 15] = [
    (1, "LLQ"),
    (2, "UL"),
    (3, "NSID"),
    (5, "DAU"),
    (6, "DHU"),
    (7, "N3U"),
    (8, "ECS"),
    (9, "EXPIRE"),
    (10, "COOKIE"),
    (11, "KEEPALIVE"),
    (12, "PADDING"),
    (13, "CHAIN"),
    (14, "KEY-TAG"),
    (16, "CLIENT-TAG"),
    (17, "SERVER-TAG"),
];

/// Prints a client subnet (RFC 7871 section 6): a prefix, without the bytes that are zero.
fn client_subnet(cx: &mut Context<'_>, value: &[u8]) -> Result {
    let (family, source, scope) = (value.u16_at(0)?, value.u8_at(2)?, value.u8_at(3)?);
    let prefix = value.rest(4);
    cx.line.str(" ");
    let mut address = [0; 16];
    let shown = prefix.up_to(address.len());
    address[..shown.len()].copy_from_slice(shown);
    match family {
        1 => cx.line.ipv4(address.array_at(0)?),
        2 => cx.line.ipv6(address),
        _ => cx.line.hex(prefix),
    }
    end!(cx.line, "/{source}/{scope}")
}

/// Returns the upper eight bits of the response code, from the first OPT record that can be
/// reached.
pub(super) fn extended_code(message: &Message<'_>) -> Option<u16> {
    let [questions, records @ ..] = message.counts;
    let mut at = super::HEADER;
    for _ in 0..questions {
        at = names::skip(message.data, at).ok()? + 4;
    }
    for _ in 0..records.iter().map(|&count| u32::from(count)).sum() {
        let after = names::skip(message.data, at).ok()?;
        if message.data.u16_at(after).ok()? == OPT {
            return message.data.u8_at(after + 4).ok().map(u16::from);
        }
        at = after + 10 + usize::from(message.data.u16_at(after + 8).ok()?);
    }
    None
}

/// Prints the data of a record between `at` and `end`.
fn body(cx: &mut Context<'_>, data: &[u8], kind: u16, at: usize, end: usize) -> Result {
    match kind {
        A => put!(cx.line, " {}", Address::V4(data.array_at(at)?)),
        AAAA => put!(cx.line, " {}", Address::V6(data.array_at(at)?)),
        NS | CNAME | PTR | DNAME => {
            name(cx, data, at)?;
        }
        SOA if cx.verbose() => soa(cx, data, at)?,
        MX => {
            let preference = data.u16_at(at)?;
            name(cx, data, at + 2)?;
            put!(cx.line, " {preference}");
        }
        TXT => texts(cx, data, at, end)?,
        URI => uri(cx, data.part(at, end - at)?)?,
        SRV => {
            let (priority, weight, port) =
                (data.u16_at(at)?, data.u16_at(at + 2)?, data.u16_at(at + 4)?);
            name(cx, data, at + 6)?;
            put!(cx.line, ":{port} {priority} {weight}");
        }
        _ => {}
    }
    Ok(())
}

fn soa(cx: &mut Context<'_>, data: &[u8], at: usize) -> Result {
    let at = name(cx, data, at)?;
    let at = name(cx, data, at)?;
    for field in 0..5 {
        put!(cx.line, " {}", data.u32_at(at + field * 4)?);
    }
    Ok(())
}

/// Prints a URI record (RFC 7553 section 4.4): priority, weight, target.
fn uri(cx: &mut Context<'_>, data: &[u8]) -> Result {
    put!(cx.line, " {} {} ", data.u16_at(0)?, data.u16_at(2)?);
    cx.line.escaped(data.rest(4));
    Ok(())
}

fn texts(cx: &mut Context<'_>, message: &[u8], mut at: usize, end: usize) -> Result {
    while at < end {
        let size = usize::from(message.u8_at(at)?);
        cx.line.str(" \"");
        cx.line.escaped(message.rest(at + 1).up_to(size));
        message.part(at + 1, size)?;
        cx.line.str("\"");
        at += 1 + size;
    }
    Ok(())
}
