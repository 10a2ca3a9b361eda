//! Protocols over TCP.

use ringtap_packet::bytes::{be16, be32, byte, le32};

use super::text;
use crate::dns::Message;
use crate::payload::Payload;
use crate::protocol::Protocol;
use crate::tls::record;

/// Returns the protocol that a segment begins with.
pub(crate) fn protocol(payload: &Payload<'_>) -> Option<Protocol> {
    let data = payload.data;
    let first = *data.first()?;
    match first {
        b'A'..=b'Z' | b'a'..=b'z' | b'*' | b'+' | b'-' | b'<' | b'$' | b':' | 0x13 => {
            text::protocol(payload).or_else(|| binary(first, payload))
        }
        b'0'..=b'9' => text::protocol(payload).or_else(|| binary(first, payload)),
        _ => binary(first, payload),
    }
}

fn binary(first: u8, payload: &Payload<'_>) -> Option<Protocol> {
    use Protocol as P;
    let data = payload.data;
    let found = match first {
        0x16 if record::is_hello(data) => Some(P::Tls),
        0x14..=0x17 if record::is_run(data) => Some(P::Tls),
        0x80..=0xbf if record::is_ssl2_hello(data) => Some(P::Tls),
        0x00 if is_smb(data) => Some(P::Smb),
        0x03 if is_rdp(payload) => Some(P::Rdp),
        0x04 | 0x05 if is_socks(data) => Some(P::Socks),
        0x10 if is_mqtt(data) => Some(P::Mqtt),
        0x30 if payload.has_port(389) && is_ldap(data) => Some(P::Ldap),
        0xff if is_telnet(data) => Some(P::Telnet),
        0xff if data.len() >= 19 && data[..16] == [0xff; 16] => Some(P::Bgp),
        _ => None,
    };
    found.or_else(|| counted(payload))
}

/// Protocols whose messages begin with their length.
fn counted(payload: &Payload<'_>) -> Option<Protocol> {
    let data = payload.data;
    let len = data.len();
    if is_dns(payload) {
        return Some(Protocol::Dns);
    }
    if len >= 8 && be32(data, 0)? as usize == len && is_postgresql(be32(data, 4)?) {
        return Some(Protocol::Postgresql);
    }
    if is_mysql(data) {
        return Some(Protocol::Mysql);
    }
    if len >= 20 && be32(data, 4)? == STUN_COOKIE && be16(data, 2)? as usize + 20 <= len {
        return Some(Protocol::Stun);
    }
    let is_mongo = |kind| matches!(kind, 1 | 2001..=2013);
    if len >= 16 && le32(data, 0)? as usize == len && is_mongo(le32(data, 12)?) && len < 1 << 20 {
        return Some(Protocol::MongoDb);
    }
    None
}

/// STUN's magic cookie (RFC 8489, section 5).
pub(super) const STUN_COOKIE: u32 = 0x2112_a442;

/// The shortest message of DNS with its length: a header and a question for the root.
pub(crate) const SHORTEST_DNS: usize = 19;

fn is_dns(payload: &Payload<'_>) -> bool {
    let Some(len) = be16(payload.data, 0) else {
        return false;
    };
    let is_port = payload.has_port(53);
    if payload.data.len() < SHORTEST_DNS || usize::from(len) + 2 > payload.data.len() && !is_port {
        return false;
    }
    let message = payload.data.get(2..2 + usize::from(len));
    let is_whole = message.is_some();
    let message = message.or(payload.data.get(2..)).unwrap_or_default();
    let Some(message) = Message::parse(message, is_whole && payload.complete) else {
        return false;
    };
    if is_port {
        return message.is_possible();
    }
    message.is_likely()
        && message
            .question()
            .is_some_and(|question| question.is_likely())
}

/// Returns whether the data is a NetBIOS session message with SMB in it, or what stands for one without NetBIOS
/// (MS-SMB2).
fn is_smb(data: &[u8]) -> bool {
    let is_magic = |magic: &[u8]| matches!(magic, [0xfc..=0xff, b'S', b'M', b'B']);
    data.get(4..8).is_some_and(is_magic)
}

