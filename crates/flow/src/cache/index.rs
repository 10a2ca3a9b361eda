//! Maps a hash to a flow's slot, by open addressing with linear probing.
//!
//! An entry is one word: the hash in its upper half, the slot's number plus one in its lower half. Zero is an
//! empty place. A cache line holds eight entries, so a search seldom touches a second one. When an entry is
//! removed, later entries move back (backward shift). So there are no marks of deleted entries for searches
//! to skip.
//!
//! Memory for all entries is reserved at the beginning, but only the front is used, as much as the flows
//! need. It doubles when it is half full. So a few thousand flows stay in the processor's cache instead of
//! being scattered over megabytes.

use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Index {
    /// The places, a power of two. Those beyond the mask are not used yet, and empty.
    entries: Vec<u64>,
    mask: usize,
    /// The number of places that are not empty.
    used: usize,
}

/// The number of places that are used at first: half of a first-level cache.
const FIRST_PLACES: usize = 1 << 11;

/// The number of places whose flows need 1 MB of memory, which no longer fits into a second-level cache.
const WIDE_PLACES: usize = 1 << 14;

impl Index {
    /// Returns an index for this number of slots, at most half full.
    pub(crate) fn new(slots: usize) -> Self {
        let places = (slots.max(8) * 2).next_power_of_two();
        Self {
            entries: vec![0; places],
            mask: places.min(FIRST_PLACES) - 1,
            used: 0,
        }
    }

    /// Returns the address range of its memory.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let range = self.entries.as_ptr_range();
        range.start.addr()..range.end.addr()
    }

    /// Returns the size of its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.len() * size_of::<u64>()
    }

    /// Returns whether the used part and its slots exceed a processor's cache.
    pub(crate) fn is_wide(&self) -> bool {
        self.mask >= WIDE_PLACES
    }

    /// Returns the first entry that a search for `hash` checks, to load its cache line.
    #[inline]
    pub(crate) fn first(&self, hash: u32) -> u64 {
        self.entries[hash as usize & self.mask]
    }

    /// Returns the first slot with that hash for which `is_it` is true.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = hash as usize & self.mask;
        loop {
            let entry = self.entries[at];
            if entry == 0 {
                return None;
            }
            if hash_of(entry) == hash && is_it(slot_of(entry)) {
                return Some(slot_of(entry));
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Adds a slot that is not in the index. There is always room: half of the places are never used.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, slot: u32) {
        if self.used > self.mask / 2 {
            self.grow();
        }
        self.used += 1;
        self.place(hash, u64::from(hash) << 32 | (u64::from(slot) + 1));
    }

    /// Doubles the number of places in use, if there are more, and moves each entry to its new place.
    ///
    /// Entries are taken in order, starting after an empty place, and around the end. So all entries between
    /// an entry's home and the entry itself were taken before it. An entry moves to where it was or before,
    /// in the lower half or as far into the upper one, never after an entry that is still to be taken.
    #[cold]
    fn grow(&mut self) {
        let places = self.mask + 1;
        if places == self.entries.len() {
            return;
        }
        let Some(empty) = self.entries[..places].iter().position(|&entry| entry == 0) else {
            return;
        };
        let old = self.mask;
        self.mask = places * 2 - 1;
        for step in 1..places {
            let at = (empty + step) & old;
            let entry = std::mem::take(&mut self.entries[at]);
            if entry != 0 {
                self.place(hash_of(entry), entry);
            }
        }
    }

    #[inline]
    fn place(&mut self, hash: u32, entry: u64) {
        let mut at = hash as usize & self.mask;
        while self.entries[at] != 0 {
            at = (at + 1) & self.mask;
        }
        self.entries[at] = entry;
    }

    /// Removes all slots.
    pub(crate) fn clear(&mut self) {
        if self.used > 0 {
            self.entries[..=self.mask].fill(0);
            self.used = 0;
        }
    }

    /// Removes a slot, if the index has it.
    pub(crate) fn remove(&mut self, hash: u32, slot: u32) {
        let wanted = u64::from(hash) << 32 | (u64::from(slot) + 1);
        let mut hole = hash as usize & self.mask;
        loop {
            match self.entries[hole] {
                0 => return,
                entry if entry == wanted => break,
                _ => hole = (hole + 1) & self.mask,
            }
        }
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let entry = self.entries[at];
            if entry == 0 {
                break;
            }
            // An entry may move back to the hole unless its home is after the hole.
            let home = hash_of(entry) as usize & self.mask;
            if (at.wrapping_sub(home) & self.mask) >= (at.wrapping_sub(hole) & self.mask) {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = 0;
        self.used -= 1;
    }
}

#[inline]
fn hash_of(entry: u64) -> u32 {
    (entry >> 32) as u32
}

/// Returns the slot of an entry that is not empty.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn slot_of(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with a list of pairs that is searched from end to end, with many equal hashes.
    #[test]
    fn finds_what_was_put_in_and_not_taken_out() {
        let mut index = Index::new(64);
        let mut model: Vec<(u32, u32)> = Vec::new();
        let mut state = 1_u32;
        for step in 0..20_000_u32 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let slot = (state >> 8) % 64;
            // Homes at the end of the table, so that entries wrap around, and few different hashes.
            let hash = 120 + (state >> 20) % 12;
            match model.iter().position(|&(_, known)| known == slot) {
                Some(at) => {
                    let (hash, _) = model.swap_remove(at);
                    index.remove(hash, slot);
                }
                None => {
                    index.insert(hash, slot);
                    model.push((hash, slot));
                }
            }
            for &(hash, slot) in &model {
                let found = index.find(hash, |candidate| candidate == slot);
                assert_eq!(found, Some(slot), "step {step}");
            }
            let used = index.entries.iter().filter(|&&entry| entry != 0).count();
            assert_eq!(used, model.len(), "step {step}");
        }
    }

    /// Uses hashes whose homes mostly lie at the end of the places in use, whatever their number, so that
    /// entries wrap around when it doubles.
    #[test]
    fn everything_is_found_again_when_it_grows() {
        let slots = 40_000;
        let mut index = Index::new(slots as usize);
        let hash = |slot: u32| match slot % 3 {
            0 => u32::MAX - slot % 7,
            1 => slot.wrapping_mul(0x9e37_79b9),
            _ => slot.wrapping_mul(0x9e37_79b9) | 0x7ff,
        };
        let mut masks = vec![index.mask];
        for slot in 0..slots {
            // Many entries of one hash would make long chains that are slow to walk.
            let hash = |slot| {
                if slot < 300 {
                    hash(slot)
                } else {
                    hash(slot | 1)
                }
            };
            index.insert(hash(slot), slot);
            if masks.last() != Some(&index.mask) {
                masks.push(index.mask);
                for slot in 0..=slot {
                    let found = index.find(hash(slot), |candidate| candidate == slot);
                    assert_eq!(found, Some(slot), "{} places", index.mask + 1);
                }
            }
        }
        assert_eq!(masks.len(), 7, "{masks:?}");
        assert_eq!(index.mask + 1, index.entries.len());
    }
}
