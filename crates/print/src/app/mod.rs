//! Application protocols, found by their port.

mod dhcpv6;
mod isakmp;
mod kerberos;
mod openflow;
pub(crate) mod ptp;
mod quic;
mod radius;
mod resp;
mod sflow;
mod snmp;
mod someip;
mod syslog;
mod text;
mod tftp;
mod tls;

use crate::bytes::Result;
use crate::context::{Context, Network};
use crate::small::overlay;
pub(crate) use isakmp::Initiators;

const FTP: u16 = 21;
const SMTP: u16 = 25;
const WHOIS: u16 = 43;
const TFTP: u16 = 69;
const HTTP: u16 = 80;
const KERBEROS: u16 = 88;
const SNMP: u16 = 161;
const SNMP_TRAP: u16 = 162;
/// Messages with a time stamp, and without.
const PTP: [u16; 2] = [319, 320];
/// The assigned port, and those of users' own choice.
const ISAKMP: [u16; 3] = [500, 7500, 8500];
const SYSLOG: u16 = 514;
/// The client's port, and the server's.
const DHCPV6: [u16; 2] = [546, 547];
const RTSP: u16 = 554;
/// RADIUS with its older ports, and that of RFC 5176.
const RADIUS: [u16; 6] = [1645, 1646, 1700, 1812, 1813, 3799];
const ISAKMP_NAT: u16 = 4500;
const SIP: u16 = 5060;
const REDIS: u16 = 6379;
/// OpenFlow, and the port that it used before one was assigned.
const OPENFLOW: [u16; 2] = [6653, 6633];
const SFLOW: u16 = 6343;
const SOMEIP: u16 = 30490;
const OTV: u16 = 8472;
const HTTP_ALTERNATE: u16 = 8080;
const RTSP_ALTERNATE: u16 = 8554;

/// Prints a datagram's payload of `length` bytes; returns false if its ports are unknown here.
pub(crate) fn datagram(
    cx: &mut Context<'_>,
    net: &Network,
    ports: (u16, u16),
    data: &[u8],
    length: usize,
) -> Result<bool> {
    let is = |port| ports.0 == port || ports.1 == port;
    match ports {
        (TFTP, _) | (_, TFTP) => tftp::print(cx, data, length)?,
        (KERBEROS, _) | (_, KERBEROS) => kerberos::print(cx, data)?,
        (SNMP | SNMP_TRAP, _) | (_, SNMP | SNMP_TRAP) => snmp::print(cx, data, length)?,
        _ if ISAKMP.into_iter().any(is) => isakmp::print(cx, net, data)?,
        (ISAKMP_NAT, _) | (_, ISAKMP_NAT) => isakmp::encapsulated(cx, net, data, length)?,
        (SYSLOG, _) | (_, SYSLOG) => syslog::print(cx, data, length)?,
        _ if DHCPV6.into_iter().any(is) => dhcpv6::print(cx, data)?,
        _ if RADIUS.into_iter().any(is) => radius::print(cx, data, length)?,
        (SIP, _) | (_, SIP) => text::print(cx, &text::SIP, data, length)?,
        _ if PTP.into_iter().any(is) => ptp::print(cx, data, length)?,
        (SFLOW, _) | (_, SFLOW) => sflow::print(cx, data, length)?,
        (OTV, _) | (_, OTV) => overlay::otv(cx, data, length)?,
        (SOMEIP, _) | (_, SOMEIP) => someip::print(cx, data, length)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Appends what a datagram's payload itself reveals, whatever its ports are.
pub(crate) fn recognized(cx: &mut Context<'_>, data: &[u8]) {
    if cx.verbose() {
        quic::print(cx, data);
    }
}

/// Prints a segment's payload of `length` bytes; returns false if its ports are unknown here.
pub(crate) fn stream(
    cx: &mut Context<'_>,
    ports: (u16, u16),
    data: &[u8],
    length: usize,
) -> Result<bool> {
    let is = |port| ports.0 == port || ports.1 == port;
    if is(REDIS) {
        cx.line.str(": ");
        return resp::print(cx, data).map(|()| true);
    }
    if OPENFLOW.into_iter().any(is) {
        cx.line.str(": ");
        return openflow::print(cx, data, length).map(|()| true);
    }
    let protocol = match ports {
        (SMTP, _) | (_, SMTP) => text::SMTP,
        (WHOIS, _) | (_, WHOIS) => text::WHOIS,
        (FTP, _) | (_, FTP) => text::FTP,
        (HTTP | HTTP_ALTERNATE, _) | (_, HTTP | HTTP_ALTERNATE) => text::HTTP,
        (RTSP | RTSP_ALTERNATE, _) | (_, RTSP | RTSP_ALTERNATE) => text::RTSP,
        _ => {
            if cx.verbose() {
                tls::print(cx, data);
            }
            return Ok(false);
        }
    };
    cx.line.str(": ");
    text::print(cx, &protocol, data, length)?;
    Ok(true)
}
