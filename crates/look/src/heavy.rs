//! Sums by key in a table of fixed size, which keeps the keys with the greatest sums.
//!
//! A key has only a few possible places, its set. If other keys have them all, the one with the fewest bytes
//! is removed and counted as left out. So a flood of unique keys costs no memory, and keys with much traffic
//! stay. Each set adds up the bytes that it removed: no key of the set lacks more, and [`Row::error`] has
//! that bound.
//!
//! Keys wait until there are several. Then the sets of all are read before the first one is looked at, so
//! that the processor waits for the memory of many at a time. [`Heavy::settle`] adds those that wait.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::hint::black_box;
use std::net::IpAddr;

/// Keys of one set.
const WAYS: usize = 4;
/// Keys that wait, at most.
const BATCH: usize = 32;

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

    /// Returns a hash that depends on a seed.
    fn hash(&self, seed: [u64; 2]) -> u64 {
        self.mix(seed[0], |state, word| {
            fold(state ^ word, 0x9e37_79b9_7f4a_7c15)
        })
    }
}

/// Multiplies two words, and combines both halves of the product.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are mixed")]
    let (low, high) = (product as u64, (product >> 64) as u64);
    low ^ high
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
    seed: [u64; 2],
}

impl Family {
    /// Tables of at least so many keys, by a hash that nobody outside knows.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        let state = RandomState::new();
        Self {
            sets: keys.div_ceil(WAYS).max(1).next_power_of_two(),
            seed: [state.hash_one(0), state.hash_one(1)],
        }
    }

    /// Returns a number that nobody outside knows.
    pub(crate) fn seed(&self) -> u64 {
        self.seed[0]
    }

    #[inline(always)]
    fn set_of(&self, hash: u64) -> usize {
        usize::try_from(hash & u64::from(u32::MAX)).unwrap_or(0) & (self.sets - 1)
    }
}

/// Returns a part of a hash that is not 0.
fn tag_of(hash: u64) -> u32 {
    (hash >> 32) as u32 | 1
}

/// The table.
#[derive(Clone, Debug)]
pub struct Heavy<K> {
    family: Family,
    waiting: Vec<Waiting<K>>,
    places: Places<K>,
}

/// A key, and the numbers that are added to its sums later.
#[derive(Clone, Copy, Debug)]
struct Waiting<K> {
    hash: u64,
    key: K,
    more: Sum,
}

/// The places of keys. There are none until the first key comes.
#[derive(Clone, Debug)]
struct Places<K> {
    sets: Vec<Set>,
    /// Those of a set lie together; empty if the set says so.
    entries: Vec<Entry<K>>,
    /// The error of each entry: 0 in a set that has lost nothing.
    errors: Vec<[u64; WAYS]>,
    left_out: u64,
}

/// The part of a set that decides whether a key is known, and which key is removed.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    /// A part of each key's hash that is not 0; 0 is an empty place.
    tags: [u32; WAYS],
    bytes: [u64; WAYS],
    /// The bytes that left the set.
    lost: u64,
}

/// A key, and its sums but for the bytes.
#[derive(Clone, Copy, Debug)]
struct Entry<K> {
    key: K,
    packets: u64,
    sent: u64,
    flows: u64,
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

impl<K: HeavyKey> Places<K> {
    /// Makes the places, which any key fills up until they have their own.
    fn reserve(&mut self, sets: usize, key: K) {
        let empty = Entry {
            key,
            packets: 0,
            sent: 0,
            flows: 0,
        };
        self.sets = vec![Set::default(); sets];
        self.entries = vec![empty; sets * WAYS];
        self.errors = vec![[0; WAYS]; sets];
    }

