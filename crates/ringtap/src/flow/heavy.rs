//! Sums by key in a table of fixed size, which keeps the keys with the greatest sums.
//!
//! A key has only a few possible places. If other keys have them all, the one with the fewest bytes is
//! removed and counted as left out. So a flood of unique keys costs no memory, and keys with much traffic
//! stay.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

const SETS: usize = 4096;
const WAYS: usize = 4;

/// The sums of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// The part of the bytes that the host sent, or that went forward.
    pub(crate) sent: u64,
    pub(crate) flows: u64,
}

/// A key that can be hashed.
pub(crate) trait HeavyKey: Copy + Eq {
    /// Returns a hash of the key's words, which `mix` combines one by one.
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64;
}

/// The table.
#[derive(Debug)]
pub(crate) struct Heavy<K> {
    entries: Vec<Option<(K, Sum)>>,
    seed: u64,
    left_out: u64,
}

impl<K: HeavyKey> Heavy<K> {
    pub(crate) fn new() -> Self {
        Self {
            entries: vec![None; SETS * WAYS],
            seed: RandomState::new().hash_one(0) | 1,
            left_out: 0,
        }
    }

    /// Adds to a key's sum.
    pub(crate) fn add(&mut self, key: K, more: Sum) {
        let hash = key.mix(self.seed, |state, word| {
            let product = u128::from(state ^ word) * 0x9e37_79b9_7f4a_7c15;
            #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
            let (low, high) = (product as u64, (product >> 64) as u64);
            low ^ high
        });
        let set = usize::try_from(hash >> 20).unwrap_or(0) % SETS * WAYS;
        let ways = &mut self.entries[set..set + WAYS];
        let mut least = (0, u64::MAX);
        for (way, entry) in ways.iter_mut().enumerate() {
            match entry {
                Some((known, sum)) if *known == key => {
                    sum.bytes += more.bytes;
                    sum.packets += more.packets;
                    sum.sent += more.sent;
                    sum.flows += more.flows;
                    return;
                }
                Some((_, sum)) if sum.bytes < least.1 => least = (way, sum.bytes),
                Some(_) => {}
                None => {
                    *entry = Some((key, more));
                    return;
                }
            }
        }
        self.left_out += 1;
        ways[least.0] = Some((key, more));
    }

    /// Returns the keys with the greatest sums by `measure`, the greatest first. For equal sums, the one that
    /// sent more comes first.
    pub(crate) fn top(&self, count: usize, measure: impl Fn(&Sum) -> u64) -> Vec<(K, Sum)> {
        let mut all: Vec<(K, Sum)> = self.entries.iter().flatten().copied().collect();
        all.sort_by_key(|(_, sum)| std::cmp::Reverse((measure(sum), sum.sent)));
        all.truncate(count);
        all
    }

    /// Returns how often a key was replaced, and the sums of the replaced keys.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.entries.fill(None);
        self.left_out = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HeavyKey for u64 {
        fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
            mix(state, *self)
        }
    }

    #[test]
    fn what_has_much_traffic_stays_in_a_flood() {
        let mut heavy = Heavy::new();
        let sum = |bytes| Sum {
            bytes,
            packets: 1,
            ..Sum::default()
        };
        for number in 0..200_000_u64 {
            heavy.add(1000 + number, sum(60));
            if number % 1000 == 0 {
                heavy.add(7, sum(1500));
                heavy.add(8, sum(900));
            }
        }
        let top = heavy.top(2, |sum| sum.bytes);
        assert_eq!(top[0].0, 7);
        assert_eq!((top[0].1.bytes, top[0].1.packets), (300_000, 200));
        assert_eq!((top[1].0, top[1].1.bytes), (8, 180_000));
        assert!(heavy.left_out() > 100_000);
        heavy.clear();
        assert!(heavy.top(9, |sum| sum.bytes).is_empty());
    }
}
