//! Protocols over UDP.

use ringtap_packet::bytes::{be16, be32, chunk};

use super::tcp::{STUN_COOKIE, in_sequence};
use super::text;
use crate::dns::Message;
use crate::guess::{Guesses, is_rtcp};
use crate::payload::Payload;
use crate::protocol::Protocol;
use crate::quic::{google, header};
use crate::tls::dtls;

/// Offset of DHCP's magic cookie, and the cookie (RFC 2131).
const DHCP_COOKIE: (usize, u32) = (236, 0x6382_5363);
/// The start of the first request to a tracker of BitTorrent (BEP 15).
const TRACKER: u64 = 0x0417_2710_1980;

/// Returns the protocol of a datagram.
pub(crate) fn protocol(
    payload: &Payload<'_>,
    guesses: &mut Guesses,
    flow: u32,
) -> Option<Protocol> {
    use Protocol as P;
    let data = payload.data;
    if let Some(protocol) = by_port_and_content(payload) {
        return Some(protocol);
    }
    if be32(data, 4) == Some(STUN_COOKIE) && is_stun(data) {
        return Some(P::Stun);
    }
    let first = *data.first()?;
    let found = match first {
        0x80..=0xff if header::is_long(data) || google::is_public(data) => Some(P::Quic),
        20..=25 if dtls::is_record(data) => Some(P::Dtls),
        0x80..=0xbf if is_rtcp(data) => Some(P::Rtcp),
        0x80..=0xbf => guesses
            .is_rtp(data, flow, payload.from_initiator)
            .then_some(P::Rtp),
        b'd' if is_dht(data) => Some(P::BitTorrent),
        0x00 if chunk::<8>(data, 0).map(u64::from_be_bytes) == Some(TRACKER) => Some(P::BitTorrent),
        1 | 2 if data.len() >= 240 && be32(data, DHCP_COOKIE.0) == Some(DHCP_COOKIE.1) => {
            Some(P::Dhcp)
        }
        1..=4 if is_wireguard(data) => Some(P::WireGuard),
        b'A'..=b'Z' => text(data),
        _ if google::is_public(data) => Some(P::Quic),
        _ => None,
    };
    found.or_else(|| is_dns(payload).then_some(P::Dns))
}

