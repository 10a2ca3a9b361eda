//! Errors that end a run, and its exit status.

use std::io;
use std::path::PathBuf;

use ringtap_capture::Error;
use ringtap_flow::OptionError;
use ringtap_flow_io::{OutputError, PlaceError};

use crate::input::InputError;
use crate::rights::RightsError;
use crate::setup::SetupError;

/// The unsuccessful end of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlowError {
    /// An option that has no effect here.
    #[error("{option} is for live captures; it cannot be used with -r")]
    LiveOnly { option: &'static str },
    /// The output would overwrite the input.
    #[error("{}: is both read and written; writing would destroy it", path.display())]
    SameFile { path: PathBuf },
    /// An invalid value.
    #[error(transparent)]
    Meter(#[from] OptionError),
    /// A source could not be opened, or failed.
    #[error("{}", crate::filter::describe(.0))]
    Capture(Error),
    /// An input file could not be opened.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Nanoseconds that no output of the run supports.
    #[error("--nano is for IPFIX: NetFlow v5 and v9 have times in milliseconds")]
    NanosInNetflow,
    /// An enterprise that no input or output of the run supports.
    #[error("--enterprise is for IPFIX: NetFlow v5 and v9 have no enterprise elements")]
    EnterpriseInNetflow,
    /// Processes and several threads.
    #[error("--who cannot be used with --threads: processes are metered by one thread")]
    WhoByThreads,
    /// Two names of one output file.
    #[error("{}: is written to already, as {}", path.display(), other.display())]
    WrittenTwice { path: PathBuf, other: PathBuf },
    /// Records cannot be sent, written or collected.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A database cannot be used.
    #[error(transparent)]
    Places(#[from] PlaceError),
    /// Printing failed.
    #[error("standard output: {0}")]
    Print(io::Error),
    /// Privileges could not be given up.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// Scheduling or signals could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl From<Error> for FlowError {
    fn from(error: Error) -> Self {
        Self::Capture(error)
    }
}

impl FlowError {
    /// Returns 2 for wrong usage, 1 for other errors.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::LiveOnly { .. }
            | Self::SameFile { .. }
            | Self::Meter(_)
            | Self::NanosInNetflow
            | Self::EnterpriseInNetflow
            | Self::WhoByThreads
            | Self::WrittenTwice { .. } => crate::exit::USAGE,
            Self::Output(error) if error.is_usage() => crate::exit::USAGE,
            Self::Capture(error) | Self::Input(InputError::Capture(error)) => {
                crate::exit::status_of(error)
            }
            Self::Rights(error) => error.status(),
            _ => 1,
        }
    }
}
