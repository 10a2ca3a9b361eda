//! The names and fields of flows whose records the active timeout cut: their next records have them, too.

use ringtap_inspect::{Entry, FlowState};

use crate::key::Key;

/// Flows that are between two records at a time. One that comes for a place in use takes it.
const PLACES: usize = 4096;

/// The table.
#[derive(Debug)]
pub(crate) struct Cuts {
    /// The hash of each place's flow, for a quick look; 0: none.
    tags: Box<[u32]>,
    flows: Vec<Cut>,
    /// How many places are in use.
    count: usize,
    /// Flows that lost their place while they could still go on.
    pub(crate) dropped: u64,
}

/// A flow without a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    pub(crate) key: Key,
    pub(crate) entry: Entry,
    pub(crate) state: FlowState,
    /// The time of its last packet.
    pub(crate) last_ns: u64,
}

impl Cuts {
    pub(crate) fn new() -> Self {
        Self {
            tags: vec![0; PLACES].into(),
            flows: vec![Cut::default(); PLACES],
            count: 0,
            dropped: 0,
        }
    }

    pub(crate) fn bytes() -> usize {
        PLACES * (size_of::<u32>() + size_of::<Cut>())
    }

    /// Gives a flow its place. A flow that has had packets since `alive_ns`, and so may go on, loses it.
    pub(crate) fn put(&mut self, hash: u32, cut: Cut, alive_ns: u64) {
        let place = hash as usize % PLACES;
        let before = &self.flows[place];
        let is_free = self.tags[place] == 0;
        let is_lost = !is_free && before.last_ns >= alive_ns && before.key != cut.key;
        self.count += usize::from(is_free);
        self.dropped += u64::from(is_lost);
        self.tags[place] = hash | 1;
        self.flows[place] = cut;
    }

    /// Takes the flow with this key, if it is here.
    #[inline]
    pub(crate) fn take(&mut self, hash: u32, key: &Key) -> Option<&Cut> {
        let place = hash as usize % PLACES;
        if self.count == 0 || self.tags[place] != hash | 1 || self.flows[place].key != *key {
            return None;
        }
        self.tags[place] = 0;
        self.count -= 1;
        self.flows.get(place)
    }
}
