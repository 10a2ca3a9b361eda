//! The cache of flows.
//!
//! Observations go in: one by one if there are few flows, else in blocks, so that the memory of all flows of
//! a block is requested before it is needed. Records come out, to a sink. All memory is reserved at the
//! beginning. A new flow takes a free slot, or that of the flow whose timeout is nearest.

mod applications;
mod cut;
mod index;
mod interim;
mod owners;
mod pool;
mod short;
mod slot;
mod tcp;
mod wheel;

use std::hint::black_box;
use std::ops::Range;

use ringtap_inspect::{InspectOptions, Payload, Verdict};
use ringtap_packet::protocol::{TCP, UDP};

use crate::counters::Counters;
use crate::key::Seed;
use crate::options::Limits;
use crate::parse::{NO_LABEL, Observation};
use crate::process::Owner;
use crate::record::{EndReason, FlowRecord, MacAddresses, Reported, Traffic};
use crate::sink::FlowSink;
use crate::wanted::Payloads;
use applications::Applications;
use index::Index;
use owners::Owners;
use slot::count_next;
use slot::{Extra, NONE, Slot, State};
pub(crate) use slot::{NO_TRAFFIC, count, merge};
use tcp::{ACK, FIN, RST, SYN};
use wheel::Wheel;

/// The number of packets in a block.
pub(crate) const BLOCK: usize = 64;

/// The maximum number of flows that are checked to find one to remove.
const LOOKS: usize = 16;

#[derive(Debug)]
pub(crate) struct Cache {
    slots: Vec<Slot>,
    /// One per slot, if anything is kept in them.
    extras: Vec<Extra>,
    /// The application layer of flows, if payloads are inspected.
    applications: Option<Box<Applications>>,
    /// The processes of flows, if they are wanted.
    pub(crate) owners: Option<Box<Owners>>,
    /// The packets and bytes that interim reports counted, one entry per slot, if there are such reports.
    reported: Vec<Reported>,
    index: Index,
    wheel: Wheel,
    /// The first free slot.
    free: u32,
    limits: Limits,
    /// Whether more is kept than slots.
    keeps_extra: bool,
    seed: Seed,
    /// The time of packets, in nanoseconds since 1970.
    pub(crate) now_ns: u64,
    /// The time of packets up to which the wheel has turned.
    turned_ns: u64,
    /// The time of packets at which lists of the wheel must be checked, if no packet comes that is older than
    /// the last one.
    due_ns: u64,
    begun: bool,
    /// The number of flows, now and at most.
    pub(crate) active: u32,
    pub(crate) peak: u32,
}

impl Cache {
    pub(crate) fn new(
        limits: Limits,
        seed: Seed,
        inspect: Option<&InspectOptions>,
    ) -> Result<Self, ringtap_inspect::OptionError> {
        let flows = limits.flows as usize;
        let applications = inspect.map(|options| {
            let applications = Applications::new(options, &limits)?;
            Ok(Box::new(applications))
        });
        let extras = if limits.has_extra() { flows } else { 0 };
        Ok(Self {
            slots: Vec::with_capacity(flows),
            extras: Vec::with_capacity(extras),
            applications: applications.transpose()?,
            owners: (limits.processes > 0).then(|| Box::new(Owners::new(flows, limits.processes))),
            reported: Vec::with_capacity(if limits.interim { flows } else { 0 }),
            index: Index::new(flows),
            wheel: Wheel::new(),
            free: NONE,
            limits,
            keeps_extra: limits.has_extra(),
            seed,
            now_ns: 0,
            turned_ns: 0,
            due_ns: 0,
            begun: false,
            active: 0,
            peak: 0,
        })
    }

