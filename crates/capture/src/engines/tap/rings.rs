//! The rings of a capture: one for each processor, with the maps in which programs find them.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use ringtap_sys::bpf::{self, Kernel, Map, MapKind, MapSpec, possible_cpus};
use ringtap_sys::errno::{E2BIG, ENOMEM};
use ringtap_sys::sched::numa_node;
use ringtap_sys::tap::{Control, Counters, Doorbell, Geometry, Position, Ring, RingWatch};

use super::program::{Maps, Rings, state};
use crate::engines::Processors;

/// The errors with which the kernel reports missing memory.
const NO_MEMORY: [i32; 2] = [ENOMEM, E2BIG];

/// The total size of rings, in bytes, up to which they are one map: kernels before 5.19 have helpers that
/// count an array's bytes in 32 bits.
const ONE_MAP_MAX: u64 = 1 << 31;

/// The time in which the kernel gives back the memory of rings that it could not make. From 7.x on it does so after
/// the call. Until then a control group is at its limit, and the kernel ends a process that needs a page more.
const GIVEN_BACK: Duration = Duration::from_millis(50);

/// The value of [`Ring::busy`] while a record is being written. A poll's number is meaningless in rings whose
/// programs are gone.
const WRITING: u64 = 1;

/// The rings of all processors that the machine had when they were made, also of those that were switched off.
#[derive(Debug)]
pub(super) struct RingSet {
    pub(super) rings: Vec<Ring>,
    /// Rings that other readers read.
    away: Vec<RingWatch>,
    geometry: Geometry,
    /// The source of the existing processors.
    present: Processors,
    /// The highest number of a processor with a ring, plus one.
    processors: u32,
    /// The maps in which programs find the rings. `None` if others keep them.
    finders: Option<Finders>,
    /// The end of packets of an older filter in each ring.
    stale: Vec<Position>,
}

#[derive(Debug)]
struct Finders {
    /// The map of rings by processor: they are its values, or it holds their maps.
    by_cpu: Arc<Map>,
    holds_maps: bool,
    /// The private state of processors.
    state: Map,
}

impl RingSet {
    /// Makes rings with `buffer` bytes together, or less if the system has less memory, for records of at
    /// most `largest_record` bytes.
    pub(super) fn create(
        kernel: &Kernel,
        present: Processors,
        buffer: u64,
        largest_record: u32,
    ) -> bpf::Result<Self> {
        let cpus = present();
        let mut share = buffer / cpus.len().max(1) as u64;
        loop {
            let geometry = Geometry::new(share, largest_record);
            match Self::with(kernel, geometry, present, &cpus) {
                Err(error)
                    if error.errno().is_some_and(|code| NO_MEMORY.contains(&code))
                        && Geometry::new(share / 2, largest_record) != geometry =>
                {
                    share = geometry.size() / 2;
                    std::thread::sleep(GIVEN_BACK);
                }
                outcome => return outcome,
            }
        }
    }

    /// Makes rings with the same sizes again.
    pub(super) fn again(
        &self,
        kernel: &Kernel,
        buffer: u64,
        largest_record: u32,
    ) -> bpf::Result<Self> {
        Self::create(kernel, self.present, buffer, largest_record)
    }

    fn with(
        kernel: &Kernel,
        geometry: Geometry,
        present: Processors,
        cpus: &[usize],
    ) -> bpf::Result<Self> {
        let processors = number(cpus.iter().max().map_or(1, |highest| highest + 1));
        let nodes: Option<Vec<u32>> = cpus.iter().map(|&cpu| numa_node(cpu)).collect();
        // With a single node there is no choice, and kernels without NUMA reject one.
        let nodes = nodes.filter(|nodes| nodes.iter().any(|node| *node != nodes[0]));
        let has_gaps = cpus.iter().enumerate().any(|(index, &cpu)| index != cpu);
        let bytes = u64::from(geometry.value_size()) * cpus.len() as u64;
        let holds_maps = nodes.is_some() || has_gaps || bytes > ONE_MAP_MAX;
        let (rings, by_cpu) = if holds_maps {
            maps_by_cpu(kernel, geometry, cpus, nodes.as_deref())?
        } else {
            let rings = Ring::create(kernel, geometry, processors, None)?;
            let map = Arc::clone(rings[0].map());
            (rings, map)
        };
        let bytes = state::bytes(processors);
        let state = MapSpec::new("ringtap_state", MapKind::ARRAY, bytes, 1);
        let state = Map::create(kernel, &state)?;
        Ok(Self {
            rings,
            away: Vec::new(),
            geometry,
            present,
            processors,
            finders: Some(Finders {
                by_cpu,
                holds_maps,
                state,
            }),
            stale: Vec::with_capacity(cpus.len()),
        })
    }

    /// Gives the rings to `readers`, each of which gets some of them, if there are enough.
    pub(super) fn give_away(&mut self, readers: usize) -> bpf::Result<Vec<Self>> {
        let watches: bpf::Result<Vec<_>> = self.rings.iter().map(Ring::watch).collect();
        self.away = watches?;
        let empty = || Self {
            rings: Vec::new(),
            away: Vec::new(),
            geometry: self.geometry,
            present: self.present,
            processors: self.processors,
            finders: None,
            stale: Vec::new(),
        };
        let count = readers.min(self.rings.len());
        let mut parts: Vec<Self> = (0..count).map(|_| empty()).collect();
        for (index, ring) in self.rings.drain(..).enumerate() {
            parts[index % count].rings.push(ring);
        }
        Ok(parts)
    }

