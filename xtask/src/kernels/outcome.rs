//! Reads the suites' results in a kernel's folder.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::suites::{Program, SUITES, Suite};
use super::table::Kernel;
use crate::process::at;

/// The status of timeout(1) and of a process that it killed.
const OUT_OF_TIME: [i32; 2] = [124, KILLED];
const KILLED: i32 = 137;
/// Words of the kernel's log that indicate a problem. The killer of processes in a full memory group, which
/// tests provoke, has none of them.
const ALARMS: [&str; 4] = ["BUG:", "WARNING:", "Oops", "Kernel panic"];

/// Begins the line about a test that failed among others and passed alone.
pub(crate) const UNSTEADY: &str = "unsteady: ";
/// The status of a suite during which the machine ended.
const STOPPED: i32 = -1;

/// The result of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelOutcome {
    pub(crate) kernel: &'static str,
    pub(crate) of: &'static str,
    /// As `uname -r` prints it.
    pub(crate) release: String,
    pub(crate) suites: Vec<SuiteOutcome>,
}

/// The result of a suite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SuiteOutcome {
    /// The column of the table.
    pub(crate) name: &'static str,
    /// The suite, as [`Suite::id`] names it.
    pub(crate) id: String,
    /// The time of its end, such as `2026-11-24T02:30:00Z`.
    pub(crate) ended: String,
    pub(crate) passed: usize,
    /// Tests with the first line of the reason.
    pub(crate) failed: Vec<(String, String)>,
    /// Tests with the reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// Tests that failed among others and passed alone; they count as passed.
    pub(crate) unsteady: Vec<String>,
    pub(crate) seconds: u64,
    /// Whether it was ended before it had a result.
    pub(crate) unfinished: Option<String>,
    /// Lines of the kernel's log that report a fault of the kernel.
    pub(crate) alarms: Vec<String>,
}

impl KernelOutcome {
    /// Reads the results of a kernel that has been booted.
    pub(crate) fn read(results: &Path, kernel: &Kernel) -> Option<Self> {
        let release = fs::read_to_string(results.join("release")).ok()?;
        let suites: Vec<_> = SUITES
            .iter()
            .filter_map(|suite| read_suite(results, suite))
            .collect();
        (!suites.is_empty()).then(|| Self {
            kernel: kernel.name,
            of: kernel.of,
            release: release.trim().to_owned(),
            suites,
        })
    }

    /// Returns whether nothing failed.
    pub(crate) fn has_passed(&self) -> bool {
        self.suites.iter().all(SuiteOutcome::has_passed)
    }
}

impl SuiteOutcome {
    pub(crate) fn has_passed(&self) -> bool {
        self.failed.is_empty() && self.unfinished.is_none()
    }

    /// Takes in what another target of the same column came to.
    pub(crate) fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed.iter().cloned());
        self.skipped.extend(other.skipped.iter().cloned());
        self.unsteady.extend(other.unsteady.iter().cloned());
        self.seconds += other.seconds;
        self.alarms.extend(other.alarms.iter().cloned());
        if self.unfinished.is_none() {
            self.unfinished.clone_from(&other.unfinished);
        }
    }
}

/// The results of a program whose tests need no kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProgramOutcome {
    /// The crate and the target.
    pub(crate) name: String,
    pub(crate) passed: usize,
    /// Tests with the first line of the reason.
    pub(crate) failed: Vec<(String, String)>,
    /// Tests with the reason.
    pub(crate) skipped: Vec<(String, String)>,
}

/// Reads the output of a program, which ended as `ended` says.
pub(crate) fn of_program(name: &str, log: &str, ended: Result<(), String>) -> ProgramOutcome {
    let mut read = read_log(log);
    if let Err(reason) = ended
        && read.failed.is_empty()
    {
        read.failed.push((name.to_owned(), reason));
    }
    ProgramOutcome {
        name: name.to_owned(),
        passed: read.passed,
        failed: read.failed,
        skipped: read.skipped,
    }
}

/// Identifies a test program: its name, length and time.
pub(crate) fn stamp(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let found = fs::metadata(program).ok();
    let length = found.as_ref().map_or(0, std::fs::Metadata::len);
    let time = found
        .and_then(|found| found.modified().ok())
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |time| time.as_secs());
    format!("{name}:{length}:{time}")
}

