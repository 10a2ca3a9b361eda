//! The reasons why sending ended.

use ringtap_send::SendError;

use crate::exit;
use crate::rights::RightsError;
use crate::setup::SetupError;

/// A failed `ringtap send` or `ringtap gen`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("packet {index}: {error}")]
    At { index: u64, error: SendError },
    #[error(transparent)]
    Input(#[from] crate::input::InputError),
    #[error("{}", crate::filter::describe(.0))]
    Capture(ringtap_capture::Error),
    #[error("{device}: {hazard}; sending more than {limit} packets per second there needs --yes")]
    Consent {
        device: String,
        hazard: String,
        limit: u64,
    },
    #[error("none of the packets is of link type {expected}, which {device} takes")]
    LinkType { device: String, expected: String },
    #[error("--cpu: cannot run on these processors: {0}")]
    Processor(ringtap_sys::Error),
    #[error(transparent)]
    Rights(#[from] RightsError),
    #[error(transparent)]
    Setup(#[from] SetupError),
    #[error("specify --count or --duration, or at the other end --receive")]
    NoAmount,
    #[error(
        "--gso: packets of several sizes or flows cannot be joined; specify one --size and --flows 1"
    )]
    Mixed,
    #[error("{name} can be read only once, not {times} times")]
    Again { name: String, times: String },
}

impl From<ringtap_capture::Error> for Failure {
    fn from(error: ringtap_capture::Error) -> Self {
        Self::Capture(error)
    }
}

impl Failure {
    /// Returns the exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Send(SendError::UnknownBackEnd { .. } | SendError::Value { .. })
            | Self::Consent { .. }
            | Self::NoAmount
            | Self::Mixed
            | Self::Again { .. } => exit::USAGE,
            Self::Capture(error) => exit::status_of(error),
            Self::Rights(error) => error.status(),
            _ => 1,
        }
    }
}
