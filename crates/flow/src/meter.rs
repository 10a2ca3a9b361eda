//! The meter: packets in, records out.

use std::ops::Range;

use ringtap_packet::headers::tunnel::Tunnels;

use crate::cache::{BLOCK, Cache};
use crate::counters::Counters;
use crate::fragments::{Fate, Fragments, Released};
use crate::key::Seed;
use crate::options::{MeterOptions, OptionError, nanos};
use crate::packet::Packet;
use crate::parse::{Observation, Part, Unmetered, frequent, observe_any};
use crate::sampler::Sampler;
use crate::share::Batch;
use crate::sink::FlowSink;

/// Time after which entries of the table of fragments are looked at, and how many each time: all of
/// the usual table within 3 s.
const SWEEP_NS: u64 = 10_000_000;
const FRAGMENTS_SWEPT: u64 = 16;
/// How many of them for a packet at most, however much later it is than the one before.
const FRAGMENTS_A_PACKET: u64 = 64;

/// Sorts packets into flows and hands over the records of those that end.
///
/// Time is that of the packets: time-outs pass when packets come that are later, or when
/// [`Meter::advance`] says so. Where packets' time goes back by more than the inactive time-out, as
/// from one capture to the next, it goes on from there.
///
/// After [`Meter::new`] nothing is allocated. Packets are collected in blocks of 64 until they are
/// counted, unless no more than 8192 flows were under way at a time so far, where most packets can be
/// counted at once: [`Meter::settle`] counts those that wait.
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
    /// Observations that wait to be counted; always of [`BLOCK`] elements.
    block: Box<[Observation; BLOCK]>,
    waiting: usize,
    cache: Cache,
    fragments: Fragments,
    /// When entries of fragments were looked at last.
    swept_ns: u64,
    /// Packets of IP until then.
    swept_packets: u64,
    tunnels: Tunnels,
    /// Whether no tunnel is looked into.
    outermost: bool,
    both_ways: bool,
    /// Whether packets that are like most are counted as they come, behind those that wait, instead of
    /// waiting for their block to be full.
    at_once: bool,
    seed: Seed,
    sampler: Option<Sampler>,
    counters: Counters,
}

impl Meter {
    /// A meter, with memory for all flows that it may hold.
    ///
    /// # Errors
    ///
    /// A value of the options that cannot be.
    pub fn new(options: &MeterOptions) -> Result<Self, OptionError> {
        options.validate()?;
        let seed = Seed::new(options.seed);
        Ok(Self {
            block: Box::new([Observation::default(); BLOCK]),
            waiting: 0,
            cache: Cache::new(options.limits(), seed),
            fragments: Fragments::new(options.datagrams as usize, nanos(options.fragments), seed),
            swept_ns: 0,
            swept_packets: 0,
            tunnels: options.tunnels,
            outermost: !options.tunnels.any(),
            both_ways: options.both_ways,
            at_once: false,
            seed,
            sampler: options
                .sampling
                .map(|sampling| Sampler::new(sampling, options.seed)),
            counters: Counters::default(),
        })
    }

