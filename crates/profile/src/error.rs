//! Errors of profiling.

use std::path::{Path, PathBuf};

use ringtap_send::SendError;
use ringtap_sys::netlink;

/// The reason why there is no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The capture could not be opened or failed.
    #[error(transparent)]
    Capture(#[from] ringtap_capture::Error),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] ringtap_sys::Error),
    /// A BPF call failed.
    #[error(transparent)]
    Bpf(#[from] ringtap_sys::bpf::Error),
    /// An interface could not be queried or created.
    #[error("{device}: {source}")]
    Interface {
        /// The interface.
        device: String,
        /// The reason.
        r#source: netlink::Error,
    },
    /// The wire for generated packets could not be created.
    #[error(transparent)]
    Wire(#[from] ringtap_lab::netns::WireError),
    /// Traffic could not be generated.
    #[error("generating traffic: {0}")]
    Traffic(SendError),
    /// A setting of the interface could not be changed.
    #[error("{}: {source}", path.display())]
    Setting {
        /// The file.
        path: PathBuf,
        /// The reason.
        r#source: std::io::Error,
    },
    /// An offload of the interface could not be switched.
    #[error("{device}: {source}")]
    Offload {
        /// The interface.
        device: String,
        /// The reason.
        r#source: ringtap_sys::Error,
    },
    /// `/sys` belongs to another network namespace than the interface.
    #[error("{} is not of the interface's network namespace", path.display())]
    Elsewhere {
        /// The folder.
        path: PathBuf,
    },
    /// A thread ended by a panic.
    #[error("the {0} thread failed")]
    Thread(&'static str),
    /// An earlier profile cannot be read.
    #[error("cannot read the profile {}: {source}", path.display())]
    Baseline {
        /// The file.
        path: PathBuf,
        /// The reason.
        r#source: std::io::Error,
    },
    /// An earlier profile has another format.
    #[error("{} is not a profile of ringtap: {source}", path.display())]
    NotAProfile {
        /// The file.
        path: PathBuf,
        /// The place and the reason.
        r#source: serde_json::Error,
    },
    /// A profile of earlier is of another version.
    #[error("{} has format version {found}; {expected} is supported", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that can be read.
        expected: u32,
    },
    /// The chart cannot be drawn.
    #[error("cannot draw the chart: {0}")]
    Chart(String),
}

/// The result type of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Adds the path of a setting's file to an I/O error.
    pub(crate) fn setting(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        |source| Self::Setting { path, source }
    }
}

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        Self::Traffic(error)
    }
}
