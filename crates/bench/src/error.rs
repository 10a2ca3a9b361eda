//! Errors of experiments and their results.

use std::io;
use std::path::{Path, PathBuf};

/// An experiment that did not run, or whose results could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No experiment has that name.
    #[error("unknown experiment {0}")]
    Unknown(String),
    /// The machine lacks something.
    #[error("{experiment}: {reason}")]
    Needs {
        /// The experiment.
        experiment: String,
        /// The missing thing.
        reason: String,
    },
    /// An experiment failed.
    #[error("{experiment}: {reason}")]
    Failed {
        /// The experiment.
        experiment: String,
        /// The reason.
        reason: String,
    },
    /// These experiments of all failed.
    #[error("failed: {0}")]
    Some(String),
    /// Results cannot be shown.
    #[error("{0}")]
    Report(String),
    /// The folder has no results.
    #[error("{}: no results of experiments", .0.display())]
    NoResults(PathBuf),
    /// There are no results of the requested case or experiment.
    #[error("{}: no results of a case or an experiment called {only}", folder.display())]
    NoCase {
        /// The folder.
        folder: PathBuf,
        /// The text that selected it.
        only: String,
    },
    /// A file of results cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        r#source: io::Error,
    },
    /// A file of results is not in this program's format.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The problem in the file.
        r#source: serde_json::Error,
    },
}

impl Error {
    /// Adds the file's path to an I/O error.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }
}