    /// Adds to a key's sum; the key's error grows by that of a row, if it comes from one.
    #[inline(always)]
    fn add(&mut self, at: usize, tag: u32, key: &K, more: &Sum, error: Option<u64>) {
        let set = &mut self.sets[at];
        let entries = &mut self.entries[at * WAYS..(at + 1) * WAYS];
        let mut same = set.ways_of(tag);
        while same != 0 {
            let way = same.trailing_zeros() as usize % WAYS;
            let entry = &mut entries[way];
            if entry.key == *key {
                set.bytes[way] = set.bytes[way].saturating_add(more.bytes);
                entry.packets = entry.packets.saturating_add(more.packets);
                entry.sent = entry.sent.saturating_add(more.sent);
                entry.flows = entry.flows.saturating_add(more.flows);
                if let Some(error) = error {
                    let sum = &mut self.errors[at][way];
                    *sum = sum.saturating_add(error);
                }
                return;
            }
            same &= same - 1;
        }
        let way = set.least();
        if error.is_some() || set.lost > 0 {
            self.errors[at][way] = error.unwrap_or(0).saturating_add(set.lost);
        }
        if set.tags[way] != 0 {
            self.left_out += 1;
            set.lost = set.lost.saturating_add(set.bytes[way]);
        }
        set.tags[way] = tag;
        set.bytes[way] = more.bytes;
        entries[way] = Entry {
            key: *key,
            packets: more.packets,
            sent: more.sent,
            flows: more.flows,
        };
    }

    /// Returns the row of a place, unless it is empty.
    fn row(&self, at: usize, way: usize) -> Option<Row<K>> {
        let (set, entry) = (&self.sets[at], &self.entries[at * WAYS + way]);
        let sum = Sum {
            bytes: set.bytes[way],
            packets: entry.packets,
            sent: entry.sent,
            flows: entry.flows,
        };
        let row = Row {
            key: entry.key,
            sum,
            error: self.errors[at][way],
        };
        (set.tags[way] != 0).then_some(row)
    }

    /// Adds the rows of another table's set.
    fn merge(&mut self, at: usize, other: &Self) {
        let lost = other.sets[at].lost;
        if lost > 0 {
            for way in 0..WAYS {
                let is_there = |row: Row<K>| {
                    let mut there = (0..WAYS).filter_map(|way| other.row(at, way));
                    there.any(|other| other.key == row.key)
                };
                if self.row(at, way).is_some_and(|row| !is_there(row)) {
                    let error = &mut self.errors[at][way];
                    *error = error.saturating_add(lost);
                }
            }
        }
        for way in 0..WAYS {
            if let Some(row) = other.row(at, way) {
                let tag = other.sets[at].tags[way];
                self.add(at, tag, &row.key, &row.sum, Some(row.error));
            }
        }
        let sum = &mut self.sets[at].lost;
        *sum = sum.saturating_add(lost);
    }
}

impl<K: HeavyKey> Heavy<K> {
    /// Returns an empty table. It takes memory when the first key comes.
    #[must_use]
    pub fn new(family: Family) -> Self {
        Self {
            family,
            waiting: Vec::new(),
            places: Places {
                sets: Vec::new(),
                entries: Vec::new(),
                errors: Vec::new(),
                left_out: 0,
            },
        }
    }

    /// Adds to a key's sum. It is a part of its caller, so that the key is written where it waits, and
    /// not copied there: a processor waits for long where it copies what it has just written.
    #[inline(always)]
    pub fn add(&mut self, key: K, more: &Sum) {
        let (hash, more) = (key.hash(self.family.seed), *more);
        self.waiting.push(Waiting { hash, key, more });
        if self.waiting.len() >= BATCH {
            self.settle();
        }
    }

    /// Adds the keys that wait. Call it before you read the sums.
    #[inline(never)]
    pub fn settle(&mut self) {
        let Some(first) = self.waiting.first() else {
            return;
        };
        if self.places.sets.is_empty() {
            self.places.reserve(self.family.sets, first.key);
            self.waiting.reserve_exact(BATCH);
        }
        let mut touched = 0;
        for one in &self.waiting {
            touched ^= self.places.sets[self.family.set_of(one.hash)].tags[0];
        }
        black_box(touched);
        for Waiting { hash, key, more } in &self.waiting {
            let at = self.family.set_of(*hash);
            self.places.add(at, tag_of(*hash), key, more, None);
        }
        self.waiting.clear();
    }

