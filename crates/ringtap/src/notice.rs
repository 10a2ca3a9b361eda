//! What is told on standard error. Where nobody can read it, the work goes on all the same.

use std::fmt;
use std::io::{self, Write};

/// Writes a line that says who speaks.
pub(crate) fn notice(text: impl fmt::Display) {
    raw(format_args!("ringtap: {text}\n"));
}

/// Writes a text as it is.
pub(crate) fn raw(text: impl fmt::Display) {
    // A full disk under standard error must not end a capture.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}
