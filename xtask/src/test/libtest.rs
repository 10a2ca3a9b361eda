//! `cargo test`, its output read for the results.
//!
//! Prints a line for each test program, and its whole output if a test of it failed. The complete output goes
//! to `target/test.log`.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use super::report::{Report, Tally};
use crate::process;

/// More failed tests than this are no accident, and are not run again.
const MOST_REPEATED: usize = 10;
/// Cargo's progress messages, which are useless after a success.
const NOISE: [&str; 6] = [
    "Compiling ",
    "Checking ",
    "Finished ",
    "Fresh ",
    "Downloading ",
    "Downloaded ",
];

/// A file that takes the whole output.
pub(super) struct Log(Option<File>);

impl Log {
    /// Starts `target/test.log` again; without it the tests run all the same.
    pub(super) fn new(repository: &Path) -> Self {
        Self(File::create(repository.join("target/test.log")).ok())
    }

    fn write(&mut self, line: &str) {
        if let Some(file) = &mut self.0 {
            // A full disk must not stop the checks.
            let _ = writeln!(file, "{line}");
        }
    }
}

/// A failed test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedTest {
    /// The cargo arguments that run its program.
    target: String,
    /// Its name there.
    name: String,
    /// The name in the list: `tap: captures`.
    label: String,
}

/// The result of a `cargo test`.
pub(super) struct Ran {
    pub(super) tally: Tally,
    /// Those of the failed tests that can be run again.
    pub(super) failed: Vec<FailedTest>,
}

/// Runs a `cargo test` command and counts its tests.
pub(super) fn run(command: &mut Command, log: &mut Log) -> Ran {
    let mut results = Results::default();
    let status = process::watch(command, |line| {
        log.write(line);
        for line in results.read(line) {
            println!("{line}");
        }
    });
    for line in results.finish() {
        println!("{line}");
    }
    results.judge(process::judge(command, status))
}

/// Runs each failed test once more, alone. `cargo` gives the command without what selects a test.
///
/// A live test on a busy machine may fail because it gets no processor in time. Such a test passes now; it is
/// listed as unsteady, never counted as passed silently.
pub(super) fn run_again(
    failed: &[FailedTest],
    cargo: impl Fn() -> Command,
    log: &mut Log,
    report: &mut Report,
) {
    if failed.is_empty() || failed.len() > MOST_REPEATED {
        return;
    }
    println!("\n== failed tests once more, alone");
    for test in failed {
        let mut command = cargo();
        command
            .arg(&test.target)
            .args(["--", "--exact", &test.name]);
        let ran = run(&mut command, log);
        if ran.tally.failed == 0 && ran.tally.passed > 0 {
            report.unsteady(&test.label);
        }
    }
}

/// The parsed output so far.
#[derive(Default)]
struct Results {
    tally: Tally,
    failed: Vec<FailedTest>,
    /// Test programs that cargo started.
    started: usize,
    /// Test programs that came to their result.
    ended: usize,
    /// The cargo arguments that run the current program alone. `None` for examples in documentation.
    target: Option<String>,
    /// The present program's name.
    program: String,
    /// The output of the current program.
    written: Vec<String>,
    /// Whether indented lines describe a slow test.
    in_detail: bool,
}

impl Results {
    /// Takes a line and returns the lines to print.
    fn read(&mut self, line: &str) -> Vec<String> {
        if let Some(running) = line.strip_prefix("     Running ") {
            return self.begin(program_of(running), target_of(running));
        }
        if let Some(library) = line.strip_prefix("   Doc-tests ") {
            return self.begin(library, None);
        }
        if self.started == self.ended {
            let is_noise = NOISE.iter().any(|word| line.trim_start().starts_with(word));
            return shown(line, !is_noise && !line.is_empty());
        }
        self.written.push(line.to_owned());
        let is_slow = line.starts_with("slow: ") || line.starts_with("hangs: ");
        self.in_detail = is_slow || (self.in_detail && line.starts_with("  "));
        if let Some(counts) = line.strip_prefix("test result: ") {
            return self.end(counts);
        }
        if let Some(skip) = line.strip_prefix("skipped: ") {
            self.tally.skips.push(skip.to_owned());
        } else if let Some(hang) = line.strip_prefix("hangs: ") {
            self.tally.failed += 1;
            self.tally.failures.push(format!("hangs: {hang}"));
        } else if let Some(test) = line.strip_prefix("test ") {
            self.read_test(test);
        }
        shown(line, self.in_detail || line.starts_with("took "))
    }

    fn begin(&mut self, program: &str, target: Option<String>) -> Vec<String> {
        let died = self.finish();
        self.started += 1;
        self.program = program.to_owned();
        self.target = target;
        died
    }

    /// Returns the current program's result: a line, after its whole output if a test failed.
    fn end(&mut self, counts: &str) -> Vec<String> {
        self.ended += 1;
        let [passed, failed, skipped] =
            [" passed", " failed", " ignored"].map(|label| number_before(counts, label));
        self.tally.passed += passed;
        self.tally.failed += failed;
        self.tally.skipped += skipped;
        let took = counts.rsplit_once("finished in ");
        let took = took.map_or("", |(_, took)| took);
        let line = format!(
            "{}: {passed} passed, {failed} failed, {skipped} skipped, {took}",
            self.program
        );
        let mut shown = std::mem::take(&mut self.written);
        if failed == 0 {
            shown.clear();
        }
        shown.push(line);
        shown
    }

