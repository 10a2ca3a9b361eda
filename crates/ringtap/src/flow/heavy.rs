//! Sums by key in a table of fixed size, which keeps the keys with the greatest sums.
//!
//! A key has only a few possible places. If other keys have them all, the one with the fewest bytes is
//! removed and counted as left out. So a flood of unique keys costs no memory, and keys with much traffic
//! stay.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::hint::black_box;

const SETS: usize = 4096;
const WAYS: usize = 4;
/// Keys that wait, at most.
const BATCH: usize = 32;

/// The sums of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    /// The part of the bytes that the host sent, or that went forward.
    pub(crate) sent: u64,
    pub(crate) flows: u64,
}

/// Sums by keys of `N` words.
///
/// Keys wait until there are several. Then the sets of all are read before the first one is looked at,
/// so that the processor waits for the memory of many at a time.
#[derive(Debug)]
pub(crate) struct Heavy<const N: usize> {
    waiting: Box<[Waiting<N>; BATCH]>,
    /// How many wait.
    count: usize,
    sets: Vec<Set>,
    /// Those of a set lie together; empty if the set says so.
    entries: Vec<Entry<N>>,
    seed: [u64; 2],
    left_out: u64,
}

/// The part of a set that decides whether a key is known, and which key is removed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    /// A part of each key's hash that is not 0; 0 is an empty place.
    tags: [u32; WAYS],
    bytes: [u64; WAYS],
}

impl Set {
    /// Returns a bit for each way of that tag.
    #[inline]
    fn ways_of(&self, tag: u32) -> u32 {
        let ways = self.tags.iter().zip(0..);
        ways.fold(0, |found, (&known, way)| {
            found | u32::from(known == tag) << way
        })
    }

    /// Returns an empty way, otherwise that of the key with the fewest bytes. Without a branch, which
    /// nobody could predict.
    #[inline]
    fn least(&self) -> usize {
        // Counted from 1 where there is a key. The way is in the lowest bits.
        let place = |way: usize| {
            let bytes = self.bytes[way].min(u64::MAX >> 8) + u64::from(self.tags[way] != 0);
            bytes * WAYS as u64 + way as u64
        };
        let least = (0..WAYS).map(place).fold(u64::MAX, u64::min);
        usize::try_from(least).unwrap_or(0) % WAYS
    }
}

/// A key, and its sums but for the bytes.
#[derive(Clone, Copy, Debug)]
struct Entry<const N: usize> {
    key: [u64; N],
    packets: u64,
    sent: u64,
    flows: u64,
}

/// A key, and the numbers that are added to its sums later.
#[derive(Clone, Copy, Debug)]
struct Waiting<const N: usize> {
    hash: u64,
    key: [u64; N],
    more: Sum,
}

impl<const N: usize> Heavy<N> {
    pub(crate) fn new() -> Self {
        let nothing = Waiting {
            hash: 0,
            key: [0; N],
            more: Sum::default(),
        };
        let empty = Entry {
            key: [0; N],
            packets: 0,
            sent: 0,
            flows: 0,
        };
        let state = RandomState::new();
        Self {
            waiting: Box::new([nothing; BATCH]),
            count: 0,
            sets: vec![Set::default(); SETS],
            entries: vec![empty; SETS * WAYS],
            seed: [state.hash_one(0), state.hash_one(1)],
            left_out: 0,
        }
    }

    /// Adds to a key's sum. It is a part of its caller, so that the key is written where it waits, and
    /// not copied there: a processor waits for long where it copies what it has just written.
    #[inline(always)]
    pub(crate) fn add(&mut self, key: [u64; N], more: Sum) {
        let hash = self.hash(&key);
        self.waiting[self.count % BATCH] = Waiting { hash, key, more };
        self.count += 1;
        if self.count == BATCH {
            self.settle();
        }
    }

    #[inline(always)]
    fn hash(&self, key: &[u64; N]) -> u64 {
        let [first, second] = self.seed;
        key.chunks(2).fold(0, |state, words| {
            let a = words.first().copied().unwrap_or(0) ^ state ^ first;
            let b = words.get(1).copied().unwrap_or(0) ^ second;
            let product = u128::from(a) * u128::from(b);
            #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
            let (low, high) = (product as u64, (product >> 64) as u64);
            low ^ high
        })
    }

