//! Errors that end a recorder or a question to it, and the exit status.

use std::io;
use std::path::{Path, PathBuf};

use ringtap_record::archive::ArchiveError;

use crate::exit::{Ends, RunError, USAGE};

/// The unsuccessful end of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecorderError {
    /// The budget is too small for the files.
    #[error(
        "--budget {given}: too small; {devices} interface{} and files of {file_size} bytes need at least {least} bytes",
        if *devices == 1 { "" } else { "s" }
    )]
    Budget {
        given: u64,
        least: u64,
        file_size: u64,
        devices: u64,
    },
    /// A device is given twice.
    #[error("-i {device}: is given twice")]
    Twice { device: String },
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
    /// Another recorder uses the folder.
    #[error("{}: another recorder uses this folder{}", folder.display(), process.map_or(String::new(), |id| format!(" (process {id})")))]
    Locked {
        folder: PathBuf,
        process: Option<u32>,
    },
    /// The folder or a file in it cannot be used.
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, r#source: io::Error },
    /// There is no recorder's catalogue.
    #[error("{}: no recorder has used this folder (it has no catalogue)", folder.display())]
    NoCatalogue { folder: PathBuf },
    /// Nobody takes requests.
    #[error("{}: no recorder runs in this folder", folder.display())]
    NotRunning { folder: PathBuf },
    /// The archive cannot be opened.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// Two triggers have different thresholds of one kind of alert.
    #[error("--trigger {name}: another trigger has a different threshold for `alert {kind}`")]
    Thresholds { name: String, kind: &'static str },
}

impl<E: Into<RunError>> From<E> for RecorderError {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl RecorderError {
    /// Returns the error of a folder, or of a file in it.
    pub(crate) fn folder(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Folder { path, source }
    }
}

impl Ends for RecorderError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Budget { .. } | Self::Twice { .. } | Self::Thresholds { .. } => USAGE,
            Self::Run(error) => error.exit_status(),
            _ => 1,
        }
    }
}