    /// Returns the output of a program that ended without a result, if there is one.
    fn finish(&mut self) -> Vec<String> {
        std::mem::take(&mut self.written)
    }

    /// Parses `name ... FAILED` or, for tests outside of the testkit's suites, `name ... ignored, reason`.
    fn read_test(&mut self, test: &str) {
        let Some((name, verdict)) = test.rsplit_once(" ... ") else {
            return;
        };
        let name = name.trim();
        if verdict == "FAILED" {
            let label = format!("{}: {name}", self.program);
            self.tally.failures.push(label.clone());
            let test = |target| FailedTest {
                target,
                name: name.to_owned(),
                label,
            };
            self.failed.extend(self.target.clone().map(test));
        } else if let Some(reason) = verdict.strip_prefix("ignored, ") {
            self.tally.skips.push(format!("{name}: {reason}"));
        }
    }

    /// Returns the result. A test program that died without a result, or a failure of cargo that no test
    /// explains, counts as one more failure.
    fn judge(mut self, status: Result<(), String>) -> Ran {
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
        Ran {
            tally: self.tally,
            failed: self.failed,
        }
    }
}

/// Returns a line, if it is to be printed.
fn shown(line: &str, is_wanted: bool) -> Vec<String> {
    Vec::from_iter(is_wanted.then(|| line.to_owned()))
}

/// Returns the name in `tests/tap/main.rs (target/debug/deps/tap-0123456789abcdef)`.
fn program_of(running: &str) -> &str {
    let path = running.rsplit_once('(').map_or(running, |(_, path)| path);
    let file = path.rsplit('/').next().unwrap_or(path);
    file.rsplit_once('-').map_or(file, |(name, _)| name)
}

/// Returns the cargo arguments that run such a program alone.
fn target_of(running: &str) -> Option<String> {
    if running.starts_with("tests/") {
        Some(format!("--test={}", program_of(running)))
    } else if running.starts_with("unittests src/lib.rs") {
        Some("--lib".to_owned())
    } else if running.starts_with("unittests src/") {
        Some("--bins".to_owned())
    } else {
        None
    }
}

fn number_before(text: &str, label: &str) -> usize {
    let before = text.split_once(label).map(|(before, _)| before);
    let number = before.and_then(|before| before.rsplit(' ').next()?.parse().ok());
    number.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{FailedTest, Results};

    fn read(text: &str) -> (Results, Vec<String>) {
        let mut results = Results::default();
        let shown = text.lines().flat_map(|line| results.read(line)).collect();
        (results, shown)
    }

    const OUTPUT: &str = "\
   Compiling a v0.1.0
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
        let (results, _) = read(OUTPUT);
        let ran = results.judge(Err("cargo: exit status: 101".into()));
        let tally = ran.tally;
        assert_eq!((tally.passed, tally.failed, tally.skipped), (5, 1, 2));
        assert_eq!(
            tally.skips,
            ["a::live::captures: needs root", "slow: takes an hour"]
        );
        assert_eq!(tally.failures, ["a: writes"]);
        let failed = FailedTest {
            target: "--lib".into(),
            name: "writes".into(),
            label: "a: writes".into(),
        };
        assert_eq!(ran.failed, [failed]);
    }

    #[test]
    fn only_failed_programs_are_shown_whole() {
        let (_, shown) = read(OUTPUT);
        assert_eq!(
            shown.first().map(String::as_str),
            Some("skipped: a::live::captures: needs root")
        );
        assert!(shown.contains(&"test writes ... FAILED".to_owned()));
        assert!(shown.contains(&"a: 2 passed, 1 failed, 2 skipped, 0.01s".to_owned()));
        assert_eq!(
            shown.last().map(String::as_str),
            Some("a: 3 passed, 0 failed, 0 skipped, 0.01s")
        );
        assert_eq!(shown.len(), 8, "{shown:?}");
    }

    #[test]
    fn what_a_slow_test_waits_for_is_shown() {
        let (results, shown) = read(
            "     Running tests/a.rs (a)\nhangs: a::one: ended after 300 s\n  load 1.0\n\
             test two ... ok\n  not of it\n",
        );
        assert_eq!(shown, ["hangs: a::one: ended after 300 s", "  load 1.0"]);
        assert_eq!(results.tally.failures, ["hangs: a::one: ended after 300 s"]);
    }

    #[test]
    fn targets_are_told_to_cargo() {
        let target = |running| super::target_of(running);
        assert_eq!(
            target("tests/tap/main.rs (target/debug/deps/tap-0123456789abcdef)").as_deref(),
            Some("--test=tap")
        );
        assert_eq!(
            target("unittests src/main.rs (target/debug/deps/ringtap-0123456789abcdef)").as_deref(),
            Some("--bins")
        );
    }

    #[test]
    fn a_program_without_a_result_failed() {
        let crashed = "     Running tests/a.rs (a)\ntest one ... ok\n     Running tests/b.rs (b)\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured\n";
        let (results, shown) = read(crashed);
        let tally = results.judge(Err("cargo: exit status: 101".into())).tally;
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert!(shown.contains(&"test one ... ok".to_owned()));
    }

    #[test]
    fn a_failing_cargo_is_never_a_pass() {
        let (results, _) = read("");
        let tally = results.judge(Err("timeout: out of time".into())).tally;
        assert_eq!(tally.failed, 1);
        assert_eq!(tally.failures, ["timeout: out of time"]);
    }
}
