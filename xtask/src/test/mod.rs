//! `cargo xtask test`: every check of the project, one after the other.
//!
//! A list of steps. Each runs regardless of the earlier ones, except that a failed build ends the list. A
//! step that is not a test of libtest counts as one check. The last line of the output is only the summary:
//! `N passed, N failed, N skipped`.

pub(crate) mod api;
mod deny;
mod fuzz;
mod house;
mod kernels;
mod libtest;
mod page;
mod peers;
mod report;
mod silence;
mod tools;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::corpus::Missing;
use crate::process::{self, at};
use kernels::Machine;
use libtest::Log;
use report::{Outcome, Report};

/// The time limit for the whole test run: several times its duration on two idle processors. Each suite ends
/// a hanging test much earlier.
const TESTS_LIMIT: Duration = Duration::from_secs(3000);

/// Features that are not built by default but tested.
pub(crate) const FEATURES: &str = "--features=ringtap/parquet";

/// Nothing is left to build for it.
const DEMO_LIMIT: Duration = Duration::from_secs(600);

/// How much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// The checks that need neither privileges nor a network: format, house rules, and the tests that are not
    /// live. Clippy checks all dependencies again, which takes as long as building them.
    Quick,
    /// The format and the rules of the house alone.
    House,
    /// The public interfaces alone.
    Api,
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
        Extent::House => house_rules(repository, &mut report),
        Extent::Api => api::run(repository, &mut report),
        Extent::Deny => deny::run(repository, &mut report),
        Extent::Fuzz => fuzz::run(repository, &mut report),
        Extent::Whole | Extent::Quick => run_tests(repository, extent, &mut report),
    }
    report.finish()
}

fn run_tests(repository: &Path, extent: Extent, report: &mut Report) {
    if extent == Extent::Whole {
        report.step("peers installed", peers::install);
        report.step("goflow2 installed", peers::install_by_go);
        report.step("corpus", corpus);
        page::run(repository, report);
    }
    house_rules(repository, report);
    let clippy = [
        "clippy",
        "--workspace",
        "--all-targets",
        FEATURES,
        "--",
        "-D",
        "warnings",
    ];
    if extent == Extent::Whole {
        report.step("clippy", || cargo_check(repository, &clippy));
    }
    let build = ["test", "--workspace", FEATURES, "--no-run"];
    if report.step("build", || cargo_check(repository, &build)) {
        let mut log = Log::new(repository);
        let machine = (extent == Extent::Whole).then(Machine::start);
        let kinds = ["--lib", "--bins", "--tests", "--examples"];
        let mut failed = Vec::new();
        report.step("tests", || {
            let ran = libtest::run(&mut tests(repository, &kinds, extent), &mut log);
            failed = ran.failed;
            Outcome::Tests(ran.tally)
        });
        if let Some(machine) = machine {
            report.step("tests on Linux 6.1 in QEMU", || machine.outcome());
        }
        let again = || tests(repository, &[], extent);
        libtest::run_again(&failed, again, &mut log, report);
        if extent == Extent::Whole {
            after_tests(repository, report, &mut log);
        }
    }
}

fn house_rules(repository: &Path, report: &mut Report) {
    let format = ["fmt", "--all", "--check"];
    report.step("format", || cargo_check(repository, &format));
    for check in house::CHECKS {
        report.step(check.name, || Outcome::from(check.run(repository)));
    }
}

fn after_tests(repository: &Path, report: &mut Report, log: &mut Log) {
    let step = "libpcap.so.1 without native code";
    report.step(step, || without_native_code(repository, log));
    report.step("tests in the documentation", || {
        let mut command = tests(repository, &["--doc"], Extent::Whole);
        Outcome::Tests(libtest::run(&mut command, log).tally)
    });
    let step = "documentation without warnings";
    report.step(step, || documentation(repository));
    api::run(repository, report);
    let step = "savefile without codecs";
    report.step(step, || without_codecs(repository, log));
    deny::run(repository, report);
    fuzz::run(repository, report);
    report.step("demo", demo);
}

/// Returns the captures that tests read: if this machine has none, Debian's.
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

/// Runs the demo's quick form as a separate program, because it may change its namespaces.
fn demo() -> Outcome {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Outcome::Failed(format!("this program's path: {error}")),
    };
    let mut command = Command::new(program);
    let command = command.args(["demo", "--quick"]);
    Outcome::from(process::check(&mut process::limited(DEMO_LIMIT, command)))
}

fn cargo_check(repository: &Path, arguments: &[&str]) -> Outcome {
    let mut cargo = process::cargo(repository);
    process::quiet_off_screen(cargo.args(arguments));
    Outcome::from(process::check(&mut cargo))
}

fn tests(repository: &Path, kinds: &[&str], extent: Extent) -> Command {
    let mut command = process::cargo(repository);
    command.args(["test", "--workspace", FEATURES, "--no-fail-fast"]);
    command.args(kinds);
    if extent == Extent::Quick {
        command.env(ringtap_testkit::QUICK, "1");
    }
    process::limited(TESTS_LIMIT, &command)
}

/// Builds the pages of rustdoc; a dead link is an error.
fn documentation(repository: &Path) -> Outcome {
    let mut cargo = process::cargo(repository);
    cargo.args(["doc", "--workspace", "--no-deps", "--lib", FEATURES]);
    cargo.env("RUSTDOCFLAGS", "--deny=warnings");
    Outcome::from(process::check(process::quiet_off_screen(&mut cargo)))
}

/// Tests savefile without gzip, lz4 and zstd.
fn without_codecs(repository: &Path, log: &mut Log) -> Outcome {
    let mut cargo = process::cargo(repository);
    cargo.args(["test", "--package=ringtap-savefile", "--lib"]);
    cargo.args(["--no-default-features", "--no-fail-fast"]);
    let mut command = process::limited(TESTS_LIMIT, &cargo);
    Outcome::Tests(libtest::run(&mut command, log).tally)
}

/// Tests the library without its feature `jit`: the programs that compare it with Debian's, except those
/// about waiting. It uses the existing test program.
fn without_native_code(repository: &Path, log: &mut Log) -> Outcome {
    let mut build = process::cargo(repository);
    build.args(["build", "--package=ringtap-pcap-abi"]);
    build.arg("--no-default-features");
    let library = process::check(process::quiet_off_screen(&mut build))
        .and_then(|()| process::built_program("debug", "libpcap.so"))
        .and_then(|built| {
            // The next build with native code takes its name.
            let kept = built.with_file_name("libpcap-without-native-code.so");
            std::fs::copy(&built, &kept).map_err(at(&kept))?;
            Ok(kept)
        });
    let library = match library {
        Ok(library) => library,
        Err(reason) => return Outcome::Failed(reason),
    };
    let mut command = tests(repository, &["--test=abi"], Extent::Whole);
    command.args(["--", "c::", "--skip=c::readiness", "--skip=c::loops_on"]);
    command.env("RINGTAP_TEST_LIBPCAP", library);
    Outcome::Tests(libtest::run(&mut command, log).tally)
}