/// Protocols that show too little for any port but their own.
fn by_port_and_content(payload: &Payload<'_>) -> Option<Protocol> {
    use Protocol as P;
    let data = payload.data;
    let message = || Message::parse(data, payload.complete);
    for port in [payload.responder_port, payload.initiator_port] {
        let found = match port {
            53 => message()?.is_possible().then_some(P::Dns),
            5353 => message()?.is_possible().then_some(P::Mdns),
            5355 => message()?.is_possible().then_some(P::Llmnr),
            137 => Message::parse(data, payload.complete).map(|_| P::Nbns),
            67 | 68 => matches!(data, [1 | 2, 1..=32, 0..=16, ..])
                .then_some(P::Dhcp)
                .filter(|_| data.len() >= 236),
            123 => is_ntp(data).then_some(P::Ntp),
            546 | 547 => matches!(data, [1..=36, _, _, _, ..]).then_some(P::Dhcpv6),
            161 | 162 => is_snmp(data).then_some(P::Snmp),
            1812 | 1813 | 1645 | 1646 => is_radius(data).then_some(P::Radius),
            3478 | 3479 => is_stun(data).then_some(P::Stun),
            500 | 4500 => is_ike(data, port).then_some(P::Ike),
            514 => matches!(data, [b'<', b'0'..=b'9', ..]).then_some(P::Syslog),
            138 => matches!(data, [0x10..=0x16, ..]).then_some(P::NetBios),
            69 => is_tftp(data).then_some(P::Tftp),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn is_dns(payload: &Payload<'_>) -> bool {
    if payload.data.len() < 17 {
        return false;
    }
    let message = Message::parse(payload.data, payload.complete).filter(Message::is_likely);
    let question = message.and_then(|message| message.question());
    question.is_some_and(|question| question.is_likely())
}

fn text(data: &[u8]) -> Option<Protocol> {
    let is_ssdp = data.starts_with(b"M-SEARCH * HTTP/1.1")
        || data.starts_with(b"NOTIFY * HTTP/1.1")
        || data.starts_with(b"HTTP/1.1 200 OK");
    if is_ssdp {
        return Some(Protocol::Ssdp);
    }
    let is_sip = data.starts_with(b"SIP/2.0 ") || text::is_request_of(data, b" SIP/2.0");
    is_sip.then_some(Protocol::Sip)
}

/// Modes 6 and 7 are control messages, which are shorter (RFC 9327).
fn is_ntp(data: &[u8]) -> bool {
    let Some(&first) = data.first() else {
        return false;
    };
    let (version, mode) = (first >> 3 & 7, first & 7);
    let least = match mode {
        6 => 12,
        7 => 8,
        _ => 48,
    };
    (1..=4).contains(&version) && mode != 0 && data.len() >= least
        || (data.len() >= 48 && mode == 0 && version == 1)
}

/// Returns whether the data is a message of STUN (RFC 8489), or of its first edition, which has no cookie.
fn is_stun(data: &[u8]) -> bool {
    let (Some(kind), Some(len)) = (be16(data, 0), be16(data, 2)) else {
        return false;
    };
    let has_cookie = be32(data, 4) == Some(STUN_COOKIE);
    let is_method = has_cookie || matches!(kind & 0x3eef, 1..=9);
    kind & 0xc000 == 0
        && is_method
        && len.is_multiple_of(4)
        && usize::from(len) + 20 <= data.len()
        && (has_cookie || usize::from(len) + 20 == data.len())
}

/// Returns whether the data is a message of BitTorrent's distributed hash table: a dictionary with a query, a
/// response or an error.
fn is_dht(data: &[u8]) -> bool {
    const STARTS: [&[u8]; 6] = [
        b"d1:ad2:id20:",
        b"d1:rd2:id20:",
        b"d1:el",
        b"d2:ip",
        b"d1:q",
        b"d1:ad",
    ];
    STARTS.iter().any(|start| data.starts_with(start))
}

/// Returns whether the data is a message of WireGuard: its kind, three zeros, and their length.
fn is_wireguard(data: &[u8]) -> bool {
    match data {
        [1, 0, 0, 0, ..] => data.len() == 148,
        [2, 0, 0, 0, ..] => data.len() == 92,
        [3, 0, 0, 0, ..] => data.len() == 64,
        _ => false,
    }
}

/// Returns whether the data is a message of SNMP: a sequence, and the version as its first number.
fn is_snmp(data: &[u8]) -> bool {
    data.first() == Some(&0x30) && matches!(in_sequence(data), Some([2, 1, 0..=3, ..]))
}

fn is_radius(data: &[u8]) -> bool {
    let len = be16(data, 2).map(usize::from);
    matches!(data.first(), Some(1..=5 | 11..=13 | 40..=45))
        && len.is_some_and(|len| (20..=data.len()).contains(&len))
}

/// Returns whether the data is a header of IKE, or ESP behind a marker that is not zero.
fn is_ike(data: &[u8], port: u16) -> bool {
    let header = if port == 4500 {
        match chunk::<4>(data, 0) {
            Some([0, 0, 0, 0]) => &data[4..],
            _ => return data == [0xff] || data.len() > 8,
        }
    } else {
        data
    };
    header.len() >= 28 && matches!(header[17], 0x10 | 0x20..=0x22)
}

fn is_tftp(data: &[u8]) -> bool {
    match data {
        [0, 1 | 2, name @ ..] => name.len() > 2 && name.ends_with(&[0]),
        [0, 3..=6, ..] => true,
        _ => false,
    }
}
