//! IPv4 (RFC 791).

use ringtap_packet::headers::route::{self, Stop};

use crate::bytes::{Bytes, Result};
use crate::checksum;
use crate::context::{Context, Network};
use crate::line::{Address, Flags, end, name_in, put};

const HEADER: usize = 20;
const MORE_FRAGMENTS: u16 = 0x2000;
const FLAGS: [(u32, &str); 3] = [(0x2000, "+"), (0x4000, "DF"), (0x8000, "rsvd")];
const ECN: [&str; 4] = ["", ",ECT(1)", ",ECT(0)", ",CE"];

/// Prints a packet that a layer below announced as IPv4, with its name unless that layer has been
/// printed (`named`). Adds a note if it is not IPv4.
pub(crate) fn announced(cx: &mut Context<'_>, data: &[u8], length: usize, named: bool) -> Result {
    cx.enter("ip");
    match data.u8_at(0)? >> 4 {
        6 => cx.line.str("IP6, wrong link-layer encapsulation (invalid)"),
        4 => {
            if !named {
                cx.line.str("IP ");
            }
            return print(cx, data, length);
        }
        version => put!(cx.line, "IP{version} (invalid)"),
    }
    Ok(())
}

/// Prints a packet for which the layer below states `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    cx.enter("ip");
    data.part(0, HEADER)?;
    let first = data.u8_at(0)?;
    let header = usize::from(first & 15) * 4;
    if header < HEADER {
        return end!(cx.line, "bad-hlen {header}");
    }
    let stated = usize::from(data.u16_at(2)?);
    if length < stated {
        let missing = stated - length;
        put!(cx.line, "truncated-ip - {missing} bytes missing! ");
    }
    // Without a length, the adapter will segment the packet (TSO), or it is longer than 65,535
    // bytes (BIG TCP).
    let total = if stated == 0 { length } else { stated };
    if total < header {
        return end!(cx.line, "bad-len {stated}");
    }
    let data = data.up_to(total);
    let payload_length = total - header;
    let fragment = data.u16_at(6)?;
    let protocol = data.u8_at(9)?;
    let destination = data.array_at(16)?;
    if cx.verbose() {
        header_line(cx, data, header, total)?;
    }
    let offset = usize::from(fragment & 0x1fff) * 8;
    let mut net = Network {
        hop_limit: data.u8_at(8)?,
        source: Address::V4(data.array_at(12)?),
        destination: Address::V4(final_destination(data, header).unwrap_or(destination)),
        shown_destination: Address::V4(destination),
        fragmented: offset != 0 || fragment & MORE_FRAGMENTS != 0,
        endpoints: true,
    };
    if offset != 0 {
        net.addresses(cx.line);
        return end!(cx.line, "ip-proto-{protocol}");
    }
    if !matches!(
        protocol,
        super::TCP | super::UDP | super::SCTP | super::DCCP
    ) {
        net.addresses(cx.line);
        net.endpoints = false;
    }
    super::payload(cx, &mut net, protocol, data.rest(header), payload_length)
}

fn header_line(cx: &mut Context<'_>, data: &[u8], header: usize, total: usize) -> Result {
    let (tos, ttl, protocol) = (data.u8_at(1)?, data.u8_at(8)?, data.u8_at(9)?);
    put!(cx.line, "(tos 0x{tos:x}{}", ECN[usize::from(tos & 3)]);
    if ttl >= 1 {
        put!(cx.line, ", ttl {ttl}");
    }
    let fragment = data.u16_at(6)?;
    put!(
        cx.line,
        ", id {}, offset {}, flags [{}], proto {} ({protocol}), length {total}",
        data.u16_at(4)?,
        u32::from(fragment & 0x1fff) * 8,
        Flags(u32::from(fragment & 0xe000), &FLAGS),
        super::name(protocol)
    );
    if data.u16_at(2)? == 0 {
        cx.line.str(" [was 0, presumed TSO]");
    }
    if header > HEADER {
        cx.line.str(", options (");
        options(cx, data, header)?;
        cx.line.str(")");
    }
    if let (false, Ok(bytes)) = (cx.options.skip_checksums, data.part(0, header)) {
        let sum = checksum::plain(bytes);
        if sum.checksum() != 0 {
            let field = data.u16_at(10)?;
            let right = sum.corrected(field);
            put!(cx.line, ", bad cksum {field:x} (->{right:x})!");
        }
    }
    end!(cx.line, ")\n    ")
}

