//! What can go wrong with an experiment and its results.

use std::io;
use std::path::{Path, PathBuf};

/// An experiment that did not take place, or whose results could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No experiment has that name.
    #[error("no experiment is called {0}")]
    Unknown(String),
    /// The machine lacks something.
    #[error("{experiment}: {reason}")]
    Needs {
        /// The experiment.
        experiment: String,
        /// What is lacking.
        reason: String,
    },
    /// Something went wrong while it ran.
    #[error("{experiment}: {reason}")]
    Failed {
        /// The experiment.
        experiment: String,
        /// What went wrong.
        reason: String,
    },
    /// Of all experiments, these failed.
    #[error("failed: {0}")]
    Some(String),
    /// Results cannot be shown.
    #[error("{0}")]
    Report(String),
    /// A folder in which nothing was measured.
    #[error("{}: no results of experiments", .0.display())]
    NoResults(PathBuf),
    /// What is to be shown was not measured.
    #[error("{}: no results of a case or an experiment called {only}", folder.display())]
    NoCase {
        /// Where it was looked for.
        folder: PathBuf,
        /// What was asked for.
        only: String,
    },
    /// A file of results cannot be written or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        r#source: io::Error,
    },
    /// A file of results is not what this program writes.
    #[error("{}: {source}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        r#source: serde_json::Error,
    },
}

impl Error {
    /// Makes an I/O error one that names its file.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Io { path, source }
    }
}
