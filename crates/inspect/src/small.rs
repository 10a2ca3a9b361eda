//! Protocols of which one number or one name is noted, or nothing but that they are spoken.

use ringtap_packet::bytes::{be16, byte};

use crate::entry::{Entry, Tag};
use crate::guess;
use crate::identify::mqtt_name;
use crate::payload::{Payload, Step};
use crate::protocol::Protocol;

/// The longest client identifier in an entry.
const CLIENT_ID: usize = 96;

/// Notes what a payload says.
pub(crate) fn step(protocol: Protocol, entry: &mut Entry, payload: &Payload<'_>) -> Step {
    let data = payload.data;
    match protocol {
        Protocol::Ntp => ntp(entry, data),
        Protocol::Rtp => {
            if let Some((kind, _, source)) = guess::rtp(data) {
                let [a, b, c, d] = source.to_be_bytes();
                entry.put(Tag::Rtp, &[kind, a, b, c, d]);
            }
            Step::Both
        }
        Protocol::Mqtt => {
            if let Some(name) = mqtt_client(data) {
                entry.put_text(Tag::MqttClient, name, CLIENT_ID, true);
            }
            Step::Both
        }
        _ => Step::Both,
    }
}

/// Reads the stratum that a server states; that of a client's request is 0, and says nothing.
fn ntp(entry: &mut Entry, data: &[u8]) -> Step {
    const SERVER: u8 = 4;
    const BROADCAST: u8 = 5;
    const SYMMETRIC: std::ops::RangeInclusive<u8> = 1..=2;
    let (Some(first), Some(stratum)) = (byte(data, 0), byte(data, 1)) else {
        return Step::More;
    };
    let mode = first & 7;
    if mode == SERVER || mode == BROADCAST || SYMMETRIC.contains(&mode) {
        entry.put(Tag::Stratum, &[stratum]);
        return Step::Both;
    }
    Step::This
}

/// Notes the method of a flow's first message of STUN.
pub(crate) fn stun(entry: &mut Entry, data: &[u8]) {
    if let Some(kind) = be16(data, 0) {
        entry.put(Tag::Stun, &stun_method(kind).to_be_bytes());
    }
}

/// Returns the method, whose bits have the class between them (RFC 8489, section 5).
fn stun_method(kind: u16) -> u16 {
    kind & 0x000f | kind >> 1 & 0x0070 | kind >> 2 & 0x0f80
}

/// Returns the client identifier of a CONNECT packet; that of version 5 stands behind properties.
fn mqtt_client(data: &[u8]) -> Option<&[u8]> {
    let rest = mqtt_name(data)?;
    let version = byte(rest, 0)?;
    let mut rest = rest.get(4..)?;
    if version == 5 {
        let digits = rest
            .iter()
            .take(4)
            .take_while(|byte| **byte & 0x80 != 0)
            .count();
        let len = rest.get(..=digits)?.iter().rev();
        let len = len.fold(0, |len, byte| len << 7 | usize::from(byte & 0x7f));
        rest = rest.get(digits + 1 + len..)?;
    }
    let len = usize::from(be16(rest, 0)?);
    rest.get(2..2 + len)
}