    /// Adds the waiting numbers. Call it before you read the sums.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        let count = std::mem::take(&mut self.count).min(BATCH);
        let mut touched = 0;
        for one in &self.waiting[..count] {
            touched ^= self.sets[set_of(one.hash)].tags[0];
        }
        black_box(touched);
        for at in 0..count {
            self.add_one(at);
        }
    }

    #[inline(always)]
    fn add_one(&mut self, waiting: usize) {
        let Waiting { hash, key, more } = &self.waiting[waiting % BATCH];
        let (at, tag) = (set_of(*hash), tag_of(*hash));
        let set = &mut self.sets[at];
        let entries = &mut self.entries[at * WAYS..(at + 1) * WAYS];
        let mut same = set.ways_of(tag);
        while same != 0 {
            let way = same.trailing_zeros() as usize % WAYS;
            let entry = &mut entries[way];
            if entry.key == *key {
                set.bytes[way] += more.bytes;
                entry.packets += more.packets;
                entry.sent += more.sent;
                entry.flows += more.flows;
                return;
            }
            same &= same - 1;
        }
        let way = set.least();
        self.left_out += u64::from(set.tags[way] != 0);
        set.tags[way] = tag;
        set.bytes[way] = more.bytes;
        entries[way] = Entry {
            key: *key,
            packets: more.packets,
            sent: more.sent,
            flows: more.flows,
        };
    }

    /// Returns the keys with the greatest sums by `measure`, the greatest first. For equal sums, the one that
    /// sent more comes first.
    pub(crate) fn top(&self, count: usize, measure: impl Fn(&Sum) -> u64) -> Vec<([u64; N], Sum)> {
        use std::cmp::Reverse;
        let order =
            |&(at, _, sum): &(usize, [u64; N], Sum)| (Reverse((measure(&sum), sum.sent)), at);
        let mut all: Vec<(usize, [u64; N], Sum)> = self.known().collect();
        if (1..all.len()).contains(&count) {
            all.select_nth_unstable_by_key(count - 1, order);
        }
        all.truncate(count);
        all.sort_unstable_by_key(order);
        all.into_iter().map(|(_, key, sum)| (key, sum)).collect()
    }

    /// Returns the place, the key and the sum of each place that is not empty.
    fn known(&self) -> impl Iterator<Item = (usize, [u64; N], Sum)> {
        let places = self.entries.iter().enumerate();
        places.filter_map(|(at, entry)| {
            let set = &self.sets[at / WAYS];
            let sum = Sum {
                bytes: set.bytes[at % WAYS],
                packets: entry.packets,
                sent: entry.sent,
                flows: entry.flows,
            };
            (set.tags[at % WAYS] != 0).then_some((at, entry.key, sum))
        })
    }

    /// Returns how often a key was replaced, and the sums of the replaced keys.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.sets.fill(Set::default());
        self.left_out = 0;
    }
}

/// Returns a part of a hash that is not 0.
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

fn set_of(hash: u64) -> usize {
    usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0) % SETS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_much_traffic_stays_in_a_flood() {
        let mut heavy = Heavy::<1>::new();
        let sum = |bytes| Sum {
            bytes,
            packets: 1,
            ..Sum::default()
        };
        for number in 0..200_000_u64 {
            heavy.add([1000 + number], sum(60));
            if number % 1000 == 0 {
                heavy.add([7], sum(1500));
                heavy.add([8], sum(900));
            }
        }
        heavy.settle();
        let top = heavy.top(2, |sum| sum.bytes);
        assert_eq!(top[0].0, [7]);
        assert_eq!((top[0].1.bytes, top[0].1.packets), (300_000, 200));
        assert_eq!((top[1].0, top[1].1.bytes), ([8], 180_000));
        assert!(heavy.left_out() > 100_000);
        heavy.clear();
        assert!(heavy.top(9, |sum| sum.bytes).is_empty());
    }
}
