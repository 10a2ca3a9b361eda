//! UDP (RFC 768), and protocols known by their port.

use ringtap_packet::protocol::{self, GENEVE_PORT, VXLAN_PORT};

use super::bytes::{Bytes, Result, Truncated};
use super::checksum;
use super::context::{Context, Network};
use super::line::{Address, end, put};
use super::{app, dns, routing, small};

const HEADER: usize = 8;

const DNS: u16 = 53;
const BOOTP_SERVER: u16 = 67;
const BOOTP_CLIENT: u16 = 68;
const NTP: u16 = 123;
const MULTICAST_DNS: u16 = 5353;

/// Prints a datagram for which the network header states `length` bytes.
pub(crate) fn print(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    cx.enter("udp");
    if data.len() < 4 {
        if net.endpoints {
            net.addresses(cx.line);
        }
        return Err(Truncated);
    }
    let (source, destination) = (data.u16_at(0)?, data.u16_at(2)?);
    let Ok(stated) = data.u16_at(4) else {
        net.ports(cx.line, source, destination);
        return Err(Truncated);
    };
    net.ports(cx.line, source, destination);
    if length < HEADER {
        return end!(cx.line, "truncated-udp {length}");
    }
    let mut stated = usize::from(stated);
    if stated == 0 && length > usize::from(u16::MAX) {
        // A jumbogram (RFC 2675 section 4).
        stated = length;
    }
    if stated < HEADER {
        return end!(cx.line, "truncated-udplength {stated}");
    }
    let missing = stated > length;
    let payload_length = stated.min(length) - HEADER;
    data.u16_at(6)?;
    // Over IPv4 a checksum is optional, and often left to the NIC: only -vv prints it.
    let verify = match net.source {
        Address::V4(_) => cx.very_verbose(),
        Address::V6(_) => cx.verbose(),
    };
    if verify && !net.fragmented && !cx.options.skip_checksums {
        print_checksum(cx, net, data, stated.min(length))?;
    }
    let payload = data.rest(HEADER).up_to(payload_length);
    if !cx.options.quiet && by_port(cx, net, (source, destination), payload, payload_length)? {
        return Ok(());
    }
    if missing && !net.fragmented {
        let (stated, room) = (stated - HEADER, length - HEADER);
        return end!(cx.line, "UDP, bad length {stated} > {room}");
    }
    cx.line.str("UDP, length ");
    cx.line.size(stated - HEADER);
    if !cx.options.quiet {
        app::recognized(cx, payload);
    }
    Ok(())
}

fn print_checksum(cx: &mut Context<'_>, net: &Network, data: &[u8], length: usize) -> Result {
    let field = data.u16_at(6)?;
    if field == 0 && matches!(net.source, Address::V4(_)) {
        return end!(cx.line, "[no cksum] ");
    }
    if data.len() < length {
        return Ok(());
    }
    let sum = checksum::with_pseudo_header(net, protocol::UDP, data.up_to(length));
    if sum.checksum() == 0 {
        cx.line.str("[udp sum ok] ");
    } else {
        let right = sum.corrected(field);
        put!(cx.line, "[bad udp cksum 0x{field:04x} -> 0x{right:04x}!] ");
    }
    Ok(())
}

/// Prints the protocol of the ports; returns false if they are unknown here.
fn by_port(
    cx: &mut Context<'_>,
    net: &Network,
    ports: (u16, u16),
    payload: &[u8],
    length: usize,
) -> Result<bool> {
    match ports {
        (DNS, _) | (_, DNS) => dns::print(cx, payload, length, false)?,
        (BOOTP_CLIENT | BOOTP_SERVER, _) | (_, BOOTP_CLIENT | BOOTP_SERVER) => {
            small::dhcp::print(cx, payload, length)?;
        }
        (NTP, _) | (_, NTP) => small::ntp::print(cx, payload, length)?,
        (MULTICAST_DNS, _) | (_, MULTICAST_DNS) => dns::print(cx, payload, length, true)?,
        (VXLAN_PORT, _) | (_, VXLAN_PORT) => small::overlay::vxlan(cx, payload, length)?,
        (GENEVE_PORT, _) | (_, GENEVE_PORT) => small::overlay::geneve(cx, payload, length)?,
        _ => {
            return Ok(routing::over_udp(cx, ports, payload, length)?
                || app::datagram(cx, net, ports, payload, length)?);
        }
    }
    Ok(true)
}
