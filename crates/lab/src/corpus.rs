//! The corpus: public capture files kept beside the repository, never copied into it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The folder of capture files: `RINGTAP_CORPUS`, else `../shared/corpus` beside the repository;
/// `None` where it does not exist, which is [`Need::Corpus`](crate::Need::Corpus) unmet.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("RINGTAP_CORPUS") {
        Some(named) => PathBuf::from(named),
        None => crate::repository().parent()?.join("shared/corpus"),
    };
    folder.is_dir().then_some(folder)
}

/// Every capture file of the corpus, in the order of the paths; empty without a corpus.
///
/// # Panics
/// When a folder of the corpus cannot be read.
#[must_use]
pub fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Some(folder) = folder() {
        collect(&folder, &mut found);
    }
    found.sort();
    found
}

/// The path of a corpus file as tests name it: relative to the corpus.
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

fn is_capture(path: &Path) -> bool {
    let extension = path.extension().and_then(OsStr::to_str);
    matches!(extension, Some("pcap" | "pcapng" | "cap"))
}
