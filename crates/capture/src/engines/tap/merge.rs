//! Merges the records of several rings in order of time.
//!
//! Each ring is in order. Positions, never a clock, decide which records are final. A *goal* is taken for
//! every ring; then, with no program at work on any ring, a *bound*. Every record that is published after the
//! bounds has a later stamp than the records below the goals (see [`ringtap_sys::tap`]). So the records up to
//! the bounds are merged by their stamps until every ring has reached its goal. A step of the wall clock
//! disorders the records on both sides by its size; it delays and loses nothing.

use ringtap_sys::tap::{Position, Ring, Stretch};

/// The number of bytes of merged records that are returned at once.
const BATCH: usize = 256 << 10;
/// The same plus the last record of a batch, which is complete: at most 262,144 bytes of a packet, and the
/// rest of its record.
const MOST: usize = 2 * BATCH + 256;

/// Bytes of an enhanced packet block up to the captured length, and the least that it has.
const HEAD: usize = 24;
const SHORTEST: usize = 32;

/// The result of a merge.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Merged {
    pub(super) packets: usize,
    pub(super) captured: u64,
}

/// Merges records, and keeps its memory for the next time.
#[derive(Debug)]
pub(super) struct Merger {
    records: Vec<u8>,
    lanes: Vec<Lane>,
}

/// The facts about a record that a merge needs.
#[derive(Clone, Copy, Debug)]
struct Head {
    stamp: u64,
    /// Bytes of the whole record.
    length: usize,
    caplen: u32,
}

/// The part of one ring in a merge.
#[derive(Debug)]
struct Lane {
    ring: usize,
    stretch: Stretch,
    /// The goal in the ring, in bytes from the stretch's start.
    goal: u64,
    /// Bytes, packets and captured bytes that were merged.
    done: Position,
    /// The next record.
    next: Option<Head>,
    /// Whether more records follow after the stretch, at another place.
    is_cut: bool,
}

impl Merger {
    /// Returns a merger for this number of rings. One ring needs no merging.
    pub(super) fn new(rings: usize) -> Self {
        let merges = rings > 1;
        Self {
            records: Vec::with_capacity(if merges { MOST } else { 0 }),
            lanes: Vec::with_capacity(if merges { rings } else { 0 }),
        }
    }

    /// Returns the records of the last merge.
    pub(super) fn records(&self) -> &[u8] {
        &self.records
    }

    /// Returns the ring whose next records are older than all others', and their end, if they are many: then
    /// nothing needs to be copied. This is common in a burst that fills one ring and continues in another.
    pub(super) fn in_place(
        &mut self,
        rings: &[Ring],
        goals: &[Position],
        bounds: &[Position],
    ) -> Option<(usize, Position)> {
        self.survey(rings, goals, bounds);
        let (first, until) = earliest(&self.lanes)?;
        let lane = &mut self.lanes[first];
        let bytes = lane.pass(&rings[lane.ring], until, usize::MAX);
        (bytes.len() >= BATCH).then(|| (lane.ring, lane.end()))
    }

    /// Finds where each ring starts.
    fn survey(&mut self, rings: &[Ring], goals: &[Position], bounds: &[Position]) {
        self.lanes.clear();
        let limits = goals.iter().zip(bounds).enumerate();
        self.lanes
            .extend(limits.filter_map(|(index, (goal, bound))| {
                Lane::new(index, rings.get(index)?, *goal, *bound)
            }));
    }

    /// Sorts records from the rings' tails towards the bounds, and returns their memory. Ends when every ring
    /// has reached its goal, a batch is full, or a ring's records continue at another place.
    pub(super) fn merge(
        &mut self,
        rings: &mut [Ring],
        goals: &[Position],
        bounds: &[Position],
    ) -> Merged {
        self.survey(rings, goals, bounds);
        let Self { records, lanes } = self;
        records.clear();
        while records.len() < BATCH && lanes.iter().any(|lane| lane.done.bytes < lane.goal) {
            let Some((first, until)) = earliest(lanes) else {
                break;
            };
            let lane = &mut lanes[first];
            let room = BATCH.saturating_sub(records.len());
            records.extend_from_slice(lane.pass(&rings[lane.ring], until, room));
            if lane.next.is_none() && lane.is_cut {
                break;
            }
        }
        let mut merged = Merged::default();
        for lane in lanes {
            merged.packets += usize::try_from(lane.done.packets).unwrap_or_default();
            merged.captured += lane.done.captured;
            rings[lane.ring].release(lane.end());
        }
        merged
    }
}

/// Returns the lane whose record comes next, and the stamp at which it is another one's turn.
fn earliest(lanes: &[Lane]) -> Option<(usize, u64)> {
    let mut first: Option<(usize, u64)> = None;
    let mut until = u64::MAX;
    for (index, lane) in lanes.iter().enumerate() {
        let Some(Head { stamp, .. }) = lane.next else {
            continue;
        };
        match first {
            Some((_, earliest)) if stamp >= earliest => until = until.min(stamp),
            _ => {
                until = first.map_or(until, |(_, second)| second);
                first = Some((index, stamp));
            }
        }
    }
    first.map(|(index, _)| (index, until))
}

impl Lane {
    fn new(index: usize, ring: &Ring, goal: Position, bound: Position) -> Option<Self> {
        let stretch = ring.stretch(bound)?;
        Some(Self {
            ring: index,
            goal: goal.bytes.saturating_sub(stretch.start().bytes),
            done: Position::default(),
            next: look(ring.bytes(&stretch)),
            is_cut: stretch.end() != bound,
            stretch,
        })
    }

    /// Passes the records before `until`, at least one and about `room` bytes at most. It stops at the goal:
    /// records after it are final only while another ring's goal is not reached.
    fn pass<'a>(&mut self, ring: &'a Ring, until: u64, room: usize) -> &'a [u8] {
        let bytes = ring.bytes(&self.stretch);
        let start = usize::try_from(self.done.bytes).unwrap_or_default();
        let mut end = start;
        let mut room = start.saturating_add(room);
        if self.done.bytes < self.goal {
            room = room.min(usize::try_from(self.goal).unwrap_or(usize::MAX));
        }
        let (mut packets, mut captured) = (0, 0);
        while let Some(head) = self.next {
            let is_next = end == start || head.stamp <= until;
            if !is_next || end >= room {
                break;
            }
            captured += u64::from(head.caplen);
            packets += 1;
            end += head.length;
            self.next = bytes.get(end..).and_then(look);
        }
        self.done.packets += packets;
        self.done.captured += captured;
        self.done.bytes = end as u64;
        bytes.get(start..end).unwrap_or_default()
    }

    /// Returns the end of the merged records. If they end too early, which a correct program does not cause,
    /// it is the end of them all, so that the reader continues.
    fn end(&self) -> Position {
        let (start, end) = (self.stretch.start(), self.stretch.end());
        let merged = start.bytes + self.done.bytes;
        if self.next.is_none() && merged < end.bytes {
            return end;
        }
        Position {
            bytes: merged,
            packets: start.packets + self.done.packets,
            captured: start.captured + self.done.captured,
        }
    }
}

/// Returns the record at the start of `records`, if it is complete.
#[inline(always)]
fn look(records: &[u8]) -> Option<Head> {
    let head: &[u8; HEAD] = records.first_chunk()?;
    let word = |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let length = word(4) as usize;
    if length < SHORTEST || length > records.len() {
        return None;
    }
    Some(Head {
        stamp: u64::from(word(12)) << 32 | u64::from(word(16)),
        length,
        caplen: word(20),
    })
}
