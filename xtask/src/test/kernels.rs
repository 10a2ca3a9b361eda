//! The kernel that belongs to the test command, counted as its other tests are.
//!
//! The emulated machine keeps one processor busy for minutes, while the tests on this machine's own kernel
//! mostly wait. So it runs beside them.

use std::thread::JoinHandle;

use super::report::{Outcome, Tally};
use crate::kernels::{self, KernelOutcome, Tested};

/// A running machine, or its result.
pub(super) enum Machine {
    Running(JoinHandle<Tested>),
    Over(Tested),
}

impl Machine {
    /// Boots it, if possible. Afterwards, programs that it runs must not be rebuilt until `outcome`.
    pub(super) fn start() -> Self {
        match kernels::prepare() {
            Ok(prepared) => Self::Running(std::thread::spawn(move || prepared.run())),
            Err(tested) => Self::Over(tested),
        }
    }

    /// Waits for its end.
    pub(super) fn outcome(self) -> Outcome {
        let tested = match self {
            Self::Running(thread) => thread
                .join()
                .unwrap_or_else(|_| Tested::Failed("its thread panicked".to_owned())),
            Self::Over(tested) => tested,
        };
        match tested {
            Tested::Skipped(reason) => Outcome::Skipped(reason),
            Tested::Failed(reason) => Outcome::Failed(reason),
            Tested::Ran(outcome) => {
                print!("{}", kernels::lines(&outcome));
                Outcome::Tests(tally(&outcome))
            }
        }
    }
}

fn tally(outcome: &KernelOutcome) -> Tally {
    let mut tally = Tally::default();
    let on = |test: &str, reason: &str| format!("{test} on Linux {}: {reason}", outcome.kernel);
    for suite in &outcome.suites {
        tally.passed += suite.passed;
        let unsteady = suite.unsteady.iter();
        tally
            .unsteady
            .extend(unsteady.map(|test| format!("{test} on Linux {}", outcome.kernel)));
        for (test, reason) in &suite.failed {
            tally.failures.push(on(test, reason));
        }
        tally.failures.extend(suite.unfinished.clone());
        for (test, reason) in &suite.skipped {
            tally.skips.push(on(test, reason));
        }
    }
    tally.failed = tally.failures.len();
    tally.skipped = tally.skips.len();
    tally
}
