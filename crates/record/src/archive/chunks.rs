//! Reads chunks of a file, and nothing else of it: the header, then those that are wanted. The result is a
//! valid capture, since chunks do not refer to one another.
//!
//! Each chunk is compared with its checksum. One that is damaged is left out and counted.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringtap_savefile::Codec;

use super::entry::Chunk;
use super::name::FileName;
use crate::checksum;

/// The largest chunk that is read, in bytes: larger than any that is written.
const LARGEST: u32 = 64 << 20;

/// The codec of compressed files, as far as reading needs it.
pub(super) const CODEC: Codec = Codec::Zstd(1);

/// The numbers of a file that is being read.
#[derive(Debug, Default)]
pub struct ChunkCounts {
    /// The number of chunks that were read.
    pub chunks: AtomicU64,
    /// The bytes of them in the file.
    pub bytes: AtomicU64,
    /// The number of chunks that are damaged.
    pub damaged: AtomicU64,
    /// The packets in them.
    pub damaged_packets: AtomicU64,
}

/// Chosen chunks of a file as a stream.
pub struct ChunkReader {
    file: File,
    waiting: VecDeque<Chunk>,
    /// The bytes that come next, and how many of them were taken.
    current: Vec<u8>,
    taken: usize,
    /// The bytes after the last chunk.
    end: &'static [u8],
    counts: Arc<ChunkCounts>,
}

impl ChunkReader {
    /// Reads these chunks of a file, in ascending order, the one with the file's header first.
    #[must_use]
    pub fn new(file: File, name: &FileName, chunks: Vec<Chunk>, counts: Arc<ChunkCounts>) -> Self {
        let (begin, end): (&[u8], &[u8]) = match name.compressed {
            true => (CODEC.begin(), CODEC.end()),
            false => (&[], &[]),
        };
        Self {
            file,
            waiting: chunks.into(),
            current: begin.to_vec(),
            taken: 0,
            end,
            counts,
        }
    }

    /// Reads the next chunk that is not damaged. Returns false if there is none.
    fn advance(&mut self) -> io::Result<bool> {
        self.taken = 0;
        while let Some(chunk) = self.waiting.pop_front() {
            if read_chunk(&self.file, &chunk, &mut self.current)? {
                let add =
                    |counter: &AtomicU64, number| counter.fetch_add(number, Ordering::Relaxed);
                add(&self.counts.chunks, 1);
                add(&self.counts.bytes, u64::from(chunk.len));
                return Ok(true);
            }
            self.counts.damaged.fetch_add(1, Ordering::Relaxed);
            let packets = u64::from(chunk.packets);
            self.counts
                .damaged_packets
                .fetch_add(packets, Ordering::Relaxed);
        }
        self.current.clear();
        self.current
            .extend_from_slice(std::mem::take(&mut self.end));
        Ok(!self.current.is_empty())
    }
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self.current.get(self.taken..).unwrap_or_default();
            if !rest.is_empty() {
                let count = rest.len().min(buffer.len());
                buffer[..count].copy_from_slice(&rest[..count]);
                self.taken += count;
                return Ok(count);
            }
            if !self.advance()? {
                return Ok(0);
            }
        }
    }
}

/// Reads a chunk. Returns false if it is not what was written.
///
/// # Errors
/// Reading failed, except that a place of the disk cannot be read: that is damage.
pub(super) fn read_chunk(file: &File, chunk: &Chunk, bytes: &mut Vec<u8>) -> io::Result<bool> {
    /// The error of a disk that cannot read a place (`EIO`).
    const UNREADABLE: i32 = 5;
    bytes.clear();
    if chunk.len > LARGEST {
        return Ok(false);
    }
    bytes.resize(chunk.len as usize, 0);
    match file.read_exact_at(bytes, chunk.offset) {
        Ok(()) => Ok(checksum(bytes) == chunk.checksum),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) if error.raw_os_error() == Some(UNREADABLE) => Ok(false),
        Err(error) => Err(error),
    }
}
