//! JA4, the fingerprint of TLS clients, as FoxIO publishes it under the BSD licence. Other fingerprints of
//! that family have another licence and are not made.

use sha2::{Digest, Sha256};

use super::hello::{ALPN, ClientHello, SERVER_NAME};
use super::is_grease;
use crate::escape::digits;
use crate::fields::Ja4;

/// The most cipher suites or extensions; a hello with more has no fingerprint.
const MOST: usize = 512;
/// Bytes of a hash in a fingerprint.
const HASH: usize = 6;

/// The carrier of the hello: the fingerprint's first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Quic,
    Dtls,
}

/// Returns the fingerprint in its packed form: 10 characters and two hashes.
pub(crate) fn fingerprint(hello: &ClientHello<'_>, carrier: Carrier) -> Option<[u8; Ja4::PACKED]> {
    let mut list = [0; MOST];
    let ciphers = sorted(hello.ciphers.meant(), &mut list)?;
    let cipher_count = ciphers.len();
    let cipher_hash = hash(ciphers, None);
    let is_listed = |kind: &u16| ![SERVER_NAME, ALPN].contains(kind);
    let meant = || hello.extensions().filter(|kind| !is_grease(*kind));
    let extensions = sorted(meant().filter(is_listed), &mut list)?;
    let extension_hash = hash(extensions, Some(hello));

    let mut packed = [0; Ja4::PACKED];
    let has_name = meant().any(|kind| kind == SERVER_NAME);
    packed[0] = match carrier {
        Carrier::Tcp => b't',
        Carrier::Quic => b'q',
        Carrier::Dtls => b'd',
    };
    packed[1..3].copy_from_slice(version(hello.version(carrier == Carrier::Dtls)));
    packed[3] = if has_name { b'd' } else { b'i' };
    packed[4..6].copy_from_slice(&two_digits(cipher_count));
    packed[6..8].copy_from_slice(&two_digits(meant().count()));
    packed[8..10].copy_from_slice(&protocol(hello.alpn.unwrap_or_default()));
    packed[10..16].copy_from_slice(&cipher_hash);
    packed[16..].copy_from_slice(&extension_hash);
    Some(packed)
}

fn version(version: u16) -> &'static [u8; 2] {
    match version {
        0x0304 => b"13",
        0x0303 => b"12",
        0x0302 => b"11",
        0x0301 => b"10",
        0x0300 => b"s3",
        0x0002 => b"s2",
        0xfeff => b"d1",
        0xfefd => b"d2",
        0xfefc => b"d3",
        _ => b"00",
    }
}

/// Returns a count as two digits, at most 99.
fn two_digits(count: usize) -> [u8; 2] {
    let count = u8::try_from(count.min(99)).unwrap_or(99);
    [b'0' + count / 10, b'0' + count % 10]
}

/// Returns the first and the last character of the first protocol offered; where one of them is neither a
/// letter nor a digit, the first and the last digit of its bytes in hexadecimal.
fn protocol(name: &[u8]) -> [u8; 2] {
    let (Some(&first), Some(&last)) = (name.first(), name.last()) else {
        return *b"00";
    };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [first, last];
    }
    [digits(first)[0], digits(last)[1]]
}

fn sorted(numbers: impl Iterator<Item = u16>, list: &mut [u16; MOST]) -> Option<&[u16]> {
    let mut count = 0;
    for number in numbers {
        *list.get_mut(count)? = number;
        count += 1;
    }
    let list = &mut list[..count];
    list.sort_unstable();
    Some(list)
}

/// Returns the hash of a list of numbers in hexadecimal, with commas between them, and of the signature
/// algorithms of `with`, if it has some. That of an empty list is 0.
fn hash(list: &[u16], with: Option<&ClientHello<'_>>) -> [u8; HASH] {
    if list.is_empty() {
        return [0; HASH];
    }
    let mut text = Text::default();
    for (index, number) in list.iter().enumerate() {
        text.add(if index > 0 { Some(b',') } else { None }, *number);
    }
    for (index, number) in with
        .into_iter()
        .flat_map(|hello| hello.signatures.meant())
        .enumerate()
    {
        text.add(Some(if index > 0 { b',' } else { b'_' }), number);
    }
    text.finish()
}

/// Text on its way to the hash, some blocks at a time.
struct Text {
    hasher: Sha256,
    bytes: [u8; ROOM],
    used: usize,
}

impl Default for Text {
    fn default() -> Self {
        Self {
            hasher: Sha256::new(),
            bytes: [0; ROOM],
            used: 0,
        }
    }
}

impl Text {
    fn add(&mut self, separator: Option<u8>, number: u16) {
        if self.used + 5 > ROOM {
            self.hasher.update(&self.bytes[..self.used]);
            self.used = 0;
        }
        if let Some(separator) = separator {
            self.bytes[self.used] = separator;
            self.used += 1;
        }
        let [high, low] = number.to_be_bytes().map(|byte| DIGITS[usize::from(byte)]);
        let digits = [high[0], high[1], low[0], low[1]];
        if let Some(place) = self.bytes.get_mut(self.used..self.used + 4) {
            place.copy_from_slice(&digits);
        }
        self.used += 4;
    }

    fn finish(mut self) -> [u8; HASH] {
        self.hasher.update(&self.bytes[..self.used]);
        let digest = self.hasher.finalize();
        let mut hash = [0; HASH];
        hash.copy_from_slice(&digest[..HASH]);
        hash
    }
}

/// Bytes of text that are hashed at once: 4 blocks.
const ROOM: usize = 256;

/// The two digits of each byte in hexadecimal.
const DIGITS: [[u8; 2]; 256] = {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut all = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = [HEX[byte >> 4], HEX[byte & 15]];
        byte += 1;
    }
    all
};