    /// Adds all sums of another table of the same family. Rows stay within their errors.
    pub fn merge(&mut self, other: &Self) {
        self.settle();
        if let Some(entry) = other.places.entries.first() {
            if self.places.sets.is_empty() {
                self.places.reserve(self.family.sets, entry.key);
            }
            for at in 0..self.family.sets {
                self.places.merge(at, &other.places);
            }
            self.places.left_out += other.places.left_out;
        }
        for one in &other.waiting {
            self.add(one.key, &one.more);
        }
        self.settle();
    }

    /// Returns the keys with the greatest sums by `measure`, the greatest first. For equal sums, the
    /// one that sent more comes first.
    #[must_use]
    pub fn top(&self, count: usize, measure: impl Fn(&Sum) -> u64) -> Vec<Row<K>> {
        use std::cmp::Reverse;
        let order = |&(at, row): &(usize, Row<K>)| (Reverse((measure(&row.sum), row.sum.sent)), at);
        let mut all: Vec<(usize, Row<K>)> = self.rows().enumerate().collect();
        if (1..all.len()).contains(&count) {
            all.select_nth_unstable_by_key(count - 1, order);
        }
        all.truncate(count);
        all.sort_unstable_by_key(order);
        all.into_iter().map(|(_, row)| row).collect()
    }

    /// Returns all rows, in no order, without the keys that wait.
    pub fn rows(&self) -> impl Iterator<Item = Row<K>> {
        debug_assert!(self.waiting.is_empty(), "settle comes first");
        let places = (0..self.places.entries.len()).map(|place| (place / WAYS, place % WAYS));
        places.filter_map(|(at, way)| self.places.row(at, way))
    }

    /// Returns how often a key was replaced.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.places.left_out
    }

    /// Begins anew.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.places.sets.fill(Set::default());
        self.places.errors.fill([0; WAYS]);
        self.places.left_out = 0;
    }
}

/// Words of any meaning.
impl<const N: usize> HeavyKey for [u64; N] {
    fn mix(&self, state: u64, mix: impl Fn(u64, u64) -> u64) -> u64 {
        self.iter().fold(state, |state, word| mix(state, *word))
    }

    /// Takes two words at a time.
    #[inline(always)]
    fn hash(&self, [first, second]: [u64; 2]) -> u64 {
        self.chunks(2).fold(0, |state, words| {
            let a = words.first().copied().unwrap_or(0) ^ state ^ first;
            let b = words.get(1).copied().unwrap_or(0) ^ second;
            fold(a, b)
        })
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
            heavy.add([1000 + number], &of_bytes(60));
            if number % 1000 == 0 {
                heavy.add([7], &of_bytes(1500));
                heavy.add([8], &of_bytes(900));
            }
        }
        heavy.settle();
        let top = heavy.top(2, |sum| sum.bytes);
        assert_eq!(top[0].key, [7]);
        assert_eq!((top[0].sum.bytes, top[0].sum.packets), (300_000, 200));
        assert_eq!((top[1].key, top[1].sum.bytes), ([8], 180_000));
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
                    part.add([key], &of_bytes(bytes));
                    *exact.entry(key).or_default() += bytes;
                }
                whole.merge(&part);
            }
            for Row { key, sum, error } in whole.rows() {
                let exact = exact[&key[0]];
                prop_assert!(sum.bytes <= exact && exact <= sum.bytes + error,
                    "key {key:?}: {exact} is not within {} and {} more", sum.bytes, error);
                prop_assert!(whole.left_out() > 0 || error == 0);
            }
        }
    }
}
