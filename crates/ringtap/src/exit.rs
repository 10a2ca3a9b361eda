//! Exit statuses: 0 success, 1 a failure while running, 2 wrong usage.

use ringtap_capture::Error;
use ringtap_capture::hook::HookError;
use ringtap_capture::stat::StatError;

/// Wrong usage, which another command line can correct.
pub(crate) const USAGE: u8 = 2;

/// Returns the exit status for a failed capture.
pub(crate) fn status_of(error: &Error) -> u8 {
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