/// Returns whether there is a result of the same program.
pub(crate) fn is_done(results: &Path, program: &Program) -> bool {
    let status = results.join(format!("{}.status", program.suite.id()));
    let text = fs::read_to_string(status).unwrap_or_default();
    text.split_whitespace().nth(2) == Some(&stamp(&program.path))
}

/// Removes what earlier runs of these programs have left.
///
/// # Errors
/// A file cannot be removed.
pub(crate) fn clear(results: &Path, programs: &[&Program]) -> Result<(), String> {
    let of_suites = programs.iter().flat_map(|program| {
        let id = program.suite.id();
        ["log", "status", "dmesg"].map(|end| format!("{id}.{end}"))
    });
    let others = ["booted", "console", super::boot::OUTPUT].map(str::to_owned);
    for name in of_suites.chain(others) {
        let path = results.join(name);
        if path.exists() {
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// Gives the suite during which the machine ended its status, so that the next boot leaves it out. Returns
/// whether there is one.
///
/// # Errors
/// The status cannot be written.
pub(crate) fn mark_stopped(results: &Path, programs: &[&Program]) -> Result<bool, String> {
    let file = |program: &Program, end: &str| results.join(format!("{}.{end}", program.suite.id()));
    let stopped = programs
        .iter()
        .find(|program| file(program, "log").exists() && !file(program, "status").exists());
    let Some(program) = stopped else {
        return Ok(false);
    };
    let path = file(program, "status");
    let status = format!("{STOPPED} 0 {}\n", stamp(&program.path));
    fs::write(&path, status).map_err(at(&path))?;
    // The log of the kernel went to the console only.
    let console = fs::read(results.join("console")).unwrap_or_default();
    fs::write(file(program, "dmesg"), console).map_err(at(&path))?;
    Ok(true)
}

fn read_suite(results: &Path, suite: &'static Suite) -> Option<SuiteOutcome> {
    let id = suite.id();
    let log = fs::read(results.join(format!("{id}.log"))).ok()?;
    // Without a status it is still running, or it was interrupted.
    let status = fs::read_to_string(results.join(format!("{id}.status"))).ok()?;
    let log = String::from_utf8_lossy(&log);
    let mut outcome = read_log(&log);
    outcome.name = suite.name;
    outcome.alarms = alarms(&fs::read(results.join(format!("{id}.dmesg"))).unwrap_or_default());
    let words: Vec<&str> = status.split_whitespace().collect();
    outcome.ended = words.get(3).copied().unwrap_or_default().to_owned();
    let numbers = words.iter().map_while(|word| word.parse().ok());
    let numbers: Vec<i32> = numbers.collect();
    let seconds = numbers.get(1).copied().unwrap_or_default();
    outcome.seconds = u64::try_from(seconds).unwrap_or_default();
    let ended = |how: String| {
        let last = log.lines().next_back().unwrap_or_default();
        let passed = outcome.passed;
        Some(format!(
            "{id}: {how}; {passed} passed before; its last line: {last}"
        ))
    };
    outcome.unfinished = match numbers.first() {
        None | Some(&STOPPED) => ended("the machine stopped before its end".to_owned()),
        // Before its time was over, someone else has killed it.
        Some(&KILLED) if outcome.seconds < suite.limit.as_secs() => {
            ended("killed, most often for lack of memory".to_owned())
        }
        Some(status) if OUT_OF_TIME.contains(status) => ended(format!(
            "not done within {} minutes",
            suite.limit.as_secs() / 60
        )),
        Some(0) => None,
        Some(status) if outcome.failed.is_empty() && outcome.unsteady.is_empty() => {
            Some(format!("{id}: ended with status {status}"))
        }
        Some(_) => None,
    };
    outcome.id = id;
    Some(outcome)
}

/// Returns the lines of a kernel's log that report a fault.
fn alarms(log: &[u8]) -> Vec<String> {
    let log = String::from_utf8_lossy(log);
    let is_alarm = |line: &&str| ALARMS.iter().any(|word| line.contains(word));
    log.lines().filter(is_alarm).map(str::to_owned).collect()
}

/// Reads a test program's output.
fn read_log(log: &str) -> SuiteOutcome {
    let mut outcome = SuiteOutcome::default();
    let mut reasons: Vec<(String, String)> = Vec::new();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(skip) = line.strip_prefix("skipped: ") {
            let (test, reason) = skip.split_once(": ").unwrap_or((skip, ""));
            let test = test.rsplit("::").next().unwrap_or(test);
            outcome.skipped.push((test.to_owned(), reason.to_owned()));
        } else if let Some(test) = line.strip_prefix(UNSTEADY) {
            outcome.failed.retain(|(failed, _)| failed != test);
            outcome.passed += 1;
            outcome.unsteady.push(test.to_owned());
        } else if let Some(test) = heading(line) {
            let first = lines.peek().copied().unwrap_or_default();
            let reason = first.strip_prefix("test panicked: ").unwrap_or(first);
            reasons.push((test.to_owned(), reason.to_owned()));
        } else if let Some((test, verdict)) = verdict(line) {
            match verdict {
                "ok" => outcome.passed += 1,
                "FAILED" => outcome.failed.push((test.to_owned(), String::new())),
                _ => {}
            }
        }
    }
    for (test, reason) in &mut outcome.failed {
        if let Some((_, told)) = reasons.iter().find(|(of, _)| of == test) {
            reason.clone_from(told);
        }
    }
    outcome
}

/// Parses `---- name ----`, after which the reason for a failure follows.
fn heading(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" ----")
}

/// Parses `test name ... ok`.
fn verdict(line: &str) -> Option<(&str, &str)> {
    let (test, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((test.trim(), verdict.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
skipped: ringtap-capture::tap::needs_tcx: needs Linux 6.6 or later

running 3 tests
test captures   ... ok
test needs_tcx  ... ignored

thread '<unnamed>' (148) panicked at somewhere:1:2:
test opens      ... FAILED

failures:

---- opens ----
test panicked: veth1: no
  second line

failures:
    opens

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1s
";

    #[test]
    fn logs_are_read() {
        let outcome = read_log(LOG);
        assert_eq!(outcome.passed, 1);
        assert_eq!(outcome.failed, [("opens".into(), "veth1: no".into())]);
        assert_eq!(
            outcome.skipped,
            [("needs_tcx".into(), "needs Linux 6.6 or later".into())]
        );
    }

    #[test]
    fn what_passes_alone_is_unsteady() {
        let outcome = read_log(&format!("{LOG}{UNSTEADY}opens\n"));
        assert_eq!((outcome.passed, outcome.failed.len()), (2, 0));
        assert_eq!(outcome.unsteady, ["opens"]);
    }

    #[test]
    fn a_suite_that_never_ended_is_told() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let suite = &SUITES[1];
        let write = |name: &str, text: &str| {
            let path = folder.path().join(format!("{}.{name}", suite.id()));
            fs::write(path, text).unwrap_or_else(|error| panic!("{error}"));
        };
        assert_eq!(read_suite(folder.path(), suite), None);
        write("log", "test captures ... ok\n");
        assert_eq!(read_suite(folder.path(), suite), None, "it runs");
        let read = || read_suite(folder.path(), suite).unwrap_or_default();
        write("status", "-1 0 tap-1:1:1\n");
        assert!(
            read()
                .unfinished
                .is_some_and(|why| why.contains("the machine stopped"))
        );
        write("status", "124 1500 tap-1:1:1\n");
        assert!(
            read().unfinished.is_some_and(
                |why| why.contains("40 minutes") && why.contains("test captures ... ok")
            )
        );
        write("status", "137 21 tap-1:1:1\n");
        assert!(read().unfinished.is_some_and(|why| why.contains("killed")));
        write("status", "0 33 tap-1:1:1\n");
        assert!(read().has_passed());
        assert_eq!(read().seconds, 33);
        write("status", "139 33 tap-1:1:1\n");
        assert!(!read().has_passed(), "a crash");
        write("log", "test opens ... FAILED\nunsteady: opens\n");
        write("status", "101 33 tap-1:1:1\n");
        assert!(read().has_passed());
    }
}
