//! Distributes packets over several meters, so that each can use a processor of its own.
//!
//! Packets go in; batches of observations come out, one batch for each meter. It starts no thread: the caller
//! may carry batches to the meters in any way. A hash of the addresses selects the meter, and does not depend
//! on the direction. So both directions of all flows between two hosts go to one meter, and fragments meet
//! the first one of their datagram. All meters together emit the records of a single meter, in another order,
//! unless a full cache removes flows.

use ringtap_packet::headers::tunnel::Tunnels;

use crate::counters::Counters;
use crate::key::Seed;
use crate::options::{MeterOptions, OptionError};
use crate::packet::Packet;
use crate::parse::{Observation, Unmetered, frequent, observe_any};
use crate::sampler::Sampler;
use crate::wanted::{Payloads, Wanted};

/// The port of DNS.
const DNS: u16 = 53;
const SYN: u16 = 0x02;

/// The maximum number of meters.
pub const METERS_MAX: usize = 256;

/// The number of packets in a batch for one reader: a hundred kilobytes, so that several batches fit into a
/// processor's cache. With several readers, there are as many more batches on their way.
const BATCH: usize = 1024;
const BATCH_MIN: usize = 64;

/// Observations of packets for one meter.
#[derive(Debug)]
pub struct Batch {
    pub(crate) observations: Vec<Observation>,
    /// Payloads of those observations, where they are wanted.
    pub(crate) payloads: Payloads,
    /// The time of the first packet of all, and the time up to which packets were chosen.
    pub(crate) times: Option<(u64, u64)>,
}

impl Batch {
    /// Returns an empty batch, with memory for the maximum number of packets.
    #[must_use]
    pub fn new() -> Self {
        Self::for_readers(1)
    }

    /// Returns the same for several [`Spreader`]s that fill batches for the same meters; `readers` is their
    /// number.
    #[must_use]
    pub fn for_readers(readers: usize) -> Self {
        Self {
            observations: Vec::with_capacity(batch_of(readers)),
            payloads: Payloads::default(),
            times: None,
        }
    }

    /// Returns the number of packets in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.observations.len()
    }

    /// Returns whether the batch has no packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observations.is_empty()
    }

    /// Empties the batch, so that it can be used again.
    pub fn clear(&mut self) {
        self.observations.clear();
        self.payloads.clear();
        self.times = None;
    }

    /// Adds an observation with its payload, if that is wanted; whether it is the last one that finds room.
    fn put(&mut self, mut observation: Observation, payload: Option<&[u8]>, full: usize) -> bool {
        let mut has_room = true;
        if let Some(payload) = payload {
            self.payloads.keep(&mut observation, payload);
            has_room = self.payloads.has_room();
        }
        self.observations.push(observation);
        self.observations.len() >= full || !has_room
    }
}

fn batch_of(readers: usize) -> usize {
    (BATCH / readers.max(1)).max(BATCH_MIN)
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// Selects a meter for each packet.
///
/// ```
/// use ringtap_flow::{Batch, FlowRecord, LinkType, Meter, MeterOptions, Packet, Spreader};
///
/// # fn main() -> Result<(), ringtap_flow::OptionError> {
/// let options = MeterOptions::default();
/// let mut meters = [Meter::new(&options)?, Meter::new(&options)?];
/// let mut spreader = Spreader::new(&options, meters.len())?;
/// let mut records = 0;
/// let mut sink = |_: &FlowRecord| records += 1;
/// let mut header = [
///     0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
/// ];
/// for host in 0..100 {
///     header[19] = host;
///     let packet = Packet { data: &header, len: 20, time_ns: 7, link: LinkType::RAW, input: 1 };
///     spreader.push(&packet, |meter, batch| meters[meter].take(batch, &mut sink));
/// }
/// spreader.settle(|meter, batch| meters[meter].take(batch, &mut sink));
/// meters.iter_mut().for_each(|meter| meter.flush(&mut sink));
/// assert_eq!(records, 100);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Spreader {
    batches: Vec<Batch>,
    /// The number of packets in a full batch.
    full: usize,
    seed: Seed,
    tunnels: Tunnels,
    sampler: Option<Sampler>,
    counters: Counters,
    times: Option<(u64, u64)>,
    /// Which payloads are wanted, where they are looked at.
    wanted: Option<Wanted>,
}

impl Spreader {
    /// Returns a spreader for this number of meters, which were all made with the same options.
    ///
    /// # Errors
    ///
    /// An invalid option value; no meter, or more than [`METERS_MAX`].
    pub fn new(options: &MeterOptions, meters: usize) -> Result<Self, OptionError> {
        Self::one_of(1, options, meters)
    }

