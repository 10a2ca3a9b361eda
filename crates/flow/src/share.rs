//! One meter as several, so that each may have a processor: which packet goes to which.
//!
//! What it is: packets in, batches of what is known of them out, one for each meter. What it is not:
//! it starts no thread; batches may be carried to wherever the meters are. Both directions of all
//! flows between two hosts are one meter's, by a hash of their addresses that does not depend on the
//! direction, so that flows of two directions meet, and fragments their datagram's first one. The
//! records of all meters together are those that a single one would have given, in another order, as
//! long as no flow makes room for another.

use ringtap_packet::headers::tunnel::Tunnels;

use crate::counters::Counters;
use crate::key::Seed;
use crate::options::{MeterOptions, OptionError};
use crate::packet::Packet;
use crate::parse::{Observation, Unmetered, frequent, observe_any};
use crate::sampler::Sampler;

/// Meters at most.
pub const METERS_MAX: usize = 256;

/// Packets of a batch where one reads packets: a hundred kilobytes, some of which fit in a processor's
/// cache. Where several do, there are as many more batches on their way.
const BATCH: usize = 1024;
const BATCH_MIN: usize = 64;

/// What a meter is to know of some packets.
#[derive(Debug)]
pub struct Batch {
    observations: Vec<Observation>,
    /// The time of the first packet of all, and that up to which packets were chosen.
    times: Option<(u64, u64)>,
}

impl Batch {
    /// A batch without packets, with memory for as many as it may have.
    #[must_use]
    pub fn new() -> Self {
        Self::for_readers(1)
    }

    /// The same where several [`Spreader`]s of which this is the number fill batches for the same meters.
    #[must_use]
    pub fn for_readers(readers: usize) -> Self {
        Self {
            observations: Vec::with_capacity(batch_of(readers)),
            times: None,
        }
    }

    /// Packets in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.observations.len()
    }

    /// Whether no packet is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.observations.is_empty()
    }

    /// Empties it, to be used again.
    pub fn clear(&mut self) {
        self.observations.clear();
        self.times = None;
    }

    pub(crate) fn observations(&self) -> &[Observation] {
        &self.observations
    }

    pub(crate) fn times(&self) -> Option<(u64, u64)> {
        self.times
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

/// Chooses a meter for each packet.
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
    /// Packets of a full batch.
    full: usize,
    seed: Seed,
    tunnels: Tunnels,
    sampler: Option<Sampler>,
    counters: Counters,
    times: Option<(u64, u64)>,
}

impl Spreader {
    /// Chooses among so many meters, all of which were made with the same options.
    ///
    /// # Errors
    ///
    /// A value of the options that cannot be; no meter, or more than [`METERS_MAX`].
    pub fn new(options: &MeterOptions, meters: usize) -> Result<Self, OptionError> {
        Self::one_of(1, options, meters)
    }

    /// One of several spreaders, for readers of packets with a thread each; `readers` is their number.
    /// Each has its packets in order in time. Where their order among one another matters, which it does
    /// for which direction of a flow was first and for round-trip times, a [`crate::Collator`] restores
    /// it before each meter.
    ///
    /// # Errors
    ///
    /// As [`Spreader::new`].
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
            batches: (0..meters).map(|_| Batch::for_readers(readers)).collect(),
            full: batch_of(readers),
            seed: Seed::new(options.seed),
            tunnels: options.tunnels,
            sampler: options
                .sampling
                .map(|sampling| Sampler::new(sampling, options.seed)),
            counters: Counters::default(),
            times: None,
        })
    }

    /// Takes a packet; where the batch of its meter is full with it, `give` is called with the
    /// meter's number and the batch, which it may exchange for another and which is emptied then.
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
            return self.put(&observation, give);
        }
        match observe_any(packet, self.tunnels, &mut observation) {
            Ok(()) => self.put(&observation, give),
            Err(Unmetered::NotIp) => self.counters.not_ip += 1,
            Err(Unmetered::Malformed) => self.counters.malformed += 1,
        }
    }

    #[inline]
    fn put(&mut self, observation: &Observation, mut give: impl FnMut(usize, &mut Batch)) {
        let time_ns = observation.time_ns;
        let (begin_ns, _) = *self.times.get_or_insert((time_ns, time_ns));
        self.times = Some((begin_ns, time_ns));
        let hash = observation.key.hosts_hash(self.seed);
        let meter = (u64::from(hash) * self.batches.len() as u64) >> 32;
        let meter = usize::try_from(meter).unwrap_or(0);
        if let Some(batch) = self.batches.get_mut(meter) {
            batch.observations.push(*observation);
            if batch.observations.len() >= self.full {
                batch.times = self.times;
                give(meter, batch);
                batch.clear();
            }
        }
    }

    /// Gives all that waits, and to each meter the time: at the end, and now and then in between, so
    /// that time goes on for meters without packets too.
    pub fn settle(&mut self, mut give: impl FnMut(usize, &mut Batch)) {
        for (meter, batch) in self.batches.iter_mut().enumerate() {
            batch.times = self.times;
            give(meter, batch);
            batch.clear();
        }
    }

    /// Says what time it is where no packet does, as [`crate::Meter::advance`]; it is given with what
    /// follows.
    pub fn advance(&mut self, now_ns: u64) {
        let (_, now) = self.times.get_or_insert((now_ns, now_ns));
        *now = (*now).max(now_ns);
    }

    /// The time by the clock of the packets, in nanoseconds since 1970.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.times.map_or(0, |(_, now_ns)| now_ns)
    }

    /// The packets that came, and those that go to no meter. Meters count the others.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
