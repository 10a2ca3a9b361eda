//! Errors of configuration files.

use std::fmt;
use std::path::{Path, PathBuf};

/// An error in a configuration file, with its place.
#[derive(Debug)]
pub(crate) struct ConfigError {
    file: PathBuf,
    /// The number of the line, from 1.
    line: Option<usize>,
    key: Option<String>,
    reason: String,
}

impl ConfigError {
    /// An error of the file as a whole.
    pub(super) fn whole(file: &Path, reason: impl fmt::Display) -> Self {
        Self {
            file: file.to_path_buf(),
            line: None,
            key: None,
            reason: reason.to_string(),
        }
    }

    /// An error in a line.
    pub(super) fn at(file: &Path, line: usize, reason: impl fmt::Display) -> Self {
        Self {
            line: Some(line),
            ..Self::whole(file, reason)
        }
    }

    /// The same error, for a key.
    pub(super) fn of(self, key: &str) -> Self {
        Self {
            key: Some(key.to_owned()),
            ..self
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl std::error::Error for ConfigError {}
