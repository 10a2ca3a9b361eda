//! Settings of Kafka's client library: encryption, authentication, and whatever else it has.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::OutputError;

/// The settings that the promise of delivery needs, or that an address has.
const FIXED: [&str; 8] = [
    "bootstrap.servers",
    "metadata.broker.list",
    "enable.idempotence",
    "partitioner",
    "plugin.library.paths",
    "delivery.report.only.error",
    "transactional.id",
    "test.mock.num.brokers",
];

/// Other names of settings that ringtap has values for.
const ALIASES: [(&str, &str); 3] = [
    ("delivery.timeout.ms", "message.timeout.ms"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("compression.codec", "compression.type"),
];

/// The settings that name a file, and those that have its content: the library would open the file later, when the
/// program has given up its rights.
const FILES: [(&str, &str); 3] = [
    ("ssl.ca.location", "ssl.ca.pem"),
    ("ssl.certificate.location", "ssl.certificate.pem"),
    ("ssl.key.location", "ssl.key.pem"),
];

/// Settings of [librdkafka](https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md), by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KafkaSettings(Vec<(String, String)>);

impl KafkaSettings {
    /// Reads a file of lines `NAME=VALUE`, and the certificates and keys that it names. Empty lines and those that
    /// begin with `#` mean nothing.
    ///
    /// # Errors
    /// A file cannot be read, a line has no `=`, or a setting is one that ringtap makes itself.
    pub fn read(path: &Path) -> Result<Self, OutputError> {
        let text = read(path)?;
        let invalid = |line, problem: String| OutputError::KafkaSetting {
            path: path.to_owned(),
            line,
            problem,
        };
        let mut settings = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, value)) = line.split_once('=') else {
                return Err(invalid(number, "expected NAME=VALUE".to_owned()));
            };
            let (name, value) = (name.trim(), value.trim());
            let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
            let name = alias.map_or(name, |(_, name)| name);
            if FIXED.contains(&name) {
                return Err(invalid(number, format!("{name} cannot be set here")));
            }
            if settings.0.iter().any(|(other, _)| other == name) {
                return Err(invalid(number, format!("{name} is there twice")));
            }
            let (name, value) = match FILES.iter().find(|(location, _)| *location == name) {
                Some((_, content)) => (*content, read(&PathBuf::from(value))?),
                None => (name, value.to_owned()),
            };
            settings.0.push((name.to_owned(), value));
        }
        Ok(settings)
    }

    /// Returns the settings.
    #[cfg(feature = "kafka")]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl fmt::Debug for KafkaSettings {
    /// Shows no value: some are passwords.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        out.debug_list().entries(names).finish()
    }
}

fn read(path: &Path) -> Result<String, OutputError> {
    std::fs::read_to_string(path).map_err(|source| OutputError::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<KafkaSettings, String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), "a certificate").expect("written");
        let path = folder.path().join("kafka.conf");
        let text = text.replace("HERE", &folder.path().display().to_string());
        std::fs::write(&path, text).expect("written");
        KafkaSettings::read(&path).map_err(|error| {
            let text = error.to_string();
            text.replace(&folder.path().display().to_string(), "HERE")
        })
    }

    #[test]
    fn files_are_read_and_passwords_are_not_shown() {
        let text = "# our cluster\n\nsecurity.protocol = SASL_SSL\nsasl.password=a=b#c\nssl.ca.location=HERE/ca.pem\n";
        let settings = of(text).expect("settings");
        let expected = [
            ("security.protocol", "SASL_SSL"),
            ("sasl.password", "a=b#c"),
            ("ssl.ca.pem", "a certificate"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings.0, expected);
        assert!(!format!("{settings:?}").contains("a=b"));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, error) in [
            (
                "\nsasl.username",
                "HERE/kafka.conf, line 2: expected NAME=VALUE",
            ),
            (
                "enable.idempotence=false",
                "HERE/kafka.conf, line 1: enable.idempotence cannot be set here",
            ),
            (
                "linger.ms=1\nqueue.buffering.max.ms=2",
                "HERE/kafka.conf, line 2: linger.ms is there twice",
            ),
            ("a=1\na=2", "HERE/kafka.conf, line 2: a is there twice"),
            (
                "ssl.key.location=HERE/none.pem",
                "HERE/none.pem: No such file or directory (os error 2)",
            ),
        ] {
            assert_eq!(of(text), Err(error.to_owned()));
        }
    }
}