/// Returns whether the data is a connection request or confirmation of X.224 in TPKT, with what RDP adds
/// (MS-RDPBCGR, 2.2.1.1).
fn is_rdp(payload: &Payload<'_>) -> bool {
    const REQUEST: u8 = 0xe0;
    const CONFIRM: u8 = 0xd0;
    let data = payload.data;
    let Some(&[3, 0, more, less, _, kind, ..]) = data.first_chunk::<11>() else {
        return false;
    };
    let is_whole = usize::from(u16::from_be_bytes([more, less])) == data.len();
    let rest = &data[11..];
    let is_marked = rest.starts_with(b"Cookie: mstshash=")
        || matches!(rest, [1..=3, _, 8, 0, ..])
        || payload.has_port(3389);
    is_whole && matches!(kind & 0xf0, REQUEST | CONFIRM) && is_marked
}

/// Returns whether the data is the first message of a SOCKS client (RFC 1928), or a request of version 4.
fn is_socks(data: &[u8]) -> bool {
    match data {
        [5, count @ 1..=4, methods @ ..] => {
            methods.len() == usize::from(*count) && methods.iter().all(|method| *method <= 3)
        }
        [4, 1 | 2, _, _, _, _, _, _, user @ ..] => {
            user.last() == Some(&0) && user.len() < 256 && user.is_ascii()
        }
        _ => false,
    }
}

/// Returns whether the data is a CONNECT packet of MQTT.
fn is_mqtt(data: &[u8]) -> bool {
    mqtt_name(data).is_some()
}

/// Returns the rest of a CONNECT packet behind the protocol's name.
pub(crate) fn mqtt_name(data: &[u8]) -> Option<&[u8]> {
    let digits = data.get(1..5)?.iter().take_while(|byte| **byte & 0x80 != 0);
    let rest = data.get(2 + digits.count()..)?;
    let rest3 = rest.strip_prefix(b"\0\x06MQIsdp");
    rest.strip_prefix(b"\0\x04MQTT").or(rest3)
}

/// Returns whether the data is a message of LDAP: a sequence with a number and an operation (RFC 4511).
fn is_ldap(data: &[u8]) -> bool {
    let Some([2, len @ 1..=4, rest @ ..]) = in_sequence(data) else {
        return false;
    };
    let operation = rest.get(usize::from(*len));
    operation.is_some_and(|operation| (0x42..=0x79).contains(operation))
}

/// Returns the content of a sequence in BER, as far as it is there.
pub(super) fn in_sequence(data: &[u8]) -> Option<&[u8]> {
    let len = byte(data, 1)?;
    let digits = if len < 0x80 { 0 } else { len & 0x7f };
    data.get(2 + usize::from(digits)..)
}

/// Returns whether the data is a negotiation of Telnet's options (RFC 854).
fn is_telnet(data: &[u8]) -> bool {
    matches!(data, [0xff, 0xfb..=0xfe, option, 0xff, 0xfa..=0xfe, ..] if *option < 60)
        || matches!(data, [0xff, 0xfb..=0xfe, option] if *option < 60)
}

/// Returns whether a client of PostgreSQL begins so: version 3, or a request for TLS or GSSAPI, or to cancel.
fn is_postgresql(code: u32) -> bool {
    matches!(code, 0x0003_0000 | 0x0003_0002 | 80_877_102..=80_877_104)
}

/// Returns whether the data is a server's greeting of MySQL: protocol 10 and a version as text.
fn is_mysql(data: &[u8]) -> bool {
    let Some(&[a, b, c, 0, 10]) = data.first_chunk::<5>() else {
        return false;
    };
    let len = u32::from_le_bytes([a, b, c, 0]) as usize;
    let version = &data[5..];
    let end = version.iter().take(64).position(|byte| *byte == 0);
    len + 4 == data.len()
        && end.is_some_and(|end| end > 2 && version[..end].iter().all(u8::is_ascii_graphic))
}
