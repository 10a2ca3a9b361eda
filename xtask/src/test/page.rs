//! The page of `ringtap web`: the committed page is the one that its sources build.
//!
//! The sources are copied to `target/ui` and built there, with the packages of the committed lock file. The
//! browser tests of `ringtap web` use the same packages ([`ringtap_testkit::Need::PagePackages`]).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::report::{Outcome, Report};
use crate::process::{self, at};

/// The sources, below the repository.
const SOURCES: &str = "crates/ringtap/ui";
/// The files that npm needs; the rest of the folder is the built page.
const INPUTS: [&str; 8] = [
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "index.html",
    "public",
    "src",
    "tests",
];
/// The time limits for fetching packages, and for building the page.
const FETCH_LIMIT: Duration = Duration::from_secs(300);
const BUILD_LIMIT: Duration = Duration::from_secs(300);
/// The oldest Node.js that the page's builder supports.
const NODE: (u32, u32) = (20, 19);

/// Fetches the packages and builds the page, two checks.
pub(super) fn run(repository: &Path, report: &mut Report) {
    let place = ringtap_testkit::page_folder();
    let mut obstacle = None;
    report.step("packages of the page of ringtap web", || {
        match fetch(repository, &place) {
            Ok(()) => Outcome::Passed,
            Err(outcome) => {
                obstacle = Some("the packages of the page are missing".to_owned());
                outcome
            }
        }
    });
    let step = "the committed page is built from its sources";
    report.step(step, || match obstacle {
        Some(reason) => Outcome::Skipped(reason),
        None => Outcome::from(build(repository, &place)),
    });
}

fn fetch(repository: &Path, place: &Path) -> Result<(), Outcome> {
    node().map_err(Outcome::Skipped)?;
    copy_sources(repository, place).map_err(Outcome::Failed)?;
    let mut install = npm(place);
    install.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    // A registry that cannot be reached is no fault of the code.
    process::check_quietly(&mut process::limited(FETCH_LIMIT, &install))
        .map_err(|reason| Outcome::Skipped(format!("npm cannot fetch packages: {reason}")))
}

/// Checks that there is a Node.js that is new enough, with npm.
fn node() -> Result<(), String> {
    let (major, minor) = NODE;
    let needed = || format!("needs Node.js {major}.{minor} or later, with npm");
    let output = Command::new("node").arg("--version").output();
    let output = output.map_err(|_| needed())?;
    let version = String::from_utf8(output.stdout).map_err(|_| needed())?;
    let mut numbers = version.trim().trim_start_matches('v').split('.');
    let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
    let found = (number().unwrap_or(0), number().unwrap_or(0));
    if found < NODE || !process::succeeds(Command::new("npm").arg("--version")) {
        return Err(needed());
    }
    Ok(())
}

/// Replaces the sources in the folder, and leaves its packages.
fn copy_sources(repository: &Path, place: &Path) -> Result<(), String> {
    fs::create_dir_all(place).map_err(at(place))?;
    for name in INPUTS {
        let (from, to) = (repository.join(SOURCES).join(name), place.join(name));
        if to.is_dir() {
            fs::remove_dir_all(&to).map_err(at(&to))?;
        }
        process::check(Command::new("cp").arg("-r").arg(&from).arg(&to))?;
    }
    Ok(())
}

fn npm(place: &Path) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(place);
    command
}

fn build(repository: &Path, place: &Path) -> Result<(), String> {
    let mut build = npm(place);
    build.args(["run", "build"]);
    process::check_quietly(&mut process::limited(BUILD_LIMIT, &build))?;
    let committed = repository.join(SOURCES).join("dist");
    let (expected, built) = (files(&committed)?, files(&place.join("dist"))?);
    let different = expected.iter().filter(|file| !built.contains(file));
    let different = different.map(|(name, _)| name.display().to_string());
    let different: Vec<String> = different.collect();
    if different.is_empty() && expected.len() == built.len() {
        return Ok(());
    }
    Err(format!(
        "{SOURCES}/dist is not what the sources build ({}): run `npm ci && npm run build` there",
        different.join(", ")
    ))
}

/// Returns the names and contents of the files of a folder.
fn files(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        found.push((name, fs::read(&path).map_err(at(folder))?));
    }
    Ok(found)
}
