//! The reader's side of one ring.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::layout::{self, Geometry, MARK_BYTES, MARKS, SLOT_BYTES, SLOT_COUNT, SLOTS};
use crate::bpf::{Kernel, Map, MapKind, MapSpec, Mapping, Result};

/// The end of a record, with the totals of the ring up to there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes of records.
    pub bytes: u64,
    /// Records.
    pub packets: u64,
    /// Captured bytes of packets.
    pub captured: u64,
}

/// The counters of the programs on one CPU, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stored in the ring.
    pub stored: u64,
    /// Lost because the ring was full.
    pub full: u64,
    /// Excluded by sampling.
    pub sampled: u64,
    /// Lost because their bytes could not be read.
    pub unreadable: u64,
    /// Lost because they arrived while another was being written on the same CPU.
    pub contended: u64,
    /// Stored with fewer bytes than snaplen and length allow.
    pub clamped: u64,
    /// Stamped by the host because the adapter had no stamp.
    pub by_host: u64,
}

/// One CPU's ring. Dropping it drops the packets that were not read.
#[derive(Debug)]
pub struct Ring {
    map: Arc<Map>,
    /// The index of the ring among the map's values.
    index: u32,
    mapping: Mapping,
    geometry: Geometry,
    tail: Position,
}

impl Ring {
    /// Creates rings, the values of one map (array maps that can be mapped: 5.5), on a NUMA node if
    /// one is given.
    ///
    /// # Errors
    /// `ENOMEM` if the control group's or the system's memory does not suffice; the errors of
    /// mmap(2).
    pub fn create(
        kernel: &Kernel,
        geometry: Geometry,
        count: u32,
        numa_node: Option<u32>,
    ) -> Result<Vec<Self>> {
        let kind = MapKind::MAPPED_ARRAY;
        let spec = MapSpec {
            numa_node,
            ..MapSpec::new("ringtap_ring", kind, geometry.value_size(), count)
        };
        let map = Arc::new(Map::create(kernel, &spec)?);
        let ring = |index| {
            let writable = geometry.tail()..geometry.data();
            Ok(Self {
                mapping: Mapping::of_value(&map, index, writable)?,
                map: Arc::clone(&map),
                index,
                geometry,
                tail: Position::default(),
            })
        };
        (0..count).map(ring).collect()
    }

    /// Returns the map that holds the ring, for programs that keep the producer's side.
    #[must_use]
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Returns the ring's sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the position up to which the ring was read.
    #[must_use]
    pub fn tail(&self) -> Position {
        self.tail
    }

    /// Returns the position up to which the ring was written.
    #[must_use]
    #[inline]
    pub fn head(&self) -> Position {
        head(&self.mapping, self.tail)
    }

    /// Returns a view of the ring for a thread that does not read its packets.
    ///
    /// # Errors
    /// The errors of mmap(2).
    pub fn watch(&self) -> Result<RingWatch> {
        Ok(RingWatch {
            mapping: Mapping::of_value(&self.map, self.index, 0..0)?,
            tail: self.geometry.tail(),
        })
    }

    /// Returns whether the ring holds no unread record; one load.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.mapping.load_u64(layout::PUBLISHED) == self.tail.packets
    }

    /// Returns 1 while a program works on a record that [`Ring::head`] does not show yet, another
    /// number during a poll whose records have one stamp, and otherwise 0.
    #[must_use]
    #[inline]
    pub fn busy(&self) -> u64 {
        self.mapping.load_u64(layout::BUSY)
    }

    /// Returns the counters of the programs.
    #[must_use]
    pub fn counters(&self) -> Counters {
        counters(&self.mapping)
    }

    /// Takes the next records that lie in one piece, from the tail up to `limit` (a value of
    /// [`Ring::head`]) or to a mark before it, at most a chunk away. Returns `None` if there are
    /// none.
    pub fn take(&mut self, limit: Position) -> Option<Taken<'_>> {
        let stretch = self.stretch(limit)?;
        Some(Taken {
            ring: self,
            stretch,
        })
    }

    /// Returns the records that [`Ring::take`] would take. [`Ring::bytes`] reads them,
    /// [`Ring::release`] frees their room.
    #[must_use]
    pub fn stretch(&self, limit: Position) -> Option<Stretch> {
        let end = self.boundary(limit);
        let room = self.geometry.size() + self.geometry.slack();
        let len = end.bytes.checked_sub(self.tail.bytes)?;
        let offset = self.tail.bytes % self.geometry.size();
        if len == 0 || len > self.geometry.size() || offset + len > room {
            return None;
        }
        Some(Stretch {
            tail: self.tail,
            end,
            start: self.geometry.data() + usize::try_from(offset).ok()?,
            len: usize::try_from(len).ok()?,
        })
    }

    /// Returns the records of a stretch; empty as soon as any of them was released.
    #[must_use]
    #[inline]
    pub fn bytes(&self, stretch: &Stretch) -> &[u8] {
        if stretch.tail != self.tail {
            return &[];
        }
        // SAFETY: the range is between tail and head, as `Ring::stretch` checked. Programs that
        // keep the protocol do not write there until the tail moves. It moves by `&mut self` only,
        // which the slice excludes because it borrows `self`. If a stretch of another ring has this
        // tail, `Mapping::bytes` catches it where it leaves the mapping; inside, see the module's
        // documentation.
        unsafe {
            self.mapping
                .bytes(stretch.start..stretch.start + stretch.len)
        }
    }

    /// Frees the room up to `to`, the end of a record between tail and head.
    pub fn release(&mut self, to: Position) {
        if to.bytes < self.tail.bytes || to.bytes - self.tail.bytes > self.geometry.size() {
            return;
        }
        self.tail = to;
        let tail = self.mapping.word_u64(self.geometry.tail());
        tail.store(to.bytes, Ordering::Release);
    }

    /// Returns the first mark between tail and `limit`, otherwise `limit`.
    fn boundary(&self, limit: Position) -> Position {
        let shift = self.geometry.chunk_shift();
        let chunks = (self.tail.bytes >> shift) + 1..=limit.bytes >> shift;
        for chunk in chunks {
            let index = usize::try_from(chunk % self.geometry.marks()).unwrap_or_default();
            let mark = MARKS + index * MARK_BYTES;
            let bytes = self.mapping.load_u64(mark);
            if self.tail.bytes < bytes && bytes < limit.bytes {
                return Position {
                    bytes,
                    packets: self.mapping.load_u64(mark + 8),
                    captured: self.mapping.load_u64(mark + 16),
                };
            }
        }
        limit
    }
}

