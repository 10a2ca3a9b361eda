//! The kernel that belongs to the test command, counted as its other tests are.

use super::report::{Outcome, Tally};
use crate::kernels::{self, Tested};

/// Boots it, where that can be done.
pub(super) fn run() -> Outcome {
    let outcome = match kernels::test() {
        Tested::Skipped(reason) => return Outcome::Skipped(reason),
        Tested::Failed(reason) => return Outcome::Failed(reason),
        Tested::Ran(outcome) => outcome,
    };
    let mut tally = Tally::default();
    let on = |test: &str, reason: &str| format!("{test} on Linux {}: {reason}", outcome.kernel);
    for suite in &outcome.suites {
        tally.passed += suite.passed;
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
    Outcome::Tests(tally)
}
