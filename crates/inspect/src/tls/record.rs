//! Records of TLS over TCP.

use ringtap_packet::bytes::be16;

use super::{CLIENT_HELLO, SERVER_HELLO};

/// Bytes of a record's header.
const HEADER: usize = 5;
/// Bytes of a handshake message's header.
const MESSAGE_HEADER: usize = 4;
/// The kinds of records (RFC 8446, appendix B.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const HEARTBEAT: u8 = 24;
/// The longest record: 2^14 bytes and what encryption adds.
const LONGEST: usize = (1 << 14) + 2048;

/// The kind of a stream's beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start<'a> {
    /// The stream does not begin with a hello, whatever comes.
    Other,
    /// A hello that is not complete yet.
    Partial,
    /// A handshake message: its kind and its body.
    Hello(u8, &'a [u8]),
}

/// Returns whether the bytes begin with a hello in a record.
pub(crate) fn is_hello(data: &[u8]) -> bool {
    let Some(&[HANDSHAKE, 3, minor, more, less]) = data.first_chunk::<HEADER>() else {
        return false;
    };
    let len = usize::from(u16::from_be_bytes([more, less]));
    let kind = data.get(HEADER).copied().unwrap_or(CLIENT_HELLO);
    minor <= 4
        && (1..=LONGEST).contains(&len)
        && matches!(kind, CLIENT_HELLO | SERVER_HELLO)
        && (len < 2 || data.get(6).is_none_or(|high| *high < 2))
}

/// Returns whether the bytes are a run of records, the last of which may go on in the next segment: for
/// connections whose beginning was not captured.
pub(crate) fn is_run(data: &[u8]) -> bool {
    let (mut at, mut whole) = (0, 0);
    while at < data.len() {
        let Some(&[kind, 3, minor, more, less]) = data[at..].first_chunk::<HEADER>() else {
            return whole > 0 && data.len() - at < HEADER;
        };
        let len = usize::from(u16::from_be_bytes([more, less]));
        if !(CHANGE_CIPHER_SPEC..=HEARTBEAT).contains(&kind)
            || minor > 4
            || !(1..=LONGEST).contains(&len)
        {
            return false;
        }
        at += HEADER + len;
        whole += 1;
    }
    whole > 0
}

/// Returns whether the bytes are a ClientHello in the form of SSL 2.0 (RFC 5246, appendix E.2).
pub(crate) fn is_ssl2_hello(data: &[u8]) -> bool {
    let Some(
        &[
            high,
            low,
            CLIENT_HELLO,
            major,
            minor,
            c0,
            c1,
            s0,
            s1,
            r0,
            r1,
        ],
    ) = data.first_chunk::<11>()
    else {
        return false;
    };
    let number = |more, less| usize::from(u16::from_be_bytes([more, less]));
    let (ciphers, session, random) = (number(c0, c1), number(s0, s1), number(r0, r1));
    let is_version = (major == 3 && minor <= 4) || (major, minor) == (0, 2);
    high & 0x80 != 0
        && is_version
        && number(high & 0x7f, low) == 9 + ciphers + session + random
        && ciphers % 3 == 0
        && (16..=32).contains(&random)
}

/// Returns the stream behind warnings at its beginning: a server that does not know the client's name for it may
/// say so before its hello (RFC 6066, section 3).
fn behind_warnings(mut data: &[u8]) -> &[u8] {
    const WARNING: u8 = 1;
    while let [ALERT, 3, 0..=4, 0, 2, WARNING, _, rest @ ..] = data {
        data = rest;
    }
    data
}

/// Finds the hello at the beginning of a stream. One that spans records is put together in `scratch`.
pub(crate) fn start<'a>(data: &'a [u8], scratch: &'a mut [u8]) -> Start<'a> {
    let data = behind_warnings(data);
    if !is_hello(data) {
        return if data.len() < HEADER {
            Start::Partial
        } else {
            Start::Other
        };
    }
    let Some(first) = data.get(HEADER..) else {
        return Start::Partial;
    };
    let len = usize::from(be16(data, 3).unwrap_or(0));
    if let Some(&[kind, a, b, c]) = first.first_chunk::<MESSAGE_HEADER>() {
        let body = u32::from_be_bytes([0, a, b, c]) as usize;
        if MESSAGE_HEADER + body <= len {
            return match first.get(MESSAGE_HEADER..MESSAGE_HEADER + body) {
                Some(body) => Start::Hello(kind, body),
                None => Start::Partial,
            };
        }
    }
    joined(data, scratch)
}

/// Puts a message together that spans records.
fn joined<'a>(data: &[u8], scratch: &'a mut [u8]) -> Start<'a> {
    let (mut at, mut used) = (0, 0);
    let mut wanted = MESSAGE_HEADER;
    while used < wanted {
        let Some(&[kind, 3, _, more, less]) = data.get(at..).and_then(<[u8]>::first_chunk) else {
            let left = data.len().saturating_sub(at);
            return if left < HEADER {
                Start::Partial
            } else {
                Start::Other
            };
        };
        let len = usize::from(u16::from_be_bytes([more, less]));
        if kind != HANDSHAKE || len == 0 {
            return Start::Other;
        }
        let captured = data.len().min(at + HEADER + len);
        let piece = &data[at + HEADER..captured];
        let Some(place) = scratch.get_mut(used..used + piece.len()) else {
            return Start::Other;
        };
        place.copy_from_slice(piece);
        used += piece.len();
        if let (true, Some(&[_, a, b, c])) = (used >= 4, scratch.first_chunk()) {
            wanted = MESSAGE_HEADER + u32::from_be_bytes([0, a, b, c]) as usize;
        }
        at += HEADER + len;
    }
    match scratch.get(MESSAGE_HEADER..wanted) {
        Some(body) => Start::Hello(scratch[0], body),
        None => Start::Other,
    }
}
