//! Errors that end `top` and `web`, with their exit status.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use ringtap_capture::Error;
use ringtap_flow::OptionError;
use ringtap_flow_io::{OutputError, PlaceError};

use crate::input::InputError;
use crate::rights::RightsError;
use crate::setup::SetupError;

/// The end of a run that is not a success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// An invalid value.
    #[error(transparent)]
    Meter(#[from] OptionError),
    /// A source could not be opened or has failed.
    #[error("{}", crate::filter::describe(.0))]
    Capture(Error),
    /// An input file could not be opened.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Records cannot be collected.
    #[error(transparent)]
    Collect(#[from] OutputError),
    /// The address is taken, or is not one of this host.
    #[error("--listen {address}: {source}")]
    Listen {
        address: SocketAddr,
        r#source: io::Error,
    },
    /// A file of the folder of `--dir` cannot be used.
    #[error("{}: {source}", path.display())]
    Folder { path: PathBuf, r#source: io::Error },
    /// The network namespace cannot be entered.
    #[error(transparent)]
    Netns(#[from] crate::cli::NetnsError),
    /// There is nobody who could look.
    #[error(
        "standard input and output must be a terminal; ringtap flow prints tables, ringtap web serves a browser"
    )]
    NoTerminal,
    /// The history of `--dir` cannot be used.
    #[error(transparent)]
    History(#[from] ringtap_look::StoreError),
    /// A database of addresses or vendors cannot be used.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A file of TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] crate::tls::TlsError),
    /// The folder of `--record` cannot be used.
    #[error(transparent)]
    Recorder(#[from] crate::record::RecorderError),
    /// Privileges could not be given up.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// Threads or signals could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl From<Error> for LookError {
    fn from(error: Error) -> Self {
        Self::Capture(error)
    }
}

impl LookError {
    /// Returns 2 for wrong usage, 1 for all else.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::Meter(_) | Self::NoTerminal => crate::exit::USAGE,
            Self::Collect(error) if error.is_usage() => crate::exit::USAGE,
            Self::Capture(error) | Self::Input(InputError::Capture(error)) => {
                crate::exit::status_of(error)
            }
            Self::Rights(error) => error.status(),
            _ => 1,
        }
    }
}
