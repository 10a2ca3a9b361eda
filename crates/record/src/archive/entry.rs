//! The catalogue's entries, and its file: a header and entries of the same size, so that a reader finds each
//! entry although another is damaged, and reads while the recorder appends.
//!
//! All numbers are little-endian. The header has 64 bytes: the magic `RTCATLOG`, the version 1 (32 bits), and
//! zeros. It is written last: until then the catalogue is not valid. Each entry has 64 bytes:
//!
//! | bytes | content |
//! |---|---|
//! | 1 | kind: 1 a file begins, 2 a chunk, 3 a file ends, 4 a file is gone, 5 packets were cut |
//! | 1 | flags |
//! | 2 | zeros |
//! | 4 | checksum: the lower half of XXH64 of the entry with zeros here |
//! | 4 | number of the file |
//! | 52 | content by kind |
//!
//! - **File**: time of the first packet (64), device (44 bytes, zeros at its end); flag 1: compressed.
//! - **Chunk**: first and last time (64 each), offset in the file (64), size in the file (32), offset before
//!   compression (64), size before it (32), packets (32), XXH64 of the stored bytes (64); flag 1: it has blocks
//!   that readers need for the packets of other chunks; flag 2: its times are not known.
//! - **End**: size of the file (64), packets (64), first and last time (64 each), bytes before compression (64);
//!   flag 1: not all of its chunks are listed; flag 2: its times are not known.
//! - **Gone**: nothing; flags hold the reason ([`Reason`]).
//! - **Cut**: first and last time (64 each), packets (64), their bytes on the wire (64).
//!
//! Times are in nanoseconds since the epoch.

use std::io::{self, Read};

use ringtap_savefile::BlockSummary;

use super::name::{DEVICE, FileName, nanos};
use crate::checksum;
use crate::host::WrittenChunk;

/// The size of an entry and of the header, in bytes.
pub(crate) const ENTRY: usize = 64;
/// The bytes of an entry that depend on its kind.
const CONTENT: usize = ENTRY - 12;
const MAGIC: [u8; 8] = *b"RTCATLOG";
const VERSION: u32 = 1;

/// An entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry {
    /// A file begins.
    File(FileName),
    /// A file has another chunk.
    Chunk(Chunk),
    /// A file is complete.
    End(End),
    /// A file was removed.
    Gone {
        /// Its number.
        file: u32,
        /// The reason.
        reason: Reason,
    },
    /// Packets were left out on purpose while a file was written.
    Cut {
        /// The number of the file.
        file: u32,
        /// The times of the earliest and the latest of them.
        times: (i64, i64),
        /// Their sums.
        cut: Cut,
    },
}

/// Sums of packets that were left out on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Cut {
    /// Adds other packets.
    pub fn add(&mut self, other: Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A chunk of a file, which can be read alone after the file's header chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The number of its file.
    pub file: u32,
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// Its size in the file, in bytes.
    pub len: u32,
    /// Its offset before compression, in bytes.
    pub base: u64,
    /// Its size before compression, in bytes.
    pub base_len: u32,
    /// The number of its packets.
    pub packets: u32,
    /// The times of its earliest and its latest packet. `None` if they are not known.
    pub times: Option<(i64, i64)>,
    /// XXH64 of its bytes in the file.
    pub checksum: u64,
    /// Whether it has blocks that readers need for the packets of other chunks.
    pub describes: bool,
}

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The number of the file.
    pub file: u32,
    /// Its size, in bytes.
    pub bytes: u64,
    /// Its size before compression, in bytes.
    pub base: u64,
    /// The number of its packets; 0 if they are not known.
    pub packets: u64,
    /// The times of its earliest and its latest packet. `None` if they are not known.
    pub times: Option<(i64, i64)>,
    /// Whether the catalogue has all of its chunks. Otherwise the file must be read as a whole.
    pub is_listed: bool,
}

/// Why a file was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was the oldest when the budget was used up.
    Budget,
    /// It was older than the maximum age.
    Age,
    /// It was the oldest when too little of the disk was free.
    Free,
    /// It was missing when the recorder started.
    Missing,
    /// It held no packet.
    Empty,
}

impl Reason {
    const ALL: [Self; 5] = [
        Self::Budget,
        Self::Age,
        Self::Free,
        Self::Missing,
        Self::Empty,
    ];
}

const UNKNOWN_TIMES: u8 = 2;

