//! Errors that end a run, and its exit status.

use std::path::PathBuf;

use ringtap_flow::OptionError;
use ringtap_flow_io::{OutputError, PlaceError};

use crate::exit::{Ends, RunError, USAGE};

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
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
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
}

impl<E: Into<RunError>> From<E> for FlowError {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl Ends for FlowError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::LiveOnly { .. }
            | Self::SameFile { .. }
            | Self::Meter(_)
            | Self::NanosInNetflow
            | Self::EnterpriseInNetflow
            | Self::WhoByThreads
            | Self::WrittenTwice { .. } => USAGE,
            Self::Output(error) if error.is_usage() => USAGE,
            Self::Run(error) => error.exit_status(),
            _ => 1,
        }
    }
}
