//! A file's tables, and the options in them.

use std::path::{Path, PathBuf};

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use ringtap_capture::{Error, Filter, LinkType};
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use crate::filter::describe;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;
/// The key of the filter, which has no name on the command line.
const FILTER: &str = "filter";
/// Keys that make no sense in a file.
const NOT_KEYS: [&str; 2] = ["help", super::ARGUMENT];
/// The snapshot length for which a filter is tried.
const SNAPLEN: u32 = 262_144;

/// A file that was read.
pub(super) struct File {
    path: PathBuf,
    /// Their names, the numbers of their lines, and what is in them; `None` if it is no table.
    tables: Vec<(String, usize, Option<Vec<Entry>>)>,
}

/// A key with its value, as words of the command line.
struct Entry {
    key: String,
    /// The number of its line.
    line: usize,
    value: Value,
}

enum Value {
    Flag(bool),
    One(String),
    Several(Vec<String>),
    /// A value that no option has: a name for its type.
    Other(&'static str),
}

/// The table of a command.
pub(super) struct Table<'a> {
    path: &'a Path,
    entries: &'a [Entry],
}

impl File {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, ConfigError> {
        let whole = |reason: String| ConfigError::whole(path, reason);
        let size = std::fs::metadata(path).map_err(|error| whole(error.to_string()))?;
        if size.is_file() && size.len() > LONGEST {
            return Err(whole(format!("larger than {LONGEST} bytes")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| whole(error.to_string()))?;
        let line = |place: usize| {
            let before = text.get(..place).unwrap_or(&text);
            before.matches('\n').count() + 1
        };
        let parsed = DeTable::parse(&text).map_err(|error| {
            let place = error.span().map_or(0, |span| span.start);
            ConfigError::at(path, line(place), error.message())
        })?;
        let tables = parsed.get_ref().iter().map(|(name, value)| {
            let at = line(name.span().start);
            let entries = match value.get_ref() {
                DeValue::Table(table) => Some(entries(table, &line)),
                _ => None,
            };
            (name.get_ref().to_string(), at, entries)
        });
        Ok(Self {
            path: path.to_path_buf(),
            tables: tables.collect(),
        })
    }

    /// Returns the table of a command. The file may have tables of the other commands in `known`.
    pub(super) fn table(
        &self,
        command: &Command,
        known: &[&str],
    ) -> Result<Table<'_>, ConfigError> {
        if let Some(error) = self.stray(known) {
            return Err(error);
        }
        let missing =
            || ConfigError::whole(&self.path, format!("no table [{}]", command.get_name()));
        self.find(command).ok_or_else(missing)
    }

    /// Returns the table of a command, if there is one.
    pub(super) fn find(&self, command: &Command) -> Option<Table<'_>> {
        let found = self
            .tables
            .iter()
            .find(|(name, ..)| name == command.get_name());
        let (.., entries) = found?;
        entries.as_ref().map(|entries| Table {
            path: &self.path,
            entries,
        })
    }

    /// Returns the names of the tables.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.iter().map(|(name, ..)| name.as_str())
    }

    /// Returns an error for the first key that is no table of a command in `known`.
    pub(super) fn stray(&self, known: &[&str]) -> Option<ConfigError> {
        self.tables.iter().find_map(|(name, line, entries)| {
            let reason = match entries {
                None => format!("expected a table, such as [{}]", known[0]),
                Some(_) if known.contains(&name.as_str()) => return None,
                Some(_) => format!(
                    "no such command with a configuration: expected {}",
                    known.join(", ")
                ),
            };
            Some(ConfigError::at(&self.path, *line, reason).of(name))
        })
    }
}

fn entries(table: &DeTable<'_>, line: &impl Fn(usize) -> usize) -> Vec<Entry> {
    let entries = table.iter().map(|(key, value)| Entry {
        key: key.get_ref().to_string(),
        line: line(key.span().start),
        value: Value::new(value.get_ref()),
    });
    let mut entries: Vec<Entry> = entries.collect();
    entries.sort_by_key(|entry| entry.line);
    entries
}

impl Value {
    fn new(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::Boolean(value) => Self::Flag(*value),
            DeValue::String(text) => Self::One(text.to_string()),
            DeValue::Integer(number) => Self::One(number.to_string()),
            DeValue::Float(number) => Self::One(number.to_string()),
            DeValue::Array(values) => {
                let values = values.iter().map(|value| match Self::new(value.get_ref()) {
                    Self::One(text) => Some(text),
                    _ => None,
                });
                match values.collect() {
                    Some(values) => Self::Several(values),
                    None => Self::Other("an array of something else"),
                }
            }
            DeValue::Datetime(_) => Self::Other("a date"),
            DeValue::Table(_) => Self::Other("a table"),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Flag(_) => "true or false",
            Self::One(text) if text.parse::<i64>().is_ok() => "an integer",
            Self::One(_) => "a text",
            Self::Several(_) => "an array",
            Self::Other(kind) => kind,
        }
    }
}

impl Entry {
    /// Returns the words of the command line.
    fn words(&self) -> Vec<String> {
        let named = |value: &String| format!("--{}={value}", self.key);
        match &self.value {
            Value::Flag(true) => vec![format!("--{}", self.key)],
            Value::One(value) => vec![named(value)],
            Value::Several(values) => values.iter().map(named).collect(),
            Value::Flag(false) | Value::Other(_) => Vec::new(),
        }
    }

