//! A short run of every fuzz target, from the committed seeds.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ringtap_testkit::Need;

use super::report::{Outcome, Report};
use super::tools::{self, FUZZ};
use crate::process;

/// Targets that run at a time.
const AT_ONCE: usize = 2;
/// Seconds for each target; `RINGTAP_FUZZ_SECONDS` overrides it.
const SECONDS: u64 = 10;
/// Targets of native code begin so. Building its code generator with the sanitizer takes longer
/// than all the rest together, so it is left to those who change it (CONTRIBUTING.md).
const NATIVE_CODE: &str = "jit_";
/// The target that compiles the same with libpcap, and so needs its headers.
const BESIDE_LIBPCAP: &str = "filter_agree";
/// Beyond the fuzzing itself: start, seeds, and the report of a find.
const SLACK: u64 = 120;
/// Building with the sanitizer, on a busy machine.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);

/// Builds the targets once, then runs each as a check of its own.
pub(super) fn run(repository: &Path, report: &mut Report) {
    let targets = targets(repository);
    let cargo = || tools::nightly(repository).and_then(|()| FUZZ.cargo(repository));
    let mut cargo = match report.find("cargo-fuzz", cargo) {
        Ok(cargo) => cargo,
        Err(reason) => {
            for target in targets {
                let skipped = || Outcome::Skipped(reason.clone());
                report.step(&format!("fuzz {target}"), skipped);
            }
            return;
        }
    };
    // A short run finds no less for being slower, and the build takes half the time.
    cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    let environment = environment(&cargo);
    process::quiet_off_screen(cargo.args(["fuzz", "build"]));
    let mut build = process::limited(BUILD_LIMIT, &cargo);
    if report.step("fuzz build", || Outcome::from(process::check(&mut build))) {
        let ran = Mutex::new(BTreeMap::new());
        println!("\n== fuzz targets, {AT_ONCE} at a time");
        run_all(repository, &targets, &environment, &ran);
        for (target, outcome) in ran.into_inner().unwrap_or_else(PoisonError::into_inner) {
            report.step(&format!("fuzz {target}"), || outcome);
        }
    }
}

/// Runs the targets two at a time; each uses one processor.
fn run_all<'a>(
    repository: &Path,
    targets: &'a [String],
    environment: &[(OsString, OsString)],
    ran: &Mutex<BTreeMap<&'a str, Outcome>>,
) {
    let left = Mutex::new(targets.iter());
    let work = || {
        let next = || lock(&left).next();
        while let Some(target) = next() {
            let outcome = run_one(repository, target, environment);
            lock(ran).insert(target, outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(work);
        }
    });
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_one(repository: &Path, target: &str, environment: &[(OsString, OsString)]) -> Outcome {
    if target.starts_with(NATIVE_CODE) {
        let reason = "needs native code under the sanitizer: --features jit";
        return Outcome::Skipped(reason.into());
    }
    let unmet = Need::LibpcapDev.unmet();
    if let Some(reason) = unmet.filter(|_| target == BESIDE_LIBPCAP) {
        return Outcome::Skipped(reason);
    }
    fuzz(repository, target, environment)
}

fn targets(repository: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(repository.join("fuzz/fuzz_targets")) else {
        return Vec::new();
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let sources = paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<_> = sources.filter_map(|path| stem(&path)).collect();
    names.sort();
    names
}

fn stem(path: &Path) -> Option<String> {
    Some(path.file_stem()?.to_str()?.to_owned())
}

/// Returns environment variables for other commands of the same kind.
fn environment(cargo: &Command) -> Vec<(OsString, OsString)> {
    let set = cargo.get_envs();
    set.filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect()
}

fn fuzz(repository: &Path, target: &str, environment: &[(OsString, OsString)]) -> Outcome {
    let seconds = std::env::var("RINGTAP_FUZZ_SECONDS").ok();
    let seconds = seconds.and_then(|value| value.parse().ok());
    let seconds = seconds.unwrap_or(SECONDS);
    // New inputs go to the first folder: not into the committed corpus.
    let finds = match process::folder() {
        Ok(folder) => folder,
        Err(reason) => return Outcome::Failed(reason),
    };
    let mut command = process::nightly_cargo(repository);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.args(["fuzz", "run", target]).arg(finds.path());
    command.args(seeds(repository, target));
    command.arg("--").arg(format!("-max_total_time={seconds}"));
    command.args(["-timeout=10", "-rss_limit_mb=2048"]);
    command.args(["-print_final_stats=1", "-verbosity=0"]);
    let limit = Duration::from_secs(seconds + SLACK);
    Outcome::from(process::check_quietly(&mut process::limited(
        limit, &command,
    )))
}

fn seeds(repository: &Path, target: &str) -> Option<PathBuf> {
    let folder = repository.join("fuzz/corpus").join(target);
    folder.is_dir().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the manifest names every target: others are not built, and nobody would notice.
    #[test]
    fn each_target_is_built() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = std::fs::read_to_string(repository.join("fuzz/Cargo.toml"))
            .expect("the manifest of the targets");
        let targets = targets(&repository);
        assert!(targets.iter().any(|target| target == "filter_passes"));
        for target in targets {
            let lines = format!("name = \"{target}\"\npath = \"fuzz_targets/{target}.rs\"\n");
            assert!(manifest.contains(&lines), "{target}");
        }
    }
}
