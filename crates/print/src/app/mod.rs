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
const PTP_EVENT: u16 = 319;
const PTP_GENERAL: u16 = 320;
const ISAKMP: u16 = 500;
const SYSLOG: u16 = 514;
const DHCPV6_CLIENT: u16 = 546;
const DHCPV6_SERVER: u16 = 547;
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
const ISAKMP_USER: [u16; 2] = [7500, 8500];
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
    if is(TFTP) {
        tftp::print(cx, data, length)?;
    } else if is(KERBEROS) {
        kerberos::print(cx, data)?;
    } else if is(SNMP) || is(SNMP_TRAP) {
        snmp::print(cx, data, length)?;
    } else if is(ISAKMP) || ISAKMP_USER.into_iter().any(is) {
        isakmp::print(cx, net, data)?;
    } else if is(ISAKMP_NAT) {
        isakmp::encapsulated(cx, net, data, length)?;
    } else if is(SYSLOG) {
        syslog::print(cx, data, length)?;
    } else if is(DHCPV6_CLIENT) || is(DHCPV6_SERVER) {
        dhcpv6::print(cx, data)?;
    } else if RADIUS.into_iter().any(is) {
        radius::print(cx, data, length)?;
    } else if is(SIP) {
        text::print(cx, &text::SIP, data, length)?;
    } else if is(PTP_EVENT) || is(PTP_GENERAL) {
        ptp::print(cx, data, length)?;
    } else if is(SFLOW) {
        sflow::print(cx, data, length)?;
    } else if is(OTV) {
        overlay::otv(cx, data, length)?;
    } else if is(SOMEIP) {
        someip::print(cx, data, length)?;
    } else {
        return Ok(false);
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
    let protocol = if is(SMTP) {
        text::SMTP
    } else if is(WHOIS) {
        text::WHOIS
    } else if is(FTP) {
        text::FTP
    } else if is(HTTP) || is(HTTP_ALTERNATE) {
        text::HTTP
    } else if is(RTSP) || is(RTSP_ALTERNATE) {
        text::RTSP
    } else {
        if cx.verbose() {
            tls::print(cx, data);
        }
        return Ok(false);
    };
    cx.line.str(": ");
    text::print(cx, &protocol, data, length)?;
    Ok(true)
}
