//! The application layer of the flows in the cache.
//!
//! Data in: payloads of flows that are not done. Data out: an entry for the record of a flow that has
//! anything to say. Each slot has 12 bytes here; what those flows have to say is in a pool.

use std::net::IpAddr;
use std::ops::Range;

use ringtap_inspect::{
    Counters, Entry, EntryHead, FlowState, InspectOptions, Inspector, Payload, Transport, Verdict,
};
use ringtap_packet::protocol::TCP;

use super::cut::{Cut, Cuts};
use super::pool::Pool;
use super::reserved;
use super::slot::{NONE, Slot, State};
use super::tcp::SYN;
use crate::options::Limits;
use crate::parse::Observation;
use crate::record::FlowKey;
use crate::wanted::Wanted;

#[derive(Debug)]
pub(crate) struct Applications {
    inspector: Inspector,
    /// One per slot.
    flows: Vec<Flow>,
    pool: Pool,
    pub(super) cuts: Cuts,
    pub(crate) wanted: Wanted,
    both_ways: bool,
    inactive_ns: u64,
}

/// The state of a slot's flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    state: FlowState,
    head: EntryHead,
    /// The first block of its fields, or [`NONE`].
    block: u32,
}

const _: () = assert!(size_of::<Flow>() == 12);

impl Applications {
    pub(crate) fn new(
        options: &InspectOptions,
        limits: &Limits,
    ) -> Result<Self, ringtap_inspect::OptionError> {
        let flows = limits.flows as usize;
        Ok(Self {
            inspector: Inspector::new(options)?,
            wanted: Wanted::new(options.payloads, limits.inactive_ns, limits.both_ways),
            flows: Vec::with_capacity(flows),
            pool: Pool::new(flows),
            cuts: Cuts::new(),
            both_ways: limits.both_ways,
            inactive_ns: limits.inactive_ns,
        })
    }

    pub(crate) fn counters(&self) -> Counters {
        self.inspector.counters()
    }

    /// Bytes that all flows together may take.
    pub(crate) fn bytes(&self) -> usize {
        self.flows.capacity() * size_of::<Flow>()
            + self.pool.bytes()
            + Cuts::bytes()
            + self.wanted.bytes()
    }

    /// Returns the address ranges of the states of flows, and of their entries.
    pub(crate) fn addresses(&self) -> [Range<usize>; 2] {
        [reserved(&self.flows), self.pool.addresses()]
    }

    /// Returns a number of a slot's state, to load its cache line.
    #[inline]
    pub(crate) fn touch(&self, id: usize) -> u64 {
        self.flows.get(id).map_or(0, |flow| flow.block.into())
    }

    /// A slot is added.
    pub(crate) fn grow(&mut self) {
        self.flows.push(Flow::new());
    }

    /// A flow ends, or begins anew in its slot.
    pub(crate) fn forget(&mut self, id: u32) {
        let Some(flow) = self.flows.get_mut(id as usize) else {
            return;
        };
        self.inspector.forget(id, &mut flow.state);
        self.pool.release(flow.block);
        *flow = Flow::new();
    }

    /// Keeps what a slot's flow has said: the active timeout has cut its record, at `now_ns`.
    pub(crate) fn cut(&mut self, id: u32, slot: &Slot, hash: u32, now_ns: u64) {
        let Some(flow) = self.flows.get_mut(id as usize) else {
            return;
        };
        if !flow.head.is_empty() {
            self.inspector.forget(id, &mut flow.state);
            let cut = Cut {
                key: slot.key,
                entry: flow.entry(&self.pool),
                state: flow.state,
                last_ns: slot.traffic.last_ns,
            };
            let alive_ns = now_ns.saturating_sub(self.inactive_ns);
            self.cuts.put(hash, cut, alive_ns);
        }
    }

