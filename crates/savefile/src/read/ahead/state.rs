//! The state that the two threads share: which stretches are read, walked and delivered.

use std::io;
use std::sync::Arc;

use super::{By, HEADROOM, Memory, Stretch};
use crate::filtered::PacketFilter;
use crate::read::walker::Walker;

/// The most stretches that are read but not delivered.
const SLOTS: usize = 6;
/// A sleeping helper is woken when no more than this number of stretches is ahead: waking it for
/// each one costs more than reading it.
const RESUME: u64 = SLOTS as u64 / 2;

pub(super) struct State {
    /// Number of stretches that a thread reads or has read.
    claimed: u64,
    /// Number of stretches delivered.
    pub(super) taken: u64,
    /// The stretches from `taken` on, by their number modulo the length.
    slots: [Slot; SLOTS],
    /// The walk, unless a thread is walking or the consumer has it.
    pub(super) walk: Option<Walk>,
    pub(super) filter: Option<Arc<dyn PacketFilter>>,
    /// Memory for reuse by the consumer and by the helper.
    spare: [Vec<Memory>; 2],
    /// A vector for the next [`Walk::before`].
    pub(super) spare_before: Vec<u8>,
    pub(super) helper_sleeps: bool,
    pub(super) helper_gone: bool,
    pub(super) consumer_sleeps: bool,
    pub(super) closed: bool,
}

/// The state of a stretch.
pub(super) enum Slot {
    /// Not read yet, or in use by a thread.
    Away,
    /// Read, but not walked.
    Read(Stretch),
    /// Ready to be delivered.
    Ready(io::Result<Stretch>),
}

/// The right to walk over a stretch, with all that the walk needs.
pub(super) struct Walk {
    /// The stretch's number.
    pub(super) number: u64,
    /// The beginning of its first record, from the stretch before.
    pub(super) before: Vec<u8>,
    pub(super) walker: Walker,
}

impl State {
    pub(super) fn new(filter: Option<Arc<dyn PacketFilter>>) -> Self {
        Self {
            claimed: 0,
            taken: 0,
            slots: [const { Slot::Away }; SLOTS],
            walk: None,
            filter,
            spare: [(); 2].map(|()| Vec::with_capacity(SLOTS + 1)),
            spare_before: Vec::new(),
            helper_sleeps: false,
            helper_gone: false,
            consumer_sleeps: false,
            closed: false,
        }
    }

    /// Returns the number of a stretch that no thread reads yet, if there is room for it.
    pub(super) fn claim(&mut self) -> Option<u64> {
        let number = self.claimed;
        if number >= self.taken + SLOTS as u64 {
            return None;
        }
        self.claimed += 1;
        Some(number)
    }

    /// Takes the walk and its stretch, if the stretch was read.
    pub(super) fn take_walk(&mut self) -> Option<(Walk, Stretch)> {
        let walk = self.walk.take()?;
        match std::mem::replace(self.slot(walk.number), Slot::Away) {
            Slot::Read(stretch) => Some((walk, stretch)),
            other => {
                *self.slot(walk.number) = other;
                self.walk = Some(walk);
                None
            }
        }
    }

    /// Takes the next stretch to deliver, if it is ready, or, with `raw`, if it was read.
    pub(super) fn take(&mut self, raw: bool) -> Option<io::Result<Stretch>> {
        let number = self.taken;
        let result = match std::mem::replace(self.slot(number), Slot::Away) {
            Slot::Ready(result) => result,
            Slot::Read(stretch) if raw => Ok(stretch),
            other => {
                *self.slot(number) = other;
                return None;
            }
        };
        self.taken += 1;
        Some(result)
    }

    /// Returns whether the helper sleeps and there is enough work for it.
    pub(super) fn wants_helper(&self) -> bool {
        self.helper_sleeps && self.claimed <= self.taken + RESUME
    }

    pub(super) fn slot(&mut self, number: u64) -> &mut Slot {
        let index = number % SLOTS as u64;
        &mut self.slots[usize::try_from(index).unwrap_or(0)]
    }

    /// Returns memory for a stretch of `size` bytes, with its headroom.
    pub(super) fn memory(&mut self, size: usize, by: By) -> Memory {
        let spare = self.spare[by as usize].pop();
        spare.unwrap_or_else(|| Memory {
            data: vec![0; HEADROOM + size],
            ranges: Vec::new(),
            by,
        })
    }

    pub(super) fn recycle(&mut self, memory: Memory) {
        let spare = &mut self.spare[memory.by as usize];
        if spare.len() <= SLOTS {
            spare.push(memory);
        }
    }
}
