//! The results in the repository, a file for each kernel. The table of `docs/explanation/kernels.md` is
//! written from them, also on a machine that has booted only one of the kernels.

use std::fs;
use std::path::Path;

use serde_json::{Value, from_value, json};

use super::outcome::{KernelOutcome, ProgramOutcome, SuiteOutcome};
use super::suites::SUITES;
use super::table::{KERNELS, Kernel};
use crate::process::at;

/// The folder of the results in the repository.
pub(super) const FOLDER: &str = "docs/report/kernels";
const PROGRAMS: &str = "aarch64.json";

/// Adds the results of a kernel to those that are kept. A suite's later result takes the place of the earlier.
///
/// # Errors
/// A file cannot be read or written.
pub(crate) fn keep(repository: &Path, outcome: &KernelOutcome) -> Result<(), String> {
    let folder = repository.join(FOLDER);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let path = folder.join(format!("{}.json", outcome.kernel));
    let kernel = KERNELS.iter().find(|kernel| kernel.name == outcome.kernel);
    let kept = kernel.and_then(|kernel| read(repository, kernel));
    let all = kept.map_or_else(|| outcome.clone(), |kept| merged(&kept, outcome));
    save(&path, &to_json(&all))
}

/// Writes a file of results.
///
/// # Errors
/// The file cannot be written.
pub(super) fn save(path: &Path, results: &Value) -> Result<(), String> {
    let text = serde_json::to_string_pretty(results).map_err(at(path))?;
    fs::write(path, text + "\n").map_err(at(path))
}

/// Returns the results of all kernels, in the order of their table.
pub(crate) fn all(repository: &Path) -> Vec<KernelOutcome> {
    let kept = KERNELS.iter().map(|kernel| read(repository, kernel));
    kept.flatten().collect()
}

/// Keeps the results of programs for AArch64.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn keep_programs(repository: &Path, outcomes: &[ProgramOutcome]) -> Result<(), String> {
    let path = repository.join(FOLDER).join(PROGRAMS);
    let to_json = |outcome: &ProgramOutcome| {
        json!({
            "program": outcome.name,
            "passed": outcome.passed,
            "failed": outcome.failed,
            "skipped": outcome.skipped,
        })
    };
    save(&path, &outcomes.iter().map(to_json).collect())
}

/// The results of programs for AArch64.
pub(crate) fn programs(repository: &Path) -> Vec<ProgramOutcome> {
    let text = fs::read_to_string(repository.join(FOLDER).join(PROGRAMS)).unwrap_or_default();
    let all: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
    let from_json = |value: &Value| {
        Some(ProgramOutcome {
            name: value["program"].as_str()?.to_owned(),
            passed: from_value(value["passed"].clone()).ok()?,
            failed: from_value(value["failed"].clone()).ok()?,
            skipped: from_value(value["skipped"].clone()).ok()?,
        })
    };
    all.iter().filter_map(from_json).collect()
}

fn read(repository: &Path, kernel: &Kernel) -> Option<KernelOutcome> {
    let file = format!("{}.json", kernel.name);
    let text = fs::read_to_string(repository.join(FOLDER).join(file)).ok()?;
    from_json(&serde_json::from_str(&text).ok()?, kernel)
}

/// Merges results of a kernel with newer ones. Suites that are no longer in the table are left out.
fn merged(kept: &KernelOutcome, new: &KernelOutcome) -> KernelOutcome {
    let find = |of: &KernelOutcome, id: &str| of.suites.iter().find(|one| one.id == id).cloned();
    let suites = SUITES.iter().filter_map(|suite| {
        let id = suite.id();
        match (find(kept, &id), find(new, &id)) {
            (Some(kept), Some(new)) if kept.ended > new.ended => Some(kept),
            (kept, new) => new.or(kept),
        }
    });
    KernelOutcome {
        suites: suites.collect(),
        ..new.clone()
    }
}

fn to_json(outcome: &KernelOutcome) -> Value {
    let suites: Vec<Value> = outcome.suites.iter().map(suite_to_json).collect();
    json!({
        "release": outcome.release,
        "suites": suites,
    })
}

fn suite_to_json(suite: &SuiteOutcome) -> Value {
    json!({
        "suite": suite.id,
        "ended": suite.ended,
        "seconds": suite.seconds,
        "passed": suite.passed,
        "failed": suite.failed,
        "skipped": suite.skipped,
        "unsteady": suite.unsteady,
        "unfinished": suite.unfinished,
        "alarms": suite.alarms,
    })
}

fn from_json(value: &Value, kernel: &Kernel) -> Option<KernelOutcome> {
    let suites = value["suites"].as_array()?.iter().filter_map(suite_from);
    Some(KernelOutcome {
        kernel: kernel.name,
        of: kernel.of,
        release: value["release"].as_str()?.to_owned(),
        suites: suites.collect(),
    })
}

fn suite_from(value: &Value) -> Option<SuiteOutcome> {
    let id = value["suite"].as_str()?;
    let suite = SUITES.iter().find(|suite| suite.id() == id)?;
    let field = |name: &str| value[name].clone();
    Some(SuiteOutcome {
        name: suite.name,
        id: id.to_owned(),
        ended: from_value(field("ended")).ok()?,
        seconds: from_value(field("seconds")).ok()?,
        passed: from_value(field("passed")).ok()?,
        failed: from_value(field("failed")).ok()?,
        skipped: from_value(field("skipped")).ok()?,
        unsteady: from_value(field("unsteady")).ok()?,
        unfinished: from_value(field("unfinished")).ok()?,
        alarms: from_value(field("alarms")).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(suites: &[(usize, &str, usize)]) -> KernelOutcome {
        let suites = suites.iter().map(|&(at, ended, passed)| SuiteOutcome {
            name: SUITES[at].name,
            id: SUITES[at].id(),
            ended: ended.to_owned(),
            passed,
            skipped: vec![("opens".to_owned(), "needs x".to_owned())],
            unfinished: Some("hangs".to_owned()),
            ..SuiteOutcome::default()
        });
        KernelOutcome {
            kernel: KERNELS[1].name,
            of: KERNELS[1].of,
            release: "6.1.0-50-amd64".to_owned(),
            suites: suites.collect(),
        }
    }

    #[test]
    fn results_of_programs_are_read_again() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(programs(folder.path()), []);
        let outcome = ProgramOutcome {
            name: "jit, native".to_owned(),
            passed: 7,
            failed: vec![("runs".to_owned(), "it crashed".to_owned())],
            skipped: vec![("opens".to_owned(), "needs x".to_owned())],
        };
        fs::create_dir_all(folder.path().join(FOLDER)).unwrap_or_else(|error| panic!("{error}"));
        let all = std::slice::from_ref(&outcome);
        assert_eq!(keep_programs(folder.path(), all), Ok(()));
        assert_eq!(programs(folder.path()), all);
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let folder = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
        let first = outcome(&[(0, "2026-01-02", 5), (2, "2026-01-02", 6)]);
        assert_eq!(keep(folder.path(), &first), Ok(()));
        assert_eq!(all(folder.path()), std::slice::from_ref(&first));
        let second = outcome(&[(0, "2026-01-01", 1), (1, "2026-01-03", 7)]);
        assert_eq!(keep(folder.path(), &second), Ok(()));
        let expected = outcome(&[
            (0, "2026-01-02", 5),
            (1, "2026-01-03", 7),
            (2, "2026-01-02", 6),
        ]);
        assert_eq!(all(folder.path()), [expected]);
    }
}
