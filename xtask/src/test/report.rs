//! Counts passed, failed and skipped tests.

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// One check that passed.
    Passed,
    /// One check that failed, and why.
    Failed(String),
    /// One check that could not be made, and why.
    Skipped(String),
    /// Tests of libtest, each counted.
    Tests(Tally),
}

/// Tests counted; the skipped and the failed ones by name and reason.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
    pub(super) skips: Vec<String>,
    pub(super) failures: Vec<String>,
    /// Tests that failed among others and passed alone; they count as passed.
    pub(super) unsteady: Vec<String>,
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Passed,
            Err(reason) => Self::Failed(reason),
        }
    }
}

/// The counts over all steps.
pub(super) struct Report {
    begun: Instant,
    total: Tally,
}

impl Report {
    pub(super) fn new() -> Self {
        Self {
            begun: Instant::now(),
            total: Tally::default(),
        }
    }

    /// Counts a test as passed that failed at first and has passed alone since.
    pub(super) fn unsteady(&mut self, test: &str) {
        let failures = &mut self.total.failures;
        if let Some(at) = failures.iter().position(|failure| failure == test) {
            failures.remove(at);
            self.total.failed -= 1;
            self.total.passed += 1;
            self.total.unsteady.push(test.to_owned());
        }
    }

    /// Runs a step between two lines that name it, and counts it; false if anything in it failed.
    pub(super) fn step(&mut self, name: &str, work: impl FnOnce() -> Outcome) -> bool {
        println!("\n== {name}");
        let begun = Instant::now();
        let failed_before = self.total.failed;
        let outcome = work();
        let verdict = match &outcome {
            Outcome::Passed => "passed".to_owned(),
            Outcome::Failed(reason) => format!("FAILED: {reason}"),
            Outcome::Skipped(reason) => format!("skipped: {reason}"),
            Outcome::Tests(tally) => tally.line(),
        };
        self.add(name, outcome);
        println!(
            "-- {name}: {verdict} ({:.1} s)",
            begun.elapsed().as_secs_f64()
        );
        self.total.failed == failed_before
    }

    /// Runs a step that finds what others need; if it is missing, this is no failure.
    pub(super) fn find<T>(
        &mut self,
        name: &str,
        find: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let mut found = Err(String::new());
        self.step(name, || {
            found = find();
            let missing = found.as_ref().err().cloned();
            missing.map_or(Outcome::Passed, Outcome::Skipped)
        });
        found
    }

    fn add(&mut self, name: &str, outcome: Outcome) {
        let total = &mut self.total;
        match outcome {
            Outcome::Passed => total.passed += 1,
            Outcome::Failed(reason) => {
                total.failed += 1;
                total.failures.push(format!("{name}: {reason}"));
            }
            Outcome::Skipped(reason) => {
                total.skipped += 1;
                total.skips.push(format!("{name}: {reason}"));
            }
            Outcome::Tests(tally) => {
                total.passed += tally.passed;
                total.failed += tally.failed;
                total.skipped += tally.skipped;
                total.skips.extend(tally.skips);
                total.failures.extend(tally.failures);
                total.unsteady.extend(tally.unsteady);
            }
        }
    }

    /// Prints skipped and failed tests, then the summary as the last line.
    pub(super) fn finish(self) -> ExitCode {
        let Self { begun, total } = self;
        println!("\n== summary after {:.0} s", begun.elapsed().as_secs_f64());
        for skip in &total.skips {
            println!("skipped: {skip}");
        }
        for test in &total.unsteady {
            println!("unsteady, passed only alone: {test}");
        }
        for failure in &total.failures {
            println!("failed: {failure}");
        }
        println!("{}", total.line());
        // If the reader has closed the pipe, the exit status still shows the result.
        let _ = std::io::stdout().flush();
        if total.failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

impl Tally {
    fn line(&self) -> String {
        format!(
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Report, Tally};

    #[test]
    fn outcomes_are_counted() {
        let mut report = Report::new();
        assert!(report.step("a", || Outcome::Passed));
        assert!(report.step("b", || Outcome::Skipped("needs x".into())));
        assert!(!report.step("c", || Outcome::Failed("broken".into())));
        let tally = Tally {
            passed: 5,
            failed: 1,
            skipped: 2,
            ..Tally::default()
        };
        assert!(!report.step("d", || Outcome::Tests(tally)));
        assert_eq!(report.total.line(), "6 passed, 2 failed, 3 skipped");
        assert_eq!(report.total.skips, ["b: needs x"]);
    }

    #[test]
    fn unsteady_tests_are_counted_once_and_listed() {
        let mut report = Report::new();
        let tally = Tally {
            passed: 5,
            failed: 1,
            failures: vec!["tap: captures".into()],
            ..Tally::default()
        };
        assert!(!report.step("tests", || Outcome::Tests(tally)));
        report.unsteady("tap: captures");
        report.unsteady("tap: was never there");
        assert_eq!(report.total.line(), "6 passed, 0 failed, 0 skipped");
        assert_eq!(report.total.unsteady, ["tap: captures"]);
    }
}
