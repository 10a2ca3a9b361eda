//! What is told on standard error. Where nobody can read it, the work goes on all the same.

use std::fmt;
use std::io::{self, Write};

use ringtap_capture::{Description, Direction, Error};

/// Writes a line that says who speaks.
pub(crate) fn notice(text: impl fmt::Display) {
    raw(format_args!("ringtap: {text}\n"));
}

/// Writes a text as it is.
pub(crate) fn raw(text: impl fmt::Display) {
    // A full disk under standard error must not end a capture.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// A number with its noun: `1 packet`, `2 packets`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// A number with what it counts, in the plural: `1 packet lost`, `2 packets lost` of `packets lost`.
pub(crate) fn counted_as(number: u64, plural: &str) -> String {
    let (noun, rest) = plural.split_once(' ').unwrap_or((plural, ""));
    let noun = match number {
        1 => noun.strip_suffix('s').unwrap_or(noun),
        _ => noun,
    };
    format!("{number} {noun} {rest}").trim_end().to_owned()
}

/// Says in one line what captures and where, then what is not as it was asked for. Why the engine was chosen,
/// `--explain-capture` says.
pub(crate) fn announce(doing: &str, description: &Description, asked: Direction) {
    let link_type = description.link_types.first();
    let link_type = link_type.map(ToString::to_string).unwrap_or_default();
    notice(format_args!(
        "{doing} on {} (engine {}), link type {link_type}, snaplen {} bytes",
        description.device,
        description.engine,
        description.snaplen.unwrap_or(0)
    ));
    let misses_sent = asked == Direction::Both && description.direction == Direction::In;
    // Loopback's packets are all received.
    if misses_sent && !description.loopback {
        notice("packets that the host sends are not captured");
    }
    for note in &description.notes {
        notice(note);
    }
}

/// Prints the log of the kernel's verifier, where an error is about a program that it rejected.
pub(crate) fn explain_refusal(error: &Error) {
    if let Some(log) = error.verifier_log() {
        raw(log);
    }
}

/// Tells of what interrupts a capture, which goes on: at once, or when the interface is up again.
pub(crate) fn interrupted(error: &Error) {
    match error {
        Error::InterfaceDown { .. } => notice(format_args!("{error}; waiting")),
        _ => notice(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(1, "packet"), "1 packet");
        assert_eq!(counted(0, "packet"), "0 packets");
        assert_eq!(counted_as(1, "flows ended early"), "1 flow ended early");
        assert_eq!(counted_as(2, "flows ended early"), "2 flows ended early");
        assert_eq!(counted_as(1, "records"), "1 record");
    }
}
