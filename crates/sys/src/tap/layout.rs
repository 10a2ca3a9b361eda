//! The offsets, in bytes, in the memory that programs and the application share.

use crate::bpf::page_size;

/// Number of the last record published; 0 before the first.
pub const PUBLISHED: usize = 0;
/// 1 while a program works on the ring. Where all packets of a poll share a stamp: the poll's
/// number, 2 or more, from its first record to its end.
pub const BUSY: usize = 64;
/// Packets for which the ring had no room.
pub const FULL: usize = 128;
/// Packets excluded by sampling.
pub const SAMPLED: usize = 136;
/// Packets whose bytes could not be read.
pub const UNREADABLE: usize = 144;
/// Packets that arrived while another was being written on the same CPU.
pub const CONTENDED: usize = 152;
/// Packets stored with fewer bytes than snaplen and length allow.
pub const CLAMPED: usize = 160;
/// Packets stamped by the host because the adapter had no stamp.
pub const BY_HOST: usize = 168;
/// For each of the last [`SLOT_COUNT`] records: its end, and the captured bytes up to there.
pub const SLOTS: usize = 1024;
/// Number of slots.
pub const SLOT_COUNT: usize = 64;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 16;
/// For each chunk of the data: the first position in it at which a record ended, that record's
/// number, and the captured bytes up to there.
pub const MARKS: usize = 4096;
/// The largest number of marks.
pub const MARKS_MAX: usize = 256;
/// Bytes of a mark.
pub const MARK_BYTES: usize = 32;
/// Bytes of the producer's part that are used.
const PRODUCER: usize = MARKS + MARKS_MAX * MARK_BYTES;

/// In [`super::Control`]: not 0 while the reader waits for the doorbell.
pub const WAITING: usize = 0;
/// In [`super::Control`]: bytes of records since the reader began to wait.
pub const GATHERED: usize = 64;
/// In [`super::Control`]: bytes of records at which the doorbell is rung.
pub const WANTED: usize = 128;
/// In [`super::Control`]: nanoseconds to add to the kernel's clock, modulo 2^64.
pub const CLOCK_OFFSET: usize = 192;
/// In [`super::Control`]: not 0 if a packet was received since the reader reset it. It shares a
/// cache line with words that are read for each packet anyway.
pub const RECEIVED: usize = 200;

/// The smallest and the largest ring, in bytes. The verifier bounds offsets by 2^29.
const SIZE_MIN: u64 = 1 << 16;
const SIZE_MAX: u64 = 1 << 28;
/// Bounds of a chunk, in bytes.
const CHUNK_MIN: u64 = 1 << 16;
const CHUNK_MAX: u64 = 1 << 20;
/// Chunks of a ring, unless a chunk's bounds require another number.
const CHUNKS: u64 = 16;

/// The sizes of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    size: u64,
    slack: u64,
    chunk: u64,
    page: usize,
}

impl Geometry {
    /// Returns the sizes of a ring of the largest power of two within `wanted` bytes, for records
    /// of at most `largest_record` bytes. It has at least 64 KiB and room for one such record, and
    /// at most 256 MiB.
    #[must_use]
    pub fn new(wanted: u64, largest_record: u32) -> Self {
        let record = u64::from(largest_record);
        let least = record.next_power_of_two().max(SIZE_MIN);
        let fitting = 1 << wanted.max(1).ilog2();
        let size = u64::clamp(fitting, least.min(SIZE_MAX), SIZE_MAX);
        let page = page_size();
        Self {
            size,
            slack: record,
            chunk: (size / CHUNKS).clamp(CHUNK_MIN, CHUNK_MAX),
            page,
        }
    }

    /// Returns the bytes of data; a power of two.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the bytes behind the data.
    #[must_use]
    pub fn slack(&self) -> u64 {
        self.slack
    }

    /// Returns the size of a chunk, as an exponent of two.
    #[must_use]
    pub fn chunk_shift(&self) -> u32 {
        self.chunk.ilog2()
    }

    /// Returns the number of marks, one for each chunk; a power of two.
    #[must_use]
    pub fn marks(&self) -> u64 {
        self.size / self.chunk
    }

    /// Returns the offset of the consumer's page; the tail is its first word.
    #[must_use]
    pub fn tail(&self) -> usize {
        PRODUCER.next_multiple_of(self.page)
    }

    /// Returns the offset of the data.
    #[must_use]
    pub fn data(&self) -> usize {
        self.tail() + self.page
    }

    /// Returns the size of the map's value, in bytes.
    #[must_use]
    pub fn value_size(&self) -> u32 {
        let end = self.data() as u64 + self.size + self.slack;
        u32::try_from(end.next_multiple_of(self.page as u64)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_within_bounds() {
        let size = |wanted, record| Geometry::new(wanted, record).size();
        assert_eq!(size(0, 100), 1 << 16);
        assert_eq!(size(3 << 20, 100), 2 << 20);
        assert_eq!(size(1 << 40, 100), 1 << 28);
        assert_eq!(size(1 << 16, 262_200), 1 << 19);
    }

    #[test]
    fn every_chunk_has_a_mark_and_parts_do_not_overlap() {
        for shift in 16..=28 {
            let geometry = Geometry::new(1 << shift, 262_200.min(1 << shift));
            assert!(geometry.marks() <= MARKS_MAX as u64);
            assert_eq!(geometry.marks() << geometry.chunk_shift(), geometry.size());
            assert!(geometry.tail() >= MARKS + MARKS_MAX * MARK_BYTES);
            assert!(geometry.tail().is_multiple_of(page_size()));
            let end = geometry.data() as u64 + geometry.size() + geometry.slack();
            assert!(u64::from(geometry.value_size()) >= end);
        }
        const { assert!(SLOTS + SLOT_COUNT * SLOT_BYTES <= MARKS) };
    }
}