    /// Returns the bytes that all flows together may take.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.extras.capacity() * size_of::<Extra>()
            + self.reported.capacity() * size_of::<Reported>()
            + self.index.bytes()
            + self.applications.as_ref().map_or(0, |known| known.bytes())
            + self.owners.as_ref().map_or(0, |owners| owners.bytes())
    }

    /// Returns the counts of inspected payloads, and of flows that were forgotten between two records, if
    /// payloads are inspected.
    pub(crate) fn inspected(&self) -> Option<(ringtap_inspect::Counters, u64)> {
        let applications = self.applications.as_ref()?;
        Some((applications.counters(), applications.cuts.dropped))
    }

    /// Looks at an answer of DNS that belongs to no flow of this cache.
    pub(crate) fn learn(&mut self, payload: &Payload<'_>) {
        if let Some(applications) = &mut self.applications {
            applications.learn(payload);
        }
    }

    /// Returns the address ranges of the memory of which each packet touches a different part.
    pub(crate) fn addresses(&self) -> [Range<usize>; 5] {
        let applications = self.applications.as_ref();
        let [states, entries] = applications
            .map(|known| known.addresses())
            .unwrap_or_default();
        [
            reserved(&self.slots),
            reserved(&self.extras),
            self.index.addresses(),
            states,
            entries,
        ]
    }

    /// Counts the packets of a block, at most [`BLOCK`], whose keys are already hashed.
    pub(crate) fn block<S: FlowSink + ?Sized>(
        &mut self,
        block: &[Observation],
        payloads: &Payloads,
        counters: &mut Counters,
        sink: &mut S,
    ) {
        if self.index.is_wide() {
            self.touch(block);
        }
        for observation in block {
            if !self.is_soon(observation.time_ns) {
                self.advance_to(observation.time_ns, counters, sink);
            }
            let guess = self.index.find(observation.hash, |_| true);
            let guess = guess.unwrap_or(NONE);
            if self.goes_on(guess, observation) {
                self.note_owner(guess, observation);
                if observation.kept > 0 {
                    self.look(guess, observation, payloads.of(observation));
                }
            } else {
                let payload = payloads.of(observation);
                self.packet(observation, (guess, payload), counters, sink);
            }
        }
    }

    /// Whether the payload of a packet is to be kept until the packet is counted.
    #[inline]
    pub(crate) fn wants(&mut self, observation: &Observation) -> bool {
        let applications = self.applications.as_mut();
        applications.is_some_and(|known| known.wanted.wants_of(observation))
    }

    /// Notes the process of a packet, if it has one.
    #[inline(always)]
    fn note_owner(&mut self, id: u32, observation: &Observation) {
        if observation.owner != Owner::NONE
            && let Some(owners) = &mut self.owners
        {
            owners.note(id, observation);
        }
    }

    /// Looks at a payload of a flow, unless the flow has said all it will.
    #[inline(never)]
    fn look(&mut self, id: u32, observation: &Observation, payload: &[u8]) {
        let Some(applications) = &mut self.applications else {
            return;
        };
        let slot = &mut self.slots[id as usize];
        if !slot.state.has(State::CURIOUS) {
            return;
        }
        if applications.look(id, slot, observation, payload) == Verdict::Done {
            slot.state.clear(State::CURIOUS);
            applications.wanted.done(observation.hash);
        }
    }

    /// Returns whether the flows fit into a processor's cache, so that blocks bring nothing. Then
    /// [`Cache::try_count`] counts most packets as they are read.
    pub(crate) fn is_at_hand(&self) -> bool {
        !self.keeps_extra && !self.index.is_wide()
    }

    /// Counts a common packet, if nothing but slots is kept. Returns false if the packet is not common; then
    /// it was not counted.
    #[inline(always)]
    pub(crate) fn try_count(&mut self, observation: &Observation) -> bool {
        if !self.is_soon(observation.time_ns) {
            return false;
        }
        let guess = self.index.find(observation.hash, |_| true);
        self.goes_on(guess.unwrap_or(NONE), observation)
    }

    /// Reads the index entries of a block, then its slots and what is kept beside them, before they are needed.
    /// The reads don't depend on one another, so that the processor waits for many at once.
    fn touch(&self, block: &[Observation]) {
        let mut touched = 0;
        for observation in block {
            touched ^= self.index.first(observation.hash);
        }
        for observation in block {
            let guess = self.index.find(observation.hash, |_| true);
            let id = guess.unwrap_or(NONE) as usize;
            if let Some(slot) = self.slots.get(id) {
                touched ^= slot.key.addresses[0] ^ slot.traffic.packets;
            }
            if let Some(extra) = self.extras.get(id) {
                touched ^= extra.forward_last_ns ^ extra.tcp.touch();
            }
            if let Some(applications) = &self.applications {
                touched ^= applications.touch(id);
            }
        }
        black_box(touched);
    }

    /// Counts a common packet: its flow exists and does not end with it. Returns false if that is not so; then
    /// nothing was changed.
    #[inline(always)]
    fn goes_on(&mut self, guess: u32, observation: &Observation) -> bool {
        let Some(slot) = self.slots.get_mut(guess as usize) else {
            return false;
        };
        let traffic = &mut slot.traffic;
        // For a packet from before the last one, the gap is greater than any timeout.
        let gap = observation.time_ns.wrapping_sub(traffic.last_ns);
        let age = observation.time_ns.wrapping_sub(traffic.first_ns);
        let same = slot.key == observation.key && slot.state.is_open();
        let in_time = gap <= self.limits.inactive_ns && age < self.limits.active_ns;
        if !same || !in_time || observation.tcp_flags & (FIN | RST) != 0 {
            return false;
        }
        if self.keeps_extra {
            self.count_extra(guess, observation);
        } else {
            count_next(traffic, observation);
        }
        true
    }

    /// Counts one packet, and looks at its payload if that was kept. `guess` may be its slot.
    #[inline(never)]
    fn packet<S: FlowSink + ?Sized>(
        &mut self,
        observation: &Observation,
        (guess, payload): (u32, &[u8]),
        counters: &mut Counters,
        sink: &mut S,
    ) -> u32 {
        let hash = observation.hash;
        let is_it = |slot: &Slot| slot.state.has(State::USED) && slot.key == observation.key;
        let id = match self.slots.get(guess as usize) {
            Some(slot) if is_it(slot) => guess,
            _ => {
                let slots = &self.slots;
                let known = self.index.find(hash, |id| is_it(&slots[id as usize]));
                match known {
                    Some(id) => id,
                    None => self.insert(observation, counters, sink),
                }
            }
        };
        if let Some(reason) = self.ended_before(id, observation) {
            self.emit(id, reason, counters, sink);
            if reason == EndReason::Active {
                self.cut(id, observation.hash);
            }
            self.begin(id, observation);
            counters.flows += 1;
        }
        if self.limits.has_extra() {
            self.count_extra(id, observation);
        } else {
            count(&mut self.slots[id as usize].traffic, observation);
        }
        self.note_owner(id, observation);
        if !payload.is_empty() {
            self.look(id, observation, payload);
        }
        if observation.tcp_flags & (FIN | RST) != 0 {
            self.close(id, observation, counters, sink);
        }
        id
    }

    /// Returns why the flow was over when this packet of the same key came. `None` if it was not.
    #[inline]
    fn ended_before(&self, id: u32, observation: &Observation) -> Option<EndReason> {
        let Slot { traffic, state, .. } = &self.slots[id as usize];
        if traffic.last_ns == 0 && traffic.first_ns == u64::MAX {
            return None;
        }
        let now = observation.time_ns;
        if now.abs_diff(traffic.last_ns) > self.limits.inactive_ns
            && (now > traffic.last_ns || now < traffic.first_ns)
        {
            return Some(if state.has(State::CLOSING) {
                EndReason::EndOfFlow
            } else {
                EndReason::Idle
            });
        }
        if now.saturating_sub(traffic.first_ns) >= self.limits.active_ns {
            return Some(EndReason::Active);
        }
        if state.has(State::CLOSING) && observation.tcp_flags & SYN != 0 {
            return Some(EndReason::EndOfFlow);
        }
        None
    }

    /// Sets the first time, unless there is one.
    pub(crate) fn begin_at(&mut self, time_ns: u64) {
        if !self.begun {
            self.now_ns = time_ns;
            self.turned_ns = time_ns;
            self.begun = true;
        }
    }

    /// Returns whether the packet is not older than the last one and nothing must be checked until its time.
    /// Then the time advances.
    #[inline]
    fn is_soon(&mut self, time_ns: u64) -> bool {
        let soon = time_ns >= self.now_ns && time_ns < self.due_ns;
        if soon {
            self.now_ns = time_ns;
        }
        soon
    }

    /// Advances the time to that of a packet, and ends the flows whose timeouts pass.
    pub(crate) fn advance_to<S: FlowSink + ?Sized>(
        &mut self,
        time_ns: u64,
        counters: &mut Counters,
        sink: &mut S,
    ) {
        self.turn_wheel();
        if time_ns > self.now_ns {
            if !self.begun {
                self.turned_ns = time_ns;
            }
            self.now_ns = time_ns;
            self.begun = true;
            if self.turn_wheel() {
                self.expire(counters, sink);
            }
        } else if self.now_ns - time_ns > self.limits.inactive_ns {
            // Another capture, or a clock that was set: its time counts from here on.
            self.now_ns = time_ns;
            self.turned_ns = time_ns;
        }
        if self.begun {
            self.due_ns = self.now_ns.saturating_add(self.wheel.until_due());
        }
    }

    /// Advances the wheel to the time of packets. Returns whether there are lists to check.
    fn turn_wheel(&mut self) -> bool {
        let by = self.now_ns - self.turned_ns;
        self.turned_ns = self.now_ns;
        self.wheel.advance_by(by)
    }

    fn expire<S: FlowSink + ?Sized>(&mut self, counters: &mut Counters, sink: &mut S) {
        while let Some(first) = self.wheel.next_due() {
            let mut next = first;
            while next != NONE {
                let id = next;
                next = self.slots[id as usize].next;
                match self.time_left(id) {
                    (0, reason) => {
                        self.emit(id, reason, counters, sink);
                        let hash = self.slots[id as usize].key.hash(self.seed);
                        if reason == EndReason::Active {
                            self.cut(id, hash);
                        }
                        self.release(id, hash);
                    }
                    (wait, _) => self.wheel.put(&mut self.slots, id, wait),
                }
            }
        }
    }

    /// Returns the nanoseconds until a flow ends if no packet comes, and why it then ends.
    fn time_left(&self, id: u32) -> (u64, EndReason) {
        let Slot { traffic, state, .. } = &self.slots[id as usize];
        let closing = state.has(State::CLOSING);
        let (limit, reason) = if closing {
            (self.limits.linger_ns, EndReason::EndOfFlow)
        } else {
            (self.limits.inactive_ns, EndReason::Idle)
        };
        let idle = if traffic.last_ns > self.now_ns.saturating_add(self.limits.inactive_ns) {
            // From another time, before the clock went back.
            0
        } else {
            let gap = self.now_ns.saturating_sub(traffic.last_ns);
            limit.saturating_add(1).saturating_sub(gap)
        };
        let age = self.now_ns.saturating_sub(traffic.first_ns);
        let active = self.limits.active_ns.saturating_sub(age);
        if active < idle {
            (active, EndReason::Active)
        } else {
            (idle, reason)
        }
    }

    /// Ends the flow after FIN or RST, once it has been silent for the linger time.
    fn close<S: FlowSink + ?Sized>(
        &mut self,
        id: u32,
        observation: &Observation,
        counters: &mut Counters,
        sink: &mut S,
    ) {
        let state = &mut self.slots[id as usize].state;
        if observation.tcp_flags & RST == 0 && self.limits.both_ways {
            let reverse = observation.reversed != state.has(State::FROM_DESTINATION);
            state.set(if reverse {
                State::REVERSE_FIN
            } else {
                State::FIN
            });
            if !(state.has(State::FIN) && state.has(State::REVERSE_FIN)) {
                return;
            }
        }
        if self.limits.linger_ns == 0 {
            self.emit(id, EndReason::EndOfFlow, counters, sink);
            self.wheel.take(&mut self.slots, id);
            self.release(id, observation.hash);
            return;
        }
        if !state.has(State::CLOSING) {
            state.set(State::CLOSING);
            self.turn_wheel();
            self.wheel.take(&mut self.slots, id);
            self.wheel.put(&mut self.slots, id, self.limits.linger_ns);
        }
    }

    fn insert<S: FlowSink + ?Sized>(
        &mut self,
        observation: &Observation,
        counters: &mut Counters,
        sink: &mut S,
    ) -> u32 {
        let id = self.vacant(counters, sink);
        self.slots[id as usize].key = observation.key;
        self.begin(id, observation);
        self.index.insert(observation.hash, id);
        let wait = self.limits.inactive_ns.min(self.limits.active_ns);
        self.turn_wheel();
        self.wheel.put(&mut self.slots, id, wait);
        counters.flows += 1;
        self.active += 1;
        self.peak = self.peak.max(self.active);
        id
    }

    /// Returns a free slot. If there is none, removes the flow whose timeout is nearest, and returns its
    /// slot.
    fn vacant<S: FlowSink + ?Sized>(&mut self, counters: &mut Counters, sink: &mut S) -> u32 {
        if self.free == NONE && self.slots.len() < self.limits.flows as usize {
            let id = u32::try_from(self.slots.len()).unwrap_or(NONE);
            self.slots.push(Slot::default());
            if self.limits.has_extra() {
                self.extras.push(Extra::NEW);
            }
            if let Some(applications) = &mut self.applications {
                applications.grow();
            }
            if let Some(owners) = &mut self.owners {
                owners.grow();
            }
            if self.limits.interim {
                self.reported.push(Reported::default());
            }
            return id;
        }
        if self.free == NONE {
            self.evict(counters, sink);
        }
        let id = self.free;
        self.free = self.slots[id as usize].next;
        id
    }

    fn evict<S: FlowSink + ?Sized>(&mut self, counters: &mut Counters, sink: &mut S) {
        let mut looks = 0;
        self.turn_wheel();
        while let Some((id, away)) = self.wheel.soonest() {
            self.wheel.take(&mut self.slots, id);
            let (wait, _) = self.time_left(id);
            looks += 1;
            if looks < LOOKS && wait > away + (1 << 29) {
                self.wheel.put(&mut self.slots, id, wait);
                continue;
            }
            self.emit(id, EndReason::NoResources, counters, sink);
            self.release(id, self.slots[id as usize].key.hash(self.seed));
            return;
        }
    }

    /// The active timeout has cut the record of a flow.
    fn cut(&mut self, id: u32, hash: u32) {
        if let Some(applications) = &mut self.applications {
            applications.cut(id, &self.slots[id as usize], hash, self.now_ns);
        }
    }

    fn begin(&mut self, id: u32, observation: &Observation) {
        let slot = &mut self.slots[id as usize];
        slot.begin(observation);
        if let Some(applications) = &mut self.applications {
            applications.forget(id);
            if !applications.go_on(id, slot, observation) {
                slot.state.set(State::CURIOUS);
            }
        }
        if let Some(owners) = &mut self.owners {
            owners.forget(id);
        }
        if let Some(reported) = self.reported.get_mut(id as usize) {
            *reported = Reported::default();
        }
        if let Some(extra) = self.extras.get_mut(id as usize) {
            *extra = Extra::NEW;
            let answers = observation.tcp_flags & (SYN | ACK) == SYN | ACK;
            if self.limits.both_ways && observation.reversed != answers {
                slot.state.set(State::FROM_DESTINATION);
            }
            if self.limits.both_ways && answers {
                slot.macs.rotate_left(6);
            }
        }
    }

    /// Counts a packet of a flow with more than a slot.
    fn count_extra(&mut self, id: u32, observation: &Observation) {
        let slot = &mut self.slots[id as usize];
        let extra = &mut self.extras[id as usize];
        let reverse = self.limits.both_ways
            && observation.reversed != slot.state.has(State::FROM_DESTINATION);
        let before_ns = if reverse {
            extra.reverse.last_ns
        } else {
            extra.forward_last_ns
        };
        if reverse {
            count(&mut extra.reverse, observation);
            slot.traffic.first_ns = slot.traffic.first_ns.min(observation.time_ns);
            slot.traffic.last_ns = slot.traffic.last_ns.max(observation.time_ns);
        } else {
            count(&mut slot.traffic, observation);
            extra.forward_first_ns = extra.forward_first_ns.min(observation.time_ns);
            extra.forward_last_ns = extra.forward_last_ns.max(observation.time_ns);
        }
        if self.limits.measure_tcp && slot.key.protocol() == TCP {
            extra.tcp.look(observation, reverse, before_ns);
        }
    }

    /// Counts stored packets, of which `observation` is one: the fragments of a datagram that came before its
    /// first one, which has the ports.
    pub(crate) fn late<S: FlowSink + ?Sized>(
        &mut self,
        observation: &Observation,
        traffic: &Traffic,
        counters: &mut Counters,
        sink: &mut S,
    ) {
        let mut observation = *observation;
        observation.hash = observation.key.hash(self.seed);
        let observation = &observation;
        let id = self.packet(observation, (NONE, &[]), counters, sink);
        let mut rest = *traffic;
        rest.packets = rest.packets.saturating_sub(1);
        rest.bytes = rest.bytes.saturating_sub(observation.bytes.into());
        let slot = &mut self.slots[id as usize];
        let reverse = self.limits.both_ways
            && observation.reversed != slot.state.has(State::FROM_DESTINATION);
        if reverse {
            merge(&mut self.extras[id as usize].reverse, &rest);
            slot.traffic.first_ns = slot.traffic.first_ns.min(rest.first_ns);
            slot.traffic.last_ns = slot.traffic.last_ns.max(rest.last_ns);
        } else {
            merge(&mut slot.traffic, &rest);
            if let Some(extra) = self.extras.get_mut(id as usize) {
                extra.forward_first_ns = extra.forward_first_ns.min(rest.first_ns);
                extra.forward_last_ns = extra.forward_last_ns.max(rest.last_ns);
            }
        }
    }

    /// Ends every flow. All slots are then given back at once: to take each flow out of the index and
    /// the wheel by itself would need other memory for each.
    pub(crate) fn flush<S: FlowSink + ?Sized>(&mut self, counters: &mut Counters, sink: &mut S) {
        for id in 0..self.slots.len() {
            if !self.slots[id].state.has(State::USED) {
                continue;
            }
            let reason = if self.slots[id].state.has(State::CLOSING) {
                EndReason::EndOfFlow
            } else {
                EndReason::Forced
            };
            let id = u32::try_from(id).unwrap_or(NONE);
            self.emit(id, reason, counters, sink);
            if let Some(owners) = &mut self.owners {
                owners.forget(id);
            }
        }
        if let Some(owners) = &mut self.owners {
            owners.clear();
        }
        self.slots.clear();
        self.extras.clear();
        self.reported.clear();
        self.index.clear();
        self.wheel.clear();
        self.free = NONE;
        self.active = 0;
    }

    /// Frees a slot that is in no list of the wheel.
    fn release(&mut self, id: u32, hash: u32) {
        self.index.remove(hash, id);
        if let Some(applications) = &mut self.applications {
            applications.forget(id);
            applications.wanted.forget(hash);
        }
        if let Some(owners) = &mut self.owners {
            owners.forget(id);
        }
        let slot = &mut self.slots[id as usize];
        slot.state = State::default();
        slot.next = self.free;
        self.free = id;
        self.active -= 1;
    }

    /// Emits the record of a flow.
    fn emit<S: FlowSink + ?Sized>(
        &self,
        id: u32,
        end: EndReason,
        counters: &mut Counters,
        sink: &mut S,
    ) {
        let record = self.record(id, end);
        counters.ended(end);
        if self.limits.interim {
            sink.ended(&record, &self.reported(id));
        } else {
            sink.record(&record);
        }
    }

    fn record(&self, id: u32, end: EndReason) -> FlowRecord {
        let slot = &self.slots[id as usize];
        let owners = self.owners.as_ref().map(|owners| owners.of(id));
        let [source_process, destination_process] = owners.unwrap_or_default();
        let mut record = FlowRecord {
            key: slot.key.export(slot.tos),
            forward: slot.traffic,
            reverse: None,
            end,
            macs: slot.state.has(State::HAS_MACS).then(|| macs(&slot.macs)),
            mpls_label: (slot.mpls != NO_LABEL).then_some(slot.mpls),
            tcp: None,
            response_ns: None,
            application: self
                .applications
                .as_ref()
                .and_then(|known| known.entry(id, slot)),
            source_process,
            destination_process,
        };
        let Some(extra) = self.extras.get(id as usize) else {
            return record;
        };
        if self.limits.measure_tcp && slot.key.protocol() == TCP {
            record.tcp = Some(extra.tcp.measures());
            record.response_ns = extra.tcp.response_ns();
        }
        if self.limits.both_ways {
            both_ways(slot, extra, &mut record);
        }
        if self.limits.measure_tcp && slot.key.protocol() == UDP {
            record.response_ns = answered(&record);
        }
        record
    }
}

