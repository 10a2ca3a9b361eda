//! The interface between a recording and its program.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ringtap_savefile::index::SeekPoint;
use ringtap_savefile::{BlockSummary, Timestamp};
use ringtap_sys::output::{Access, Output};

/// Opens files for a recording, and takes over complete files.
///
/// The writing threads call it. [`Access`] is the plain implementation: it opens files with the privileges of
/// the process, and does nothing else.
pub trait Host: Send + Sync {
    /// Opens the file with this name for writing, or creates it. `-` is standard output.
    ///
    /// # Errors
    /// The same errors as open(2).
    fn open(&self, path: &Path) -> io::Result<Output>;

    /// Returns whether the program reads the file with this name, which is then not overwritten.
    fn reads(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// Returns the name of the next file, whose first packet has that time. `None` for the name that the
    /// recording's own name and plan give.
    fn name(&self, time: Timestamp) -> Option<PathBuf> {
        let _ = time;
        None
    }

    /// Allows a file on a disk to grow to `end` bytes, space reserved ahead included. It is called before the
    /// file takes that space.
    ///
    /// # Errors
    /// There is no space: the write fails with this error.
    fn admit(&self, path: &Path, end: u64) -> io::Result<()> {
        let _ = (path, end);
        Ok(())
    }

    /// Returns whether [`Host::landed`] uses chunks. Then the header of a file is a chunk of its own.
    fn wants_chunks(&self) -> bool {
        false
    }

    /// Takes note of a chunk that the file now holds completely. Only in files with a queue.
    fn landed(&self, path: &Path, chunk: &WrittenChunk) {
        let _ = (path, chunk);
    }

    /// Returns whether [`Host::complete`] uses seek points.
    fn wants_seek_points(&self) -> bool {
        false
    }

    /// Takes over a complete file. For a compressed file, `points` are the offsets at which reading can
    /// start.
    fn complete(&self, path: PathBuf, seek_points: Vec<SeekPoint>) {
        let _ = (path, seek_points);
    }

    /// Takes a notice that does not end the recording.
    fn note(&self, note: &Note) {
        let _ = note;
    }
}

impl Host for Access {
    fn open(&self, path: &Path) -> io::Result<Output> {
        Output::named(path, *self)
    }
}

/// A chunk of a file: complete blocks that were compressed alone and can be read alone, after the codec's
/// header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenChunk {
    /// Its offset in the file, in bytes.
    pub offset: u64,
    /// Its size in the file, in bytes.
    pub len: u64,
    /// Its offset before compression, in bytes.
    pub base: u64,
    /// Its size before compression, in bytes.
    pub base_len: u64,
    /// XXH64 of its bytes in the file.
    pub checksum: u64,
    /// Its contents.
    pub summary: BlockSummary,
}

/// A notice for the user of a recording. Its `Display` is the text.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// The maximum number of files has been reached.
    AllWritten {
        /// The number of files.
        files: u32,
    },
    /// A thread could not be bound to its processors.
    NotPlaced(ringtap_sys::Error),
    /// Packets whose time in the output differs from the input, by a fraction of a second or more.
    AlteredTimes {
        /// The number of packets.
        packets: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllWritten { files } => write!(f, "all {files} files are written"),
            Self::NotPlaced(error) => write!(f, "{error}; the writer runs on any processor"),
            Self::AlteredTimes { packets } => write!(
                f,
                "{packets} packet{} with an invalid time (a fraction of a second or more): the output can't hold \
                 it, and has the time that it adds up to",
                if *packets == 1 { "" } else { "s" }
            ),
        }
    }
}
