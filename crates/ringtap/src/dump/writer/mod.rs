//! From the packets' records to files: directly, or through a queue of chunks.
//!
//! ```text
//! capture threads ─▶ chunk that grows ─▶ bounded queue ─▶ compression threads ─▶ writer ─▶ files
//! ```
//!
//! A **chunk** is a stretch of one file's bytes before compression, about [`CHUNK`] long. It begins
//! with a whole record (the first of a file with the file's header) and ends with one. It is what is
//! compressed alone, what a reader may begin at, and what a crash leaves whole or not at all. Chunks
//! are cut when they are long enough, when a file ends, and once a second ([`FLUSH`]).
//!
//! Memory is bounded: who wants to add to a full queue waits, so that packets that no disk can take
//! are lost in the ring, where they are counted, and nowhere else. Nothing is allocated for a chunk
//! once the queue has been full.

mod buffer;
mod disk;
mod queue;
mod threads;

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use queue::{Failure, Gauge, Queue, QueueSettings, Whole};

/// Bytes of a chunk before compression.
pub(crate) const CHUNK: usize = 1 << 20;
/// Bytes by which a chunk may be longer before memory has to grow: a block of a ring.
pub(crate) const SLACK: usize = 512 << 10;
/// Chunks are on their way to the file after this time at the latest.
const FLUSH: Duration = Duration::from_secs(1);

/// What the writer of a format writes to.
pub(crate) enum Target {
    /// The file.
    Direct(File),
    /// The queue that leads to it.
    Queued(Arc<Queue>),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write(bytes),
            Self::Queued(queue) => queue.append(&[IoSlice::new(bytes)]),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Direct(file) => file.write_vectored(slices),
            Self::Queued(queue) => queue.append(slices),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
