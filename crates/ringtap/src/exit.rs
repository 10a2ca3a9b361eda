//! Exit statuses: 0 success, 1 a failure while running, 2 wrong usage; and the failures that commands share.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

use ringtap_capture::Error;
use ringtap_capture::hook::HookError;
use ringtap_capture::stat::StatError;

use crate::expression::UnreadableFile;
use crate::input::InputError;
use crate::notice::failure;
use crate::rights::RightsError;
use crate::setup::SetupError;

/// Wrong usage, which another command line can correct.
pub(crate) const USAGE: u8 = 2;

/// An error that ends a command.
pub(crate) trait Ends: Display {
    /// Returns the exit status: 2 for wrong usage, 1 for other errors.
    fn exit_status(&self) -> u8;
}

/// Returns the exit status of a command, whose error is reported.
pub(crate) fn code<E: Ends>(result: Result<(), E>) -> ExitCode {
    code_or(result.map(|()| ExitCode::SUCCESS))
}

/// Returns the same for a command that has its own statuses.
pub(crate) fn code_or<E: Ends>(result: Result<ExitCode, E>) -> ExitCode {
    result.unwrap_or_else(|error| {
        failure(&error);
        ExitCode::from(error.exit_status())
    })
}

/// A failure that several commands have.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// A source could not be opened, or failed.
    #[error("{}", crate::filter::describe(.0))]
    Capture(Error),
    /// An input file could not be opened.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The file with the filter could not be read.
    #[error(transparent)]
    FilterFile(#[from] UnreadableFile),
    /// Privileges could not be given up.
    #[error(transparent)]
    Rights(#[from] RightsError),
    /// Threads, signals or scheduling could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// Printing failed.
    #[error("standard output: {0}")]
    Print(io::Error),
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        Self::Capture(error)
    }
}

impl Ends for RunError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Capture(error) | Self::Input(InputError::Capture(error)) => status_of(error),
            Self::Rights(error) => error.status(),
            _ => 1,
        }
    }
}

/// Returns the exit status for a failed capture.
fn status_of(error: &Error) -> u8 {
    match error {
        Error::Filter { .. }
        | Error::Option(_)
        | Error::Buffer(_)
        | Error::UnknownEngine { .. }
        | Error::EmptyDevice
        | Error::Hook(HookError::Hazardous { .. } | HookError::StealsSent { .. })
        | Error::Stat(
            StatError::Engine { .. }
            | StatError::Any { .. }
            | StatError::TooMany { .. }
            | StatError::Filter { .. },
        ) => USAGE,
        _ => 1,
    }
}
