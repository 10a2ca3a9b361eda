//! Reads the rings: chooses the next records, and their ring.

use std::hint;
use std::time::{Duration, Instant};

use ringtap_savefile::{ByteOrder, InterfaceTable, PacketRun, RunTotals};
use ringtap_sys::bpf;
use ringtap_sys::tap::{Counters, Position, Ring, Taken};

use super::merge::Merger;
use super::rings::{RingSet, sum};
use crate::Block;
use crate::block::Origin;
use crate::filter::FilterTable;

/// How long an order in time waits for a running program. If one is delayed for longer (its virtual processor
/// sleeps), its record is delivered late.
pub(super) const LATENESS: Duration = Duration::from_millis(1);
/// The number of looks at a busy flag before the clock is read.
const LOOKS: u32 = 64;

/// The rings, and the extent of the present delivery.
#[derive(Debug)]
pub(super) struct Reader {
    /// The oldest first; all but the last are no longer written.
    sets: Vec<RingSet>,
    /// How far the rings of the first set are delivered.
    goals: Vec<Position>,
    /// How far they may be delivered, so that nothing in between has an earlier stamp.
    bounds: Vec<Position>,
    ordered: bool,
    merger: Merger,
    /// The first ring if order does not matter.
    turn: usize,
    pub(super) max_caplen: u32,
    /// The counts of programs in rings that no longer exist.
    retired: Counters,
}

/// The records from which the next block comes.
enum From {
    Ring { index: usize, limit: Position },
    Merge,
}

impl Reader {
    pub(super) fn new(set: RingSet, ordered: bool, max_caplen: u32) -> Self {
        let rings = set.rings.len();
        // Memory is allocated now, not while packets wait.
        Self {
            sets: vec![set],
            goals: Vec::with_capacity(rings),
            bounds: Vec::with_capacity(rings),

            ordered,
            merger: Merger::new(if ordered { rings } else { 0 }),
            turn: 0,
            max_caplen,
            retired: Counters::default(),
        }
    }

    /// Returns the rings that are being written.
    pub(super) fn current(&self) -> &RingSet {
        &self.sets[self.sets.len() - 1]
    }

    /// Returns the counts of programs on all processors.
    pub(super) fn counters(&self) -> Counters {
        let sets = self.sets.iter().map(RingSet::counters);
        sets.fold(self.retired, sum)
    }

    /// Replaces the present rings, which are read to their end first. Call it when no program writes the old
    /// ones any more.
    pub(super) fn succeed(&mut self, set: RingSet) {
        self.sets.push(set);
    }

    /// Returns the bytes that wait for delivery.
    #[inline]
    pub(super) fn available(&self) -> u64 {
        self.sets.iter().map(RingSet::available).sum()
    }

    /// Returns the bytes of records that the present rings got so far.
    pub(super) fn written(&self) -> u64 {
        self.current().written()
    }

    /// Returns whether a delivery is not complete.
    #[inline]
    pub(super) fn is_delivering(&self) -> bool {
        let mut rings = self.sets[0].rings.iter().zip(&self.goals);
        rings.any(|(ring, goal)| ring.tail().bytes < goal.bytes)
    }

    /// Gives the rings to this number of readers. Returns nothing if there is one ring, or old ones must
    /// still be read.
    pub(super) fn give_away(&mut self, readers: usize) -> bpf::Result<Vec<RingSet>> {
        match &mut self.sets[..] {
            [set] if set.rings.len() > 1 && readers > 1 => set.give_away(readers),
            _ => Ok(Vec::new()),
        }
    }

    /// Drops rings that are no longer written and were read to their end.
    #[inline]
    pub(super) fn leave_old_rings(&mut self) {
        while self.sets.len() > 1 && self.sets[0].is_quiet() {
            let gone = self.sets.remove(0);
            self.retired = sum(self.retired, gone.counters());
            self.goals.clear();
        }
    }

    /// Returns whether there are rings that are no longer written.
    pub(super) fn has_old_rings(&self) -> bool {
        self.sets.len() > 1
    }

