//! The index of a capture file: what its stretches hold, so that a search can pass over most of
//! them.
//!
//! An index is a file beside the capture. Each [`Entry`] is about a stretch of packet records, some
//! hundred kilobytes, which lie behind one another without anything between them: where it lies, when
//! its packets were captured, and which addresses and ports are in them ([`Keys`]). What no entry
//! covers (a pcapng file's other blocks, small stretches between them) is read by every search, so
//! that leaving out stretches leaves a file that is whole ([`crate::Reader::skipping`]).
//!
//! An index is only believed when it was finished, belongs to the file as it is now ([`Stamp`]) and
//! is undamaged (each part has a checksum). It is input from outside like any other: its lengths are
//! bounded, its stretches in order and within the file. That its stretches begin and end where
//! records do, and what is in them, is its word; who can forge an index with its checksums can hide
//! packets from a search, as who can write the capture can.
//!
//! # Layout
//!
//! All numbers are little-endian. A header of 64 bytes: the magic `RTINDEX` and the version 1; length
//! of the capture, modification time in seconds and nanoseconds, XXH64 of its first 4096 bytes, the
//! number of entries and that of the packets in them (64 bits each, but the nanoseconds 32, and 32
//! zero bits behind them); XXH64 of all that. It is written last: until then
//! there is nothing but the magic.
//!
//! Then the entries, each with the length of its body (32 bits), XXH64 of the body, and the body:
//! offset and length of the stretch in the uncompressed capture and its packets (64 bits each); first
//! and last time, seconds (64) and nanoseconds (32); for a compressed capture where the last member
//! or frame, or chunk of a frame that has its chunks one by one
//! ([`crate::Codec`]), at or before the stretch begins in the compressed file and what offset in the
//! uncompressed one that is (64 each, all ones if unknown); three sets (IPv4, IPv6, ports), each a
//! kind (8 bits), a length in bytes (32) and the bytes.
//!
//! Sets are sorted lists where these are small enough. Otherwise they are split-block Bloom filters
//! (blocks of 256 bits, 8 of them set by a key) with up to 12 bits a key, of which 1 % and less are
//! found that are not there; down to 4 bits a key (15 %) where many keys have to share the room, and
//! nothing where that is too little: then the stretch is always read. All sets of a stretch together
//! take at most a 128th part of it.

mod entry;
mod read;
mod set;
mod skips;
mod write;

use std::ffi::OsString;
use std::fs::File;
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use twox_hash::XxHash64;

use crate::Timestamp;

pub use entry::{Entry, SeekPoint};
pub use read::{IndexError, IndexReader};
pub use set::{Collector, Keys, Set, Wanted};
pub use skips::Skips;
pub(crate) use skips::{SkippingFile, SkippingStream};
pub use write::IndexWriter;

const MAGIC: [u8; 7] = *b"RTINDEX";
const VERSION: u8 = 1;
const HEADER: usize = 64;
/// Length and checksum before an entry.
const ENTRY_HEADER: usize = 12;
/// The most that an entry may take: more than any that is written.
const MAX_ENTRY: usize = 1 << 20;
/// Bytes of the capture's beginning that the index knows a checksum of.
const HEAD: usize = 4096;

/// The name of a capture's index: that of the capture with `.idx` behind it.
#[must_use]
pub fn path_for(capture: &Path) -> PathBuf {
    let mut name = OsString::from(capture);
    name.push(".idx");
    name.into()
}

/// Whether a file that begins so is an index, finished or not.
#[must_use]
pub fn is_index(start: &[u8]) -> bool {
    start.starts_with(&MAGIC)
}

/// What tells a capture file, as it is now, from others and from itself at other times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: Timestamp,
    head: u64,
}

impl Stamp {
    /// The stamp of an open file.
    ///
    /// # Errors
    /// It can't be asked or read.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mut head = vec![0; HEAD];
        let mut filled = 0;
        while filled < HEAD {
            match file.read_at(&mut head[filled..], filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
        Ok(Self {
            len: metadata.len(),
            modified: Timestamp::new(metadata.mtime(), nanos),
            head: checksum(&head[..filled]),
        })
    }

    /// Whether that is the file that `self` was taken of, unchanged. What keeps times in seconds
    /// only (many an archive) does not make it another.
    fn is_of(&self, now: &Self) -> bool {
        let (then, seen) = (self.modified, now.modified);
        let same_time = then == seen || (seen.subsec_nanos() == 0 && then.secs() == seen.secs());
        self.len == now.len && self.head == now.head && same_time
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(bytes);
    hasher.finish()
}

/// Takes numbers from the front of bytes.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.first_chunk().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Timestamp> {
        let secs = self.array().map(i64::from_le_bytes)?;
        let nanos = self.u32()?;
        (nanos < 1_000_000_000).then(|| Timestamp::new(secs, nanos))
    }
}

fn put_time(to: &mut Vec<u8>, time: Timestamp) {
    to.extend(time.secs().to_le_bytes());
    to.extend(time.subsec_nanos().to_le_bytes());
}
