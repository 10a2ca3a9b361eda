//! The corpus: public capture files kept beside the repository, never copied into it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Returns the folder of capture files: `RINGTAP_CORPUS`, otherwise `../shared/corpus` beside the
/// repository, otherwise the one that `cargo xtask corpus` creates ([`fetched`]). `None` if it does
/// not exist; [`Need::Corpus`](crate::Need::Corpus) is then unmet.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("RINGTAP_CORPUS") {
        return Some(PathBuf::from(named)).filter(|folder| folder.is_dir());
    }
    let mut places = beside().into_iter().chain(fetched());
    places.find(|folder| folder.is_dir())
}

fn beside() -> Option<PathBuf> {
    Some(crate::repository().parent()?.join("shared/corpus"))
}

/// Returns whether the corpus is the one beside the repository, whose differences between programs are known
/// one by one.
#[must_use]
pub fn is_beside() -> bool {
    folder().is_some() && folder() == beside()
}

/// Returns the folder in which `cargo xtask corpus` stores the corpus: `ringtap/corpus` in the
/// user's cache, which may not exist. `None` for a user without a home.
#[must_use]
pub fn fetched() -> Option<PathBuf> {
    Some(cache()?.join("corpus"))
}

/// Returns ringtap's folder in the user's cache, which may not exist. `None` for a user without a
/// home.
#[must_use]
pub fn cache() -> Option<PathBuf> {
    let named = |variable| std::env::var_os(variable).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let cache = cache.or_else(|| Some(named("HOME")?.join(".cache")));
    Some(cache?.join("ringtap"))
}

/// Returns the path of a file of the corpus by its name there, such as `ndpi/netflix.pcap`. Tests
/// made for one file need [`Need::CorpusFile`](crate::Need::CorpusFile).
#[must_use]
pub fn file(name: &str) -> Option<PathBuf> {
    let path = folder()?.join(name);
    path.is_file().then_some(path)
}

/// Returns every capture file of the corpus, sorted by path; empty without a corpus.
///
/// # Panics
/// Panics if a folder of the corpus cannot be read.
#[must_use]
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(folder) = folder() {
        collect(&folder, &mut found);
    }
    found.sort();
    found
}

/// Returns the path of a corpus file as tests name it: relative to the corpus.
#[must_use]
pub fn name(file: &Path) -> String {
    let folder = folder().unwrap_or_default();
    file.strip_prefix(folder)
        .unwrap_or(file)
        .display()
        .to_string()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("corpus folder {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a readable entry of the corpus").path();
        if path.is_dir() {
            collect(&path, found);
        } else if is_capture(&path) {
            found.push(path);
        }
    }
}

/// Returns whether a file is a capture, by its name.
#[must_use]
pub fn is_capture(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("pcap" | "pcapng" | "cap"))
}