    /// A flow begins in a slot; if it is one that was cut before, it goes on. Returns whether it has said
    /// all it will.
    pub(crate) fn go_on(&mut self, id: u32, slot: &Slot, packet: &Observation) -> bool {
        let Some(cut) = self.cuts.take(packet.hash, &slot.key) else {
            return false;
        };
        let silence = packet.time_ns.saturating_sub(cut.last_ns);
        let is_new = packet.tcp_flags & SYN != 0 || silence > self.inactive_ns;
        let Some(flow) = self.flows.get_mut(id as usize).filter(|_| !is_new) else {
            return false;
        };
        flow.state = cut.state;
        flow.keep(&mut self.pool, &cut.entry);
        if flow.state.is_done() {
            self.wanted.done(packet.hash);
        }
        flow.state.is_done()
    }

    /// Looks at a payload of a slot's flow; returns whether the flow has said all it will.
    pub(crate) fn look(
        &mut self,
        id: u32,
        slot: &Slot,
        packet: &Observation,
        data: &[u8],
    ) -> Verdict {
        let key = slot.key.export(slot.tos);
        let is_turned = self.is_turned(slot, &key);
        let from_initiator = if self.both_ways {
            packet.reversed == is_turned
        } else {
            !is_turned
        };
        let [initiator, responder] = ends(&key, is_turned);
        let transport = match key.protocol {
            TCP => Transport::Tcp {
                sequence: packet.sequence,
            },
            _ => Transport::Udp,
        };
        let payload = Payload {
            transport,
            from_initiator,
            initiator: initiator.0,
            responder: responder.0,
            initiator_port: initiator.1,
            responder_port: responder.1,
            time_ns: packet.time_ns,
            data,
            complete: data.len() == packet.payload() as usize,
        };
        let Some(flow) = self.flows.get_mut(id as usize) else {
            return Verdict::Done;
        };
        let mut entry = flow.entry(&self.pool);
        let verdict = self
            .inspector
            .look(id, &mut entry, &mut flow.state, &payload);
        flow.keep(&mut self.pool, &entry);
        verdict
    }

    /// Looks at an answer of DNS of which another meter has the flow: it may name hosts of this one's.
    pub(crate) fn learn(&mut self, payload: &Payload<'_>) {
        let (mut entry, mut state) = (Entry::new(), FlowState::default());
        self.inspector.look(NONE, &mut entry, &mut state, payload);
        self.inspector.forget(NONE, &mut state);
    }

    /// Returns what the record of a slot's flow has to say.
    pub(crate) fn entry(&self, id: u32, slot: &Slot) -> Option<Entry> {
        let flow = self.flows.get(id as usize)?;
        let mut entry = flow.entry(&self.pool);
        let known = (!entry.is_empty()).then_some(entry);
        if flow.head.has_name() && entry.fields().name.is_some() {
            return known;
        }
        let key = slot.key.export(slot.tos);
        let [_, (responder, _)] = ends(&key, self.is_turned(slot, &key));
        let Some(name) = self.inspector.name_of(responder, slot.traffic.first_ns) else {
            return known;
        };
        entry.set_dns_name(name);
        Some(entry)
    }

    /// Returns whether the initiator of a slot's flow is the destination of its key. A flow of one direction looks
    /// like that of a server's answers if the source has the lower port.
    fn is_turned(&self, slot: &Slot, key: &FlowKey) -> bool {
        if self.both_ways {
            slot.state.has(State::FROM_DESTINATION)
        } else {
            key.source_port < key.destination_port
        }
    }
}

impl Flow {
    /// A flow that has said nothing.
    fn new() -> Self {
        Self {
            state: FlowState::default(),
            head: EntryHead::default(),
            block: NONE,
        }
    }

    /// Returns what the flow has said.
    fn entry(&self, pool: &Pool) -> Entry {
        Entry::from_parts(self.head, pool.pieces(self.block))
    }

    /// Keeps what the flow has said.
    fn keep(&mut self, pool: &mut Pool, entry: &Entry) {
        self.head = entry.head();
        self.block = pool.put(self.block, entry.packed());
    }
}

/// Returns initiator and responder, the destination first if the key is turned.
fn ends(key: &FlowKey, is_turned: bool) -> [(IpAddr, u16); 2] {
    let source = (key.source, key.source_port);
    let destination = (key.destination, key.destination_port);
    if is_turned {
        [destination, source]
    } else {
        [source, destination]
    }
}
