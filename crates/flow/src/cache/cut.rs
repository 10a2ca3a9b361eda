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
        }
    }

    pub(crate) fn bytes() -> usize {
        PLACES * (size_of::<u32>() + size_of::<Cut>())
    }

    pub(crate) fn put(&mut self, hash: u32, cut: Cut) {
        let place = hash as usize % PLACES;
        self.count += usize::from(self.tags[place] == 0);
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
