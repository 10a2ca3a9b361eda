//! The timer wheel: lists of slots, one for each stretch of time.
//!
//! A flow is in one list: that of the time at which it might end when it was put there. Later packets do not
//! move it. If its time has come and it does not end, it goes into a later list. So nothing is scanned, and a
//! packet costs nothing here.
//!
//! The wheel has a time of its own. It advances with the packets' time, and stands still when theirs goes
//! back, as from one capture to the next.

use super::slot::{NONE, Slot};

/// Nanoseconds of one step, as a power of two: 0.27 s.
const STEP_SHIFT: u32 = 28;
/// The number of lists: a turn takes 137 s. Flows with later times go into the farthest list, and are checked
/// there.
const LISTS: usize = 512;

#[derive(Debug)]
pub(crate) struct Wheel {
    /// First and last slot of each list.
    ends: Box<[(u32, u32); LISTS]>,
    /// A bit for each list that is not empty.
    used: [u64; LISTS / 64],
    /// The wheel's time in nanoseconds.
    now_ns: u64,
    /// The step up to which lists were checked.
    step: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self {
            ends: Box::new([(NONE, NONE); LISTS]),
            used: [0; LISTS / 64],
            now_ns: 0,
            step: 0,
        }
    }

    /// Advances the time. Returns whether there are lists to check.
    #[inline]
    pub(crate) fn advance_by(&mut self, by_ns: u64) -> bool {
        // A step beyond a whole turn has the effect of any greater one.
        const MOST: u64 = ((LISTS as u64) + 1) << STEP_SHIFT;
        // Captures whose time goes back and forth may use up all of it, in 584 years.
        self.now_ns = self.now_ns.saturating_add(by_ns.min(MOST));
        self.now_ns >> STEP_SHIFT > self.step
    }

    /// Returns how far the time may advance until there are lists to check, in nanoseconds.
    pub(crate) fn until_due(&self) -> u64 {
        ((self.step + 1) << STEP_SHIFT).saturating_sub(self.now_ns)
    }

    /// Goes to the next list whose time has come, empties it, and returns its first slot; the others follow
    /// by [`Slot::next`]. Returns `None` if no list is left.
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        while self.step < self.now_ns >> STEP_SHIFT {
            self.step += 1;
            let list = list_of(self.step);
            let (first, _) = self.ends[list];
            if first != NONE {
                self.ends[list] = (NONE, NONE);
                self.used[list / 64] &= !(1 << (list % 64));
                return Some(first);
            }
        }
        None
    }

    /// Puts a slot into the list for the time in `wait_ns`.
    pub(crate) fn put(&mut self, slots: &mut [Slot], slot: u32, wait_ns: u64) {
        const FARTHEST: u64 = LISTS as u64 - 1;
        let at = self.now_ns.saturating_add(wait_ns) >> STEP_SHIFT;
        // The list of a past time would be checked a whole turn later.
        let at = (at + 1).clamp(self.step + 1, self.step + FARTHEST);
        let list = list_of(at);
        let (first, last) = self.ends[list];
        {
            let slot = &mut slots[slot as usize];
            slot.next = NONE;
            slot.previous = last;
            slot.list = u16::try_from(list).unwrap_or(0);
        }
        if last == NONE {
            self.ends[list] = (slot, slot);
            self.used[list / 64] |= 1 << (list % 64);
        } else {
            slots[last as usize].next = slot;
            self.ends[list] = (first, slot);
        }
    }

    /// Removes a slot from its list.
    pub(crate) fn take(&mut self, slots: &mut [Slot], slot: u32) {
        let (next, previous, list) = {
            let slot = &slots[slot as usize];
            (slot.next, slot.previous, usize::from(slot.list))
        };
        let ends = &mut self.ends[list];
        if previous == NONE {
            ends.0 = next;
        } else {
            slots[previous as usize].next = next;
        }
        if next == NONE {
            ends.1 = previous;
        } else {
            slots[next as usize].previous = previous;
        }
        if ends.0 == NONE {
            self.used[list / 64] &= !(1 << (list % 64));
        }
    }

    /// Empties all lists. The time goes on from where it is.
    pub(crate) fn clear(&mut self) {
        self.ends.fill((NONE, NONE));
        self.used.fill(0);
    }

    /// Returns the slot that is to be checked first, and how far away that is, in nanoseconds.
    pub(crate) fn soonest(&self) -> Option<(u32, u64)> {
        let start = list_of(self.step + 1);
        let words = self.used.len();
        for turn in 0..=words {
            let word = (start / 64 + turn) % words;
            let mut used = self.used[word];
            if turn == 0 {
                used &= u64::MAX << (start % 64);
            }
            if used != 0 {
                let list = word * 64 + used.trailing_zeros() as usize;
                let steps = (list + LISTS - start) % LISTS;
                return Some((self.ends[list].0, (steps as u64) << STEP_SHIFT));
            }
        }
        None
    }
}

fn list_of(step: u64) -> usize {
    usize::try_from(step % LISTS as u64).unwrap_or(0)
}