/// A view of a ring that another thread reads: the position written, and the bytes that wait.
#[derive(Debug)]
pub struct RingWatch {
    mapping: Mapping,
    /// The offset of the consumer's page.
    tail: usize,
}

impl RingWatch {
    /// Returns the position up to which the ring was written.
    #[must_use]
    #[inline]
    pub fn head(&self) -> Position {
        head(&self.mapping, Position::default())
    }

    /// Returns the bytes of records that wait to be read.
    #[must_use]
    #[inline]
    pub fn waiting(&self) -> u64 {
        // The tail is loaded first, so that it is not ahead of the head.
        let tail = self.mapping.load_u64(self.tail);
        self.head().bytes.saturating_sub(tail)
    }

    /// Returns the counters of the programs.
    #[must_use]
    pub fn counters(&self) -> Counters {
        counters(&self.mapping)
    }
}

/// Returns the position up to which a ring was written; it was read at least up to `tail`.
#[inline]
fn head(mapping: &Mapping, tail: Position) -> Position {
    loop {
        let packets = mapping.load_u64(layout::PUBLISHED);
        if packets == tail.packets {
            return tail;
        }
        let index = usize::try_from(packets % SLOT_COUNT as u64).unwrap_or_default();
        let slot = SLOTS + index * SLOT_BYTES;
        let bytes = mapping.load_u64(slot);
        let captured = mapping.load_u64(slot + 8);
        fence(Ordering::Acquire);
        let since = mapping.load_u64(layout::PUBLISHED) - packets;
        if since < SLOT_COUNT as u64 - 1 {
            return Position {
                bytes,
                packets,
                captured,
            };
        }
    }
}

fn counters(mapping: &Mapping) -> Counters {
    let load = |offset| mapping.load_u64(offset);
    Counters {
        stored: load(layout::PUBLISHED),
        full: load(layout::FULL),
        sampled: load(layout::SAMPLED),
        unreadable: load(layout::UNREADABLE),
        contended: load(layout::CONTENDED),
        clamped: load(layout::CLAMPED),
        by_host: load(layout::BY_HOST),
    }
}

/// The place of records that lie in one piece.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    tail: Position,
    end: Position,
    start: usize,
    len: usize,
}

impl Stretch {
    /// Returns the position of the first record.
    #[must_use]
    pub fn start(&self) -> Position {
        self.tail
    }

    /// Returns the end of the last record.
    #[must_use]
    pub fn end(&self) -> Position {
        self.end
    }
}

/// Records in one piece. Dropping it frees their room.
#[derive(Debug)]
pub struct Taken<'a> {
    ring: &'a mut Ring,
    stretch: Stretch,
}

impl Taken<'_> {
    /// Returns the records.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.ring.bytes(&self.stretch)
    }

    /// Returns the position of the first record.
    #[must_use]
    pub fn start(&self) -> Position {
        self.stretch.tail
    }

    /// Returns the number of records.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.stretch.end.packets - self.stretch.tail.packets
    }

    /// Returns the captured bytes of the packets.
    #[must_use]
    pub fn captured(&self) -> u64 {
        self.stretch.end.captured - self.stretch.tail.captured
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.ring.release(self.stretch.end);
    }
}