    /// Returns one of several spreaders, for readers that each have a thread; `readers` is their number. Each
    /// reader has its packets in order in time. The order between readers matters for the direction of a flow
    /// and for round-trip times; a [`crate::Collator`] before each meter restores it.
    ///
    /// # Errors
    ///
    /// The same errors as [`Spreader::new`].
    pub fn one_of(
        readers: usize,
        options: &MeterOptions,
        meters: usize,
    ) -> Result<Self, OptionError> {
        options.validate()?;
        if !(1..=METERS_MAX).contains(&meters) {
            return Err(OptionError::Meters { value: meters });
        }
        Ok(Self {
            batches: (0..meters)
                .map(|_| Batch {
                    payloads: Payloads::new(options.inspect.is_some()),
                    ..Batch::for_readers(readers)
                })
                .collect(),
            full: batch_of(readers),
            seed: Seed::new(options.seed),
            tunnels: options.tunnels,
            sampler: Sampler::new(options),
            counters: Counters::default(),
            times: None,
            wanted: options.inspect.as_ref().map(|inspect| {
                let silence_ns = options.limits().inactive_ns;
                Wanted::new(inspect.payloads, silence_ns, true)
            }),
        })
    }

    /// Takes a packet. If the batch of its meter becomes full, calls `give` with the meter's number and the
    /// batch. `give` may exchange the batch for another one, which is then emptied.
    #[inline]
    pub fn push(&mut self, packet: &Packet<'_>, give: impl FnMut(usize, &mut Batch)) {
        self.counters.packets += 1;
        if let Some(sampler) = &mut self.sampler
            && !sampler.takes()
        {
            self.counters.sampled_out += 1;
            return;
        }
        let mut observation = Observation::default();
        if !self.tunnels.any()
            && let Some(observation) = frequent(packet, self.seed)
        {
            return self.put(packet, &observation, give);
        }
        match observe_any(packet, self.tunnels, &mut observation) {
            Ok(()) => self.put(packet, &observation, give),
            Err(Unmetered::NotIp) => self.counters.not_ip += 1,
            Err(Unmetered::Malformed) => self.counters.malformed += 1,
        }
    }

    #[inline]
    fn put(
        &mut self,
        packet: &Packet<'_>,
        observation: &Observation,
        mut give: impl FnMut(usize, &mut Batch),
    ) {
        let time_ns = observation.time_ns;
        let (begin_ns, _) = *self.times.get_or_insert((time_ns, time_ns));
        self.times = Some((begin_ns, time_ns));
        let hash = observation.key.hosts_hash(self.seed);
        let payload = self.wanted_payload(packet, observation, hash);
        let meters = self.batches.len();
        let own = (u64::from(hash) * meters as u64) >> 32;
        let own = usize::try_from(own).unwrap_or(0);
        let Self {
            batches,
            full,
            times,
            ..
        } = self;
        let mut to = |meter: usize, observation: Observation| {
            if let Some(batch) = batches.get_mut(meter)
                && batch.put(observation, payload, *full)
            {
                batch.times = *times;
                give(meter, batch);
                batch.clear();
            }
        };
        to(own, *observation);
        if payload.is_some() && meters > 1 && observation.key.is_from_port(DNS) {
            // The hosts that it names have flows anywhere.
            let hint = Observation {
                is_hint: true,
                ..*observation
            };
            (0..meters)
                .filter(|&meter| meter != own)
                .for_each(|meter| to(meter, hint));
        }
    }

    /// Returns the payload of a packet, if a meter will look at it.
    #[inline]
    fn wanted_payload<'p>(
        &mut self,
        packet: &Packet<'p>,
        observation: &Observation,
        hosts: u32,
    ) -> Option<&'p [u8]> {
        let wanted = self.wanted.as_mut()?;
        let payload = observation.captured(packet)?;
        let hash = hosts ^ observation.key.ports_hash();
        let begins = observation.tcp_flags & SYN != 0;
        let wants = wanted.wants(hash, observation.time_ns, begins);
        wants.then_some(payload)
    }

    /// Gives everything that waits, and the time to each meter. Call it at the end, and now and then before,
    /// so that time also advances for meters without packets.
    pub fn settle(&mut self, mut give: impl FnMut(usize, &mut Batch)) {
        for (meter, batch) in self.batches.iter_mut().enumerate() {
            batch.times = self.times;
            give(meter, batch);
            batch.clear();
        }
    }

    /// Sets the time when no packets come, as [`crate::Meter::advance`] does. It goes out with the next
    /// batches.
    pub fn advance(&mut self, now_ns: u64) {
        let (_, now) = self.times.get_or_insert((now_ns, now_ns));
        *now = (*now).max(now_ns);
    }

    /// Returns the time by the clock of the packets, in nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.times.map_or(0, |(_, now_ns)| now_ns)
    }

    /// Returns the packets that came, and those that go to no meter. The meters count the others.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
