//! The convention for errors, checked in the sources of all crates: a message includes its cause, and
//! `source()` does not return that cause again.
//!
//! With thiserror this means: an error with a written message has neither `#[from]` nor `#[source]`, and a
//! field with the cause is `r#source`. Transparent errors pass on both the message and the source of their
//! content, which follows the same convention.

use std::fs;
use std::path::{Path, PathBuf};

/// A crate for tests only, whose error prints its source and returns it.
const LEFT_OUT: &str = "testkit";

#[test]
fn no_error_prints_its_source_and_returns_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for entry in fs::read_dir(crates).expect("the folder of all crates") {
        let folder = entry.expect("a crate").path();
        if !folder.ends_with(LEFT_OUT) && folder.join("src").is_dir() {
            walk(&folder.join("src"), &mut paths);
        }
    }
    let (mut messages, mut wrong) = (0, Vec::new());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a source file");
        for (message, fields) in errors(&text) {
            messages += 1;
            if returns_a_source(message, fields) {
                wrong.push(format!("{}: {message}", path.display()));
            }
        }
    }
    assert!(messages > 200, "{messages} messages");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_way_to_return_a_source_is_found() {
    for (text, is_wrong) in [
        ("#[error(\"a: {0}\")] A(#[from] B),", true),
        ("#[error(\"a: {0}\")] A(#[source] B),", true),
        ("#[error(\"a: {source}\")]\nA { b: u8, source: B },", true),
        ("#[error(\"a\")]\npub struct A { pub source: B }", true),
        (
            "#[error(\"a: {source}\")]\nA { b: u8, r#source: B },",
            false,
        ),
        ("#[error(\"a (b)\", c(\")\"))] A(B),\nsource: B", false),
        ("#[error(transparent)] A(#[from] B),", false),
        (
            "#[error(\"a\")] A, #[error(transparent)] C(#[from] B),",
            false,
        ),
    ] {
        let found = errors(text).any(|(message, fields)| returns_a_source(message, fields));
        assert_eq!(found, is_wrong, "{text}");
    }
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a source").path();
        if path.is_dir() {
            walk(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

/// Returns the messages in a source file, each with the text of its fields.
fn errors(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let starts = text.match_indices("#[error(");
    starts.map(|(at, start)| {
        let (message, rest) = parenthesised(&text[at + start.len()..]);
        // After the attribute's end come other attributes, comments, and the name.
        let lines = rest.trim_start_matches(']').lines().map(str::trim);
        let ends = |line: &str| !line.is_empty() && !line.starts_with(['#', '/']);
        let name = lines
            .into_iter()
            .find(|line| ends(line))
            .unwrap_or_default();
        let behind = rest.find(name).map_or("", |at| &rest[at..]);
        let fields = match behind.find(['(', '{', ',', ';']) {
            Some(open) if behind[open..].starts_with(['(', '{']) => {
                parenthesised(&behind[open + 1..]).0
            }
            _ => "",
        };
        (message, fields)
    })
}

/// Returns the text before the bracket that closes those around `text`, and the text after it.
fn parenthesised(text: &str) -> (&str, &str) {
    let (mut depth, mut in_string, mut escaped) = (1, false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            '(' | '{' if !in_string => depth += 1,
            ')' | '}' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (&text[..at], &text[at + 1..]);
        }
    }
    (text, "")
}

/// Returns whether an error of that message and these fields returns one of them as its source.
fn returns_a_source(message: &str, fields: &str) -> bool {
    let is_source = |field: &str| {
        let field = field.trim().trim_start_matches("pub ");
        field.starts_with("source:")
    };
    let by_name = fields.split(['\n', ',']).any(is_source);
    message.trim() != "transparent"
        && (fields.contains("#[from]") || fields.contains("#[source]") || by_name)
}
