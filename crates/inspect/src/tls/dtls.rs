//! Records of DTLS, and the fragments of a hello in them (RFC 6347, section 4.2).

use ringtap_packet::bytes::{be16, be32, byte, chunk};

use super::{CLIENT_HELLO, SERVER_HELLO};

/// Bytes of a record's header.
const HEADER: usize = 13;
/// Bytes of a handshake message's header.
const MESSAGE_HEADER: usize = 12;
const HANDSHAKE: u8 = 22;

/// A fragment of a hello.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment<'a> {
    /// ClientHello or ServerHello.
    pub(crate) kind: u8,
    /// Bytes of the whole message's body.
    pub(crate) len: usize,
    pub(crate) offset: u32,
    pub(crate) data: &'a [u8],
}

/// Returns whether a datagram begins with a record of DTLS.
pub(crate) fn is_record(data: &[u8]) -> bool {
    let Some(&[kind, 0xfe, minor]) = data.first_chunk::<3>() else {
        return false;
    };
    let Some(len) = be16(data, 11) else {
        return false;
    };
    (20..=25).contains(&kind)
        && matches!(minor, 0xff | 0xfd | 0xfc)
        && (1..=(1 << 14) + 2048).contains(&len)
}

/// Calls `each` with the fragments of hellos in a datagram's plain records.
pub(crate) fn fragments<'a>(mut data: &'a [u8], mut each: impl FnMut(Fragment<'a>)) {
    while is_record(data) {
        let len = usize::from(be16(data, 11).unwrap_or(0));
        let epoch = be16(data, 3).unwrap_or(0);
        let end = (HEADER + len).min(data.len());
        let (record, rest) = data.split_at(end);
        if record[0] == HANDSHAKE
            && epoch == 0
            && let Some(fragment) = fragment(&record[HEADER..])
        {
            each(fragment);
        }
        data = rest;
    }
}

fn fragment(message: &[u8]) -> Option<Fragment<'_>> {
    let three = |at| Some(be32(message, at)? >> 8);
    let kind = byte(message, 0).filter(|kind| [CLIENT_HELLO, SERVER_HELLO].contains(kind))?;
    let len = u32::from_be_bytes([0, byte(message, 1)?, byte(message, 2)?, byte(message, 3)?]);
    let (offset, part) = (three(6)?, chunk::<3>(message, 9)?);
    let part = u32::from_be_bytes([0, part[0], part[1], part[2]]);
    if offset.checked_add(part)? > len {
        return None;
    }
    let data = message.get(MESSAGE_HEADER..MESSAGE_HEADER + part as usize)?;
    Some(Fragment {
        kind,
        len: len as usize,
        offset,
        data,
    })
}