    /// Starts a delivery of everything that is there now.
    pub(super) fn begin_delivery(&mut self) {
        let rings = &self.sets[0].rings;
        self.goals.clear();
        self.goals.extend(rings.iter().map(Ring::head));
        self.bounds.clear();
        if self.ordered && rings.len() > 1 {
            wait_until_idle(rings);
            self.bounds.extend(rings.iter().map(Ring::head));
        } else {
            self.bounds.extend_from_slice(&self.goals);
        }
    }

    /// Marks the packets that are now in the rings as selected by an older filter.
    pub(super) fn mark_stale(&mut self) {
        for set in &mut self.sets {
            set.mark_stale();
        }
    }

    /// Returns the next block of the delivery. `None` once it is complete. `filter` applies to packets of an
    /// older filter, or to all with `always`.
    pub(super) fn next_block<'a>(
        &'a mut self,
        table: &'a InterfaceTable,
        filter: Option<&'a FilterTable>,
        always: bool,
    ) -> Option<Block<'a>> {
        match self.choose()? {
            From::Ring { index, mut limit } => {
                let stale = self.sets[0].stale_until(index);
                let is_stale = stale.is_some();
                if let Some(until) = stale
                    && until.bytes < limit.bytes
                {
                    limit = until;
                }
                let max_caplen = self.max_caplen;
                let taken = self.sets[0].rings[index].take(limit)?;
                let records = Origin::Tap(TapRecords {
                    taken,
                    table,
                    max_caplen,
                });
                let filter = filter.filter(|_| is_stale || always);
                Some(Block::new(records, filter))
            }
            From::Merge => {
                let is_stale =
                    (0..self.goals.len()).any(|index| self.sets[0].stale_until(index).is_some());
                let rings = &mut self.sets[0].rings;
                let merged = self.merger.merge(rings, &self.goals, &self.bounds);
                let totals = RunTotals {
                    packets: merged.packets,
                    captured: merged.captured,
                    max_caplen: self.max_caplen,
                };
                let records = self.merger.records();
                let run = PacketRun::from_ring(records, ByteOrder::NATIVE, table, 0, totals);
                let filter = filter.filter(|_| is_stale || always);
                Some(Block::new(Origin::Run(run), filter))
            }
        }
    }

    /// Finds the next records of the delivery.
    fn choose(&mut self) -> Option<From> {
        let Self {
            goals,
            bounds,
            merger,
            ..
        } = self;
        let rings = &self.sets[0].rings;
        let count = rings.len();
        let wanted = |index: usize| rings[index].tail().bytes < goals[index].bytes;
        let index = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|&index| wanted(index))?;
        if self.ordered {
            let waits = |index: usize| rings[index].tail().bytes < bounds[index].bytes;
            let others = (0..count).any(|other| other != index && waits(other));
            if others {
                let alone = merger.in_place(rings, goals, bounds);
                return Some(
                    alone.map_or(From::Merge, |(index, limit)| From::Ring { index, limit }),
                );
            }
        } else {
            self.turn = (index + 1) % count;
        }
        Some(From::Ring {
            index,
            limit: goals[index],
        })
    }
}

/// Waits until every program has published its record, and every poll has ended that may stamp records with
/// an earlier time, or the limit on lateness has passed.
fn wait_until_idle(rings: &[Ring]) {
    let mut deadline = None;
    for ring in rings {
        let mut looks = 0;
        let first = ring.busy();
        while first != 0 && ring.busy() == first {
            hint::spin_loop();
            looks += 1;
            if looks < LOOKS {
                continue;
            }
            looks = 0;
            let now = Instant::now();
            if now >= *deadline.get_or_insert(now + LATENESS) {
                return;
            }
        }
    }
}

/// Records of one ring, in place.
#[derive(Debug)]
pub(crate) struct TapRecords<'a> {
    taken: Taken<'a>,
    table: &'a InterfaceTable,
    max_caplen: u32,
}

impl TapRecords<'_> {
    pub(crate) fn run(&self) -> PacketRun<'_> {
        let totals = RunTotals {
            packets: self.len(),
            captured: self.taken.captured(),
            max_caplen: self.max_caplen,
        };
        let offset = self.taken.start().bytes;
        PacketRun::from_ring(
            self.taken.bytes(),
            ByteOrder::NATIVE,
            self.table,
            offset,
            totals,
        )
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.taken.packets()).unwrap_or(usize::MAX)
    }
}
