//! The only error type of this crate: the call that failed, its argument, and the reason.

use std::io;

/// A failed system call or kernel request.
#[derive(Debug, thiserror::Error)]
#[error("{call}{}{}: {source}", if context.is_empty() { "" } else { " " }, context)]
pub struct Error {
    /// The call as the manual names it, such as `setsockopt(PACKET_RX_RING)`.
    pub call: &'static str,
    /// The interface, path or size that the call was made for. Empty if the call's name is enough.
    pub context: String,
    /// The error of the operating system.
    pub r#source: io::Error,
}

impl Error {
    /// Returns an error with the current `errno`; call it directly after the failed call.
    #[must_use]
    pub fn last(call: &'static str, context: impl Into<String>) -> Self {
        Self::new(call, context, io::Error::last_os_error())
    }

    /// Returns an error with a known source.
    #[must_use]
    pub fn new(call: &'static str, context: impl Into<String>, source: io::Error) -> Self {
        Self {
            call,
            context: context.into(),
            source,
        }
    }

    /// Returns the current `errno` as an error if the answer of a call is negative, by which calls
    /// report a failure.
    pub(crate) fn check(
        answer: impl Into<i64>,
        call: &'static str,
        context: impl Into<String>,
    ) -> Result<()> {
        match answer.into() {
            0.. => Ok(()),
            _ => Err(Self::last(call, context)),
        }
    }

    /// Returns the error number, if the operating system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
