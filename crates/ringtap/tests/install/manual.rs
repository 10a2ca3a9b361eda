//! The manual pages that `ringtap manual` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::RINGTAP;

/// A date in seconds since the epoch, and as it is printed.
const DATE: (&str, &str) = ("1769817600", "2026-01-31");

fn write(folder: &Path) -> Vec<PathBuf> {
    let mut command = Command::new(RINGTAP);
    let status = command
        .arg("manual")
        .arg(folder)
        .env("SOURCE_DATE_EPOCH", DATE.0)
        .status();
    assert!(status.expect("ringtap runs").success());
    let files = fs::read_dir(folder).expect("a folder");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(paths.len() >= 12, "{paths:?}");
    paths
}

pub(crate) fn lint() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = write(folder.path());
    let output = Command::new("mandoc")
        .args(["-T", "lint", "-W", "warning"])
        .args(&paths)
        .output();
    let output = output.expect("mandoc runs");
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    // Names of pages that are not installed yet are no fault of the text.
    let found: Vec<&str> = found
        .lines()
        .filter(|line| !line.contains("referenced manual not found"))
        .collect();
    assert!(
        found.is_empty() && output.stderr.is_empty(),
        "{}",
        found.join("\n")
    );
}

/// Returns a page as text, without the marks of bold and underlined letters.
fn shown(path: &Path) -> String {
    let output = Command::new("mandoc")
        .args(["-T", "utf8", "-O", "width=200"])
        .arg(path)
        .output();
    let text = String::from_utf8_lossy(&output.expect("mandoc runs").stdout).into_owned();
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '\u{8}' => drop(plain.pop()),
            letter => plain.push(letter),
        }
    }
    plain
}

pub(crate) fn complete() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in write(folder.path()) {
        let text = shown(&path);
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "EXAMPLES",
            "EXIT STATUS",
            "SEE ALSO",
        ] {
            assert!(
                text.contains(&format!("\n{section}\n")),
                "no {section} in {}:\n{text}",
                path.display()
            );
        }
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let words: &[&str] = match name.trim_start_matches("ringtap").trim_start_matches('-') {
            "" => &[],
            "config-check" => &["config", "check"],
            name => &[name],
        };
        if name == "ringtap-bench" {
            continue;
        }
        let help = Command::new(RINGTAP)
            .args(words)
            .arg("--help")
            .output()
            .expect("ringtap runs");
        let help = String::from_utf8_lossy(&help.stdout).into_owned();
        let options = help
            .split_whitespace()
            .filter(|word| word.starts_with("--") && word.len() > 4);
        // `--who[=<FIELDS>]` has an optional value.
        let plain = |word: &str| {
            let name = word.split('[').next().unwrap_or(word);
            name.trim_end_matches([',', ';', '.', ':', ')', ']'])
                .to_owned()
        };
        for option in options.map(plain) {
            assert!(
                text.contains(&option),
                "no {option} in {}:\n{text}",
                path.display()
            );
        }
    }
}

pub(crate) fn date() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in write(folder.path()) {
        let text = fs::read_to_string(&path).expect("a page");
        assert!(
            text.lines()
                .next()
                .is_some_and(|line| line.contains(DATE.1)),
            "{text}"
        );
    }
}
