//! ICMP for IPv4 (RFC 792, RFC 950, RFC 1256).

use super::bytes::{Bytes, Result};
use super::checksum;
use super::context::{Context, Network};
use super::ip;
use super::line::{Address, end, put};

const HEADER: usize = 8;
const NAME: &str = "icmp";

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const ECHO: u8 = 8;
const ROUTER_ADVERTISEMENT: u8 = 9;
const ROUTER_SOLICITATION: u8 = 10;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
const TIMESTAMP: u8 = 13;
const TIMESTAMP_REPLY: u8 = 14;
const INFORMATION: u8 = 15;
const INFORMATION_REPLY: u8 = 16;
const MASK: u8 = 17;
const MASK_REPLY: u8 = 18;

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter(NAME);
    cx.line.str("ICMP ");
    let (kind, code) = (data.u8_at(0)?, data.u8_at(1)?);
    match kind {
        ECHO | ECHO_REPLY => {
            let what = if kind == ECHO { "request" } else { "reply" };
            let (id, sequence) = (data.u16_at(4)?, data.u16_at(6)?);
            put!(cx.line, "echo {what}, id {id}, seq {sequence}");
        }
        UNREACHABLE => unreachable(cx, code, data)?,
        SOURCE_QUENCH => cx.line.str("source quench"),
        REDIRECT => redirect(cx, code, data)?,
        ROUTER_ADVERTISEMENT => router_advertisement(cx, data)?,
        ROUTER_SOLICITATION => cx.line.str("router solicitation"),
        TIME_EXCEEDED => match code {
            0 => cx.line.str("time exceeded in-transit"),
            1 => cx.line.str("ip reassembly time exceeded"),
            _ => put!(cx.line, "time exceeded-#{code}"),
        },
        PARAMETER_PROBLEM if code != 0 => put!(cx.line, "parameter problem - code {code}"),
        PARAMETER_PROBLEM => put!(cx.line, "parameter problem - octet {}", data.u8_at(4)?),
        TIMESTAMP => timestamp(cx, "query", data)?,
        TIMESTAMP_REPLY => timestamp_reply(cx, data)?,
        INFORMATION => cx.line.str("information request"),
        INFORMATION_REPLY => cx.line.str("information reply"),
        MASK => cx.line.str("address mask request"),
        MASK_REPLY => put!(cx.line, "address mask is 0x{:08x}", data.u32_at(8)?),
        _ => put!(cx.line, "type-#{kind}"),
    }
    put!(cx.line, ", length {length}");
    if cx.verbose() {
        if !net.fragmented && data.len() >= length {
            print_checksum(cx, data.up_to(length))?;
        }
        if matches!(
            kind,
            UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM
        ) {
            quoted(cx, data, length)?;
        }
    }
    Ok(())
}

fn print_checksum(cx: &mut Context<'_>, message: &[u8]) -> Result {
    let sum = checksum::plain(message);
    if sum.checksum() != 0 {
        let field = message.u16_at(2)?;
        let right = sum.corrected(field);
        put!(cx.line, " (wrong icmp cksum {field:x} (->{right:x})!)");
    }
    Ok(())
}

/// Prints the packet that caused the message, as far as it is included.
fn quoted(cx: &mut Context<'_>, data: &[u8], length: usize) -> Result {
    let packet = data.rest(HEADER);
    cx.line.str("\n\t");
    let stated = usize::from(packet.u16_at(2)?);
    cx.line.str("IP ");
    ip::nested(cx, |cx| {
        ip::v4::print(cx, packet, stated.max(length.saturating_sub(HEADER)))
    })
}

