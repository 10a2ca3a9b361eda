//! The errors of a recording.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

use ringtap_savefile::{WriteError, WriteErrorKind};

/// A recording that could not start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file could not be created.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's error.
        r#source: io::Error,
        /// The number of packets in the earlier files, which are complete.
        earlier: u64,
    },
    /// The output failed. Everything that was written before is intact.
    #[error("{}: {source}", name_of(path))]
    Write {
        /// The file.
        path: PathBuf,
        /// The failure, and how much of the file is intact.
        r#source: WriteError,
        /// The number of packets in the earlier files, which are complete.
        earlier: u64,
    },
    /// The output is not a regular file, so no other file can follow it.
    #[error(
        "{}: is not a regular file, so no other file can follow it",
        name_of(path)
    )]
    NoRotation {
        /// The file.
        path: PathBuf,
    },
    /// The source has no interface, so the header of a pcap file cannot be written.
    #[error("{}: the input describes no interface; a pcap file needs a link type", path.display())]
    NoLinkType {
        /// The file.
        path: PathBuf,
    },
    /// The file is an input of the program.
    #[error("{}: is both read and written; writing would destroy it", path.display())]
    SameFile {
        /// The file.
        path: PathBuf,
    },
    /// The threads that compress and write could not be started.
    #[error("cannot start the writer: {source}")]
    Thread {
        /// The system's error.
        r#source: io::Error,
    },
}

impl RecordError {
    /// Returns the number of packets that are in the files although the recording failed, if the output is
    /// what failed.
    #[must_use]
    pub fn intact_packets(&self) -> Option<u64> {
        match self {
            Self::Create { earlier, .. } => Some(*earlier),
            Self::Write {
                source, earlier, ..
            } => match source.kind() {
                WriteErrorKind::Output { packets, .. } => Some(earlier + packets),
                _ => None,
            },
            _ => None,
        }
    }
}

fn name_of(path: &Path) -> Cow<'_, str> {
    match path.to_str() {
        Some("-") => Cow::Borrowed("standard output"),
        _ => path.to_string_lossy(),
    }
}

/// The result of a recording's calls.
pub type Result<T> = std::result::Result<T, RecordError>;
