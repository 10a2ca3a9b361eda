//! The reader's side of one ring.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::layout::{self, Geometry, MARK_BYTES, MARKS, SLOT_BYTES, SLOT_COUNT, SLOTS};
use crate::bpf::{Kernel, Map, MapKind, MapSpec, Mapping, Result};

/// A record's end, with what was put into the ring up to there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bytes of records.
    pub bytes: u64,
    /// Records.
    pub packets: u64,
    /// Captured bytes of packets.
    pub captured: u64,
}

/// What the programs counted on one CPU, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Put into the ring.
    pub stored: u64,
    /// Lost for want of room.
    pub full: u64,
    /// Left out by sampling.
    pub sampled: u64,
    /// Lost because their bytes could not be read.
    pub unreadable: u64,
    /// Lost because they came while another was being written on the same CPU.
    pub contended: u64,
    /// Stored with less bytes than snaplen and length allow.
    pub clamped: u64,
    /// Stamped by the host, where the adapter's stamps are wanted and it had none.
    pub by_host: u64,
}

/// One CPU's ring. Packets that were not read go with it.
#[derive(Debug)]
pub struct Ring {
    map: Arc<Map>,
    /// Which of the map's values it is.
    index: u32,
    mapping: Mapping,
    geometry: Geometry,
    tail: Position,
}

impl Ring {
    /// Makes rings, the values of one map (array maps that can be mapped: 5.5), on a NUMA node where one is
    /// given.
    ///
    /// # Errors
    /// ENOMEM where the control group's or the system's memory does not suffice; what `mmap` says.
    pub fn create(
        kernel: &Kernel,
        geometry: Geometry,
        count: u32,
        numa_node: Option<u32>,
    ) -> Result<Vec<Self>> {
        let spec = MapSpec {
            name: "ringtap_ring",
            kind: MapKind::Array {
                mmapable: true,
                inner: false,
            },
            value_size: geometry.value_size(),
            max_entries: count,
            numa_node,
            inner: None,
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

    /// The map that it is a value of, for programs that keep the producer's side.
    #[must_use]
    pub fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// The ring's sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How far the ring was read.
    #[must_use]
    pub fn tail(&self) -> Position {
        self.tail
    }

    /// How far the ring was written.
    #[must_use]
    #[inline]
    pub fn head(&self) -> Position {
        head(&self.mapping, self.tail)
    }

    /// A look at the ring for another thread than the one that reads it.
    ///
    /// # Errors
    /// What `mmap` says.
    pub fn watch(&self) -> Result<RingWatch> {
        Ok(RingWatch {
            mapping: Mapping::of_value(&self.map, self.index, 0..0)?,
            tail: self.geometry.tail(),
        })
    }

    /// Whether there is something to read; one load.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.mapping.load_u64(layout::PUBLISHED) == self.tail.packets
    }

    /// 1 while a program works on a record that [`Ring::head`] does not show yet, another number
    /// during a poll whose records have one stamp, else 0.
    #[must_use]
    #[inline]
    pub fn busy(&self) -> u64 {
        self.mapping.load_u64(layout::BUSY)
    }

    /// What the programs counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        counters(&self.mapping)
    }

    /// The records from the tail on that lie in one piece: up to `limit` (a value that
    /// [`Ring::head`] gave), or to a mark before it, which is within a chunk. Nothing where there are
    /// none.
    pub fn take(&mut self, limit: Position) -> Option<Taken<'_>> {
        let stretch = self.stretch(limit)?;
        Some(Taken {
            ring: self,
            stretch,
        })
    }

    /// What [`Ring::take`] would take; its bytes are [`Ring::bytes`], its room is given back by
    /// [`Ring::release`].
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

    /// The records of a stretch; nothing once any of them was released.
    #[must_use]
    #[inline]
    pub fn bytes(&self, stretch: &Stretch) -> &[u8] {
        if stretch.tail != self.tail {
            return &[];
        }
        // SAFETY: the range is between tail and head, as `Ring::stretch` checked, where programs that
        // keep the protocol do not write until the tail moves; it moves by `&mut self` only, which
        // the slice, borrowing `self`, excludes. A stretch of another ring with this tail is caught
        // by `Mapping::bytes` where it leaves the mapping; in it, see the module's documentation.
        unsafe {
            self.mapping
                .bytes(stretch.start..stretch.start + stretch.len)
        }
    }

    /// Gives room back up to `to`, the end of a record between tail and head.
    pub fn release(&mut self, to: Position) {
        if to.bytes < self.tail.bytes || to.bytes - self.tail.bytes > self.geometry.size() {
            return;
        }
        self.tail = to;
        let tail = self.mapping.word_u64(self.geometry.tail());
        tail.store(to.bytes, Ordering::Release);
    }

    /// The first mark between tail and `limit`, else `limit`.
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

/// A ring that another thread reads: how far it was written, and how much waits in it.
#[derive(Debug)]
pub struct RingWatch {
    mapping: Mapping,
    /// Where the consumer's page begins.
    tail: usize,
}

impl RingWatch {
    /// How far the ring was written.
    #[must_use]
    #[inline]
    pub fn head(&self) -> Position {
        head(&self.mapping, Position::default())
    }

    /// Bytes of records that wait to be read.
    #[must_use]
    #[inline]
    pub fn waiting(&self) -> u64 {
        // First, so that it is not ahead of the head.
        let tail = self.mapping.load_u64(self.tail);
        self.head().bytes.saturating_sub(tail)
    }

    /// What the programs counted.
    #[must_use]
    pub fn counters(&self) -> Counters {
        counters(&self.mapping)
    }
}

/// How far a ring was written that was read up to `tail` or further.
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

/// Records in one piece, by their place.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    tail: Position,
    end: Position,
    start: usize,
    len: usize,
}

impl Stretch {
    /// The position of the first record.
    #[must_use]
    pub fn start(&self) -> Position {
        self.tail
    }

    /// The end of the last record.
    #[must_use]
    pub fn end(&self) -> Position {
        self.end
    }
}

/// Records in one piece. Dropping it gives their room back.
#[derive(Debug)]
pub struct Taken<'a> {
    ring: &'a mut Ring,
    stretch: Stretch,
}

impl Taken<'_> {
    /// The records.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.ring.bytes(&self.stretch)
    }

    /// The position of the first record.
    #[must_use]
    pub fn start(&self) -> Position {
        self.stretch.tail
    }

    /// Number of records.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.stretch.end.packets - self.stretch.tail.packets
    }

    /// Captured bytes of the packets.
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
