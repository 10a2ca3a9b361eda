//! Writes messages to standard error. If that fails, the work continues.

use std::fmt;
use std::io::{self, Write};

use ringtap_capture::{Description, Direction, Error};

/// Writes a line with the program's name in front.
pub(crate) fn notice(text: impl fmt::Display) {
    raw(format_args!("ringtap: {text}\n"));
}

/// Writes a text unchanged.
pub(crate) fn raw(text: impl fmt::Display) {
    // A full disk under standard error must not end a capture.
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Returns a number with its noun: `1 packet`, `2 packets`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Returns a number with a plural phrase: `1 packet lost`, `2 packets lost` for `packets lost`.
pub(crate) fn counted_as(number: u64, plural: &str) -> String {
    let (noun, rest) = plural.split_once(' ').unwrap_or((plural, ""));
    let noun = match number {
        1 => noun.strip_suffix('s').unwrap_or(noun),
        _ => noun,
    };
    format!("{number} {noun} {rest}").trim_end().to_owned()
}

/// Adds a line for each counter above zero, with its plural phrase.
pub(crate) fn add_counters<'a>(
    text: &mut String,
    counters: impl IntoIterator<Item = (u64, &'a str)>,
) {
    for (count, what) in counters.into_iter().filter(|(count, _)| *count > 0) {
        text.push_str(&counted_as(count, what));
        text.push('\n');
    }
}

/// Reports in one line which engine captures and where, then each difference from the request.
/// `--explain-capture` reports why the engine was chosen.
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
    // All packets on loopback are received.
    if misses_sent && !description.loopback {
        notice("packets that the host sends are not captured");
    }
    for note in &description.notes {
        notice(note);
    }
}

/// Prints the log of the kernel's verifier, if the error is a rejected program.
pub(crate) fn explain_refusal(error: &Error) {
    if let Some(log) = error.verifier_log() {
        raw(log);
    }
}

/// Reports how many packets of files have an invalid time, if any.
pub(crate) fn invalid_times(packets: u64) {
    if packets > 0 {
        let packets = counted(packets, "packet");
        notice(format_args!(
            "{packets} with an invalid time (a fraction of a second or more): the time used is what it adds up to"
        ));
    }
}

/// Reports an interruption of the capture, which continues: at once, or when the interface is up again.
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
