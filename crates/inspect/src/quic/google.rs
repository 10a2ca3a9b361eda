//! Google's QUIC before it took TLS: the server name in a CHLO message.

use ringtap_packet::bytes::{chunk, le16, le32};

/// Bytes in front of a message's tags.
const HEADER: usize = 8;
/// Where a message is looked for in a datagram that is not encrypted.
const SEARCHED: usize = 64;

/// Returns whether a datagram begins with a public header of versions up to Q043, or with the header of Q044 to
/// Q049.
pub(crate) fn is_public(data: &[u8]) -> bool {
    version(data).is_some()
}

/// Returns the version in such a header.
pub(crate) fn version(data: &[u8]) -> Option<u32> {
    const VERSION: u8 = 0x01;
    const CONNECTION: u8 = 0x08;
    const LONG: u8 = 0x80;
    let first = *data.first()?;
    let (at, is_known): (_, fn(u8) -> bool) = if first & LONG != 0 {
        (1, |ten| ten == b'4')
    } else if first & 0xc0 == 0 && first & (VERSION | CONNECTION) == VERSION | CONNECTION {
        (9, |ten| ten <= b'4')
    } else {
        return None;
    };
    let version = chunk::<4>(data, at)?;
    let digits = &version[1..];
    let is_version = version[0] == b'Q'
        && version[1] == b'0'
        && is_known(version[2])
        && digits.iter().all(u8::is_ascii_digit);
    is_version.then(|| u32::from_be_bytes(version))
}

/// Finds the message in a datagram or in frames; there may be padding in front.
pub(crate) fn find_hello(data: &[u8]) -> Option<&[u8]> {
    let padding = data.iter().take_while(|byte| **byte == 0).count();
    let data = &data[padding..];
    let front = &data[..data.len().min(SEARCHED)];
    let at = front.windows(4).position(|window| window == b"CHLO")?;
    data.get(at..)
}

/// Returns the server name in a message.
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
