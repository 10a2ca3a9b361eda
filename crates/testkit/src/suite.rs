//! A test target's list of tests, run in parallel with the command line of libtest.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Arc, PoisonError, RwLock};

use libtest_mimic::{Arguments, Failed, Trial};

use crate::Need;
use crate::hang::Watch;

/// The result of a test body: `()`, or a `Result` whose error fails the test.
pub trait Outcome {
    /// Converts the outcome of the test.
    ///
    /// # Errors
    /// Returns the failure's message.
    fn into_result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: Display> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// The environment variable of `cargo xtask test --quick`: live tests, and those that run alone,
/// are skipped by name.
pub const QUICK: &str = "RINGTAP_QUICK";

/// The environment variable with which only tests are there whose needs are live: in machines with other kernels, where
/// the others would do again what they do on every host.
pub const LIVE_ONLY: &str = "RINGTAP_TEST_LIVE_ONLY";

type Body = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// A named test with its needs.
pub struct Test {
    name: String,
    needs: Vec<Need>,
    serial: bool,
    body: Body,
}

/// Returns a test that fails if `body` panics or returns an error. It is skipped, with the reason,
/// if one of `needs` is not met.
pub fn test<R: Outcome>(
    name: impl Into<String>,
    needs: &[Need],
    body: impl FnOnce() -> R + Send + 'static,
) -> Test {
    Test {
        name: name.into(),
        needs: needs.to_vec(),
        serial: false,
        body: Box::new(move || body().into_result()),
    }
}

impl Test {
    /// Makes the test run while no other test of the suite does: for live tests that count losses,
    /// which another test on the same processor would disturb.
    #[must_use]
    pub fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    fn unmet(&self) -> Option<String> {
        if std::env::var_os(QUICK).is_some() && self.is_live() {
            return Some("is live, and left out of a quick run".to_owned());
        }
        self.needs.iter().find_map(Need::unmet)
    }

    fn is_live(&self) -> bool {
        self.serial || self.needs_kernel()
    }

    fn needs_kernel(&self) -> bool {
        self.needs.iter().any(|need| need.is_live())
    }
}

/// Runs the tests that the command line selects (the command line of `cargo test`: filters,
/// `--exact`, `--skip`, `--ignored`, `--list`, `--test-threads`, …). Skipped tests are reported on
/// standard error, one line each: `skipped: <suite>::<test>: needs …`. With [`LIVE_ONLY`], others than live tests are
/// missing.
#[must_use]
pub fn suite(mut tests: Vec<Test>) -> ExitCode {
    if std::env::var_os(LIVE_ONLY).is_some() {
        tests.retain(Test::needs_kernel);
    }
    let arguments = Arguments::from_args();
    let name = suite_name();
    let shared = Shared {
        turns: Arc::new(RwLock::new(())),
        watch: Watch::start(&name),
    };
    let trials = tests
        .into_iter()
        .map(|test| into_trial(test, &name, &arguments, &shared))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The state that the tests of a suite share.
#[derive(Clone)]
struct Shared {
    /// A test that runs alone locks it for writing.
    turns: Arc<RwLock<()>>,
    watch: Watch,
}

fn into_trial(test: Test, suite: &str, arguments: &Arguments, shared: &Shared) -> Trial {
    let unmet = test.unmet();
    if let Some(reason) = &unmet
        && !arguments.list
        && is_selected(&test.name, arguments)
    {
        eprintln!("skipped: {suite}::{}: {reason}", test.name);
    }
    let ignored = unmet.is_some();
    let Shared { turns, watch } = shared.clone();
    let Test {
        name, serial, body, ..
    } = test;
    Trial::test(name.clone(), move || {
        // An ignored test gets here only with `--ignored` or `--include-ignored`.
        if let Some(reason) = unmet {
            return Err(Failed::from(reason));
        }
        let result = if serial {
            let _alone = turns.write().unwrap_or_else(PoisonError::into_inner);
            watch.during(&name, body)
        } else {
            let _with_others = turns.read().unwrap_or_else(PoisonError::into_inner);
            watch.during(&name, body)
        };
        result.map_err(Failed::from)
    })
    .with_ignored_flag(ignored)
}

/// Returns whether the filters of the command line select a test, by libtest's rules.
fn is_selected(name: &str, arguments: &Arguments) -> bool {
    let matches = |filter: &String| {
        if arguments.exact {
            name == filter
        } else {
            name.contains(filter)
        }
    };
    arguments.filter.as_ref().is_none_or(matches) && !arguments.skip.iter().any(matches)
}

/// Returns `crate::target`, from cargo's environment variables and the program's name, which ends
/// in a hash.
fn suite_name() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    let target = match stem.rsplit_once('-') {
        Some((target, hash)) if hash.len() == 16 => target,
        _ => &stem,
    };
    match std::env::var("CARGO_PKG_NAME") {
        Ok(package) => format!("{package}::{target}"),
        Err(_) => target.to_owned(),
    }
}
