//! Writes messages to standard error, or to the journal if systemd connects both. If that fails, the work continues.

mod journal;

use std::fmt;
use std::io::{self, Write};
use std::sync::OnceLock;

use ringtap_capture::{Description, Direction, Error};
use serde::Serialize;

use journal::journal;
pub(crate) use journal::{Fields, Level, open as open_journal};

/// Takes the messages that are no failures, if standard error is for failures alone.
static ASIDE: OnceLock<Listener> = OnceLock::new();

type Listener = Box<dyn Fn(&str) + Send + Sync>;

/// Keeps standard error for failures. Other messages go to `others`, without the program's name; texts of several
/// lines, such as the counters of a run, go nowhere.
pub(crate) fn only_failures(others: impl Fn(&str) + Send + Sync + 'static) {
    // It is called once.
    let _ = ASIDE.set(Box::new(others));
}

/// Writes a line with the program's name in front.
pub(crate) fn notice(text: impl fmt::Display) {
    tell(Level::Notice, &Fields::default(), text);
}

/// Writes why the run fails, as [`notice`].
pub(crate) fn failure(error: impl fmt::Display) {
    tell(Level::Error, &Fields::default(), error);
}

/// Writes that something was lost or cannot be done, as [`notice`]; the journal also gets the fields.
pub(crate) fn warning(fields: &Fields, text: impl fmt::Display) {
    tell(Level::Warning, fields, text);
}

fn tell(level: Level, fields: &Fields, text: impl fmt::Display) {
    let text = text.to_string();
    if level != Level::Error
        && let Some(others) = ASIDE.get()
    {
        return others(&text);
    }
    let sent = journal().map(|journal| journal.send(&text, level, fields));
    if !matches!(sent, Some(Ok(()))) {
        write(&format!("ringtap: {text}\n"));
    }
}

/// Writes a text unchanged.
pub(crate) fn raw(text: impl fmt::Display) {
    told(&Fields::default(), &text.to_string());
}

/// Writes the counters of a run unchanged; the journal also gets them as fields with the names of `--json-stats`.
pub(crate) fn summary(values: &impl Serialize, text: impl fmt::Display) {
    let values = journal().and_then(|_| serde_json::to_value(values).ok());
    let fields = values.map_or_else(Fields::default, |values| Fields::of(&values));
    told(&fields, &text.to_string());
}

fn told(fields: &Fields, text: &str) {
    if ASIDE.get().is_some() {
        return;
    }
    let sent = journal().map(|journal| journal.send(text.trim_end(), Level::Info, fields));
    if !matches!(sent, Some(Ok(()))) {
        write(text);
    }
}

fn write(text: &str) {
    // A full disk under standard error must not end a capture.
    let _ = io::stderr().write_all(text.as_bytes());
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
    let snaplen = description.snaplen.unwrap_or(0);
    let fields = Fields::default()
        .with("interface", &description.device)
        .with("engine", description.engine)
        .with("link_type", &link_type)
        .with("snaplen", &snaplen);
    let text = format_args!(
        "{doing} on {} (engine {}), link type {link_type}, snaplen {snaplen} bytes",
        description.device, description.engine,
    );
    tell(Level::Info, &fields, text);
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
        Error::InterfaceDown { device } => {
            let fields = Fields::default().with("interface", device);
            warning(&fields, format_args!("{error}; waiting"));
        }
        _ => warning(&Fields::default(), error),
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