    /// Returns whether records wait in a ring of the reader with this number, of `readers`.
    pub(super) fn waits_for(&self, reader: usize, readers: usize) -> bool {
        let mut rings = self.away.iter().skip(reader).step_by(readers.max(1));
        rings.any(|ring| ring.waiting() > 0)
    }

    /// Returns the facts that programs need.
    pub(super) fn maps(&self, control: &Control, doorbell: &Doorbell) -> Maps {
        let fd = |map: &Map| map.as_fd().as_raw_fd();
        // No program is loaded for rings whose maps others keep.
        let (state, rings) = match &self.finders {
            Some(found) if found.holds_maps => (fd(&found.state), Rings::Maps(fd(&found.by_cpu))),
            Some(found) => (fd(&found.state), Rings::Values(fd(&found.by_cpu))),
            None => (-1, Rings::Values(-1)),
        };
        Maps {
            state,
            rings,
            control: fd(control.map()),
            doorbell: fd(doorbell.map()),
            interfaces: None,
            processors: self.processors,
            owners: None,
        }
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Marks the packets that are now in the rings as selected by an older filter.
    pub(super) fn mark_stale(&mut self) {
        self.stale.clear();
        self.stale.extend(self.rings.iter().map(Ring::head));
    }

    /// Returns the end of the older filter's packets that are next in a ring. `None` if there are none.
    #[inline]
    pub(super) fn stale_until(&self, index: usize) -> Option<Position> {
        let until = *self.stale.get(index)?;
        (self.rings.get(index)?.tail().bytes < until.bytes).then_some(until)
    }

    /// Returns the size of all rings together, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.geometry().size() * (self.rings.len() + self.away.len()) as u64
    }

    /// Returns the bytes that wait to be read.
    #[inline]
    pub(super) fn available(&self) -> u64 {
        let waiting = |ring: &Ring| ring.head().bytes - ring.tail().bytes;
        let own: u64 = self.rings.iter().map(waiting).sum();
        own + self.away.iter().map(RingWatch::waiting).sum::<u64>()
    }

    /// Returns the bytes of records that were written so far.
    pub(super) fn written(&self) -> u64 {
        let own = self.rings.iter().map(|ring| ring.head().bytes);
        own.chain(self.away.iter().map(|ring| ring.head().bytes))
            .sum()
    }

    /// Returns whether no record waits and none is being written.
    pub(super) fn is_quiet(&self) -> bool {
        self.rings
            .iter()
            .all(|ring| ring.busy() != WRITING && ring.is_empty())
    }

    /// Returns the counts of programs on all processors.
    pub(super) fn counters(&self) -> Counters {
        let own = self.rings.iter().map(Ring::counters);
        let all = own.chain(self.away.iter().map(RingWatch::counters));
        all.fold(Counters::default(), sum)
    }

    /// Returns the packets on processors without a ring, because they were put in later, and dropped packets
    /// that could not be read.
    pub(super) fn without_ring(&self) -> bpf::Result<u64> {
        let Some(Finders { state: map, .. }) = &self.finders else {
            return Ok(0);
        };
        let mut value = vec![0; map.element_size()];
        map.lookup(0, &mut value)?;
        let word = |at: i16| {
            let at = usize::from(at.unsigned_abs());
            let bytes = value.get(at..at + 8).and_then(|word| word.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        Ok(word(state::NO_RING) + word(state::NO_PLACE))
    }
}

/// Makes rings on several nodes, or of processors whose numbers have gaps. Each is a separate map, and a
/// further map holds these, by processor. The kernel needs milliseconds to insert them.
fn maps_by_cpu(
    kernel: &Kernel,
    geometry: Geometry,
    cpus: &[usize],
    nodes: Option<&[u32]>,
) -> bpf::Result<(Vec<Ring>, Arc<Map>)> {
    let mut rings = Vec::with_capacity(cpus.len());
    for index in 0..cpus.len() {
        let node = nodes.map(|nodes| nodes[index]);
        rings.append(&mut Ring::create(kernel, geometry, 1, node)?);
    }
    let processors = cpus.iter().max().map_or(1, |highest| highest + 1);
    let places = number(possible_cpus().max(processors));
    let by_cpu = Map::create(
        kernel,
        &MapSpec {
            inner: rings.first().map(|ring| &**ring.map()),
            ..MapSpec::new("ringtap_rings", MapKind::ArrayOfMaps, 4, places)
        },
    )?;
    let maps = rings.iter().map(|ring| &**ring.map());
    let elements: Vec<_> = cpus.iter().map(|&cpu| number(cpu)).zip(maps).collect();
    by_cpu.update_fds(&elements)?;
    Ok((rings, Arc::new(by_cpu)))
}

/// Adds two counts.
pub(super) fn sum(a: Counters, b: Counters) -> Counters {
    Counters {
        stored: a.stored + b.stored,
        full: a.full + b.full,
        sampled: a.sampled + b.sampled,
        unreadable: a.unreadable + b.unreadable,
        contended: a.contended + b.contended,
        clamped: a.clamped + b.clamped,
        by_host: a.by_host + b.by_host,
    }
}

/// Returns a processor's number in the form of maps; there are at most 8192.
fn number(cpu: usize) -> u32 {
    u32::try_from(cpu).unwrap_or(u32::MAX)
}
