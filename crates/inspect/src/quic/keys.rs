//! Keys of Initial packets, and taking the protection away (RFC 9001, sections 5.2 to 5.4).

use std::ops::Range;

use aes_gcm::aead::AeadInOut;
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes_gcm::{Aes128Gcm, Nonce, Tag};
use hkdf::Hkdf;
use sha2::Sha256;

use super::header::{Long, V2};

/// Bytes of the authentication tag.
const TAG: usize = 16;

type Salt = [u8; 20];

const V1_SALT: Salt =
    *b"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a";
const V2_SALT: Salt =
    *b"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9";
const DRAFT_29: Salt =
    *b"\xaf\xbf\xec\x28\x99\x93\xd2\x4c\x9e\x97\x86\xf1\x9c\x61\x11\xe0\x43\x90\xa8\x99";
const DRAFT_23: Salt =
    *b"\xc3\xee\xf7\x12\xc7\x2e\xbb\x5a\x11\xa7\xd2\x43\x2b\xb4\x63\x65\xbe\xf9\xf5\x02";
const DRAFT_21: Salt =
    *b"\x7f\xbc\xdb\x0e\x7c\x66\xbb\xe9\x19\x3a\x96\xcd\x21\x51\x9e\xbd\x7a\x02\x64\x4a";
/// Google's: Q050, T050, T051.
const Q050: Salt =
    *b"\x50\x45\x74\xef\xd0\x66\xfe\x2f\x9d\x94\x5c\xfc\xdb\xd3\xa7\xf0\xd3\xb5\x6b\x45";
const T050: Salt =
    *b"\x7f\xf5\x79\xe5\xac\xd0\x72\x91\x55\x80\x30\x4c\x43\xa2\x36\x7c\x60\x48\x83\x10";
const T051: Salt =
    *b"\x7a\x4e\xde\xf4\xe7\xcc\xee\x5f\xa4\x50\x6c\x19\x12\x4f\xc8\xcc\xda\x6e\x03\x3d";

/// Returns the salts from which a version's keys may be derived.
fn salts(version: u32) -> &'static [Salt] {
    match version {
        0x0000_0001 | 0xff00_0021..=0xff00_0022 => &[V1_SALT],
        V2 => &[V2_SALT],
        0xff00_001d..=0xff00_0020 => &[DRAFT_29],
        0xff00_0017..=0xff00_001c | 0xface_b002..=0xface_b00e => &[DRAFT_23],
        0xff00_0015..=0xff00_0016 | 0xface_b001 => &[DRAFT_21],
        0x5130_3530 => &[Q050],
        0x5430_3530 => &[T050],
        0x5430_3531 => &[T051],
        // Clients that ask for negotiation use those of the version that they prefer.
        _ if version & 0x0f0f_0f0f == 0x0a0a_0a0a => &[V1_SALT, DRAFT_29],
        _ => &[],
    }
}

/// Decrypts a client's Initial packet into `plain` with the keys of a connection identifier, and returns
/// the range of its frames; `None` if the keys are not its own.
pub(crate) fn open(long: &Long<'_>, connection: &[u8], plain: &mut [u8]) -> Option<Range<usize>> {
    salts(long.version).iter().find_map(|salt| {
        let keys = Keys::new(salt, long.version == V2, connection)?;
        keys.open(long, plain)
    })
}

/// The keys of the Initial packets that clients send with a connection identifier.
struct Keys {
    packet: Aes128Gcm,
    iv: [u8; 12],
    header: Aes128,
}

impl Keys {
    fn new(salt: &Salt, is_v2: bool, connection: &[u8]) -> Option<Self> {
        let Secrets { key, iv, header } = Secrets::derive(salt, is_v2, connection)?;
        Some(Self {
            packet: Aes128Gcm::new(&key.into()),
            iv,
            header: Aes128::new(&header.into()),
        })
    }

