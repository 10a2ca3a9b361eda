//! The processes at the ends of the flows in the cache: 8 bytes each flow, beside the table of processes.
//!
//! An end has the process that its last packet named. A process that only listens is replaced by any other, and
//! replaces none.

use std::sync::Arc;

use crate::parse::Observation;
use crate::process::{Owner, Process, Processes};

#[derive(Debug)]
pub(crate) struct Owners {
    pub(crate) processes: Processes,
    /// One per slot: those of the key's source and destination.
    flows: Vec<[Owner; 2]>,
}

impl Owners {
    pub(crate) fn new(flows: usize, processes: u32) -> Self {
        Self {
            processes: Processes::new(processes),
            flows: Vec::with_capacity(flows),
        }
    }

    /// Returns the bytes that all flows together may take.
    pub(crate) fn bytes(&self) -> usize {
        self.flows.capacity() * size_of::<[Owner; 2]>() + self.processes.bytes()
    }

    /// A slot is added.
    pub(crate) fn grow(&mut self) {
        self.flows.push([Owner::NONE; 2]);
    }

    /// A flow ends, or begins anew in its slot.
    pub(crate) fn forget(&mut self, id: u32) {
        let Some(ends) = self.flows.get_mut(id as usize) else {
            return;
        };
        for owner in std::mem::replace(ends, [Owner::NONE; 2]) {
            self.processes.release(owner);
        }
    }

    /// All slots are removed. Their flows must have been forgotten.
    pub(crate) fn clear(&mut self) {
        self.flows.clear();
    }

    /// Notes the process of a packet of a slot's flow.
    pub(crate) fn note(&mut self, id: u32, observation: &Observation) {
        let Some(ends) = self.flows.get_mut(id as usize) else {
            return;
        };
        let new = observation.owner;
        let end = usize::from(new.is_at_destination() != observation.reversed);
        let (place, new) = (&mut ends[end], new.without_end());
        if *place == new || new.listens() && *place != Owner::NONE {
            return;
        }
        let before = std::mem::replace(place, new);
        self.processes.hold(new);
        self.processes.release(before);
    }

    /// Returns the processes of the key's source and destination.
    pub(crate) fn of(&self, id: u32) -> [Option<Arc<Process>>; 2] {
        let ends = self.flows.get(id as usize);
        let ends = ends.copied().unwrap_or([Owner::NONE; 2]);
        ends.map(|owner| self.processes.get(owner))
    }
}
