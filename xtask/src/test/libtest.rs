//! `cargo test`, its output read for the results.

use std::process::Command;

use super::report::{Outcome, Tally};
use crate::process;

/// Runs a `cargo test` command and counts its tests.
pub(super) fn run(command: &mut Command) -> Outcome {
    let mut results = Results::default();
    let status = process::watch(command, |line| results.read(line));
    Outcome::Tests(results.judge(process::judge(command, status)))
}

/// What the output said so far.
#[derive(Default)]
struct Results {
    tally: Tally,
    /// Test programs that cargo started.
    started: usize,
    /// Test programs that came to their result.
    ended: usize,
}

impl Results {
    fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.ended += 1;
            self.tally.passed += number_before(counts, " passed");
            self.tally.failed += number_before(counts, " failed");
            self.tally.skipped += number_before(counts, " ignored");
        } else if let Some(skip) = line.strip_prefix("skipped: ") {
            self.tally.skips.push(skip.to_owned());
        } else if let Some(hang) = line.strip_prefix("hangs: ") {
            self.tally.failed += 1;
            self.tally.failures.push(format!("hangs: {hang}"));
        } else if let Some(test) = line.strip_prefix("test ") {
            self.read_test(test);
        } else if line.starts_with("     Running ") || line.starts_with("   Doc-tests ") {
            self.started += 1;
        }
    }

    /// `name ... FAILED` or, for tests outside of the testkit's suites, `name ... ignored, reason`.
    fn read_test(&mut self, test: &str) {
        let Some((name, verdict)) = test.rsplit_once(" ... ") else {
            return;
        };
        if verdict == "FAILED" {
            self.tally.failures.push(name.trim().to_owned());
        } else if let Some(reason) = verdict.strip_prefix("ignored, ") {
            self.tally.skips.push(format!("{}: {reason}", name.trim()));
        }
    }

    /// A test program that died without a result, or a failure of cargo that no test explains, is
    /// one failure more.
    fn judge(mut self, status: Result<(), String>) -> Tally {
        let died = self.started.saturating_sub(self.ended);
        if died > 0 {
            self.tally.failed += died;
            self.tally
                .failures
                .push(format!("{died} test programs ended without a result"));
        }
        if let Err(reason) = status
            && self.tally.failed == 0
        {
            self.tally.failed = 1;
            self.tally.failures.push(reason);
        }
        self.tally
    }
}

fn number_before(text: &str, label: &str) -> usize {
    let Some((before, _)) = text.split_once(label) else {
        return 0;
    };
    before
        .rsplit(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::Results;

    fn read(text: &str) -> Results {
        let mut results = Results::default();
        text.lines().for_each(|line| results.read(line));
        results
    }

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/a-0123456789abcdef)
skipped: a::live::captures: needs root
running 5 tests
test reads  ... ok
test writes ... FAILED
test slow ... ignored, takes an hour
test result: FAILED. 2 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.01s
   Doc-tests a
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";

    #[test]
    fn results_are_counted() {
        let tally = read(OUTPUT).judge(Err("cargo: exit status: 101".into()));
        assert_eq!((tally.passed, tally.failed, tally.skipped), (5, 1, 2));
        assert_eq!(
            tally.skips,
            ["a::live::captures: needs root", "slow: takes an hour"]
        );
        assert_eq!(tally.failures, ["writes"]);
    }

    #[test]
    fn a_program_without_a_result_failed() {
        let crashed = "     Running tests/a.rs (a)\ntest one ... ok\n     Running tests/b.rs (b)\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n";
        let tally = read(crashed).judge(Err("cargo: exit status: 101".into()));
        assert_eq!((tally.passed, tally.failed), (1, 1));
    }

    #[test]
    fn a_failing_cargo_is_never_a_pass() {
        let tally = read("").judge(Err("timeout: out of time".into()));
        assert_eq!(tally.failed, 1);
        assert_eq!(tally.failures, ["timeout: out of time"]);
    }
}
