//! The meter: packets go in, records come out.

use std::ops::Range;

use ringtap_inspect::{Payload, Transport};
use ringtap_packet::headers::tunnel::Tunnels;
use ringtap_packet::process::{PacketProcess, ProcessDescription, ProcessTag};

use crate::cache::{BLOCK, Cache};
use crate::counters::Counters;
use crate::fragments::{Fate, Fragments, Released};
use crate::key::Seed;
use crate::options::{MeterOptions, OptionError, nanos};
use crate::packet::Packet;
use crate::parse::{Observation, Part, Unmetered, frequent, observe_any};
use crate::process::{Owner, PacketEnd};
use crate::sampler::Sampler;
use crate::share::Batch;
use crate::sink::FlowSink;
use crate::wanted::Payloads;

/// The interval at which entries of the fragment table are checked, and how many each time. A table of the
/// default size is checked completely within 3 s.
const SWEEP_NS: u64 = 10_000_000;
const FRAGMENTS_SWEPT: u64 = 16;
/// The maximum number of such checks for one packet, however late it is.
const FRAGMENTS_A_PACKET: u64 = 64;

/// Sorts packets into flows and emits the records of flows that end.
///
/// The clock is that of the packets: timeouts pass when later packets come, or when [`Meter::advance`] is
/// called. If the packets' time goes back by more than the inactive timeout, as from one capture to the next,
/// the clock continues from there.
///
/// The meter does not allocate after [`Meter::new`]. It collects packets in blocks of 64 before it counts
/// them; [`Meter::settle`] counts those that wait. While at most 8192 flows have been in the cache at once,
/// it counts most packets immediately.
///
/// ```
/// use ringtap_flow::{FlowRecord, LinkType, Meter, MeterOptions, Packet};
///
/// # fn main() -> Result<(), ringtap_flow::OptionError> {
/// let header = [
///     0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
/// ];
/// let mut meter = Meter::new(&MeterOptions::default())?;
/// let mut bytes = 0;
/// let mut sink = |record: &FlowRecord| bytes += record.forward.bytes;
/// for time_ns in 0..3 {
///     let link = LinkType::RAW;
///     meter.push(&Packet { data: &header, len: 20, time_ns, link, input: 1 }, &mut sink);
/// }
/// meter.flush(&mut sink);
/// assert_eq!(bytes, 60);
/// assert_eq!(meter.counters().records(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Meter {
    /// Observations that wait to be counted. The vector always has [`BLOCK`] elements.
    block: Box<[Observation; BLOCK]>,
    waiting: usize,
    /// Payloads of those observations, where they are wanted.
    payloads: Payloads,
    /// Whether payloads are looked at.
    inspects: bool,
    cache: Cache,
    fragments: Fragments,
    /// When the fragment table was last checked.
    swept_ns: u64,
    /// IP packets until then.
    swept_packets: u64,
    tunnels: Tunnels,
    /// Whether tunnels are ignored.
    outermost: bool,
    both_ways: bool,
    /// Whether common packets are counted as they come, after those that wait, instead of waiting for a full
    /// block.
    at_once: bool,
    seed: Seed,
    sampler: Option<Sampler>,
    counters: Counters,
}

impl Meter {
    /// Returns a meter, with memory for the maximum number of flows.
    ///
    /// # Errors
    ///
    /// An invalid option value.
    pub fn new(options: &MeterOptions) -> Result<Self, OptionError> {
        options.validate()?;
        let seed = Seed::new(options.seed);
        Ok(Self {
            block: Box::new([Observation::default(); BLOCK]),
            waiting: 0,
            payloads: Payloads::new(options.inspect.is_some()),
            inspects: options.inspect.is_some(),
            cache: Cache::new(options.limits(), seed, options.inspect.as_ref())
                .map_err(OptionError::Inspect)?,
            fragments: Fragments::new(options.datagrams as usize, nanos(options.fragments), seed),
            swept_ns: 0,
            swept_packets: 0,
            tunnels: options.tunnels,
            outermost: !options.tunnels.any(),
            both_ways: options.both_ways,
            at_once: false,
            seed,
            sampler: Sampler::new(options),
            counters: Counters::default(),
        })
    }

