//! The rules of the house that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

use super::silence;
use crate::process::{self, at};

/// One rule.
pub(super) struct Check {
    pub(super) name: &'static str,
    find: fn(&Path) -> Result<Vec<String>, String>,
}

const fn check(name: &'static str, find: fn(&Path) -> Result<Vec<String>, String>) -> Check {
    Check { name, find }
}

/// All rules.
pub(super) const CHECKS: [Check; 10] = [
    check("house: no file over 800 lines", long_files),
    check("house: unsafe only where it is allowed", stray_unsafe),
    check("house: every unsafe block says why", unexplained_unsafe),
    check("house: no allow, todo, unimplemented, dbg", banned_words),
    check(
        "house: tests are skipped by name, never in silence",
        silent_tests,
    ),
    check(
        "house: numbers of protocols are named by crates/packet",
        spelled_numbers,
    ),
    check(
        "house: comments begin with their subject or verb",
        subjectless,
    ),
    check("house: links in documents lead somewhere", dead_links),
    check("house: ARCHITECTURE.md names every crate", unnamed_crates),
    check(
        "house: measured tables are what docs/report gives",
        crate::bench::stale_tables,
    ),
];

const LONGEST: usize = 800;
/// The crates whose purpose needs unsafe code; everywhere else it is forbidden.
const UNSAFE_CRATES: [&str; 3] = ["crates/sys", "crates/jit", "crates/pcap-abi"];
/// Ethernet types that many would spell: those of IPv6, VLAN tags and MPLS.
const ETHER_TYPES: [&str; 4] = ["0x86dd", "0x8100", "0x88a8", "0x8847"];
/// Words that a comment must not begin with: it says what it is about, or what the code does.
const NO_SUBJECTS: [&str; 6] = ["Of", "What", "Who", "Whoever", "Whom", "Whose"];
/// How far above an unsafe block its reason may begin, in lines.
const REASON_WITHIN: usize = 14;
/// Folders that are not source.
const NOT_SOURCE: [&str; 7] = [
    "target",
    "node_modules",
    ".git",
    "bench-out",
    "artifacts",
    "coverage",
    "corpus",
];

impl Check {
    /// Looks for violations.
    ///
    /// # Errors
    /// How many there are; each is printed.
    pub(super) fn run(&self, repository: &Path) -> Result<(), String> {
        let found = (self.find)(repository)?;
        for violation in &found {
            println!("{violation}");
        }
        match found.len() {
            0 => Ok(()),
            count => Err(format!("{count} found")),
        }
    }
}

/// A source file, its path relative to the repository.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// Returns lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    fn at(&self, number: usize, what: &str) -> String {
        format!("{}:{number}: {what}", self.path)
    }
}

fn sources(repository: &Path, extension: &str) -> Result<Vec<Source>, String> {
    let below = process::below(repository, &NOT_SOURCE)?.into_iter();
    let files = below.filter(|(_, metadata)| !metadata.is_dir());
    let wanted = |path: &PathBuf| path.extension().is_some_and(|e| e == extension);
    let mut paths: Vec<PathBuf> = files.map(|(path, _)| path).filter(wanted).collect();
    paths.sort();
    paths.iter().map(|path| source(repository, path)).collect()
}

fn source(repository: &Path, path: &Path) -> Result<Source, String> {
    let text = fs::read_to_string(path).map_err(at(path))?;
    let path = path.strip_prefix(repository).unwrap_or(path);
    Ok(Source {
        path: path.display().to_string(),
        text,
    })
}

fn long_files(repository: &Path) -> Result<Vec<String>, String> {
    let long = sources(repository, "rs")?.into_iter().filter_map(|source| {
        let lines = source.lines().count();
        (lines > LONGEST).then(|| format!("{}: {lines} lines", source.path))
    });
    Ok(long.collect())
}

fn stray_unsafe(repository: &Path) -> Result<Vec<String>, String> {
    let is_allowed = |path: &str| UNSAFE_CRATES.iter().any(|allowed| is_below(path, allowed));
    let mut found = Vec::new();
    let sources = sources(repository, "rs")?;
    for source in sources.iter().filter(|source| !is_allowed(&source.path)) {
        for (number, line) in source.lines() {
            if has_word(&code(line), "unsafe") {
                found.push(source.at(number, "unsafe code"));
            }
        }
    }
    Ok(found)
}

fn unexplained_unsafe(repository: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for source in &sources(repository, "rs")? {
        let lines: Vec<&str> = source.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            let code = code(line);
            let opens = code.contains("unsafe {") || code.contains("unsafe impl");
            let above = &lines[index.saturating_sub(REASON_WITHIN)..=index];
            if opens && !above.iter().any(|line| line.contains("SAFETY:")) {
                found.push(source.at(index + 1, "no SAFETY comment"));
            }
        }
    }
    Ok(found)
}

fn banned_words(repository: &Path) -> Result<Vec<String>, String> {
    // Put together here, so that this file does not find itself.
    let macros = ["todo", "unimplemented", "dbg"].map(|name| format!("{name}!("));
    let allows = ["#[", "#!["].map(|open| format!("{open}allow("));
    let mut found = Vec::new();
    for source in &sources(repository, "rs")? {
        for (number, line) in source.lines() {
            let code = code(line);
            let banned = macros.iter().chain(&allows);
            let banned = banned.filter(|word| code.contains(word.as_str()));
            found.extend(banned.map(|word| source.at(number, word)));
        }
    }
    Ok(found)
}

