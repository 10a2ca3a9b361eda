//! A hash table of positions, for lists that keep each element once.
//!
//! The standard map would work. But compiling a short expression is mostly look-ups, and this table
//! needs no keys, because the list has them. The hash depends on a random number, so that no
//! expression can be made to cause collisions.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

/// Positions in a list, by the hash of the element there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    /// Position plus one; 0 is free. The length is a power of two; it is empty while the list is
    /// short.
    slots: Vec<u32>,
    key: u64,
}

/// The length up to which a list is searched from end to end.
const FEW: usize = 16;

impl Index {
    /// Removes all positions.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
    }

    /// Returns the position of `element` in `list`, to which it is appended if it is missing.
    pub(crate) fn intern<T: Hash + Eq + Copy>(&mut self, list: &mut Vec<T>, element: T) -> u32 {
        // A list has at most as many elements as an expression has bytes.
        let position = u32::try_from(list.len()).unwrap_or(u32::MAX - 1);
        if self.slots.is_empty() {
            if let Some(there) = (0..position).zip(&*list).find(|(_, e)| **e == element) {
                return there.0;
            }
        } else {
            let mask = self.slots.len() - 1;
            let mut slot = self.start(&element, mask);
            while let Some(position) = self.slots[slot].checked_sub(1) {
                if list[position as usize] == element {
                    return position;
                }
                slot = (slot + 1) & mask;
            }
            self.slots[slot] = position + 1;
        }
        list.push(element);
        if list.len() >= FEW && list.len() * 2 > self.slots.len() {
            self.grow(list);
        }
        position
    }

    /// Inserts all elements again, with room for more.
    fn grow<T: Hash>(&mut self, list: &[T]) {
        let length = (list.len() * 4).next_power_of_two();
        self.slots.clear();
        self.slots.resize(length, 0);
        if self.key == 0 {
            self.key = RandomState::new().build_hasher().finish();
        }
        for (position, element) in (1..).zip(list) {
            let mut slot = self.start(element, length - 1);
            while self.slots[slot] > 0 {
                slot = (slot + 1) & (length - 1);
            }
            self.slots[slot] = position;
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the mask keeps the low bits"
    )]
    fn start<T: Hash>(&self, element: &T, mask: usize) -> usize {
        let mut mixer = Mixer(self.key);
        element.hash(&mut mixer);
        mixer.finish() as usize & mask
    }
}

/// Folded multiplication of each word with a constant, which is good enough for a short table.
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.unsigned_abs() as u64);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
    fn write_u64(&mut self, number: u64) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ number ^ ODD) * u128::from(ODD);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_is_kept_once() {
        let (mut index, mut list) = (Index::default(), Vec::new());
        for round in 0..2 {
            for number in 0..10_000_u32 {
                assert_eq!(index.intern(&mut list, number * 64), number, "{round}");
            }
        }
        assert_eq!(list.len(), 10_000);
        index.clear();
        list.clear();
        assert_eq!(index.intern(&mut list, 5), 0);
    }
}