    /// Returns the reason why the entry is not valid for a command.
    fn refused(&self, command: &Command) -> Option<String> {
        let argument = match argument(command, &self.key) {
            Ok(argument) => argument,
            Err(reason) => return Some(reason),
        };
        let takes_several = matches!(argument.get_action(), ArgAction::Append);
        let reason = match (&self.value, argument.get_action().takes_values()) {
            (Value::Flag(_), false) | (Value::One(_), true) => None,
            (value, false) => Some(format!("expected true or false, found {}", value.kind())),
            (Value::Several(_), true) if takes_several => None,
            (value @ Value::Several(_), true) => {
                Some(format!("takes one value, found {}", value.kind()))
            }
            (Value::Flag(_), true) => Some("expected a value, found true or false".to_owned()),
            (Value::Other(kind), true) => {
                Some(format!("expected a number, a text or true, found {kind}"))
            }
        };
        reason.or_else(|| self.refused_by(command))
    }

    /// Returns the reason why the command's own parser rejects the value.
    fn refused_by(&self, command: &Command) -> Option<String> {
        let error = alone(command).try_get_matches_from(self.words()).err()?;
        match error.kind() {
            // Others are needed beside it: they are judged with the whole command line.
            ErrorKind::MissingRequiredArgument => None,
            _ => Some(first_paragraph(&error)),
        }
    }
}

/// Returns a command that parses its options without the program's name.
fn alone(command: &Command) -> Command {
    let alone = command.clone().no_binary_name(true);
    let is_version = |argument: &Arg| matches!(argument.get_action(), ArgAction::Version);
    match command.get_arguments().any(is_version) {
        // The program's definition would give it its version.
        true => alone.version(env!("CARGO_PKG_VERSION")),
        false => alone,
    }
}

/// Returns the argument for a key, which is the option's long name.
fn argument<'a>(command: &'a Command, key: &str) -> Result<&'a Arg, String> {
    let is_it = |argument: &&Arg| {
        argument.get_long() == Some(key)
            || argument
                .get_visible_aliases()
                .is_some_and(|names| names.contains(&key))
    };
    let found = command.get_arguments().find(is_it);
    let found = found.filter(|argument| !argument.is_hide_set() && !NOT_KEYS.contains(&key));
    found.ok_or_else(|| {
        let unknown = format!("no such option of ringtap {}", command.get_name());
        let tried = alone(command).try_get_matches_from([format!("--{key}")]);
        let tip = tried
            .err()
            .and_then(|error| match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(name)) => Some(name.trim_start_matches('-').to_owned()),
                _ => None,
            });
        match tip.filter(|_| !NOT_KEYS.contains(&key)) {
            Some(tip) => format!("{unknown}; did you mean {tip}?"),
            None => unknown,
        }
    })
}

/// Returns the message of an error without advice about the command line.
fn first_paragraph(error: &clap::Error) -> String {
    let text = StyledStr::from(error.to_string()).to_string();
    let text = text.trim_start_matches("error: ");
    let lines = text.lines().take_while(|line| !line.is_empty());
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

impl Table<'_> {
    /// Tries every value by the command's definition.
    ///
    /// # Errors
    /// All values that are not valid; there is at least one.
    pub(super) fn check(&self, command: &Command) -> Result<(), Vec<ConfigError>> {
        let errors = self.entries.iter().filter_map(|entry| {
            let reason = match entry.key.as_str() {
                FILTER => self.refused_filter(entry),
                _ => entry.refused(command),
            };
            reason.map(|reason| ConfigError::at(self.path, entry.line, reason).of(&entry.key))
        });
        let errors: Vec<ConfigError> = errors.collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Returns the number of options.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn refused_filter(&self, entry: &Entry) -> Option<String> {
        let Value::One(text) = &entry.value else {
            return Some(format!("expected a text, found {}", entry.value.kind()));
        };
        let mut entries = self.entries.iter();
        let extended = entries
            .any(|entry| entry.key == "extended" && matches!(entry.value, Value::Flag(true)));
        let filter = Filter::new(text.clone()).with_extensions(extended);
        let error = filter.compile(LinkType::ETHERNET, SNAPLEN).err()?;
        match &error {
            // The resolver may answer when the capture is opened.
            Error::Filter { error, .. }
                if matches!(error.kind, ringtap_filter::ErrorKind::Lookup { .. }) =>
            {
                None
            }
            _ => Some(describe(&error)),
        }
    }

    /// Returns the words of all options.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let options = self.entries.iter().filter(|entry| entry.key != FILTER);
        options.flat_map(Entry::words)
    }

    /// Returns the filter, and the identifier of the command's argument for it.
    pub(super) fn filter(&self, command: &Command) -> Option<(String, String)> {
        let entry = self.entries.iter().find(|entry| entry.key == FILTER)?;
        let argument = command.get_positionals().next()?;
        match &entry.value {
            Value::One(text) => Some((argument.get_id().to_string(), text.clone())),
            _ => None,
        }
    }
}