    fn open(&self, long: &Long<'_>, plain: &mut [u8]) -> Option<Range<usize>> {
        let at = long.number_at;
        let plain = plain.get_mut(..long.packet.len())?;
        plain.copy_from_slice(long.packet);
        let sample: [u8; 16] = *long.packet.get(at + 4..)?.first_chunk()?;
        let mut mask = sample.into();
        self.header.encrypt_block(&mut mask);
        plain[0] ^= mask[0] & 0x0f;
        let number_len = usize::from(plain[0] & 3) + 1;
        let mut nonce = self.iv;
        for index in 0..number_len {
            plain[at + index] ^= mask[1 + index];
            nonce[12 - number_len + index] ^= plain[at + index];
        }
        let (header, rest) = plain.split_at_mut_checked(at + number_len)?;
        let len = rest.len().checked_sub(TAG)?;
        let (frames, tag) = rest.split_at_mut(len);
        let tag: [u8; TAG] = *tag.first_chunk()?;
        let nonce: Nonce<_> = nonce.into();
        let opened = self.packet.decrypt_inout_detached(
            &nonce,
            header,
            (&mut *frames).into(),
            &Tag::from(tag),
        );
        opened.ok().map(|()| at + number_len..at + number_len + len)
    }
}

/// The keys as bytes.
#[derive(Debug, PartialEq, Eq)]
struct Secrets {
    key: [u8; 16],
    iv: [u8; 12],
    header: [u8; 16],
}

impl Secrets {
    fn derive(salt: &Salt, is_v2: bool, connection: &[u8]) -> Option<Self> {
        let initial = Hkdf::<Sha256>::new(Some(salt), connection);
        let client: [u8; 32] = expand(&initial, b"\x0ftls13 client in")?;
        let client = Hkdf::<Sha256>::from_prk(&client).ok()?;
        let labels: [&[u8]; 3] = if is_v2 {
            [
                b"\x10tls13 quicv2 key",
                b"\x0ftls13 quicv2 iv",
                b"\x0ftls13 quicv2 hp",
            ]
        } else {
            [
                b"\x0etls13 quic key",
                b"\x0dtls13 quic iv",
                b"\x0dtls13 quic hp",
            ]
        };
        Some(Self {
            key: expand(&client, labels[0])?,
            iv: expand(&client, labels[1])?,
            header: expand(&client, labels[2])?,
        })
    }
}

/// Computes HKDF-Expand-Label (RFC 8446, section 7.1) without context; the label has its length in front.
fn expand<const N: usize>(key: &Hkdf<Sha256>, label: &[u8]) -> Option<[u8; N]> {
    let mut out = [0; N];
    let len = u16::try_from(N).ok()?.to_be_bytes();
    key.expand_multi_info(&[&len, label, &[0]], &mut out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connection identifier of the examples in RFC 9001 (appendix A) and RFC 9369 (appendix A).
    const CONNECTION: [u8; 8] = [0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];

    fn secrets(key: u128, iv: u128, header: u128) -> Secrets {
        let mut short = [0; 12];
        short.copy_from_slice(&iv.to_be_bytes()[4..]);
        Secrets {
            key: key.to_be_bytes(),
            iv: short,
            header: header.to_be_bytes(),
        }
    }

    #[test]
    fn keys_are_those_of_the_rfcs() {
        let first = secrets(
            0x1f36_9613_dd76_d546_7730_efcb_e3b1_a22d,
            0xfa04_4b2f_42a3_fd3b_46fb_255c,
            0x9f50_449e_04a0_e810_283a_1e99_33ad_edd2,
        );
        let second = secrets(
            0x8b1a_0bc1_2128_4290_a29e_0971_b5cd_045d,
            0x91f7_3e23_51d8_fa91_660e_909f,
            0x45b9_5e15_235d_6f45_a6b1_9cbc_b029_4ba9,
        );
        assert_eq!(Secrets::derive(&V1_SALT, false, &CONNECTION), Some(first));
        assert_eq!(Secrets::derive(&V2_SALT, true, &CONNECTION), Some(second));
    }
}
