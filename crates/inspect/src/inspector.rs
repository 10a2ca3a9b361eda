//! The inspector: payloads in, entries filled.

use std::net::IpAddr;

use crate::buffers::Buffers;
use crate::entry::{Entry, Tag};
use crate::guess::Guesses;
use crate::identify;
use crate::names::{LONGEST, Names};
use crate::options::{InspectOptions, OptionError};
use crate::payload::{Flow, FlowState, Payload, Step};
use crate::protocol::{NameSource, Protocol};

/// The longest datagram of QUIC that is decrypted.
const LONGEST_DATAGRAM: usize = 4096;

/// Whether a flow's next payloads matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The next payload may say more. [`FlowState::wants`] says in which direction.
    More,
    /// No further payload of the flow needs to be looked at.
    Done,
}

/// Counts of an [`Inspector`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Payloads looked at.
    pub payloads: u64,
    /// Messages given up because all buffers were in use: the oldest one each time.
    pub buffers_evicted: u64,
    /// Messages given up because they were longer than a buffer or had too many gaps.
    pub buffers_overrun: u64,
    /// Addresses that were put into the table of names, or renewed.
    pub names: u64,
    /// Addresses that left the table of names before their time to live had passed. Names that the table
    /// lost are counted when something takes the place of their address.
    pub names_evicted: u64,
}

/// Looks at the first payloads of flows.
///
/// The caller sorts packets into flows. For each flow it keeps a [`FlowState`], and an [`Entry`] once
/// there is something to say:
///
/// 1. On a payload (of at least one byte) whose direction the flow's state [wants](FlowState::wants), it
///    calls [`look`](Self::look) with the flow's entry, or with a new one if the flow has none.
/// 2. If the entry is not empty afterwards, it keeps the entry.
/// 3. When the flow ends, it calls [`forget`](Self::forget).
#[derive(Debug)]
pub struct Inspector {
    most: u8,
    pub(crate) buffers: Buffers,
    pub(crate) names: Names,
    /// Where messages are put together and decrypted.
    pub(crate) scratch: Box<[u8]>,
    pub(crate) guesses: Guesses,
    pub(crate) counters: Counters,
}

/// The port of DNS.
pub(crate) const DNS_PORT: u16 = 53;

impl Inspector {
    /// Returns an inspector, with memory for all that it may hold.
    ///
    /// # Errors
    /// Returns the first invalid value of the options.
    pub fn new(options: &InspectOptions) -> Result<Self, OptionError> {
        options.validate()?;
        let size = options.buffer_bytes as usize;
        Ok(Self {
            most: options.payloads,
            buffers: Buffers::new(options.buffers, size),
            names: Names::new(options.names, options.seed),
            scratch: vec![0; size.max(LONGEST_DATAGRAM)].into(),
            guesses: Guesses::new(),
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
        let from_initiator = payload.from_initiator;
        let mut flow = Flow {
            number: flow,
            entry,
            state,
        };
        if !payload.data.is_empty() && flow.state.wants(from_initiator) {
            self.counters.payloads += 1;
            let count = flow.state.count(from_initiator);
            let step = match flow.entry.protocol() {
                Some(protocol) => self.follow(protocol, &mut flow, payload),
                None => self.identify(&mut flow, payload),
            };
            flow.state.finish(step, from_initiator);
            let buffer = flow.state.buffer;
            if count >= self.most
                && !flow.state.is_endless()
                && !(flow.entry.protocol().is_some()
                    && self.buffers.goes_on(buffer, flow.number, from_initiator))
            {
                flow.state.finish(Step::This, from_initiator);
            }
            if flow.state.is_done() {
                self.close(&mut flow, payload);
            }
        }
        if flow.state.is_done() {
            Verdict::Done
        } else {
            Verdict::More
        }
    }

    /// Returns the name that was asked for when DNS gave this address, if its time to live had not passed
    /// at `time_ns`. For the record of a flow whose entry has no name: the responder's address, and the
    /// flow's start.
    ///
    /// Times to live below a minute count as a minute, those above a day as a day.
    #[must_use]
    pub fn name_of(&self, address: IpAddr, time_ns: u64) -> Option<&str> {
        self.names.find(address, time_ns)
    }

    /// Gives back what is held for a flow that ends. It costs nothing where nothing is held.
    #[inline]
    pub fn forget(&mut self, flow: u32, state: &mut FlowState) {
        if state.buffer != 0 {
            self.release(flow, state);
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            buffers_evicted: self.buffers.evicted,
            names: self.names.stored,
            names_evicted: self.names.evicted,
            ..self.counters
        }
    }

    pub(crate) fn release(&mut self, flow: u32, state: &mut FlowState) {
        self.buffers.give_back(state.buffer, flow);
        state.buffer = 0;
    }

    /// Finds the protocol of a flow by a payload.
    fn identify(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) -> Step {
        // The length of a message of DNS may be a segment of its own.
        let is_joined = payload.has_port(DNS_PORT) && self.is_held(flow, payload);
        if is_joined && self.add_segment(flow, payload) != Step::More {
            return Step::This;
        }
        let data = if is_joined {
            self.buffers.contiguous(flow.state.buffer)
        } else {
            payload.data
        };
        let begun = Payload { data, ..*payload };
        match identify::protocol(&begun, &mut self.guesses, flow.number) {
            Some(protocol) => {
                flow.entry.set_protocol(protocol);
                if protocol != Protocol::Tls && !(is_joined && protocol == Protocol::Dns) {
                    self.forget(flow.number, flow.state);
                }
                self.follow(protocol, flow, payload)
            }
            None => {
                self.keep_unknown(flow, payload);
                Step::More
            }
        }
    }

    /// Ends the inspection of a flow: gives its buffer back, and looks its name up if it has none.
    fn close(&mut self, flow: &mut Flow<'_>, payload: &Payload<'_>) {
        self.forget(flow.number, flow.state);
        if flow.entry.is_empty() || flow.entry.has_name() {
            return;
        }
        if let Some(name) = self.names.find(payload.responder, payload.time_ns) {
            flow.entry.put_escaped(Tag::Name, name, LONGEST);
            flow.entry.name_by(NameSource::Dns);
        }
    }
}
