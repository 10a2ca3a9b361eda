//! Errors that keep a program from being shown, and their exit status.

use std::io;

use ringtap_capture::Error;
use ringtap_filter::ebpf::AssembleError;
use ringtap_filter::ebpf::lower::LowerError;
use ringtap_jit::NativeError;

use crate::expression::UnreadableFile;
use crate::rights::RightsError;

/// The unsuccessful end of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("unknown link type {0:?}; ringtap filter -L lists them")]
    LinkType(String),
    /// The expression is not a valid filter, or not for this link type.
    #[error("{}", super::describe(.0))]
    Expression(Error),
    #[error(transparent)]
    File(#[from] UnreadableFile),
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// The hook does not support the program, or the program is too long.
    #[error("no eBPF for this filter: {0}")]
    Hook(LowerError),
    #[error("no eBPF for this filter: {0}")]
    Assemble(AssembleError),
    #[error(transparent)]
    Native(#[from] NativeError),
    #[error("standard output: {0}")]
    Output(io::Error),
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

impl From<Error> for FilterError {
    fn from(error: Error) -> Self {
        Self::Expression(error)
    }
}

impl FilterError {
    /// Returns 2 for wrong usage, 1 for a failure.
    pub(crate) fn exit_status(&self) -> u8 {
        match self {
            Self::LinkType(_) | Self::Expression(_) | Self::Hook(_) => 2,
            Self::Rights(error) => error.status(),
            Self::File(_) | Self::Assemble(_) | Self::Native(_) | Self::Output(_) => 1,
        }
    }
}
