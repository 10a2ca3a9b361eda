//! The list of differences that are known, with their reasons.

use std::collections::BTreeSet;
use std::fmt;

use crate::Outcome;
use crate::expected::FIELDS;

/// The list: file, field, outcome, reason; tabs between them. A field may be a prefix with `*`.
const LIST: &str = include_str!("differences.txt");

/// A field of a flow that is not as tshark has it.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) file: String,
    pub(crate) field: &'static str,
    pub(crate) outcome: Outcome,
    /// Ends, and both values.
    pub(crate) detail: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            field,
            outcome,
            detail,
        } = self;
        write!(out, "{file}\t{field}\t{outcome:?}\t{detail}")
    }
}

/// The known ones.
pub(crate) struct Known(Vec<Line>);

struct Line {
    file: &'static str,
    field: &'static str,
    outcome: Outcome,
}

impl Known {
    /// Reads the list, every line of which must have a reason.
    pub(crate) fn read() -> Self {
        let lines = LIST
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(Line::parse).collect())
    }

    /// Returns the index of the line that knows a difference.
    pub(crate) fn reason(&self, difference: &Difference) -> Option<usize> {
        self.0.iter().position(|line| {
            line.file == difference.file
                && line.outcome == difference.outcome
                && line.matches(difference.field)
        })
    }

    /// Returns the lines that name one of the files and were not found.
    pub(crate) fn stale(&self, files: &BTreeSet<String>, found: &BTreeSet<usize>) -> Vec<String> {
        let lines = self.0.iter().enumerate();
        let stale = lines.filter(|(at, line)| files.contains(line.file) && !found.contains(at));
        stale
            .map(|(_, line)| {
                format!(
                    "{}\t{}\t{:?}\tis no longer so",
                    line.file, line.field, line.outcome
                )
            })
            .collect()
    }
}

impl Line {
    fn parse(line: &'static str) -> Self {
        let parts: Vec<&str> = line.split('\t').collect();
        let [file, field, outcome, reason] = parts[..] else {
            panic!("not four parts with tabs between them: {line}");
        };
        assert!(reason.len() > 10, "{line}: no reason");
        let outcome = match outcome {
            "Differs" => Outcome::Differs,
            "OnlyTshark" => Outcome::OnlyTshark,
            "OnlyRingtap" => Outcome::OnlyRingtap,
            other => panic!("{line}: not an outcome: {other}"),
        };
        let line = Self {
            file,
            field,
            outcome,
        };
        assert!(
            FIELDS.iter().any(|field| line.matches(field.name)),
            "{file}: {field} is no field"
        );
        line
    }

    fn matches(&self, field: &str) -> bool {
        match self.field.strip_suffix('*') {
            Some(prefix) => field.starts_with(prefix),
            None => field == self.field,
        }
    }
}
