//! Errors that keep a program from being shown, and their exit status.

use ringtap_capture::Error;
use ringtap_filter::ebpf::AssembleError;
use ringtap_filter::ebpf::lower::LowerError;
use ringtap_jit::NativeError;

use crate::exit::{Ends, RunError};

/// The unsuccessful end of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("unknown link type {0:?}; ringtap filter -L lists them")]
    LinkType(String),
    /// The expression is not a valid filter, or not for this link type.
    #[error("{}", super::describe(.0))]
    Expression(Error),
    #[error(transparent)]
    Run(RunError),
    /// The hook does not support the program, or the program is too long.
    #[error("no eBPF for this filter: {0}")]
    Hook(LowerError),
    #[error("no eBPF for this filter: {0}")]
    Assemble(AssembleError),
    #[error(transparent)]
    Native(#[from] NativeError),
}

impl From<AssembleError> for FilterError {
    fn from(error: AssembleError) -> Self {
        Self::Assemble(error)
    }
}

impl From<LowerError> for FilterError {
    fn from(error: LowerError) -> Self {
        Self::Hook(error)
    }
}

impl<E: Into<RunError>> From<E> for FilterError {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl Ends for FilterError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::LinkType(_) | Self::Expression(_) | Self::Hook(_) => 2,
            Self::Run(error) => error.exit_status(),
            Self::Assemble(_) | Self::Native(_) => 1,
        }
    }
}
