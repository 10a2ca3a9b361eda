//! Programs that check the project and are no part of it: cargo-deny, cargo-fuzz, cargo-public-api.
//!
//! If a machine lacks one, cargo builds it once from crates.io, in the version named here, into
//! `target/tools`. Without optimisation each takes a minute or two on two processors.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::process;

/// A subcommand of cargo.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
    /// Whether the nightly toolchain builds and runs it.
    nightly: bool,
}

const fn tool(name: &'static str, version: &'static str, nightly: bool) -> Tool {
    Tool {
        name,
        version,
        nightly,
    }
}

/// The version that `deny.toml` is written for.
pub(super) const DENY: Tool = tool("deny", "0.20.2", false);
pub(super) const FUZZ: Tool = tool("fuzz", "0.13.2", true);
pub(super) const PUBLIC_API: Tool = tool("public-api", "0.52.0", true);

/// The time limit for building one.
const BUILD_LIMIT: Duration = Duration::from_secs(900);
/// The time limit for fetching a toolchain.
const TOOLCHAIN_LIMIT: Duration = Duration::from_secs(600);

/// Returns the tools that could not be built, with the reasons: each is tried once.
fn failed() -> MutexGuard<'static, BTreeMap<&'static str, String>> {
    static FAILED: Mutex<BTreeMap<&str, String>> = Mutex::new(BTreeMap::new());
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tool {
    /// Returns a cargo that has the subcommand: the user's own, or that of `target/tools`, built if
    /// necessary.
    ///
    /// # Errors
    /// The reason why there is none, for a skip.
    pub(super) fn cargo(self, repository: &Path) -> Result<Command, String> {
        for add in [false, true] {
            if self.answers(&mut self.command(repository, add)?) {
                return self.command(repository, add);
            }
        }
        let (program, version) = (format!("cargo-{}", self.name), self.version);
        if let Some(reason) = failed().get(self.name) {
            return Err(reason.clone());
        }
        println!("{program} {version} is built into target/tools");
        let mut install = self.plain(repository);
        install
            .args(["install", "--locked", "--debug", "--root"])
            .arg(folder(repository))
            .arg(format!("{program}@{version}"))
            // For a tool that runs for seconds, what helps to debug it is not worth its time.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", folder(repository).join("build"));
        let built = process::check(&mut process::limited(BUILD_LIMIT, &install));
        // Another version is never built from it.
        let _ = std::fs::remove_dir_all(folder(repository).join("build"));
        if let Err(reason) = built {
            let reason = format!("needs {program}, which cannot be built: {reason}");
            failed().insert(self.name, reason.clone());
            return Err(reason);
        }
        self.command(repository, true)
    }

    fn plain(self, repository: &Path) -> Command {
        if self.nightly {
            process::nightly_cargo(repository)
        } else {
            process::cargo(repository)
        }
    }

    /// Returns the command, with `target/tools` added to the search path or not.
    fn command(self, repository: &Path, add: bool) -> Result<Command, String> {
        let mut command = self.plain(repository);
        if add {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let own = std::iter::once(folder(repository).join("bin"));
            let path = std::env::join_paths(own.chain(std::env::split_paths(&path)));
            let path = path.map_err(|error| format!("the search path: {error}"))?;
            command.env("PATH", path);
        }
        Ok(command)
    }

    fn answers(self, cargo: &mut Command) -> bool {
        process::succeeds(cargo.args([self.name, "--version"]))
    }
}

/// Checks that there is a nightly toolchain. If there is none, rustup installs it.
///
/// # Errors
/// The reason why there is none, for a skip.
pub(super) fn nightly(repository: &Path) -> Result<(), String> {
    let is_there = || process::succeeds(process::nightly_cargo(repository).arg("--version"));
    if is_there() {
        return Ok(());
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
    let installed = process::check(&mut process::limited(TOOLCHAIN_LIMIT, &install));
    installed.map_err(|reason| format!("needs a nightly toolchain: {reason}"))
}

fn folder(repository: &Path) -> PathBuf {
    repository.join("target/tools")
}
