//! Messages with fields, for the journal of systemd.
//!
//! systemd connects the standard error of a service to the journal, and says so in `JOURNAL_STREAM`. Messages then go
//! to the journal's own socket, which takes a level and fields beside the text.
//!
//! Source: systemd.exec(5), `JOURNAL_STREAM`; the journal's native protocol
//! (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::sync::OnceLock;

use serde_json::Value;

const SOCKET: &str = "/run/systemd/journal/socket";
const STREAM: &str = "JOURNAL_STREAM";
/// The longest name of a field.
const NAME_MAX: usize = 64;

static JOURNAL: OnceLock<Journal> = OnceLock::new();

/// The urgency of a message (syslog(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// The run fails.
    Error = 3,
    /// Something was lost, or cannot be done.
    Warning = 4,
    /// Something that the user should know.
    Notice = 5,
    /// Something that happens in each run.
    Info = 6,
}

/// The connection to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    /// The word after the program's name.
    command: String,
}

/// Connects to the journal, if standard error leads there. The sandbox allows no connection later.
pub(crate) fn open() {
    if let Some(journal) = connect() {
        // It is called once.
        let _ = JOURNAL.set(journal);
    }
}

/// Returns the journal, if messages go there.
pub(super) fn journal() -> Option<&'static Journal> {
    JOURNAL.get()
}

fn connect() -> Option<Journal> {
    let stream = std::env::var(STREAM).ok()?;
    let file = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    let file = file.metadata().ok()?;
    if stream != format!("{}:{}", file.dev(), file.ino()) {
        // A program between systemd and this one has another standard error.
        return None;
    }
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect(SOCKET).ok()?;
    let command = std::env::args_os().nth(1).unwrap_or_default();
    let command = command.to_string_lossy().into_owned();
    Some(Journal { socket, command })
}

impl Journal {
    /// Sends a message.
    ///
    /// # Errors
    /// The journal does not take it.
    pub(super) fn send(&self, text: &str, level: Level, fields: &Fields) -> io::Result<()> {
        let mut message = Vec::new();
        let level = (level as u8).to_string();
        let own = [
            ("MESSAGE", text),
            ("PRIORITY", &level),
            ("SYSLOG_IDENTIFIER", "ringtap"),
            ("RINGTAP_COMMAND", &self.command),
        ];
        for (name, value) in own {
            put(&mut message, name, value);
        }
        for (name, value) in &fields.0 {
            put(&mut message, name, value);
        }
        self.socket.send(&message).map(drop)
    }
}

/// Fields of a message: names with `RINGTAP_` in front, and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, String)>);

impl Fields {
    /// Adds a field, by its name without `RINGTAP_`.
    pub(crate) fn with(mut self, name: &str, value: &(impl ToString + ?Sized)) -> Self {
        self.add(name, value.to_string());
        self
    }

    /// Returns the numbers and texts of a JSON object; those of objects within have the names of both. Lists are left
    /// out.
    pub(crate) fn of(value: &Value) -> Self {
        let mut fields = Self::default();
        fields.add_all("", value);
        fields
    }

    fn add_all(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(within) => {
                for (part, value) in within {
                    let separator = if name.is_empty() { "" } else { "_" };
                    self.add_all(&format!("{name}{separator}{part}"), value);
                }
            }
            Value::String(text) => self.add(name, text.clone()),
            Value::Number(number) => self.add(name, number.to_string()),
            Value::Bool(is_so) => self.add(name, is_so.to_string()),
            Value::Array(_) | Value::Null => {}
        }
    }

    fn add(&mut self, name: &str, value: String) {
        let valid = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = name.to_ascii_uppercase().chars().map(valid).collect();
        let mut name = format!("RINGTAP_{name}");
        name.truncate(NAME_MAX);
        self.0.push((name, value));
    }
}

/// Encodes a field. A value of several lines is preceded by its length.
fn put(message: &mut Vec<u8>, name: &str, value: &str) {
    message.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        message.push(b'\n');
        message.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        message.push(b'=');
    }
    message.extend_from_slice(value.as_bytes());
    message.push(b'\n');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_several_lines_have_their_length() {
        let mut message = Vec::new();
        put(&mut message, "A", "one=1");
        put(&mut message, "B", "one\ntwo");
        assert_eq!(message, b"A=one=1\nB\n\x07\0\0\0\0\0\0\0one\ntwo\n");
    }

    #[test]
    fn json_becomes_fields() {
        let value = json!({"received": 7, "dropped": {"ring": 0, "hook": null}, "files": [1], "engine": "tcx"});
        let expected = Fields::default()
            .with("dropped_ring", &0)
            .with("engine", "tcx")
            .with("received", &7);
        let mut found = Fields::of(&value);
        found.0.sort();
        assert_eq!(found, expected);
        let long = Fields::default().with(&"x".repeat(100), &1);
        assert_eq!(long.0[0].0.len(), NAME_MAX);
        let odd = Fields::default().with("a-b.ä", &1);
        assert_eq!(odd.0[0].0, "RINGTAP_A_B__");
    }
}
