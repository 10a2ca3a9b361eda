//! The interface between a recording and its program.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ringtap_savefile::index::SeekPoint;
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