    /// Takes a packet.
    ///
    /// What is done for most packets becomes a part of the caller's loop, in each place from which it
    /// is called.
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
        if self.at_once && self.waiting > 0 {
            // They come before this one.
            self.settle(sink);
        }
        if self.at_once && self.cache.try_count(&observation) {
            return;
        }
        let at = self.waiting % BLOCK;
        self.block[at] = observation;
        if self.both_ways {
            self.known(sink);
            return;
        }
        self.waiting = at + 1;
        if self.waiting == BLOCK {
            self.settle(sink);
        }
    }

    /// Whether sampling takes the next packet.
    #[inline(never)]
    fn samples(&mut self) -> bool {
        self.sampler.as_mut().is_none_or(Sampler::takes)
    }

    /// Takes a packet that is not like most.
    #[inline(never)]
    fn push_other<S: FlowSink + ?Sized>(&mut self, packet: Packet<'_>, sink: &mut S) {
        match observe_any(&packet, self.tunnels, &mut self.block[self.waiting % BLOCK]) {
            Ok(()) => self.observed(sink),
            Err(Unmetered::NotIp) => self.counters.not_ip += 1,
            Err(Unmetered::Malformed) => self.counters.malformed += 1,
        }
    }

    /// Takes the packets that a [`crate::Spreader`] has chosen for this meter, which is one of several,
    /// with the time up to which it has chosen. They were counted and sampled there.
    pub fn take<S: FlowSink + ?Sized>(&mut self, batch: &Batch, sink: &mut S) {
        let Some((begin_ns, now_ns)) = batch.times() else {
            return;
        };
        // So that the wheels of all meters begin to turn with the first packet of all.
        self.cache.begin_at(begin_ns);
        for observation in batch.observations() {
            self.take_one(observation, sink);
        }
        self.advance(now_ns, sink);
    }

    /// Takes one packet of a batch.
    #[inline]
    pub(crate) fn take_one<S: FlowSink + ?Sized>(
        &mut self,
        observation: &Observation,
        sink: &mut S,
    ) {
        self.block[self.waiting % BLOCK] = *observation;
        self.observed(sink);
    }

    /// Has the wheel begin to turn then, unless it turns.
    pub(crate) fn begin_at(&mut self, begin_ns: u64) {
        self.cache.begin_at(begin_ns);
    }

    /// Keeps the observation that was just written behind those that wait.
    fn observed<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        let observation = &mut self.block[self.waiting % BLOCK];
        self.counters.ip_packets += 1;
        self.counters.ip_bytes += u64::from(observation.bytes);
        if observation.part != Part::Whole && self.fragment(sink) {
            return;
        }
        self.known(sink);
    }

    /// Has the observation that was just written wait, the flow of which it tells.
    fn known<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        let observation = &mut self.block[self.waiting % BLOCK];
        if self.both_ways {
            turn(observation);
        }
        observation.hash = observation.key.hash(self.seed);
        self.waiting += 1;
        if self.waiting == BLOCK {
            self.settle(sink);
        }
    }

    /// Finds the flow of a fragment; true where it was put by.
    fn fragment<S: FlowSink + ?Sized>(&mut self, sink: &mut S) -> bool {
        self.counters.fragments += 1;
        let observation = &mut self.block[self.waiting % BLOCK];
        let (fate, released) = self.fragments.place(observation, &mut self.counters);
        if let Some(packets) = released {
            // Behind those that came before, and before this one.
            let observation = *observation;
            self.count_waiting(sink);
            self.block[0] = observation;
            self.late(packets, sink);
        }
        fate == Fate::Waits
    }

    /// Counts fragments that wait no longer.
    fn late<S: FlowSink + ?Sized>(&mut self, mut packets: Released, sink: &mut S) {
        if self.both_ways {
            turn(&mut packets.observation);
        }
        let Released {
            observation,
            traffic,
        } = packets;
        self.cache
            .late(&observation, &traffic, &mut self.counters, sink);
    }

    /// Counts the packets that wait for their block to be full.
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
        self.cache.block(block, &mut self.counters, sink);
        self.waiting = 0;
    }

    /// Says what time it is, in nanoseconds since 1970, where no packet does: flows whose time-outs
    /// have passed end. To be called now and then, about once a second, of live captures.
    pub fn advance<S: FlowSink + ?Sized>(&mut self, now_ns: u64, sink: &mut S) {
        self.settle(sink);
        self.cache.advance_to(now_ns, &mut self.counters, sink);
        if !self.fragments.is_empty() {
            self.sweep(u64::MAX, sink);
        }
    }

    /// Counts fragments that have waited too long, of the next entries, of `most` at most.
    fn sweep<S: FlowSink + ?Sized>(&mut self, most: u64, sink: &mut S) {
        let now_ns = self.cache.now_ns();
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

    /// Ends every flow: at the end of a file or a capture.
    pub fn flush<S: FlowSink + ?Sized>(&mut self, sink: &mut S) {
        self.settle(sink);
        while let Some(packets) = self.fragments.any(&mut self.counters) {
            self.late(packets, sink);
        }
        self.cache.flush(&mut self.counters, sink);
    }

    /// The time by the clock of the packets, in nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.cache.now_ns()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.counters;
        let (active, peak) = self.cache.flows();
        counters.active = active.into();
        counters.peak = peak.into();
        counters
    }

    /// The addresses of the memory for flows, of which each packet touches another part, for who
    /// would tell the system that pages of it had better be large. Some of them may be empty.
    #[must_use]
    pub fn addresses(&self) -> [Range<usize>; 3] {
        self.cache.addresses()
    }

    /// Bytes of memory that are reserved for flows.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.cache.bytes()
    }
}

/// Gives an observation the key that both directions share.
fn turn(observation: &mut Observation) {
    let (key, reversed) = observation.key.both_ways();
    observation.key = key;
    observation.reversed = reversed;
}
