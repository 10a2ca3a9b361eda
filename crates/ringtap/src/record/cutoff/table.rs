//! The bytes that each flow has had: an exact table of a fixed size.
//!
//! A key has a set of places. When they are all taken, the flow that was silent for the longest time is
//! evicted and counted. If it goes on, it starts anew, so that more of it is kept and never less.

use std::hash::{BuildHasher as _, RandomState};

/// Both ends of a flow, in one order for both directions, with ports, protocol, IP version and interface.
pub(super) type Key = [u8; 40];

/// The number of flows in the table.
pub(crate) const FLOWS: usize = 1 << 18;
/// The places of a key.
const WAYS: usize = 8;
/// The seconds of silence after which a flow's next packet starts another one.
const IDLE: i64 = 300;

/// A flow. It is free if the key is zero.
#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    bytes: u64,
    /// The second of its last packet.
    seen: i64,
    /// A side has ended the connection.
    has_ended: bool,
}

const FREE: Slot = Slot {
    key: [0; 40],
    bytes: 0,
    seen: 0,
    has_ended: false,
};

/// How a packet changes its flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// It begins a connection, if the one before has ended.
    pub(super) begins: bool,
    /// It ends the connection.
    pub(super) ends: bool,
}

/// The bytes of flows.
pub(super) struct Table {
    slots: Vec<Slot>,
    hasher: RandomState,
    evicted: u64,
}

impl Table {
    /// Creates a table for this number of flows, a power of two.
    pub(super) fn new(flows: usize) -> Self {
        Self {
            slots: vec![FREE; flows.next_power_of_two().max(WAYS)],
            // Its keys are secret, so that nobody can choose flows of one set.
            hasher: RandomState::new(),
            evicted: 0,
        }
    }

    /// Returns the number of flows that were evicted although they may go on.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Adds a packet of a flow at this second. Returns the bytes that the flow had before.
    pub(super) fn add(&mut self, key: &Key, bytes: u64, now: i64, turn: Turn) -> u64 {
        let sets = self.slots.len() / WAYS;
        let hash = usize::try_from(self.hasher.hash_one(key) >> 16).unwrap_or(0);
        let first = (hash & (sets - 1)) * WAYS;
        let Some(set) = self.slots.get_mut(first..first + WAYS) else {
            return 0;
        };
        let fresh = Slot {
            key: *key,
            bytes,
            seen: now,
            has_ended: turn.ends,
        };
        if let Some(slot) = set.iter_mut().find(|slot| slot.key == *key) {
            let is_over = now.saturating_sub(slot.seen) > IDLE || (slot.has_ended && turn.begins);
            if is_over {
                *slot = fresh;
                return 0;
            }
            let before = slot.bytes;
            slot.bytes = before.saturating_add(bytes);
            slot.seen = slot.seen.max(now);
            slot.has_ended |= turn.ends;
            return before;
        }
        let place = set
            .iter_mut()
            .min_by_key(|slot| match slot.key == FREE.key {
                true => i64::MIN,
                false => slot.seen,
            });
        if let Some(place) = place {
            let is_alive = place.key != FREE.key && now.saturating_sub(place.seen) <= IDLE;
            self.evicted += u64::from(is_alive && !place.has_ended);
            *place = fresh;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const NONE: Turn = Turn {
        begins: false,
        ends: false,
    };

    fn key(number: u64) -> Key {
        let mut key = [1; 40];
        key[..8].copy_from_slice(&number.to_le_bytes());
        key
    }

    #[test]
    fn bytes_add_up_as_in_a_map_while_there_is_room() {
        let mut table = Table::new(1 << 12);
        let mut map: BTreeMap<u64, u64> = BTreeMap::new();
        let mut state = 1_u64;
        for step in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (flow, bytes) = (state >> 56, state >> 50 & 0x3ff);
            let before = map.entry(flow).or_default();
            assert_eq!(table.add(&key(flow), bytes, step / 1000, NONE), *before);
            *before += bytes;
        }
        assert_eq!(table.evicted(), 0);
    }

    #[test]
    fn evicted_flows_start_anew_and_are_counted() {
        let mut table = Table::new(64);
        for flow in 0..1000 {
            table.add(&key(flow), 10, 0, NONE);
        }
        assert!(table.evicted() >= 1000 - 64, "{}", table.evicted());
        assert_eq!(table.add(&key(999), 10, 0, NONE), 10);
        // After the time without packets nothing is evicted any more.
        let evicted = table.evicted();
        for flow in 1000..1010 {
            table.add(&key(flow), 10, IDLE + 1, NONE);
        }
        assert_eq!(table.evicted(), evicted);
    }

    #[test]
    fn silence_and_another_connection_start_anew() {
        let begins = Turn {
            begins: true,
            ends: false,
        };
        let ends = Turn {
            begins: false,
            ends: true,
        };
        let mut table = Table::new(64);
        let one = key(1);
        assert_eq!(table.add(&one, 100, 0, begins), 0);
        assert_eq!(table.add(&one, 5, IDLE, NONE), 100);
        // The first packet is sent again.
        assert_eq!(table.add(&one, 5, IDLE, begins), 105);
        assert_eq!(table.add(&one, 5, 2 * IDLE, ends), 110);
        assert_eq!(table.add(&one, 5, 2 * IDLE, ends), 115);
        assert_eq!(table.add(&one, 5, 2 * IDLE, begins), 0);
        assert_eq!(table.add(&one, 5, 3 * IDLE + 1, NONE), 0);
    }
}
