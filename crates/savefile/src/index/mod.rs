//! The index of a capture file: the contents of its stretches, so that a search can skip most of
//! them.
//!
//! An index is a file beside the capture. Each [`Entry`] describes a stretch of some hundred
//! kilobytes of consecutive packet records. It holds the stretch's place, the times of its packets,
//! and their addresses and ports ([`Keys`]). Bytes without an entry, such as a pcapng file's other
//! blocks and small stretches between them, are read by every search. So the file is still valid
//! when stretches are left out ([`crate::Reader::skipping`]).
//!
//! An index is used only if it was finished, belongs to the file in its present state ([`Stamp`])
//! and is undamaged (each part has a checksum). Like any input it is not trusted: lengths are
//! bounded, and stretches must be in order and within the file. But it is trusted that stretches
//! begin and end at records, and that their keys are right. An attacker who can forge an index with
//! its checksums can hide packets from a search, like one who can write to the capture.
//!
//! # Layout
//!
//! All numbers are little-endian. The header has 64 bytes:
//!
//! - the magic `RTINDEX` and the version 1;
//! - the length of the capture (64 bits);
//! - its modification time: seconds (64), nanoseconds (32), and 32 zero bits;
//! - XXH64 of its first 4096 bytes (64);
//! - the number of entries (64), and that of the packets in them (64);
//! - XXH64 of all these bytes (64).
//!
//! The header is written last: until then it holds only the magic.
//!
//! The entries follow, each with the length of its body (32 bits), XXH64 of the body, and the body:
//!
//! - offset and length of the stretch in the uncompressed capture, and its number of packets (64
//!   each);
//! - first and last time: seconds (64) and nanoseconds (32);
//! - for a compressed capture, the last place at or before the stretch where reading can begin: its
//!   offsets in the compressed and in the uncompressed file (64 each, all ones if unknown). This is
//!   the start of a member or frame, or of a chunk in a frame of separate chunks
//!   ([`crate::Codec`]);
//! - three sets (IPv4, IPv6, ports), each with a kind (8), a length in bytes (32) and the bytes.
//!
//! Small sets are sorted lists. Others are split-block Bloom filters (blocks of 256 bits, of which
//! a key sets 8) with up to 12 bits per key, and a false-positive rate of 1 % or less. If many keys
//! share the room, there are as few as 4 bits per key (15 %). With less than that, no set is
//! stored, and the stretch is always read. All sets of a stretch together take at most 1/128 of its
//! size.

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
/// The largest size of an entry: larger than any that is written.
const MAX_ENTRY: usize = 1 << 20;
/// Bytes of the capture's beginning that the index holds a checksum of.
const HEAD: usize = 4096;

/// Returns the path of a capture's index: the capture's, with `.idx` appended.
#[must_use]
pub fn path_for(capture: &Path) -> PathBuf {
    let mut name = OsString::from(capture);
    name.push(".idx");
    name.into()
}

/// Returns whether a file that begins with these bytes is an index, finished or not.
#[must_use]
pub fn is_index(start: &[u8]) -> bool {
    start.starts_with(&MAGIC)
}

/// Identifies a capture file in its present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: Timestamp,
    head: u64,
}

impl Stamp {
    /// Returns the stamp of an open file.
    ///
    /// # Errors
    /// The file or its metadata cannot be read.
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

    /// Returns whether `now` is the stamp of the same unchanged file. If its time has no
    /// nanoseconds, only seconds are compared, because many archives keep only these.
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

/// Takes numbers from the beginning of bytes.
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
