//! Merges the batches of several readers into one order in time, for one meter.
//!
//! Batches go in; observations come out to the meter, the earliest first. Each reader's batches are in order,
//! and each batch contains the time up to which its reader has seen all packets. An observation that is
//! earlier than that time of every reader is final. The collator waits only while it has room: if a reader is
//! later than that, packets of the others go first.

use std::collections::VecDeque;

use crate::meter::Meter;
use crate::share::Batch;
use crate::sink::FlowSink;

/// The maximum number of batches that may wait for each reader.
const BATCHES: usize = 64;

/// Restores the order of the packets that several readers have seen, before one meter.
///
/// It does not allocate after [`Collator::new`].
#[derive(Debug)]
pub struct Collator {
    lanes: Vec<Lane>,
    /// The number of batches that wait, and the maximum.
    waiting: usize,
    most: usize,
    early: u64,
}

/// The batches of one reader that wait.
#[derive(Debug, Default)]
struct Lane {
    /// No batch in it is empty.
    batches: VecDeque<Batch>,
    /// The number of observations of the first batch that were taken.
    taken: usize,
    /// All packets before this time were given.
    until_ns: u64,
    /// The time of the next observation.
    next_ns: Option<u64>,
}

impl Collator {
    /// Returns a collator for this number of readers.
    #[must_use]
    pub fn new(readers: usize) -> Self {
        let most = BATCHES * readers;
        let lane = || Lane {
            batches: VecDeque::with_capacity(most + 1),
            ..Lane::default()
        };
        Self {
            lanes: (0..readers).map(|_| lane()).collect(),
            waiting: 0,
            most,
            early: 0,
        }
    }

    /// Keeps the batch of the reader with this number, counted from 0. Returns the batch if there is nothing
    /// in it to keep. Call [`Collator::take`] next.
    pub fn put(&mut self, reader: usize, batch: Batch) -> Option<Batch> {
        let Some(lane) = self.lanes.get_mut(reader) else {
            return Some(batch);
        };
        if let Some((_, now_ns)) = batch.times {
            lane.until_ns = lane.until_ns.max(now_ns);
        }
        let Some(first) = batch.observations.first() else {
            return Some(batch);
        };
        lane.next_ns.get_or_insert(first.time_ns);
        lane.batches.push_back(batch);
        self.waiting += 1;
        None
    }

    /// Gives the meter everything that is final, and advances its time. Returns emptied batches through the
    /// callback, with the reader's number.
    pub fn take<S: FlowSink + ?Sized>(
        &mut self,
        meter: &mut Meter,
        sink: &mut S,
        mut back: impl FnMut(usize, Batch),
    ) {
        while let Some((reader, second_ns)) = self.earliest() {
            let final_ns = self.final_ns();
            let lane = &mut self.lanes[reader];
            let mut until_ns = second_ns.min(final_ns);
            if lane.next_ns.is_some_and(|next_ns| next_ns > final_ns) {
                if self.waiting <= self.most {
                    break;
                }
                self.early += 1;
                until_ns = second_ns;
            }
            if let Some(batch) = lane.run(until_ns, meter, sink) {
                self.waiting -= 1;
                back(reader, batch);
            }
        }
        let now_ns = self.lanes.iter().map(Lane::seen_ns).min();
        if let Some(now_ns) = now_ns.filter(|&now_ns| now_ns > meter.now_ns()) {
            meter.begin_at(now_ns);
            meter.advance(now_ns, sink);
        }
    }

    /// Gives the meter everything that waits. Call it at the end.
    pub fn finish<S: FlowSink + ?Sized>(&mut self, meter: &mut Meter, sink: &mut S) {
        for lane in &mut self.lanes {
            lane.until_ns = u64::MAX;
        }
        while let Some((reader, second_ns)) = self.earliest() {
            if self.lanes[reader].run(second_ns, meter, sink).is_some() {
                self.waiting -= 1;
            }
        }
    }

    /// Returns how many stretches of packets went to the meter although an earlier packet might have come,
    /// because too many waited.
    #[must_use]
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Returns the reader whose packet is next, and the time at which it is another reader's turn.
    fn earliest(&self) -> Option<(usize, u64)> {
        let mut first: Option<(usize, u64)> = None;
        let mut second_ns = u64::MAX;
        for (reader, lane) in self.lanes.iter().enumerate() {
            let Some(next_ns) = lane.next_ns else {
                continue;
            };
            match first {
                Some((_, first_ns)) if next_ns >= first_ns => second_ns = second_ns.min(next_ns),
                _ => {
                    second_ns = first.map_or(second_ns, |(_, first_ns)| first_ns);
                    first = Some((reader, next_ns));
                }
            }
        }
        first.map(|(reader, _)| (reader, second_ns))
    }

    /// Returns the time before which no packet can come from a reader without waiting batches.
    fn final_ns(&self) -> u64 {
        let silent = self.lanes.iter().filter(|lane| lane.next_ns.is_none());
        silent.map(|lane| lane.until_ns).min().unwrap_or(u64::MAX)
    }
}

impl Lane {
    /// Gives the meter all observations up to this time, at least one and at most one batch. Returns the
    /// batch if it is used up.
    fn run<S: FlowSink + ?Sized>(
        &mut self,
        until_ns: u64,
        meter: &mut Meter,
        sink: &mut S,
    ) -> Option<Batch> {
        let batch = self.batches.front()?;
        if let Some((begin_ns, _)) = batch.times {
            meter.begin_at(begin_ns);
        }
        let rest = batch.observations.get(self.taken..).unwrap_or_default();
        let mut run = 0;
        for observation in rest {
            if run > 0 && observation.time_ns > until_ns {
                break;
            }
            meter.take_one(observation, batch.payloads.of(observation), sink);
            run += 1;
        }
        self.taken += run;
        if let Some(next) = rest.get(run) {
            self.next_ns = Some(next.time_ns);
            return None;
        }
        self.taken = 0;
        let mut batch = self.batches.pop_front()?;
        batch.clear();
        let first = self.batches.front();
        let first = first.and_then(|batch| batch.observations.first());
        self.next_ns = first.map(|observation| observation.time_ns);
        Some(batch)
    }

    /// Returns the time up to which the meter has seen all packets of this reader.
    fn seen_ns(&self) -> u64 {
        self.next_ns.unwrap_or(self.until_ns)
    }
}