    /// Meters a packet.
    ///
    /// The part for common packets is inlined into the caller's loop, at each place from which it is called.
    #[inline(always)]
    pub fn push<S: FlowSink + ?Sized>(&mut self, packet: &Packet<'_>, sink: &mut S) {
        self.counters.packets += 1;
        if self.sampler.is_some() && !self.samples() {
            self.counters.sampled_out += 1;
            return;
        }
        let found = if self.outermost {
            frequent(packet, self.seed)
        } else {
            None
        };
        let Some(observation) = found else {
            return self.push_other(*packet, sink);
        };
        self.counters.ip_packets += 1;
        self.counters.ip_bytes += u64::from(observation.bytes);
        if self.inspects {
            return self.push_inspected(packet, observation, sink);
        }
        if self.at_once && self.waiting > 0 {
            // They came before this packet.
            self.settle(sink);
        }
        if self.at_once && self.cache.try_count(&observation) {
            return;
        }
        let at = self.waiting % BLOCK;
        self.block[at] = observation;
        if self.both_ways {
            self.known(Source::Batch(&[]), sink);
            return;
        }
        self.waiting = at + 1;
        if self.waiting == BLOCK {
            self.settle(sink);
        }
    }

    /// Meters a packet whose process was recorded with it. `end` is the end of the packet at which the process is.
    ///
    /// It needs [`MeterOptions::processes`]; without, the process is ignored. The part for common packets is not
    /// inlined, since such packets cost more before they come here. A process that was not seen before takes memory.
    pub fn push_of<S: FlowSink + ?Sized>(
        &mut self,
        packet: &Packet<'_>,
        process: &PacketProcess<'_>,
        end: PacketEnd,
        sink: &mut S,
    ) {
        self.counters.packets += 1;
        if self.sampler.is_some() && !self.samples() {
            self.counters.sampled_out += 1;
            return;
        }
        let owner = self.owner_of(process, end, sink);
        let observation = &mut self.block[self.waiting % BLOCK];
        match observe_any(packet, self.tunnels, observation) {
            Ok(()) => {
                observation.owner = owner;
                self.observed(Source::Packet(packet), sink);
            }
            Err(Unmetered::NotIp) => self.counters.not_ip += 1,
            Err(Unmetered::Malformed) => self.counters.malformed += 1,
        }
    }

    /// Takes the description of a process, which should come before the first packet of the process.
    pub fn describe(&mut self, tag: &ProcessTag<'_>, description: ProcessDescription) {
        if let Some(owners) = &mut self.cache.owners {
            owners.processes.describe(tag, description);
        }
    }

    /// Returns the number of a packet's process.
    fn owner_of<S: FlowSink + ?Sized>(
        &mut self,
        process: &PacketProcess<'_>,
        end: PacketEnd,
        sink: &mut S,
    ) -> Owner {
        let Some(owners) = &mut self.cache.owners else {
            return Owner::NONE;
        };
        if let Some(owner) = owners.processes.find(process, end) {
            return owner;
        }
        if owners.processes.is_full() {
            // Packets that wait hold the numbers of processes that no flow has yet.
            self.settle(sink);
        }
        let owners = self.cache.owners.as_mut();
        let owner = owners.and_then(|owners| owners.processes.add(process, end));
        self.counters.processes_dropped += u64::from(owner.is_none());
        owner.unwrap_or_default()
    }

    /// Takes a packet that is like most, where payloads are looked at.
    #[inline(never)]
    fn push_inspected<S: FlowSink + ?Sized>(
        &mut self,
        packet: &Packet<'_>,
        mut observation: Observation,
        sink: &mut S,
    ) {
        if self.both_ways {
            turn(&mut observation);
            observation.hash = observation.key.hash(self.seed);
        }
        if self.at_once && self.waiting > 0 {
            self.settle(sink);
        }
        self.keep_payload(packet, &mut observation);
        if self.at_once && observation.kept == 0 && self.cache.try_count(&observation) {
            return;
        }
        self.block[self.waiting % BLOCK] = observation;
        self.waiting += 1;
        self.settle_if_full(sink);
    }

    /// Keeps the payload of a packet until the packet is counted, if it is wanted.
    #[inline]
    fn keep_payload(&mut self, packet: &Packet<'_>, observation: &mut Observation) {
        if let Some(payload) = observation.captured(packet)
            && self.cache.wants(observation)
        {
            self.payloads.keep(observation, payload);
        }
    }

