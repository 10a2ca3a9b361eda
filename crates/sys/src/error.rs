//! The one error of this crate: which call failed, on what, and why.

use std::io;

/// A failed system call or kernel request.
#[derive(Debug, thiserror::Error)]
#[error("{call}{}{}: {source}", if context.is_empty() { "" } else { " " }, context)]
pub struct Error {
    /// The call as the manual names it, such as `setsockopt(PACKET_RX_RING)`.
    pub call: &'static str,
    /// What it was called on: an interface, a path, a size. Empty where the call says it all.
    pub context: String,
    /// The operating system's answer.
    pub r#source: io::Error,
}

impl Error {
    /// An error from `errno`, to be taken directly after the failed call.
    #[must_use]
    pub fn last(call: &'static str, context: impl Into<String>) -> Self {
        Self::new(call, context, io::Error::last_os_error())
    }

    /// An error whose reason is known.
    #[must_use]
    pub fn new(call: &'static str, context: impl Into<String>, source: io::Error) -> Self {
        Self {
            call,
            context: context.into(),
            source,
        }
    }

    /// The error number, where the operating system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

/// What a call of this crate returns.
pub type Result<T> = std::result::Result<T, Error>;
