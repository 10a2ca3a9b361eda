//! The inspector: payloads in, entries filled.

use std::net::IpAddr;

use crate::entry::Entry;
use crate::options::{InspectOptions, OptionError};
use crate::payload::{FlowState, Payload};

/// Whether a flow's next payloads matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next payload may say more.
    More,
    /// No further payload of the flow needs to be looked at.
    Done,
}

/// Counts of an [`Inspector`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payloads looked at.
    pub payloads: u64,
    /// Handshakes given up because the pool of buffers was full: the oldest one each time.
    pub buffers_evicted: u64,
    /// Handshakes given up because they were longer than a buffer or had too many gaps.
    pub buffers_overrun: u64,
    /// Addresses that were put into the table of names, or renewed.
    pub names: u64,
    /// Addresses that left the table of names before their time to live had passed.
    pub names_evicted: u64,
}

/// Looks at the first payloads of flows.
///
/// The caller sorts packets into flows. For each flow it keeps a [`FlowState`], and an [`Entry`] once
/// there is something to say:
///
/// 1. On a payload (of at least one byte) of a flow that is not [`Verdict::Done`], it calls
///    [`look`](Self::look) with the flow's entry, or with a new one if the flow has none.
/// 2. If the entry is not empty afterwards, it keeps the entry.
/// 3. When the flow ends, it calls [`forget`](Self::forget).
#[derive(Debug)]
pub struct Inspector {
    counters: Counters,
}

impl Inspector {
    /// Returns an inspector, with memory for all that it may hold.
    ///
    /// # Errors
    /// Returns the first invalid value of the options.
    pub fn new(options: &InspectOptions) -> Result<Self, OptionError> {
        options.validate()?;
        Ok(Self {
            counters: Counters::default(),
        })
    }

    /// Looks at the next payload of a flow. `flow` is the caller's number for the flow, unique among flows
    /// that are under way.
    pub fn look(
        &mut self,
        flow: u32,
        entry: &mut Entry,
        state: &mut FlowState,
        payload: &Payload<'_>,
    ) -> Verdict {
        let _ = (flow, entry, state, payload);
        self.counters.payloads += 1;
        Verdict::Done
    }

    /// Returns the name that was asked for when DNS gave this address, if its time to live had not passed
    /// at `time_ns`. For the record of a flow whose entry has no name: the responder's address, and the
    /// flow's start.
    #[must_use]
    pub fn name_of(&self, address: IpAddr, time_ns: u64) -> Option<&str> {
        let _ = (address, time_ns);
        None
    }

    /// Gives back what is held for a flow that ends. It costs nothing where nothing is held.
    #[inline]
    pub fn forget(&mut self, flow: u32, state: &mut FlowState) {
        if state.buffer != 0 {
            let _ = flow;
            state.buffer = 0;
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
