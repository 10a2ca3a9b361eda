//! The reasons why sending ended.

use ringtap_send::SendError;

use crate::exit::{Ends, RunError, USAGE};

/// A failed `ringtap send` or `ringtap gen`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Send(#[from] SendError),
    #[error("packet {index}: {error}")]
    At { index: u64, error: SendError },
    #[error(transparent)]
    Run(RunError),
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
    #[error("specify --count or --duration, or at the other end --receive")]
    NoAmount,
    #[error(
        "--gso: packets of several sizes or flows cannot be joined; specify one --size and --flows 1"
    )]
    Mixed,
    #[error("{name} can be read only once, not {times} times")]
    Again { name: String, times: String },
}

impl<E: Into<RunError>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl Ends for Failure {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Send(SendError::UnknownBackEnd { .. } | SendError::Value { .. })
            | Self::Consent { .. }
            | Self::NoAmount
            | Self::Mixed
            | Self::Again { .. } => USAGE,
            Self::Run(error) => error.exit_status(),
            _ => 1,
        }
    }
}