impl Chunk {
    /// Returns the entry of a chunk that was written. `None` if it is larger than a chunk may be.
    pub(crate) fn of(file: u32, written: &WrittenChunk) -> Option<Self> {
        let BlockSummary {
            packets,
            times,
            describes,
        } = written.summary;
        Some(Self {
            file,
            offset: written.offset,
            len: u32::try_from(written.len).ok()?,
            base: written.base,
            base_len: u32::try_from(written.base_len).ok()?,
            packets: u32::try_from(packets).ok()?,
            times: times.map(|(first, last)| (nanos(first), nanos(last))),
            checksum: written.checksum,
            describes,
        })
    }

    /// Returns the offset in the file after the chunk.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len.into())
    }
}

impl Entry {
    /// Returns the number of the file.
    #[must_use]
    pub fn file(&self) -> u32 {
        match self {
            Self::File(name) => name.number,
            Self::Chunk(chunk) => chunk.file,
            Self::End(end) => end.file,
            Self::Gone { file, .. } | Self::Cut { file, .. } => *file,
        }
    }

    /// Returns the stored form.
    pub(crate) fn to_bytes(&self) -> [u8; ENTRY] {
        let mut put = Vec::with_capacity(CONTENT);
        let (kind, flags) = match self {
            Self::File(name) => {
                put.extend(name.begun.to_le_bytes());
                put.extend(name.device.as_bytes());
                (1, u8::from(name.compressed))
            }
            Self::Chunk(chunk) => {
                put_times(&mut put, chunk.times);
                put.extend(chunk.offset.to_le_bytes());
                put.extend(chunk.len.to_le_bytes());
                put.extend(chunk.base.to_le_bytes());
                put.extend(chunk.base_len.to_le_bytes());
                put.extend(chunk.packets.to_le_bytes());
                put.extend(chunk.checksum.to_le_bytes());
                (2, u8::from(chunk.describes) | unknown(chunk.times))
            }
            Self::End(end) => {
                put.extend(end.bytes.to_le_bytes());
                put.extend(end.packets.to_le_bytes());
                put_times(&mut put, end.times);
                put.extend(end.base.to_le_bytes());
                (3, u8::from(!end.is_listed) | unknown(end.times))
            }
            Self::Gone { reason, .. } => {
                let place = Reason::ALL.iter().position(|one| one == reason);
                (4, u8::try_from(place.unwrap_or(0)).unwrap_or(0))
            }
            Self::Cut { times, cut, .. } => {
                put_times(&mut put, Some(*times));
                put.extend(cut.packets.to_le_bytes());
                put.extend(cut.bytes.to_le_bytes());
                (5, 0)
            }
        };
        put.resize(CONTENT, 0);
        let mut bytes = [0; ENTRY];
        (bytes[0], bytes[1]) = (kind, flags);
        bytes[8..12].copy_from_slice(&self.file().to_le_bytes());
        bytes[12..].copy_from_slice(&put);
        let sum = half(checksum(&bytes));
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses an entry. `None` if it is damaged or of an unknown kind.
    pub(crate) fn parse(stored: &[u8; ENTRY]) -> Option<Self> {
        let mut bytes = *stored;
        let sum = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        bytes[4..8].fill(0);
        if half(checksum(&bytes)) != sum {
            return None;
        }
        let (kind, flags) = (bytes[0], bytes[1]);
        let file = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let mut take = Take(bytes.get(12..)?);
        let known = flags & UNKNOWN_TIMES == 0;
        Some(match kind {
            1 => {
                let begun = take.i64()?;
                let device = take.0.split(|byte| *byte == 0).next()?;
                let device = std::str::from_utf8(device).ok()?;
                // It becomes a part of a path.
                let is_safe = device == super::name::safe(device);
                Self::File(FileName {
                    begun,
                    number: file,
                    device: Some(device).filter(|_| is_safe)?.to_owned(),
                    compressed: flags & 1 != 0,
                })
            }
            2 => Self::Chunk(Chunk {
                file,
                times: Some(take.times()?).filter(|_| known),
                offset: take.u64()?,
                len: take.u32()?,
                base: take.u64()?,
                base_len: take.u32()?,
                packets: take.u32()?,
                checksum: take.u64()?,
                describes: flags & 1 != 0,
            }),
            3 => Self::End(End {
                file,
                bytes: take.u64()?,
                packets: take.u64()?,
                times: Some(take.times()?).filter(|_| known),
                base: take.u64()?,
                is_listed: flags & 1 == 0,
            }),
            4 => Self::Gone {
                file,
                reason: *Reason::ALL.get(usize::from(flags))?,
            },
            5 => Self::Cut {
                file,
                times: take.times()?,
                cut: Cut {
                    packets: take.u64()?,
                    bytes: take.u64()?,
                },
            },
            _ => return None,
        })
    }
}

fn half(sum: u64) -> u32 {
    u32::try_from(sum & 0xffff_ffff).unwrap_or(0)
}

fn unknown(times: Option<(i64, i64)>) -> u8 {
    if times.is_none() { UNKNOWN_TIMES } else { 0 }
}

fn put_times(put: &mut Vec<u8>, times: Option<(i64, i64)>) {
    let (first, last) = times.unwrap_or_default();
    put.extend(first.to_le_bytes());
    put.extend(last.to_le_bytes());
}

struct Take<'a>(&'a [u8]);

