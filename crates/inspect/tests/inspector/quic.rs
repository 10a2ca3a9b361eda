//! Initial packets of QUIC, protected here with the keys that the RFCs print.

use aes_gcm::aead::AeadInOut;
use aes_gcm::aes::Aes128;
use aes_gcm::aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes_gcm::{Aes128Gcm, Nonce};
use ringtap_inspect::{NameSource, Protocol, Text};

use crate::hello::{Hello, Talk};
use crate::inspector;

/// Bytes of the packet behind its header, and of the authentication tag.
const LENGTH: usize = 1182;
const TAG: usize = 16;
/// The offset of the packet number, which has 4 bytes.
const NUMBER_AT: usize = 18;

/// The values that the appendices of RFC 9001 and RFC 9369 print for the connection 0x8394c8f03e515708.
struct Version {
    number: u32,
    first: u8,
    key: u128,
    iv: u128,
    header: u128,
}

const VERSIONS: [Version; 2] = [
    Version {
        number: 1,
        first: 0xc3,
        key: 0x1f36_9613_dd76_d546_7730_efcb_e3b1_a22d,
        iv: 0xfa04_4b2f_42a3_fd3b_46fb_255c,
        header: 0x9f50_449e_04a0_e810_283a_1e99_33ad_edd2,
    },
    Version {
        number: 0x6b33_43cf,
        first: 0xd3,
        key: 0x8b1a_0bc1_2128_4290_a29e_0971_b5cd_045d,
        iv: 0x91f7_3e23_51d8_fa91_660e_909f,
        header: 0x45b9_5e15_235d_6f45_a6b1_9cbc_b029_4ba9,
    },
];

impl Version {
    /// Returns a protected Initial packet with part of a handshake message.
    fn initial(&self, packet_number: u32, offset: usize, part: &[u8]) -> Vec<u8> {
        let two = |number: usize| (u16::try_from(number).expect("short") | 0x4000).to_be_bytes();
        let mut packet = vec![self.first];
        packet.extend_from_slice(&self.number.to_be_bytes());
        packet.extend_from_slice(b"\x08\x83\x94\xc8\xf0\x3e\x51\x57\x08\x00\x00");
        packet.extend_from_slice(&two(LENGTH));
        assert_eq!(packet.len(), NUMBER_AT);
        packet.extend_from_slice(&packet_number.to_be_bytes());
        let header = packet.clone();

        let crypto = [&[6][..], &two(offset), &two(part.len()), part].concat();
        let mut frames = crypto;
        frames.resize(LENGTH - 4 - TAG, 0);
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&self.iv.to_be_bytes()[4..]);
        for (byte, number) in nonce[8..].iter_mut().zip(packet_number.to_be_bytes()) {
            *byte ^= number;
        }
        let nonce: Nonce<_> = nonce.into();
        let cipher = Aes128Gcm::new(&self.key.to_be_bytes().into());
        let tag = cipher
            .encrypt_inout_detached(&nonce, &header, frames.as_mut_slice().into())
            .expect("short");
        packet.extend_from_slice(&frames);
        packet.extend_from_slice(&tag);

        let sample = NUMBER_AT + 4..NUMBER_AT + 20;
        let sample: [u8; 16] = packet[sample].try_into().expect("16 bytes");
        let mut mask = sample.into();
        Aes128::new(&self.header.to_be_bytes().into()).encrypt_block(&mut mask);
        packet[0] ^= mask[0] & 0x0f;
        for (byte, mask) in packet[NUMBER_AT..NUMBER_AT + 4].iter_mut().zip(&mask[1..]) {
            *byte ^= mask;
        }
        packet
    }
}

/// Both versions, in one packet, in two, and in two that come in the other order.
pub(crate) fn versions() {
    let hello = Hello {
        padding: 400,
        ..Hello::browser("example.org")
    };
    let message = hello.message();
    let cut = message.len() / 2;
    for version in VERSIONS {
        let whole = version.initial(2, 0, &message);
        let first = version.initial(2, 0, &message[..cut]);
        let second = version.initial(3, cut, &message[cut..]);
        let orders = [
            vec![whole],
            vec![first.clone(), second.clone()],
            vec![second, first],
        ];
        for packets in orders {
            let mut inspector = inspector();
            let mut talk = Talk::udp(443);
            for packet in &packets {
                talk.say(&mut inspector, true, 0, packet);
            }
            let fields = talk.entry.fields();
            assert_eq!(fields.protocol, Some(Protocol::Quic));
            assert_eq!(fields.quic_version, Some(version.number));
            assert_eq!(fields.tls_sni.map(Text::as_str), Some("example.org"));
            assert_eq!(fields.name_source, Some(NameSource::Quic));
            assert_eq!(fields.tls_alpn.map(Text::as_str), Some("h2"));
            let ja4 = fields.tls_ja4.expect("a fingerprint").to_string();
            assert!(ja4.starts_with("q13d0514h2_"), "{ja4}");
        }
    }
}

/// A packet whose tag does not fit shows its version only.
pub(crate) fn damaged() {
    for version in VERSIONS {
        let mut packet = version.initial(2, 0, &Hello::browser("example.org").message()[..900]);
        *packet.last_mut().expect("bytes") ^= 1;
        let mut talk = Talk::udp(443);
        talk.say(&mut inspector(), true, 0, &packet);
        let fields = talk.entry.fields();
        assert_eq!(fields.quic_version, Some(version.number));
        assert_eq!((fields.tls_sni, fields.tls_ja4), (None, None));
    }
}