const RECORD_ROUTE: u8 = 7;
const TIMESTAMP: u8 = 68;
const LOOSE_SOURCE: u8 = 131;
const STRICT_SOURCE: u8 = 137;
const ROUTER_ALERT: u8 = 148;

const OPTIONS: [(u8, &str); 8] = [
    (0, "EOL"),
    (1, "NOP"),
    (RECORD_ROUTE, "RR"),
    (TIMESTAMP, "timestamp"),
    (130, "security"),
    (LOOSE_SOURCE, "LSRR"),
    (STRICT_SOURCE, "SSRR"),
    (ROUTER_ALERT, "RA"),
];

fn options(cx: &mut Context<'_>, data: &[u8], header: usize) -> Result {
    let mut at = HEADER;
    while at < header {
        if at > HEADER {
            cx.line.str(",");
        }
        let kind = data.u8_at(at)?;
        cx.line
            .name(name_in(&OPTIONS, kind), format_args!("unknown {kind}"));
        if kind <= 1 {
            at += 1;
            if kind == 0 {
                break;
            }
            continue;
        }
        if at + 1 >= header {
            cx.line.str(" [bad length 0]");
            break;
        }
        let stated = usize::from(data.u8_at(at + 1)?);
        if stated < 2 || at + stated > header {
            put!(cx.line, " [bad length {stated}]");
            break;
        }
        let option = data.part(at, stated)?;
        match kind {
            RECORD_ROUTE | LOOSE_SOURCE | STRICT_SOURCE => route(cx, option)?,
            TIMESTAMP => timestamps(cx, option)?,
            ROUTER_ALERT => router_alert(cx, option)?,
            _ => {}
        }
        at += stated;
    }
    Ok(())
}

/// Prints the addresses; those before the pointer, which were visited, are followed by a comma.
fn route(cx: &mut Context<'_>, option: &[u8]) -> Result {
    if option.len() < 3 {
        return end!(cx.line, " [bad length {}]", option.len());
    }
    if (option.len() + 1) & 3 != 0 {
        put!(cx.line, " [bad length {}]", option.len());
    }
    // It counts from 1; 0 is taken as far after the addresses.
    let pointer = usize::from(option.u8_at(2)?).wrapping_sub(1);
    if pointer < 3 || pointer > option.len() || pointer & 3 != 3 {
        put!(cx.line, " [bad ptr {}]", option.u8_at(2)?);
    }
    for (index, &hop) in option.rest(3).as_chunks().0.iter().enumerate() {
        let comma = if pointer > 3 + index * 4 { "," } else { "" };
        put!(cx.line, " {}{comma}", Address::V4(hop));
    }
    Ok(())
}

fn timestamps(cx: &mut Context<'_>, option: &[u8]) -> Result {
    if option.len() < 4 {
        return end!(cx.line, "[bad length {}]", option.len());
    }
    cx.line.str(" TS{");
    let (pointer, flags) = (usize::from(option.u8_at(2)?), option.u8_at(3)?);
    let entry = match flags & 15 {
        0 => {
            cx.line.str("TSONLY");
            4
        }
        1 | 3 => {
            cx.line.str(if flags & 15 == 1 {
                "TS+ADDR"
            } else {
                "PRESPEC"
            });
            8
        }
        other => {
            put!(cx.line, "[bad ts type {other}]");
            4
        }
    };
    for (index, stamp) in option.rest(4).chunks_exact(entry).enumerate() {
        let is_next = 4 + index * entry + 1 == pointer;
        cx.line.str(if is_next { " ^ " } else { " " });
        if entry == 8 {
            put!(cx.line, "{} ", Address::V4(stamp.array_at(0)?));
        }
        put!(cx.line, "{}@", stamp.u32_at(entry - 4)?);
    }
    if flags >> 4 != 0 {
        put!(cx.line, " [{} hops not recorded]}} ", flags >> 4);
    }
    end!(cx.line, "}}")
}

fn router_alert(cx: &mut Context<'_>, option: &[u8]) -> Result {
    if option.len() != 4 {
        return end!(cx.line, " [bad length {}]", option.len());
    }
    let value = option.u16_at(2)?;
    if value != 0 {
        put!(cx.line, " value {value}");
    }
    Ok(())
}

/// Returns the last hop of a source route with hops left, which transport checksums cover.
fn final_destination(data: &[u8], header: usize) -> Option<[u8; 4]> {
    let options = data.up_to(header).rest(HEADER);
    match route::last_stop_v4(options) {
        Stop::At(at) => options.array_at(at).ok(),
        Stop::Reached | Stop::Unknown => None,
    }
}