    fn settle_if_full<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        if self.waiting == BLOCK || self.inspects && !self.payloads.has_room() {
            self.settle(sink);
        }
    }

    /// Returns whether sampling takes the next packet.
    #[inline(never)]
    fn samples(&mut self) -> bool {
        self.sampler.as_mut().is_none_or(Sampler::takes)
    }

    /// Meters a packet that is not common.
    #[inline(never)]
    fn push_other<S: FlowSink + ?Sized>(&mut self, packet: Packet<'_>, sink: &mut S) {
        match observe_any(&packet, self.tunnels, &mut self.block[self.waiting % BLOCK]) {
            Ok(()) => self.observed(Source::Packet(&packet), sink),
            Err(Unmetered::NotIp) => self.counters.not_ip += 1,
            Err(Unmetered::Malformed) => self.counters.malformed += 1,
        }
    }

    /// Meters the packets that a [`crate::Spreader`] chose for this meter, one of several. The batch contains
    /// the time up to which packets were chosen. The spreader has already counted and sampled them.
    pub fn take<S: FlowSink + ?Sized>(&mut self, batch: &Batch, sink: &mut S) {
        let Some((begin_ns, now_ns)) = batch.times else {
            return;
        };
        // The wheels of all meters start with the first packet of all.
        self.cache.begin_at(begin_ns);
        for observation in &batch.observations {
            self.take_one(observation, batch.payloads.of(observation), sink);
        }
        self.advance(now_ns, sink);
    }

    /// Meters one packet of a batch, with its payload if that was kept.
    #[inline]
    pub(crate) fn take_one<S: FlowSink + ?Sized>(
        &mut self,
        observation: &Observation,
        payload: &[u8],
        sink: &mut S,
    ) {
        if observation.is_hint {
            return self.learn(observation, payload);
        }
        self.block[self.waiting % BLOCK] = *observation;
        self.observed(Source::Batch(payload), sink);
    }

    /// Looks at an answer of DNS whose flow another meter has: it may name hosts of flows of this one.
    #[inline(never)]
    fn learn(&mut self, observation: &Observation, payload: &[u8]) {
        let key = observation.key.export(observation.tos);
        self.cache.learn(&Payload {
            transport: Transport::Udp,
            from_initiator: false,
            initiator: key.destination,
            responder: key.source,
            initiator_port: key.destination_port,
            responder_port: key.source_port,
            time_ns: observation.time_ns,
            data: payload,
            complete: payload.len() == observation.payload() as usize,
        });
    }

    /// Starts the wheel at this time, unless it runs.
    pub(crate) fn begin_at(&mut self, begin_ns: u64) {
        self.cache.begin_at(begin_ns);
    }

    /// Appends the observation that was just written to those that wait.
    fn observed<S: FlowSink + ?Sized>(&mut self, source: Source<'_>, sink: &mut S) {
        let observation = &mut self.block[self.waiting % BLOCK];
        self.counters.ip_packets += 1;
        self.counters.ip_bytes += u64::from(observation.bytes);
        if observation.part != Part::Whole && self.fragment(sink) {
            return;
        }
        self.known(source, sink);
    }

    /// Adds the flow of the observation that was just written to those that wait.
    fn known<S: FlowSink + ?Sized>(&mut self, source: Source<'_>, sink: &mut S) {
        let at = self.waiting % BLOCK;
        let mut observation = self.block[at];
        if self.both_ways {
            turn(&mut observation);
        }
        observation.hash = observation.key.hash(self.seed);
        if self.inspects {
            match source {
                Source::Packet(packet) => self.keep_payload(packet, &mut observation),
                Source::Batch([]) => {}
                Source::Batch(payload) => self.payloads.keep(&mut observation, payload),
            }
        }
        self.block[at] = observation;
        self.waiting += 1;
        self.settle_if_full(sink);
    }

    /// Finds the flow of a fragment. Returns true if the fragment was stored.
    fn fragment<S: FlowSink + ?Sized>(&mut self, sink: &mut S) -> bool {
        self.counters.fragments += 1;
        let observation = &mut self.block[self.waiting % BLOCK];
        let (fate, released) = self.fragments.place(observation, &mut self.counters);
        if let Some(packets) = released {
            // After the packets that came earlier, and before this one.
            let observation = *observation;
            self.count_waiting(sink);
            self.block[0] = observation;
            self.late(packets, sink);
        }
        fate == Fate::Waits
    }

    /// Counts fragments that wait no longer.
    fn late<S: FlowSink + ?Sized>(&mut self, mut packets: Released, sink: &mut S) {
        // The process may have left the table while they waited.
        packets.observation.owner = Owner::NONE;
        if self.both_ways {
            turn(&mut packets.observation);
        }
        let Released { observation, .. } = &packets;
        self.cache
            .late(observation, &packets.traffic, &mut self.counters, sink);
    }

    /// Counts the packets that wait for a full block.
    #[inline(never)]
    pub fn settle<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        self.count_waiting(sink);
        if !self.fragments.is_empty() {
            let packets = self.counters.ip_packets - self.swept_packets;
            self.sweep(packets.saturating_mul(FRAGMENTS_A_PACKET), sink);
        }
        self.at_once = self.cache.is_at_hand();
    }

    fn count_waiting<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        let block = &self.block[..self.waiting.min(BLOCK)];
        self.cache
            .block(block, &self.payloads, &mut self.counters, sink);
        self.waiting = 0;
        self.payloads.clear();
    }

    /// Sets the time, in nanoseconds since 1970, when no packets come. Flows whose timeouts have passed end.
    /// In a live capture, call it about once a second.
    pub fn advance<S: FlowSink + ?Sized>(&mut self, now_ns: u64, sink: &mut S) {
        self.settle(sink);
        self.cache.advance_to(now_ns, &mut self.counters, sink);
        if !self.fragments.is_empty() {
            self.sweep(u64::MAX, sink);
        }
    }

    /// Counts fragments that have waited too long. It checks at most `most` entries.
    fn sweep<S: FlowSink + ?Sized>(&mut self, most: u64, sink: &mut S) {
        let now_ns = self.cache.now_ns;
        let steps = now_ns.abs_diff(self.swept_ns) / SWEEP_NS;
        if steps == 0 {
            return;
        }
        self.swept_ns = now_ns;
        self.swept_packets = self.counters.ip_packets;
        let looks = steps.saturating_mul(FRAGMENTS_SWEPT).min(most);
        let mut looks = usize::try_from(looks)
            .unwrap_or(usize::MAX)
            .min(self.fragments.len());
        while let Some(packets) = self.fragments.stale(now_ns, &mut looks, &mut self.counters) {
            self.late(packets, sink);
        }
    }

    /// Reports to [`FlowSink::interim`] each flow under way that had packets at or after `since_ns`,
    /// nanoseconds since 1970, and that earlier reports have not counted in full. It needs
    /// [`MeterOptions::interim`], and looks at every flow: call it about once a second.
    pub fn interim<S: FlowSink + ?Sized>(&mut self, since_ns: u64, sink: &mut S) {
        self.settle(sink);
        self.cache.interim(since_ns, sink);
    }

    /// Ends every flow. Call it at the end of a file or a capture.
    pub fn flush<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        self.settle(sink);
        while let Some(packets) = self.fragments.any(&mut self.counters) {
            self.late(packets, sink);
        }
        self.cache.flush(&mut self.counters, sink);
    }

    /// Returns the time by the clock of the packets, in nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.cache.now_ns
    }

    /// Returns the counters so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        counters.active = self.cache.active.into();
        counters.peak = self.cache.peak.into();
        if let Some((inspected, cuts_dropped)) = self.cache.inspected() {
            counters.payloads = inspected.payloads;
            counters.handshakes_dropped = inspected.buffers_evicted + inspected.buffers_overrun;
            counters.names = inspected.names;
            counters.names_evicted = inspected.names_evicted;
            counters.cuts_dropped = cuts_dropped;
        }
        counters
    }

    /// Returns the address ranges of the memory for flows, so that the caller can ask the system for large
    /// pages there: each packet touches a different part. Some ranges may be empty.
    #[must_use]
    pub fn addresses(&self) -> [Range<usize>; 5] {
        self.cache.addresses()
    }

    /// Returns the number of bytes that are reserved for flows.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.cache.bytes()
    }
}

/// Where the payload of an observation comes from.
#[derive(Clone, Copy)]
enum Source<'a> {
    Packet(&'a Packet<'a>),
    /// The payload that was kept with the batch.
    Batch(&'a [u8]),
}

/// Gives an observation the key that both directions share.
fn turn(observation: &mut Observation) {
    let (key, reversed) = observation.key.both_ways();
    observation.key = key;
    observation.reversed = reversed;
}
