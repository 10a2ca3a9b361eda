//! Google's QUIC before it took TLS: the server name in a CHLO message.

use ringtap_packet::bytes::{chunk, le16, le32};

/// Bytes in front of a message's tags.
const HEADER: usize = 8;
/// Where a message is looked for in a datagram that is not encrypted.
const SEARCHED: usize = 64;

/// Whether a datagram begins with a public header of versions up to Q043.
pub(crate) fn is_public(data: &[u8]) -> bool {
    const VERSION: u8 = 0x01;
    const CONNECTION: u8 = 0x08;
    let Some(&first) = data.first() else {
        return false;
    };
    first & (VERSION | CONNECTION) == VERSION | CONNECTION
        && first & 0xc0 == 0
        && version(data).is_some()
}

/// The version in a public header.
pub(crate) fn version(data: &[u8]) -> Option<u32> {
    let version = chunk::<4>(data, 9)?;
    let is_version = version[0] == b'Q' && version[1..].iter().all(u8::is_ascii_digit);
    is_version.then(|| u32::from_be_bytes(version))
}

/// Finds the message in a datagram.
pub(crate) fn find_hello(data: &[u8]) -> Option<&[u8]> {
    let front = &data[..data.len().min(SEARCHED)];
    let at = front.windows(4).position(|window| window == b"CHLO")?;
    data.get(at..)
}

/// The server name in a message.
pub(crate) fn server_name(message: &[u8]) -> Option<&[u8]> {
    let tags = usize::from(le16(message, 4)?).min(256);
    let values = HEADER + 8 * tags;
    let mut start = 0;
    for index in 0..tags {
        let at = HEADER + 8 * index;
        let end = le32(message, at + 4)? as usize;
        if chunk(message, at)? == *b"SNI\0" {
            return message.get(values.checked_add(start)?..values.checked_add(end)?);
        }
        start = end;
    }
    None
}
