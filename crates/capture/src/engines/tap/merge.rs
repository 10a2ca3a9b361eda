//! Records of several rings, put into one order in time.
//!
//! Rings are in order each. What is final is decided by positions, never by a clock: a *goal* is
//! taken of every ring, then, with no program at work on any, a *bound*. Whatever is published
//! behind the bounds was stamped after every record below the goals (see [`ringtap_sys::tap`]).
//! Therefore the records up to the bounds are merged by their stamps until every ring has reached
//! its goal. A step of the wall clock disorders the records at both of its sides by as much as it is
//! wide; it holds nothing up and loses nothing.

use ringtap_sys::tap::{Position, Ring, Stretch};

/// Bytes of merged records that are handed out at once.
const BATCH: usize = 256 << 10;
/// The same with the record that fills a batch, which is whole: 262,144 bytes of a packet at most, and
/// what a record has beside them.
const MOST: usize = 2 * BATCH + 256;

/// Bytes of an enhanced packet block up to the captured length, and the least that it has.
const HEAD: usize = 24;
const SHORTEST: usize = 32;

/// What a merge gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Merged {
    pub(super) packets: usize,
    pub(super) captured: u64,
}

/// Merges; keeps its memory from one time to the next.
#[derive(Debug)]
pub(super) struct Merger {
    records: Vec<u8>,
    lanes: Vec<Lane>,
}

/// What a merge needs to know of a record.
#[derive(Clone, Copy, Debug)]
struct Head {
    stamp: u64,
    /// Bytes of the whole record.
    length: usize,
    caplen: u32,
}

/// One ring's part in a merge.
#[derive(Debug)]
struct Lane {
    ring: usize,
    stretch: Stretch,
    /// Where the ring must get to, in bytes from the stretch's start.
    goal: u64,
    /// Bytes, packets and captured bytes that were merged.
    done: Position,
    /// The next record.
    next: Option<Head>,
    /// Whether more records follow the stretch, in another place.
    is_cut: bool,
}

impl Merger {
    /// For so many rings; one needs no merging.
    pub(super) fn new(rings: usize) -> Self {
        let merges = rings > 1;
        Self {
            records: Vec::with_capacity(if merges { MOST } else { 0 }),
            lanes: Vec::with_capacity(if merges { rings } else { 0 }),
        }
    }

    /// The records of the last merge.
    pub(super) fn records(&self) -> &[u8] {
        &self.records
    }

    /// The ring whose next records are older than all others', and the end of these, where they are many:
    /// nothing need be copied then. A burst that fills one ring and goes on in another has many.
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

    /// Looks where each ring begins.
    fn survey(&mut self, rings: &[Ring], goals: &[Position], bounds: &[Position]) {
        self.lanes.clear();
        let limits = goals.iter().zip(bounds).enumerate();
        self.lanes
            .extend(limits.filter_map(|(index, (goal, bound))| {
                Lane::new(index, rings.get(index)?, *goal, *bound)
            }));
    }

    /// Puts records in order, from the rings' tails towards the bounds, and gives their room back.
    /// Ends when every ring has reached its goal, a batch is full, or a ring's records go on in
    /// another place.
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

/// The lane whose record comes next, and the stamp at which another one's turn is.
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

    /// Goes past the records that come before `until`, at least one, and about `room` bytes at most; not
    /// past the goal at once: records behind it are final only where another ring's goal is not reached.
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

    /// Up to where records were merged. Where they end before they should, which a program that
    /// keeps the protocol does not bring about, it is the end of them all, so that the reader goes on.
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

/// The record at the start of `records`, if it is there as a whole.
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
