//! Sums by key in a table of fixed size, which keeps the keys with the greatest sums.
//!
//! A key has only a few possible places, its set. If other keys have them all, the one with the fewest bytes
//! is removed and counted as left out. So a flood of unique keys costs no memory, and keys with much traffic
//! stay. Each set adds up the bytes that it removed: no key of the set lacks more, and [`Row::error`] has
//! that bound.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::IpAddr;

/// Keys of one set.
const WAYS: usize = 4;

/// The sums of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Bytes of layer 3.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// The part of the bytes that the host sent, or that went forward.
    pub sent: u64,
    /// Flows that began.
    pub flows: u64,
}

impl Sum {
    /// Adds another sum.
    pub fn add(&mut self, more: &Self) {
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.packets = self.packets.saturating_add(more.packets);
        self.sent = self.sent.saturating_add(more.sent);
        self.flows = self.flows.saturating_add(more.flows);
    }
}

/// A key that can be hashed.
pub trait HeavyKey: Copy + Eq {
    /// Returns a hash of the key's words, which `mix` combines one by one.
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64;
}

/// A key with its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<K> {
    /// The key.
    pub key: K,
    /// Its sums since it came into the table.
    pub sum: Sum,
    /// The most bytes that the key may have had before that; 0: the sums are exact.
    pub error: u64,
}

/// The hash of a family of tables: tables of one family can be merged.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    sets: usize,
    seed: u64,
}

impl Family {
    /// Tables of at least so many keys, by a hash that nobody outside knows.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self {
            sets: keys.div_ceil(WAYS).max(1).next_power_of_two(),
            seed: RandomState::new().hash_one(0) | 1,
        }
    }

    /// Returns the number that nobody outside knows.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    fn set_of<K: HeavyKey>(&self, key: &K) -> usize {
        let hash = key.mix(self.seed, |state, word| {
            let product = u128::from(state ^ word) * 0x9e37_79b9_7f4a_7c15;
            #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
            let (low, high) = (product as u64, (product >> 64) as u64);
            low ^ high
        });
        usize::try_from(hash >> 20).unwrap_or(0) & (self.sets - 1)
    }
}

/// The table.
#[derive(Clone, Debug)]
pub struct Heavy<K> {
    family: Family,
    /// Empty until the first key comes.
    entries: Vec<Option<Row<K>>>,
    /// The bytes that left each set.
    lost: Vec<u64>,
    left_out: u64,
}

impl<K: HeavyKey> Heavy<K> {
    /// Returns an empty table. It takes memory when the first key comes.
    #[must_use]
    pub fn new(family: Family) -> Self {
        Self {
            family,
            entries: Vec::new(),
            lost: Vec::new(),
            left_out: 0,
        }
    }

    /// Adds to a key's sum.
    pub fn add(&mut self, key: K, more: &Sum) {
        self.reserve();
        let set = self.family.set_of(&key);
        self.add_to(set, key, more, 0);
    }

    fn reserve(&mut self) {
        if self.entries.is_empty() {
            self.entries = vec![None; self.family.sets * WAYS];
            self.lost = vec![0; self.family.sets];
        }
    }

    fn add_to(&mut self, set: usize, key: K, more: &Sum, error: u64) {
        let ways = &mut self.entries[set * WAYS..(set + 1) * WAYS];
        let mut least = (0, u64::MAX);
        for (way, entry) in ways.iter_mut().enumerate() {
            match entry {
                Some(row) if row.key == key => {
                    row.sum.add(more);
                    row.error = row.error.saturating_add(error);
                    return;
                }
                Some(row) if row.sum.bytes < least.1 => least = (way, row.sum.bytes),
                Some(_) => {}
                None => {
                    let error = error.saturating_add(self.lost[set]);
                    let sum = *more;
                    *entry = Some(Row { key, sum, error });
                    return;
                }
            }
        }
        self.left_out += 1;
        let lost = &mut self.lost[set];
        let sum = *more;
        let error = error.saturating_add(*lost);
        if let Some(gone) = ways[least.0].replace(Row { key, sum, error }) {
            *lost = lost.saturating_add(gone.sum.bytes);
        }
    }

