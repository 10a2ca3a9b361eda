//! The corpus of filter expressions: `testdata/filter/agreement/*.txt`, each expression with the
//! link types that it is tested on.
//!
//! Lines that begin with `#` are comments. A line that begins with `@` lists the link types of the
//! expressions below it, by libpcap's names (`EN10MB`) or as sets (`%ethernet`). It may end in one
//! of these:
//!
//! - ` : refused`: none of the expressions may be accepted on any of these link types.
//! - ` : known` and a reason: ringtap differs on purpose.
//! - ` : newer`: ringtap agrees with libpcap 1.11; 1.10 has no such primitive, or another meaning.
//!
//! Every other line is an expression, spaces included. `link-types.txt` defines names and sets.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// A line of the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The expression.
    pub expression: String,
    /// DLT values of the link types that it is tested on.
    pub dlts: Arc<[u32]>,
    /// The result that the corpus expects.
    pub expected: Expected,
    /// `file:line`, for messages.
    pub place: String,
}

/// The expected result of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The same as libpcap's.
    Agreement,
    /// An error, on each of the link types.
    Refused,
    /// Another result than libpcap's, for this reason.
    Known(Arc<str>),
    /// The same as libpcap 1.11's, which differs from earlier versions.
    Newer,
}

/// Names and sets of link types.
#[derive(Clone, Debug, Default)]
pub struct LinkTypes {
    names: HashMap<String, u32>,
    sets: HashMap<String, Vec<u32>>,
}

impl LinkTypes {
    /// Reads `link-types.txt`: lines of `NAME VALUE`, and of `%SET = NAMES`, in which sets of lines
    /// above may occur.
    ///
    /// # Panics
    /// Panics if the file cannot be read or a line uses an undefined name.
    #[must_use]
    pub fn load() -> Self {
        let path = folder().join("link-types.txt");
        let text = std::fs::read_to_string(&path).expect("the link types");
        let mut types = Self::default();
        for line in text.lines().filter(|line| is_content(line)) {
            if let Some((set, members)) = line.split_once('=') {
                let members = types.resolve(members);
                types.sets.insert(set.trim().to_owned(), members);
            } else if let Some((name, value)) = line.split_once(' ') {
                let value = value.trim().parse().expect(line);
                types.names.insert(name.to_owned(), value);
            }
        }
        types
    }

    /// Returns the DLT values of names and sets, in their order, each once.
    ///
    /// # Panics
    /// Panics if a name is undefined.
    #[must_use]
    pub fn resolve(&self, names: &str) -> Vec<u32> {
        let mut values = Vec::new();
        for name in names.split_whitespace() {
            match (self.names.get(name), self.sets.get(name)) {
                (Some(value), _) => values.push(*value),
                (None, Some(set)) => values.extend(set),
                (None, None) => panic!("no link type is named {name:?}"),
            }
        }
        let mut seen = std::collections::HashSet::new();
        values.retain(|value| seen.insert(*value));
        values
    }

    /// Returns libpcap's names and values, in the order of the values.
    #[must_use]
    pub fn all(&self) -> Vec<(&str, u32)> {
        let names = self.names.iter();
        let mut all: Vec<_> = names.map(|(name, dlt)| (name.as_str(), *dlt)).collect();
        all.sort_by_key(|(_, dlt)| *dlt);
        all
    }
}

/// Returns every case of the corpus, in the order of files and lines.
///
/// # Panics
/// Panics if a file cannot be read or has an expression before any link type.
#[must_use]
pub fn cases() -> Vec<Case> {
    let types = LinkTypes::load();
    let folder = folder();
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the corpus of expressions")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "txt"))
        .filter(|path| !path.ends_with("link-types.txt"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a file of expressions");
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        parse(&text, &name, &types, &mut cases);
    }
    cases
}

/// Returns the cases of each link type, every expression once. If lines expect different results
/// for an expression, one with an expected difference or error counts.
///
/// # Panics
/// The same as for [`cases`].
#[must_use]
pub fn by_link_type() -> BTreeMap<u32, Vec<Case>> {
    let mut index = HashMap::new();
    let mut found: BTreeMap<u32, Vec<Case>> = BTreeMap::new();
    for case in cases() {
        for dlt in case.dlts.iter() {
            let of_type = found.entry(*dlt).or_default();
            let key = (*dlt, case.expression.clone());
            let at = *index.entry(key).or_insert(of_type.len());
            match of_type.get_mut(at) {
                Some(known) if case.expected != Expected::Agreement => *known = case.clone(),
                Some(_) => {}
                None => of_type.push(case.clone()),
            }
        }
    }
    found
}

fn parse(text: &str, file: &str, types: &LinkTypes, cases: &mut Vec<Case>) {
    let mut group: Option<(Arc<[u32]>, Expected)> = None;
    for (line, number) in text.lines().zip(1..) {
        if let Some(header) = line.strip_prefix('@') {
            let (names, expected) = match header.split_once(" : ") {
                None => (header, Expected::Agreement),
                Some((names, "refused")) => (names, Expected::Refused),
                Some((names, "newer")) => (names, Expected::Newer),
                Some((names, word)) => {
                    let reason = word.strip_prefix("known, ");
                    let reason = reason.unwrap_or_else(|| panic!("{file}:{number}: {word:?}"));
                    (names, Expected::Known(reason.into()))
                }
            };
            group = Some((types.resolve(names).into(), expected));
        } else if is_content(line) {
            let place = format!("{file}:{number}");
            let Some((dlts, expected)) = group.clone() else {
                panic!("{place}: no link type yet");
            };
            cases.push(Case {
                expression: line.to_owned(),
                dlts,
                expected,
                place,
            });
        }
    }
}

fn is_content(line: &str) -> bool {
    !line.starts_with('#') && !line.is_empty()
}

fn folder() -> PathBuf {
    crate::repository().join("testdata/filter/agreement")
}
