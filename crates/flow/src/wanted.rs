//! Which payloads are worth a copy.
//!
//! A payload has to be kept from the time when a packet is read until its flow is known, with the other
//! packets of its block or batch. Most packets belong to flows that have said all they will, which a small
//! table remembers by hash: it may be wrong, but only towards a copy too many, or one too few for a flow
//! whose hash is that of another.
//!
//! Data in: hashes of packets with payload, and of flows that are done. Data out: whether to copy.

use crate::parse::Observation;

/// Flows that are remembered.
const ENTRIES: usize = 1 << 15;
/// The longest payload that is copied, in bytes: some ClientHellos come in one large segment.
pub(crate) const LONGEST: usize = 4096;
/// Bytes of payloads that wait with a block or a batch of packets.
pub(crate) const ROOM: usize = 64 << 10;
/// Nanoseconds in a step of the clock of entries, as a power of two: 4 s.
const STEP_SHIFT: u32 = 32;
const SYN: u16 = 0x02;

#[derive(Debug)]
pub(crate) struct Wanted {
    entries: Box<[Entry]>,
    /// Payloads of a flow that are copied, of both directions together.
    payloads: u8,
    /// Steps after which an entry is of an earlier flow.
    patience: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u16,
    /// Payloads that were copied.
    copied: u8,
    /// The step of the last packet.
    step: u8,
}

impl Wanted {
    /// A table of flows of which so many payloads of each direction are copied, and which end after
    /// `silence_ns`; `both_ways` if both directions have one hash.
    pub(crate) fn new(payloads: u8, silence_ns: u64, both_ways: bool) -> Self {
        let steps = (silence_ns >> STEP_SHIFT) + 1;
        Self {
            entries: vec![Entry::default(); ENTRIES].into_boxed_slice(),
            payloads: payloads
                .saturating_mul(if both_ways { 2 } else { 1 })
                .min(254),
            // Half of the clock's round, so that older ones are not taken for new ones at once.
            patience: u8::try_from(steps).unwrap_or(u8::MAX).min(127),
        }
    }

    /// Whether the payload of a packet is to be copied, the hash of whose flow is known.
    #[inline]
    pub(crate) fn wants_of(&mut self, packet: &Observation) -> bool {
        let begins = packet.tcp_flags & SYN != 0;
        self.wants(packet.hash, packet.time_ns, begins)
    }

    /// Whether the payload of a packet of the flow with this hash is to be copied; `begins` if the packet
    /// begins a connection.
    #[inline]
    pub(crate) fn wants(&mut self, hash: u32, time_ns: u64, begins: bool) -> bool {
        let (at, tag) = place(hash);
        let step = (time_ns >> STEP_SHIFT & 0xff) as u8;
        let entry = &mut self.entries[at % ENTRIES];
        let is_old = step.wrapping_sub(entry.step) > self.patience;
        if entry.tag != tag || is_old || begins {
            *entry = Entry {
                tag,
                copied: 0,
                step,
            };
        }
        entry.step = step;
        let wants = entry.copied < self.payloads;
        entry.copied += u8::from(wants);
        wants
    }

    /// Remembers that a flow has said all it will.
    pub(crate) fn done(&mut self, hash: u32) {
        let (at, tag) = place(hash);
        let entry = &mut self.entries[at % ENTRIES];
        if entry.tag == tag {
            entry.copied = u8::MAX;
        }
    }

    /// Forgets a flow that ended: the next one with the same ends has payloads of its own.
    pub(crate) fn forget(&mut self, hash: u32) {
        let (at, tag) = place(hash);
        let entry = &mut self.entries[at % ENTRIES];
        if entry.tag == tag {
            *entry = Entry::default();
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.entries)
    }
}

/// The place of a hash, and what tells it from others there; never 0.
#[inline]
fn place(hash: u32) -> (usize, u16) {
    let tag = (hash >> 16) as u16 | 1;
    (hash as usize, tag)
}

/// Payloads that wait with the packets of a block or a batch.
#[derive(Debug, Default)]
pub(crate) struct Payloads {
    bytes: Vec<u8>,
}

impl Payloads {
    /// Returns the memory for payloads, which is needed only where they are looked at.
    pub(crate) fn new(is_needed: bool) -> Self {
        let room = if is_needed { ROOM } else { 0 };
        Self {
            bytes: Vec::with_capacity(room),
        }
    }

    /// Whether one more payload, however long, finds room.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes.len() + LONGEST <= ROOM
    }

    /// Copies a payload. Returns where it is, and its length; 0 bytes if there is no room.
    fn push(&mut self, payload: &[u8]) -> (u16, u16) {
        let payload = &payload[..payload.len().min(LONGEST)];
        let Ok(at) = u16::try_from(self.bytes.len()) else {
            return (0, 0);
        };
        self.bytes.extend_from_slice(payload);
        (at, u16::try_from(payload.len()).unwrap_or(0))
    }

    /// Copies the payload of a packet and tells the observation where it is.
    pub(crate) fn keep(&mut self, observation: &mut Observation, payload: &[u8]) {
        (observation.kept_at, observation.kept) = self.push(payload);
    }

    /// Returns what was kept of an observation's payload.
    #[inline]
    pub(crate) fn of(&self, observation: &Observation) -> &[u8] {
        let at = usize::from(observation.kept_at);
        let kept = self.bytes.get(at..at + usize::from(observation.kept));
        kept.unwrap_or_default()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_flow_is_copied_until_it_is_done_or_begins_anew() {
        let mut wanted = Wanted::new(2, 30 * SECOND, false);
        let hash = 0x1234_5678;
        let mut wants = |time, begins| wanted.wants(hash, time * SECOND, begins);
        assert!(wants(100, false) && wants(101, false) && !wants(102, false));
        assert!(wants(103, true), "a connection begins");
        // Silence ends flows, and so what is remembered of them.
        assert!(wants(104, false) && !wants(130, false) && wants(190, false));
        wanted.done(hash);
        assert!(!wanted.wants(hash, 191 * SECOND, false));
        wanted.forget(hash);
        assert!(wanted.wants(hash, 191 * SECOND, false));
    }
}
