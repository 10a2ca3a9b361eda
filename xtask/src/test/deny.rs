//! Checks the rules for dependencies (`deny.toml`), for each lock file of the repository, with cargo-deny.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::report::{Outcome, Report};
use super::tools::DENY;
use crate::process;

/// The packages with a lock file: the workspace, and those outside of it.
const MANIFESTS: [&str; 5] = [
    "Cargo.toml",
    "fuzz/Cargo.toml",
    "query/Cargo.toml",
    "python/Cargo.toml",
    "crates/pcap-abi/tests/guests/rust/Cargo.toml",
];
/// The time limit for fetching the advisory database.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// Runs two checks of each lock file.
pub(super) fn run(repository: &Path, report: &mut Report) {
    let missing = report.find("cargo-deny", || DENY.cargo(repository)).err();
    // The database comes from the network, again each time.
    let no_database = missing.clone().or_else(|| fetch(repository));
    for manifest in MANIFESTS {
        let rules = ["licenses", "bans", "sources"];
        let step = format!("licences, versions and sources of dependencies: {manifest}");
        report.step(&step, || {
            check(repository, manifest, &rules, missing.as_deref())
        });
        let step = format!("advisories on dependencies: {manifest}");
        let rules = ["advisories"];
        report.step(&step, || {
            check(repository, manifest, &rules, no_database.as_deref())
        });
    }
}

fn check(repository: &Path, manifest: &str, rules: &[&str], missing: Option<&str>) -> Outcome {
    if let Some(reason) = missing {
        return Outcome::Skipped(reason.to_owned());
    }
    let checked = deny(repository, manifest)
        .and_then(|mut deny| process::check(deny.arg("check").args(rules)));
    Outcome::from(checked)
}

/// Returns why the advisory database is unavailable.
fn fetch(repository: &Path) -> Option<String> {
    let mut fetch = match deny(repository, MANIFESTS[0]) {
        Ok(deny) => deny,
        Err(reason) => return Some(reason),
    };
    let mut fetch = process::limited(FETCH_LIMIT, fetch.args(["fetch", "db"]));
    (!process::succeeds(&mut fetch))
        .then(|| "the advisory database (RustSec, on GitHub) cannot be fetched".to_owned())
}

fn deny(repository: &Path, manifest: &str) -> Result<Command, String> {
    let mut deny = DENY.cargo(repository)?;
    deny.args(["deny", "--locked", "--config", "deny.toml"]);
    deny.args(["--manifest-path", manifest]);
    Ok(deny)
}