/// Returns the address range of a vector's memory, used or not.
fn reserved<T>(vector: &Vec<T>) -> Range<usize> {
    let start = vector.as_ptr().addr();
    start..start + vector.capacity() * size_of::<T>()
}

/// Completes the record of both directions. If only answers were seen, they are the forward direction.
fn both_ways(slot: &Slot, extra: &Extra, record: &mut FlowRecord) {
    record.forward.first_ns = extra.forward_first_ns;
    record.forward.last_ns = extra.forward_last_ns;
    let from_destination = slot.state.has(State::FROM_DESTINATION);
    let only_answers = slot.traffic.packets == 0;
    if from_destination != only_answers {
        record.key = slot.key.exchanged().export(slot.tos);
        std::mem::swap(&mut record.source_process, &mut record.destination_process);
    }
    if only_answers {
        record.forward = extra.reverse;
        record.macs = record.macs.map(|macs| MacAddresses {
            source: macs.destination,
            destination: macs.source,
        });
        if let Some(tcp) = &mut record.tcp {
            std::mem::swap(&mut tcp.forward, &mut tcp.reverse);
        }
    } else if extra.reverse.packets > 0 {
        record.reverse = Some(extra.reverse);
    }
}

/// Returns the time from the first packet to the first of the other direction, if that was the later one.
fn answered(record: &FlowRecord) -> Option<u64> {
    let answer = record.reverse?;
    answer.first_ns.checked_sub(record.forward.first_ns)
}

fn macs(bytes: &[u8; 12]) -> MacAddresses {
    let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = *bytes;
    MacAddresses {
        source: [s0, s1, s2, s3, s4, s5],
        destination: [d0, d1, d2, d3, d4, d5],
    }
}
