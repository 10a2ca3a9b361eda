//! `cargo xtask bench`: `ringtap bench`, built with `--release` before; `readme`: its tables in the documents;
//! `options`: the tables of options in them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ringtap_bench::table;

use crate::install;
use crate::process::{self, at};

/// Builds ringtap, ringtap-bench and the libpcap, and passes the arguments on.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    build_and_run(arguments).unwrap_or_else(|reason| process::exit("bench", Err(reason)))
}

/// Writes the measured tables into the README and the pages of `docs/`, from the results in a folder.
pub(crate) fn readme(folder: &str) -> ExitCode {
    let written = write_tables(&ringtap_testkit::repository(), Path::new(folder));
    process::exit("readme", written)
}

/// Writes the tables of options into the pages of `docs/reference/`, by the tests that check them.
pub(crate) fn options() -> ExitCode {
    let mut cargo = process::cargo(&ringtap_testkit::repository());
    cargo.args(["test", "--quiet", crate::test::FEATURES, "the_options"]);
    cargo.args(["--package=ringtap", "--package=ringtap-bench"]);
    cargo.args(["--bin=ringtap", "--bin=ringtap-bench"]);
    process::exit(
        "options",
        process::check(cargo.env("RINGTAP_WRITE_OPTIONS", "1")),
    )
}

fn write_tables(repository: &Path, folder: &Path) -> Result<(), String> {
    let results = ringtap_bench::report::load(folder).map_err(|error| error.to_string())?;
    for path in documents(repository)? {
        let text = std::fs::read_to_string(&path).map_err(at(&path))?;
        let new = table::filled(&text, &results).map_err(at(&path))?;
        if new != text {
            std::fs::write(&path, new).map_err(at(&path))?;
            println!("written: {}", path.display());
        }
    }
    Ok(())
}

/// Returns the README, if there is one, and the pages of `docs/` and its folders.
pub(crate) fn documents(repository: &Path) -> Result<Vec<PathBuf>, String> {
    let mut paths = vec![repository.join("README.md")];
    let folder = repository.join("docs");
    if folder.is_dir() {
        let below = process::below(&folder, &[])?;
        paths.extend(below.into_iter().map(|(path, _)| path));
    }
    paths.retain(|path| path.is_file() && path.extension().is_some_and(|end| end == "md"));
    paths.sort();
    Ok(paths)
}

/// Checks that the measured tables of documents match the results in `docs/report`.
pub(crate) fn stale_tables(repository: &Path) -> Result<Vec<String>, String> {
    let results = ringtap_bench::report::load(&repository.join("docs/report"));
    let results = results.map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for path in documents(repository)? {
        let text = std::fs::read_to_string(&path).map_err(at(&path))?;
        let wrong = match table::filled(&text, &results) {
            Ok(new) if new == text => continue,
            Ok(_) => "not what docs/report gives; `cargo xtask readme docs/report`".to_owned(),
            Err(reason) => reason,
        };
        let name = path.strip_prefix(repository).unwrap_or(&path);
        found.push(format!("{}: {wrong}", name.display()));
    }
    Ok(found)
}

fn build_and_run(arguments: &[&str]) -> Result<ExitCode, String> {
    let repository = ringtap_testkit::repository();
    install::build(install::RELEASE, None)?;
    let mut command = Command::new(process::built_program("release", "ringtap")?);
    command.arg("bench").args(arguments);
    if let Some(commit) = commit(&repository) {
        command.env("RINGTAP_COMMIT", commit);
    }
    let status = command.status().map_err(|error| error.to_string())?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Returns the commit, with a `+` if the tree differs from it.
fn commit(repository: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .current_dir(repository)
            .args(arguments)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "-uno"])?.is_empty();
    Some(commit + if changed { "+" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::{stale_tables, write_tables};

    #[test]
    fn a_table_that_is_not_what_the_results_give_is_found() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let root = folder.path();
        let report = root.join("docs/report");
        std::fs::create_dir_all(&report).expect("a folder");
        let measured = ringtap_testkit::repository().join("docs/report/idle.json");
        std::fs::copy(measured, report.join("idle.json")).expect("results");
        let page = root.join("docs/explanation/page.md");
        std::fs::create_dir_all(page.parent().expect("a folder")).expect("a folder");
        let old = "text\n<!-- measured idle: begin -->\n<!-- measured idle: end -->\n";
        std::fs::write(&page, old).expect("a page");
        let found = stale_tables(root).expect("looked");
        assert!(
            found.len() == 1 && found[0].starts_with("docs/explanation/page.md: not what"),
            "{found:?}"
        );
        write_tables(root, &report).expect("written");
        assert_eq!(stale_tables(root), Ok(Vec::new()));
        let text = std::fs::read_to_string(&page).expect("the page");
        assert!(text.contains("| tcpdump: "), "{text}");
        std::fs::write(&page, text.replacen("| tcpdump: 0", "| tcpdump: 1", 1)).expect("a page");
        assert_eq!(stale_tables(root).map(|found| found.len()), Ok(1));
    }
}
