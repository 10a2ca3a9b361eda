//! What a recording asks of the program that it is part of.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use ringtap_savefile::index::SeekPoint;
use ringtap_sys::output::{Access, Output};

/// The program's side of a recording: opens files, and takes over those that are complete.
///
/// It is called by the threads that write. [`Access`] is the plain form: files are opened with the rights of
/// the process, and nothing else is done with them.
pub trait Host: Send + Sync {
    /// Opens the file of that name for writing, or creates it; `-` is standard output.
    ///
    /// # Errors
    /// As open(2).
    fn open(&self, path: &Path) -> io::Result<Output>;

    /// Returns whether the program reads the file of that name, which then is not overwritten.
    fn reads(&self, path: &Path) -> bool {
        let _ = path;
        false
    }

    /// Returns whether [`Host::complete`] makes use of seek points.
    fn wants_seek_points(&self) -> bool {
        false
    }

    /// Takes over a file that is complete, with the places of a compressed file that it can be read from.
    fn complete(&self, path: PathBuf, seek_points: Vec<SeekPoint>) {
        let _ = (path, seek_points);
    }

    /// Takes notice of something that does not end the recording.
    fn note(&self, note: &Note) {
        let _ = note;
    }
}

impl Host for Access {
    fn open(&self, path: &Path) -> io::Result<Output> {
        Output::named(path, *self)
    }
}

/// Something that the user of a recording should know, in words by its `Display`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Note {
    /// There are as many files as were asked for.
    AllWritten {
        /// How many.
        files: u32,
    },
    /// A thread could not be bound to its processors.
    NotPlaced(ringtap_sys::Error),
    /// Packets have another time in the output than in the input, which had a fraction of a second or more.
    AlteredTimes {
        /// How many.
        packets: u64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AllWritten { files } => write!(f, "all {files} files are written"),
            Self::NotPlaced(error) => write!(f, "{error}; the writer runs where it may"),
            Self::AlteredTimes { packets } => write!(
                f,
                "{packets} packet{} with an invalid time (a fraction of a second or more): the output can't hold \
                 it, and has the time that it adds up to",
                if *packets == 1 { "" } else { "s" }
            ),
        }
    }
}