impl Take<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn times(&mut self) -> Option<(i64, i64)> {
        Some((self.i64()?, self.i64()?))
    }
}

/// Returns the header of a catalogue.
pub(crate) fn header() -> [u8; ENTRY] {
    let mut header = [0; ENTRY];
    header[..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header
}

/// Reads a catalogue from its beginning, while a recorder may append to it.
pub struct Entries<R> {
    stream: R,
    damaged: u64,
}

impl<R: Read> Entries<R> {
    /// Reads the header. `None` if it is not that of a valid catalogue.
    ///
    /// # Errors
    /// Reading failed.
    pub fn new(mut stream: R) -> io::Result<Option<Self>> {
        let mut start = [0; ENTRY];
        let is_whole = fill(&mut stream, &mut start)?;
        Ok((is_whole && start == header()).then_some(Self { stream, damaged: 0 }))
    }

    /// Returns the next entry that is not damaged. `None` at the end.
    ///
    /// # Errors
    /// Reading failed.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator of results would hide the end"
    )]
    pub fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut bytes = [0; ENTRY];
        while fill(&mut self.stream, &mut bytes)? {
            if let Some(entry) = Entry::parse(&bytes) {
                return Ok(Some(entry));
            }
            self.damaged += 1;
        }
        Ok(None)
    }

    /// Returns the number of damaged entries so far.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged
    }
}

/// Reads a whole entry. Returns false if the stream ends before.
fn fill(stream: &mut impl Read, bytes: &mut [u8; ENTRY]) -> io::Result<bool> {
    match stream.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

const _: () = assert!(DEVICE <= CONTENT - 8, "the longest name fits");

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let chunk = Chunk {
            file: 7,
            offset: 6,
            len: 1000,
            base: 0,
            base_len: 4000,
            packets: 12,
            times: Some((-5, i64::MAX)),
            checksum: u64::MAX,
            describes: true,
        };
        let end = End {
            file: 7,
            bytes: 1 << 40,
            base: 1 << 41,
            packets: 12,
            times: None,
            is_listed: false,
        };
        vec![
            Entry::File(FileName {
                begun: 1,
                number: 7,
                device: "a".repeat(DEVICE),
                compressed: true,
            }),
            Entry::Chunk(chunk),
            Entry::Chunk(Chunk {
                times: None,
                describes: false,
                ..chunk
            }),
            Entry::End(end),
            Entry::End(End {
                times: Some((1, 2)),
                is_listed: true,
                ..end
            }),
            Entry::Gone {
                file: u32::MAX,
                reason: Reason::Empty,
            },
            Entry::Cut {
                file: 7,
                times: (i64::MIN, 3),
                cut: Cut {
                    packets: 5,
                    bytes: u64::MAX,
                },
            },
        ]
    }

    #[test]
    fn entries_are_read_as_they_were_written() {
        let mut file = header().to_vec();
        entries()
            .iter()
            .for_each(|entry| file.extend(entry.to_bytes()));
        // The last one is being written.
        file.extend_from_slice(&entries()[0].to_bytes()[..30]);
        let mut read = Entries::new(&file[..]).unwrap().unwrap();
        let mut found = Vec::new();
        while let Some(entry) = read.next().unwrap() {
            found.push(entry);
        }
        assert_eq!(found, entries());
        assert_eq!(read.damaged(), 0);
    }

    #[test]
    fn damage_costs_its_entry_alone() {
        let all = entries();
        for at in 0..all.len() * ENTRY {
            let mut file = header().to_vec();
            all.iter().for_each(|entry| file.extend(entry.to_bytes()));
            file[ENTRY + at] ^= 0x10;
            let mut read = Entries::new(&file[..]).unwrap().unwrap();
            let mut found = Vec::new();
            while let Some(entry) = read.next().unwrap() {
                found.push(entry);
            }
            let mut expected = all.clone();
            expected.remove(at / ENTRY);
            assert_eq!((found, read.damaged()), (expected, 1), "byte {at}");
        }
        let mut header = header().to_vec();
        header[0] = 0;
        assert!(Entries::new(&header[..]).unwrap().is_none());
        assert!(Entries::new(&b"RTCAT"[..]).unwrap().is_none());
    }
}
