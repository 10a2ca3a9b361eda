//! Protocols that only two payloads in a row give away: RTP.

use ringtap_packet::bytes::{be16, be32, byte};

/// Flows and directions that may be RTP at a time. One that comes for a place in use takes it.
const PLACES: usize = 256;
/// The most packets that may be missing between two that are compared.
const GAP: u16 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Guess {
    flow: u32,
    from_initiator: bool,
    kind: u8,
    sequence: u16,
    source: u32,
}

/// The first packets of such flows.
#[derive(Debug)]
pub(crate) struct Guesses(Box<[Guess; PLACES]>);

impl Guesses {
    pub(crate) fn new() -> Self {
        Self(Box::new([Guess::default(); PLACES]))
    }

    /// Returns whether a payload goes on with the RTP packet that came before it in its flow and direction.
    pub(crate) fn is_rtp(&mut self, data: &[u8], flow: u32, from_initiator: bool) -> bool {
        let Some((kind, sequence, source)) = rtp(data) else {
            return false;
        };
        let place = &mut self.0[(flow as usize * 2 + usize::from(from_initiator)) % PLACES];
        let before = *place;
        *place = Guess {
            flow,
            from_initiator,
            kind,
            sequence,
            source,
        };
        let step = sequence.wrapping_sub(before.sequence);
        let first = Guess { sequence, ..before };
        first == *place && (1..=GAP).contains(&step)
    }
}

/// Returns the payload type, the sequence number and the synchronisation source, if this can be RTP (RFC 3550,
/// section 5.1).
pub(crate) fn rtp(data: &[u8]) -> Option<(u8, u16, u32)> {
    let (first, second) = (byte(data, 0)?, byte(data, 1)?);
    let kind = second & 0x7f;
    let header = 12 + 4 * usize::from(first & 15);
    // Types 72 to 76 would be control packets.
    let is_possible = first & 0xc0 == 0x80 && !(72..=76).contains(&kind) && data.len() > header;
    let source = be32(data, 8)?;
    (is_possible && source != 0).then_some((kind, be16(data, 2)?, source))
}

/// Returns whether this is a control packet of RTP (RFC 3550, section 6.4).
pub(crate) fn is_rtcp(data: &[u8]) -> bool {
    let Some(&[first, kind, more, less, ..]) = data.first_chunk::<8>() else {
        return false;
    };
    let words = usize::from(u16::from_be_bytes([more, less]));
    let len = 4 * (words + 1);
    first & 0xc0 == 0x80
        && (200..=207).contains(&kind)
        && len <= data.len()
        && (len == data.len()
            || data
                .get(len)
                .is_some_and(|next| next & 0xc0 == 0x80 || data.len() - len <= 16))
}
