//! Headers of QUIC's long packets (RFC 9000, section 17.2; RFC 9369 for version 2).

use ringtap_packet::bytes::{be32, byte};

/// Version 1, and version 2 (RFC 9369).
pub(crate) const V1: u32 = 1;
pub(crate) const V2: u32 = 0x6b33_43cf;

/// A long packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long<'a> {
    pub(crate) version: u32,
    /// The identifier of the receiver's connection.
    pub(crate) destination: &'a [u8],
    pub(crate) is_initial: bool,
    /// The packet up to its end, and the offset of its packet number.
    pub(crate) packet: &'a [u8],
    pub(crate) number_at: usize,
}

/// Returns whether a datagram begins with a long packet of a version that is known.
pub(crate) fn is_long(data: &[u8]) -> bool {
    let Some(&[first, a, b, c, d, len]) = data.first_chunk::<6>() else {
        return false;
    };
    let version = u32::from_be_bytes([a, b, c, d]);
    let Some(&other) = data.get(6 + usize::from(len)) else {
        return false;
    };
    let are_short = len <= 20 && other <= 20;
    // Version negotiation has version 0, and repeats the identifiers.
    let is_negotiation = version == 0
        && data.len() >= 7 + usize::from(len) + usize::from(other) + 4
        && (data.len() - 7 - usize::from(len) - usize::from(other)).is_multiple_of(4)
        && usize::from(len) + usize::from(other) > 0;
    first & 0x80 != 0 && are_short && ((is_known(version) && first & 0x40 != 0) || is_negotiation)
}

/// Returns whether a version is one of IETF's QUIC or near to it: released, draft, of Facebook, or one that
/// asks for negotiation.
pub(crate) fn is_known(version: u32) -> bool {
    const DRAFTS: std::ops::RangeInclusive<u32> = 0xff00_0011..=0xff00_0022;
    const FACEBOOK: std::ops::RangeInclusive<u32> = 0xface_b001..=0xface_b00e;
    let is_google = matches!(version >> 24, 0x51 | 0x54) && is_digits(version);
    matches!(version, V1 | V2)
        || DRAFTS.contains(&version)
        || FACEBOOK.contains(&version)
        || version & 0x0f0f_0f0f == 0x0a0a_0a0a
        || is_google
}

/// Returns whether the last three characters of a version are digits, such as of `Q050`.
fn is_digits(version: u32) -> bool {
    version.to_be_bytes()[1..].iter().all(u8::is_ascii_digit)
}

impl<'a> Long<'a> {
    /// Reads the packet at the beginning of `data`, and returns what follows it in the datagram.
    pub(crate) fn parse(data: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let first = byte(data, 0)?;
        if first & 0x80 == 0 {
            return None;
        }
        let version = be32(data, 1)?;
        let mut at = 5;
        let destination = identifier(data, &mut at)?;
        identifier(data, &mut at)?;
        let kind = first >> 4 & 3;
        // Version 2 has other numbers for the kinds.
        let kind = if version == V2 {
            kind.wrapping_sub(1) & 3
        } else {
            kind
        };
        const INITIAL: u8 = 0;
        const RETRY: u8 = 3;
        if kind == RETRY || !is_known(version) {
            return None;
        }
        if kind == INITIAL {
            let token = usize::try_from(number(data, &mut at)?).ok()?;
            at = at.checked_add(token)?;
        }
        let len = usize::try_from(number(data, &mut at)?).ok()?;
        let end = at.checked_add(len)?;
        let (packet, rest) = data.split_at_checked(end)?;
        let long = Self {
            version,
            destination,
            is_initial: kind == INITIAL,
            packet,
            number_at: at,
        };
        Some((long, rest))
    }
}

fn identifier<'a>(data: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let len = usize::from(byte(data, *at)?);
    let id = data.get(*at + 1..*at + 1 + len)?;
    *at += 1 + len;
    (len <= 20).then_some(id)
}

/// Reads a number of variable length (RFC 9000, section 16).
pub(crate) fn number(data: &[u8], at: &mut usize) -> Option<u64> {
    let first = byte(data, *at)?;
    let len = 1 << (first >> 6);
    let bytes = data.get(*at..*at + len)?;
    *at += len;
    let rest = bytes[1..].iter();
    Some(rest.fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    }))
}
