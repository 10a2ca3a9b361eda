//! `cargo xtask test`: every check of the project, one after the other.
//!
//! What it is: a list of steps; each runs whatever came of the ones before, except that a build
//! that fails ends the list. A step that is not a test of libtest counts as one check. The last
//! line of the output is the summary alone: `N passed, N failed, N skipped`.

mod deny;
mod fuzz;
mod house;
mod kernels;
mod libtest;
mod peers;
mod report;
mod silence;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::corpus::Missing;
use crate::process;
use report::{Outcome, Report};

/// What the whole test run may take before it is taken to hang: several times what it takes on two
/// processors of its own. A single test that hangs is ended long before, by its suite.
const TESTS_LIMIT: Duration = Duration::from_secs(3000);

/// What is not built by default, and tested all the same.
pub(crate) const FEATURES: &str = "--features=ringtap/parquet";

/// Nothing is left to build for it.
const DEMO_LIMIT: Duration = Duration::from_secs(600);

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// What needs neither rights nor a network: format, house, clippy, and the tests that are not live.
    Quick,
    /// The dependencies alone.
    Deny,
    /// The fuzz targets alone.
    Fuzz,
}

/// Runs the steps.
pub(crate) fn run(extent: Extent) -> ExitCode {
    let repository = ringtap_testkit::repository();
    let repository = repository.as_path();
    let mut report = Report::new();
    match extent {
        Extent::Deny => deny::run(repository, &mut report),
        Extent::Fuzz => fuzz::run(repository, &mut report),
        Extent::Whole | Extent::Quick => run_tests(repository, extent, &mut report),
    }
    report.finish()
}

fn run_tests(repository: &Path, extent: Extent, report: &mut Report) {
    if extent == Extent::Whole {
        report.step("peers installed", peers::install);
        report.step("corpus", corpus);
    }
    report.step("format", || {
        cargo_check(repository, &["fmt", "--all", "--check"])
    });
    for check in house::CHECKS {
        report.step(check.name, || Outcome::from(check.run(repository)));
    }
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        FEATURES,
        "--",
        "-D",
        "warnings",
    ];
    report.step("clippy", || cargo_check(repository, &clippy));
    let build = ["test", "--workspace", FEATURES, "--no-run"];
    if report.step("build", || cargo_check(repository, &build)) {
        let kinds = ["--lib", "--bins", "--tests", "--examples"];
        report.step("tests", || tests(repository, &kinds, extent));
        if extent == Extent::Whole {
            after_tests(repository, report);
        }
    }
}

fn after_tests(repository: &Path, report: &mut Report) {
    report.step("libpcap.so.1 without native code", || {
        without_native_code(repository)
    });
    report.step("tests on Linux 6.1 in QEMU", kernels::run);
    report.step("tests in the documentation", || {
        tests(repository, &["--doc"], Extent::Whole)
    });
    deny::run(repository, report);
    fuzz::run(repository, report);
    report.step("demo", demo);
}

/// The captures that tests read: where this machine has none, Debian's.
fn corpus() -> Outcome {
    if ringtap_testkit::Need::Corpus.unmet().is_none() {
        return Outcome::Passed;
    }
    match crate::corpus::fetch() {
        Ok(_) => Outcome::Passed,
        Err(Missing::Unreachable(reason)) => Outcome::Skipped(reason),
        Err(Missing::Wrong(reason)) => Outcome::Failed(reason),
    }
}

/// The demo's quick form, as a program of its own: it may change what namespaces it is in.
fn demo() -> Outcome {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Outcome::Failed(format!("this program's path: {error}")),
    };
    let mut command = Command::new(program);
    Outcome::from(process::check(&mut process::limited(
        DEMO_LIMIT,
        command.args(["demo", "--quick"]),
    )))
}

fn cargo_check(repository: &Path, arguments: &[&str]) -> Outcome {
    Outcome::from(process::check(process::cargo(repository).args(arguments)))
}

fn tests(repository: &Path, kinds: &[&str], extent: Extent) -> Outcome {
    let mut command = process::cargo(repository);
    command
        .args(["test", "--workspace", FEATURES, "--no-fail-fast"])
        .args(kinds);
    if extent == Extent::Quick {
        command.env(ringtap_testkit::QUICK, "1");
    }
    libtest::run(&mut process::limited(TESTS_LIMIT, &command))
}

/// The library as it is built without its feature `jit`: the programs that compare it with Debian's, but for
/// those that are about waiting.
fn without_native_code(repository: &Path) -> Outcome {
    let mut command = process::cargo(repository);
    command.args(["test", "--package=ringtap-pcap-abi", "--test=abi"]);
    command.args(["--no-default-features", "--", "c::"]);
    command.args(["--skip=c::readiness", "--skip=c::loops_on"]);
    libtest::run(&mut process::limited(TESTS_LIMIT, &command))
}