/// Finds comments that begin with a word which cannot be the subject of a sentence.
fn subjectless(repository: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for source in &sources(repository, "rs")? {
        let mut before = "";
        for (number, line) in source.lines() {
            let text = comment(line).unwrap_or_default();
            let word = text.split(' ').next().unwrap_or_default();
            if before.is_empty() && NO_SUBJECTS.contains(&word) {
                found.push(source.at(number, text));
            }
            before = text;
        }
    }
    Ok(found)
}

/// Returns the text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

fn silent_tests(repository: &Path) -> Result<Vec<String>, String> {
    let sources = sources(repository, "rs")?;
    let mut found = Vec::new();
    for source in &sources {
        let folder = tests_folder(&source.path);
        let beside = sources
            .iter()
            .filter(|other| folder.is_some() && tests_folder(&other.path) == folder);
        let bodies = beside.flat_map(|other| silence::bodies(&other.text));
        let bodies: Vec<String> = bodies.collect();
        let mut silent = silence::find(&source.text, &bodies);
        if folder.is_some() {
            silent.extend(silence::find_searches(&source.text));
        }
        let silent = silent.into_iter();
        found.extend(silent.map(|(number, what)| source.at(number, what)));
    }
    Ok(found)
}

/// Finds Ethernet types outside the crate that names them. Tests make packets of such numbers.
fn spelled_numbers(repository: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for source in &sources(repository, "rs")? {
        let is_product = source.path.starts_with("crates/") && source.path.contains("/src/");
        let is_exempt = ["crates/packet", "crates/agreement"]
            .iter()
            .any(|allowed| is_below(&source.path, allowed));
        if !is_product || is_exempt || source.path.ends_with("tests.rs") {
            continue;
        }
        let product = source
            .lines()
            .take_while(|(_, line)| !["#[cfg(test)]", "mod tests {"].contains(line));
        for (number, line) in product {
            let spelled = ETHER_TYPES
                .iter()
                .filter(|word| has_word(&code(line), word));
            found.extend(spelled.map(|word| source.at(number, word)));
        }
    }
    Ok(found)
}

/// Returns the crate's folder of tests that a source is in.
fn tests_folder(path: &str) -> Option<&str> {
    path.find("/tests/").map(|end| &path[..end])
}

fn dead_links(repository: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for source in &sources(repository, "md")? {
        let folder = repository.join(&source.path);
        let folder = folder.parent().unwrap_or(repository);
        for (number, line) in source.lines() {
            let dead = links(line).filter(|link| !folder.join(link).exists());
            found.extend(dead.map(|link| source.at(number, link)));
        }
    }
    Ok(found)
}

/// Returns the targets of a line's links that are files of the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    files
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|file| !file.is_empty())
}

fn unnamed_crates(repository: &Path) -> Result<Vec<String>, String> {
    let text = source(repository, &repository.join("ARCHITECTURE.md"))?.text;
    let explain = |error: std::io::Error| format!("crates: {error}");
    let mut found = Vec::new();
    for entry in fs::read_dir(repository.join("crates")).map_err(explain)? {
        let name = entry.map_err(explain)?.file_name();
        let folder = format!("crates/{}", name.to_string_lossy());
        if !text.contains(&format!("`{folder}`")) {
            found.push(format!("{folder} is not in ARCHITECTURE.md"));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns a line without its comment and string literals, as far as one line shows them.
fn code(line: &str) -> String {
    let line = line.replace("\\\"", "").replace("'\"'", "");
    let outside = line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
    outside.split("//").next().unwrap_or_default().to_owned()
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    text.split(|character| !is_part(character))
        .any(|part| part == word)
}

fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{CHECKS, code, has_word, is_below, links};

    #[test]
    fn words_are_whole_and_comments_are_not_code() {
        let has_unsafe = |line: &str| has_word(&code(line), "unsafe");
        assert!(has_unsafe("let x = unsafe { f() };"));
        assert!(!has_unsafe("#![forbid(unsafe_code)]"));
        assert!(!has_unsafe("f(); // unsafe"));
        assert!(!has_unsafe("println!(\"unsafe only here\")"));
        assert!(has_unsafe("call('\"', unsafe { f(\"a\\\"b\") })"));
    }

    #[test]
    fn folders_are_whole() {
        assert!(is_below("crates/sys/src/lib.rs", "crates/sys"));
        assert!(!is_below("crates/system/src/lib.rs", "crates/sys"));
    }

    #[test]
    fn links_to_files_are_found() {
        let line = "[a](docs/a.md), [b](#b), [c](https://example.org/c.md), [d](d.md#part)";
        assert_eq!(links(line).collect::<Vec<_>>(), ["docs/a.md", "d.md"]);
    }

    /// Checks each rule against a repository that breaks it once.
    #[test]
    fn every_rule_finds_its_violation() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("ARCHITECTURE.md", "`crates/a` and [more](more.md)\n");
        write(
            "docs/explanation/performance.md",
            "<!-- measured machine: begin -->\n<!-- measured machine: end -->\n",
        );
        write("crates/a/src/lib.rs", &"// line\n".repeat(801));
        write(
            "crates/a/src/b.rs",
            concat!("fn f() { un", "safe { g() } }\n"),
        );
        write("crates/a/src/c.rs", "const IPV6: u16 = 0x86dd;\n");
        write(
            "crates/a/src/d.rs",
            "/// What this is.\n///\n/// It is\n/// What it says.\nfn f() {}\n",
        );
        write(
            "crates/sys/src/lib.rs",
            concat!("#[all", "ow(dead_code)]\nfn f() {}\n"),
        );
        write(
            "crates/sys/tests/a.rs",
            "#[test]\nfn f() {\n    if g() {\n        return;\n    }\n}\n",
        );
        for check in CHECKS {
            assert_eq!(check.run(root), Err("1 found".to_owned()), "{}", check.name);
        }
    }
}