    /// Adds all sums of another table of the same family. Rows stay within their errors.
    pub fn merge(&mut self, other: &Self) {
        if other.entries.is_empty() {
            return;
        }
        self.reserve();
        for set in 0..self.family.sets {
            let ways = set * WAYS..(set + 1) * WAYS;
            let lost = other.lost[set];
            if lost > 0 {
                let there = &other.entries[ways.clone()];
                let is_there = |key: K| there.iter().flatten().any(|row| row.key == key);
                for row in self.entries[ways.clone()].iter_mut().flatten() {
                    if !is_there(row.key) {
                        row.error = row.error.saturating_add(lost);
                    }
                }
            }
            for row in other.entries[ways].iter().flatten() {
                self.add_to(set, row.key, &row.sum, row.error);
            }
            self.lost[set] = self.lost[set].saturating_add(lost);
        }
        self.left_out += other.left_out;
    }

    /// Returns the keys with the greatest sums by `measure`, the greatest first. For equal sums, the
    /// one that sent more comes first.
    #[must_use]
    pub fn top(&self, count: usize, measure: impl Fn(&Sum) -> u64) -> Vec<Row<K>> {
        let mut all: Vec<Row<K>> = self.rows().copied().collect();
        all.sort_by_key(|row| std::cmp::Reverse((measure(&row.sum), row.sum.sent)));
        all.truncate(count);
        all
    }

    /// Returns all rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &Row<K>> {
        self.entries.iter().flatten()
    }

    /// Returns how often a key was replaced.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.entries.fill(None);
        self.lost.fill(0);
        self.left_out = 0;
    }
}

impl HeavyKey for IpAddr {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        match self {
            Self::V4(address) => mix(state, u64::from(address.to_bits())),
            Self::V6(address) => {
                let [a, b, c, d, e, f, g, h] = address.segments().map(u64::from);
                let high = a << 48 | b << 32 | c << 16 | d;
                mix(mix(state, high), e << 48 | f << 32 | g << 16 | h)
            }
        }
    }
}

impl HeavyKey for u16 {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        mix(state, u64::from(*self))
    }
}

impl<A: HeavyKey, B: HeavyKey> HeavyKey for (A, B) {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        let state = self.0.mix(state, &mix);
        self.1.mix(state, mix)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    impl HeavyKey for u64 {
        fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
            mix(state, *self)
        }
    }

    fn of_bytes(bytes: u64) -> Sum {
        Sum {
            bytes,
            packets: 1,
            ..Sum::default()
        }
    }

    #[test]
    fn what_has_much_traffic_stays_in_a_flood() {
        let mut heavy = Heavy::new(Family::new(16_384));
        for number in 0..200_000_u64 {
            heavy.add(1000 + number, &of_bytes(60));
            if number % 1000 == 0 {
                heavy.add(7, &of_bytes(1500));
                heavy.add(8, &of_bytes(900));
            }
        }
        let top = heavy.top(2, |sum| sum.bytes);
        assert_eq!(top[0].key, 7);
        assert_eq!((top[0].sum.bytes, top[0].sum.packets), (300_000, 200));
        assert_eq!((top[1].key, top[1].sum.bytes), (8, 180_000));
        assert!(heavy.left_out() > 100_000);
        heavy.clear();
        assert!(heavy.top(9, |sum| sum.bytes).is_empty());
    }

    proptest! {
        /// Slices of time, merged: each key's true sum is within its row's error.
        #[test]
        fn true_sums_are_within_the_errors(
            slices in proptest::collection::vec(
                proptest::collection::vec((0_u64..40, 1_u64..2000), 0..120), 1..5),
            keys in 4_usize..40,
        ) {
            let family = Family::new(keys);
            let mut whole = Heavy::new(family);
            let mut exact: HashMap<u64, u64> = HashMap::new();
            for slice in slices {
                let mut part = Heavy::new(family);
                for (key, bytes) in slice {
                    part.add(key, &of_bytes(bytes));
                    *exact.entry(key).or_default() += bytes;
                }
                whole.merge(&part);
            }
            for Row { key, sum, error } in whole.rows() {
                let exact = exact[key];
                prop_assert!(sum.bytes <= exact && exact <= sum.bytes + error,
                    "key {key}: {exact} is not within {} and {} more", sum.bytes, error);
                prop_assert!(whole.left_out() > 0 || *error == 0);
            }
        }
    }
}
