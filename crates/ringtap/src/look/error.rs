//! Errors that end `top` and `web`, with their exit status.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use ringtap_flow::OptionError;
use ringtap_flow_io::{OutputError, PlaceError};

use crate::exit::{Ends, RunError, USAGE};

/// The end of a run that is not a success.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// An invalid value.
    #[error(transparent)]
    Meter(#[from] OptionError),
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
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
}

impl<E: Into<RunError>> From<E> for LookError {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl Ends for LookError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Meter(_) | Self::NoTerminal => USAGE,
            Self::Collect(error) if error.is_usage() => USAGE,
            Self::Run(error) => error.exit_status(),
            _ => 1,
        }
    }
}
