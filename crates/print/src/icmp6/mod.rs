//! ICMP for IPv6 (RFC 4443) with neighbour discovery and multicast listeners.

mod multicast;
mod neighbour;

use super::bytes::{Bytes, Result};
use super::checksum;
use super::context::{Context, Network};
use super::groups;
use super::ip;
use super::line::{end, name_in, put};

const HEADER: usize = 8;

const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO: u8 = 128;
const ECHO_REPLY: u8 = 129;
const LISTENER_QUERY: u8 = 130;
const LISTENER_REPORT: u8 = 131;
const LISTENER_DONE: u8 = 132;
const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
const LISTENER_REPORT_V2: u8 = 143;

const NAMES: [(u8, &str); 25] = [
    (UNREACHABLE, "destination unreachable"),
    (TOO_BIG, "packet too big"),
    (TIME_EXCEEDED, "time exceeded in-transit"),
    (PARAMETER_PROBLEM, "parameter problem"),
    (ECHO, "echo request"),
    (ECHO_REPLY, "echo reply"),
    (LISTENER_QUERY, "multicast listener query"),
    (LISTENER_REPORT, "multicast listener report"),
    (LISTENER_DONE, "multicast listener done"),
    (ROUTER_SOLICITATION, "router solicitation"),
    (ROUTER_ADVERTISEMENT, "router advertisement"),
    (NEIGHBOUR_SOLICITATION, "neighbor solicitation"),
    (NEIGHBOUR_ADVERTISEMENT, "neighbor advertisement"),
    (REDIRECT, "redirect"),
    (138, "router renumbering"),
    (139, "who-are-you request"),
    (140, "who-are-you reply"),
    (141, "inverse neighbor solicitation"),
    (142, "inverse neighbor advertisement"),
    (LISTENER_REPORT_V2, "multicast listener report v2"),
    (144, "dhaad request"),
    (145, "dhaad reply"),
    (146, "mobile router solicitation"),
    (147, "mobile router advertisement"),
    (155, "RPL"),
];

/// Prints a message of `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter("icmp6");
    let kind = data.u8_at(0);
    if cx.verbose() && !net.fragmented && length > 0 && data.len() >= length {
        print_checksum(cx, net, data.up_to(length))?;
    }
    cx.line.str("ICMP6, ");
    if length == 0 {
        return end!(cx.line, "length 0 (invalid)");
    }
    let kind = kind?;
    let code = data.u8_at(1)?;
    let name = name_in(&NAMES, kind);
    cx.line
        .name(name, format_args!("unknown icmp6 type ({kind})"));
    let discovery = matches!(
        kind,
        ROUTER_SOLICITATION
            | ROUTER_ADVERTISEMENT
            | NEIGHBOUR_SOLICITATION
            | NEIGHBOUR_ADVERTISEMENT
            | REDIRECT
    );
    if cx.verbose() && discovery {
        put!(cx.line, ", length {length}");
    }
    match kind {
        UNREACHABLE => unreachable(cx, code, data)?,
        TOO_BIG => {
            put!(cx.line, ", mtu {}", data.u32_at(4)?);
        }
        TIME_EXCEEDED => time_exceeded(cx, code, data)?,
        PARAMETER_PROBLEM => parameter_problem(cx, code, data)?,
        ECHO | ECHO_REPLY => {
            put!(cx.line, ", id {}, seq {}", data.u16_at(4)?, data.u16_at(6)?);
        }
        LISTENER_QUERY if length >= 28 => multicast::query_v2(cx, data, length)?,
        LISTENER_QUERY | LISTENER_REPORT | LISTENER_DONE => {
            put!(cx.line, "max resp delay: {} addr: ", data.u16_at(4)?);
            cx.line.ipv6(data.array_at(HEADER)?);
        }
        LISTENER_REPORT_V2 => groups::records(cx, data, length, &groups::IPV6)?,
        _ if discovery => neighbour::print(cx, kind, data, length)?,
        _ => {}
    }
    if !cx.verbose() || name.is_none() {
        put!(cx.line, ", length {length}");
    }
    Ok(())
}

fn print_checksum(cx: &mut Context<'_>, net: &Network, message: &[u8]) -> Result {
    let sum = checksum::with_pseudo_header(net, ip::ICMPV6, message);
    if sum.checksum() == 0 {
        cx.line.str("[icmp6 sum ok] ");
    } else {
        let field = message.u16_at(2)?;
        let right = sum.corrected(field);
        put!(
            cx.line,
            "[bad icmp6 cksum 0x{field:04x} -> 0x{right:04x}!] "
        );
    }
    Ok(())
}

fn unreachable(cx: &mut Context<'_>, code: u8, data: &[u8]) -> Result {
    let reason = match code {
        0 => "unreachable route ",
        1 => " unreachable prohibited ",
        2 => {
            cx.line.str(", beyond scope ");
            cx.line.ipv6(data.array_at(HEADER + 24)?);
            cx.line.str(", source address ");
            cx.line.ipv6(data.array_at(HEADER + 8)?);
            return Ok(());
        }
        3 => "unreachable address ",
        4 => return unreachable_port(cx, data),
        5 => "source address failed policy ",
        6 => "reject route ",
        _ => "",
    };
    cx.line.str(", ");
    if reason.is_empty() {
        return end!(cx.line, "unknown unreach code ({code})");
    }
    cx.line.str(reason);
    cx.line.ipv6(data.array_at(HEADER + 24)?);
    Ok(())
}

fn unreachable_port(cx: &mut Context<'_>, data: &[u8]) -> Result {
    let packet = data.rest(HEADER);
    cx.line.str(", unreachable port");
    let target = packet.array_at(24)?;
    let (protocol, at) = last_protocol(packet)?;
    cx.line.str(", ");
    cx.line.ipv6(target);
    match protocol {
        ip::TCP => cx.line.str(" tcp"),
        ip::UDP => cx.line.str(" udp"),
        _ => put!(cx.line, " protocol {protocol}"),
    }
    end!(cx.line, " port {}", packet.u16_at(at + 2)?)
}

/// Returns the transport protocol of a quoted packet, and the offset of its header.
fn last_protocol(packet: &[u8]) -> Result<(u8, usize)> {
    let (mut next, mut at) = (packet.u8_at(6)?, 40);
    for _ in 0..16 {
        let size = match next {
            ip::HOP_BY_HOP | ip::DESTINATION_OPTIONS | ip::ROUTING => {
                (usize::from(packet.u8_at(at + 1)?) + 1) * 8
            }
            ip::FRAGMENT if packet.u16_at(at + 2)? & 0xfff8 == 0 => 8,
            _ => break,
        };
        next = packet.u8_at(at)?;
        at += size;
    }
    Ok((next, at))
}

fn time_exceeded(cx: &mut Context<'_>, code: u8, data: &[u8]) -> Result {
    match code {
        0 => {
            cx.line.str(" for ");
            cx.line.ipv6(data.array_at(HEADER + 24)?);
        }
        1 => cx.line.str(" (reassembly)"),
        _ => put!(cx.line, ", unknown code ({code})"),
    }
    Ok(())
}

fn parameter_problem(cx: &mut Context<'_>, code: u8, data: &[u8]) -> Result {
    let at = data.u32_at(4)?;
    match code {
        0 => put!(cx.line, ", erroneous - octet {at}"),
        1 => put!(cx.line, ", next header - octet {at}"),
        2 => put!(cx.line, ", option - octet {at}"),
        3 => put!(cx.line, ", incomplete header chain - octet {at}"),
        _ => put!(cx.line, ", code-#{code}"),
    }
    Ok(())
}