fn unreachable(cx: &mut Context<'_>, code: u8, data: &[u8]) -> Result {
    let target = Address::V4(data.array_at(HEADER + 16)?);
    let (before, after) = match code {
        0 => ("net ", " unreachable"),
        1 => ("host ", " unreachable"),
        2 => {
            let protocol = data.u8_at(HEADER + 9)?;
            return end!(cx.line, "{target} protocol {protocol} unreachable");
        }
        3 => return port_unreachable(cx, target, data),
        4 => {
            let mtu = data.u16_at(6)?;
            put!(cx.line, "{target} unreachable - need to frag");
            if mtu != 0 {
                put!(cx.line, " (mtu {mtu})");
            }
            return Ok(());
        }
        5 => ("", " unreachable - source route failed"),
        6 => ("net ", " unreachable - unknown"),
        7 => ("host ", " unreachable - unknown"),
        8 => ("", " unreachable - source host isolated"),
        9 => ("net ", " unreachable - admin prohibited"),
        10 => ("host ", " unreachable - admin prohibited"),
        11 => ("net ", " unreachable - tos prohibited"),
        12 => ("host ", " unreachable - tos prohibited"),
        13 => ("host ", " unreachable - admin prohibited filter"),
        14 => ("host ", " unreachable - host precedence violation"),
        15 => ("host ", " unreachable - precedence cutoff"),
        _ => return end!(cx.line, "{target} unreachable - #{code}"),
    };
    end!(cx.line, "{before}{target}{after}")
}

fn port_unreachable(cx: &mut Context<'_>, target: Address, data: &[u8]) -> Result {
    let header = usize::from(data.u8_at(HEADER)? & 15) * 4;
    let protocol = data.u8_at(HEADER + 9)?;
    let port = data.u16_at(HEADER + header + 2)?;
    put!(cx.line, "{target}");
    match protocol {
        ip::TCP => cx.line.str(" tcp"),
        ip::UDP => cx.line.str(" udp"),
        _ => put!(cx.line, " protocol {protocol}"),
    }
    end!(cx.line, " port {port} unreachable")
}

fn redirect(cx: &mut Context<'_>, code: u8, data: &[u8]) -> Result {
    let [target, gateway] = [data.array_at(HEADER + 16)?, data.array_at(4)?].map(Address::V4);
    match code {
        0 | 1 => cx.line.str("redirect "),
        2 | 3 => cx.line.str("redirect-tos "),
        _ => put!(cx.line, "redirect-#{code} "),
    }
    let kind = match code {
        0 | 2 => "net ",
        1 | 3 => "host ",
        _ => "",
    };
    end!(cx.line, "{target} to {kind}{gateway}")
}

fn router_advertisement(cx: &mut Context<'_>, data: &[u8]) -> Result {
    cx.line.str("router advertisement");
    let (count, size, lifetime) = (data.u8_at(4)?, data.u8_at(5)?, data.u16_at(6)?);
    cx.line.str(" lifetime ");
    match lifetime {
        0..60 => put!(cx.line, "{lifetime}"),
        60..3600 => put!(cx.line, "{}:{:02}", lifetime / 60, lifetime % 60),
        _ => put!(
            cx.line,
            "{}:{:02}:{:02}",
            lifetime / 3600,
            lifetime % 3600 / 60,
            lifetime % 60
        ),
    }
    put!(cx.line, " {count}:");
    if size != 2 {
        return end!(cx.line, " [size {size}]");
    }
    for index in 0..usize::from(count) {
        cx.line.str(" {");
        cx.line.ipv4(data.array_at(HEADER + index * 8)?);
        put!(cx.line, " {}}}", data.u32_at(HEADER + index * 8 + 4)?);
    }
    Ok(())
}

fn timestamp(cx: &mut Context<'_>, what: &str, data: &[u8]) -> Result {
    let (id, sequence) = (data.u16_at(4)?, data.u16_at(6)?);
    end!(cx.line, "time stamp {what} id {id} seq {sequence}")
}

fn timestamp_reply(cx: &mut Context<'_>, data: &[u8]) -> Result {
    timestamp(cx, "reply", data)?;
    for (name, at) in [(": org", 8), (", recv", 12), (", xmit", 16)] {
        let millis = data.u32_at(at)?;
        let secs = millis / 1000;
        put!(
            cx.line,
            "{name} {:02}:{:02}:{:02}.{:03}",
            secs / 3600,
            secs / 60 % 60,
            secs % 60,
            millis % 1000
        );
    }
    Ok(())
}
