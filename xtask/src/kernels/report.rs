//! The results as a table, on the terminal and in `docs/explanation/kernels.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::outcome::{KernelOutcome, ProgramOutcome, SuiteOutcome};
use super::speed;
use super::suites::SUITES;
use crate::process::at;

const PAGE: &str = "docs/explanation/kernels.md";
const BEGIN: &str = "<!-- results of `cargo xtask kernels` -->";
const END: &str = "<!-- end of results -->";

/// Returns the columns, each once.
fn columns() -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for suite in &SUITES {
        if !names.contains(&suite.name) {
            names.push(suite.name);
        }
    }
    names
}

/// Returns all targets of a column as one.
fn column(outcome: &KernelOutcome, name: &str) -> Option<SuiteOutcome> {
    let mut of_column = outcome.suites.iter().filter(|suite| suite.name == name);
    let mut sum = SuiteOutcome::default();
    sum.add(of_column.next()?);
    of_column.for_each(|suite| sum.add(suite));
    Some(sum)
}

/// Returns a kernel's results, line by line.
pub(crate) fn lines(outcome: &KernelOutcome) -> String {
    let mut text = String::new();
    for suite in &outcome.suites {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}: {} passed, {} failed, {} skipped ({} s)",
            suite.name,
            suite.passed,
            suite.failed.len(),
            suite.skipped.len(),
            suite.seconds
        );
        for (test, reason) in &suite.failed {
            let _ = writeln!(text, "  failed: {test}: {reason}");
        }
        if let Some(reason) = &suite.unfinished {
            let _ = writeln!(text, "  failed: {reason}");
        }
        for test in &suite.unsteady {
            let _ = writeln!(text, "  unsteady, passed only alone: {test}");
        }
        for alarm in &suite.alarms {
            let _ = writeln!(text, "  kernel log: {alarm}");
        }
    }
    text
}

/// Returns the results of a program for AArch64, line by line.
pub(crate) fn program_lines(outcome: &ProgramOutcome) -> String {
    let mut text = format!(
        "{}: {} passed, {} failed, {} skipped\n",
        outcome.name,
        outcome.passed,
        outcome.failed.len(),
        outcome.skipped.len()
    );
    for (test, reason) in &outcome.failed {
        let _ = writeln!(text, "  failed: {test}: {reason}");
    }
    text
}

/// Returns programs for AArch64 as a table, with failed and skipped tests.
fn programs(outcomes: &[ProgramOutcome]) -> String {
    let mut text = String::from("\n### AArch64, without a kernel\n\n");
    text.push_str("| crate, tests | passed |\n|---|---|\n");
    let mut skips: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes {
        let sum = SuiteOutcome {
            passed: outcome.passed,
            failed: outcome.failed.clone(),
            skipped: outcome.skipped.clone(),
            ..SuiteOutcome::default()
        };
        let _ = writeln!(text, "| {} | {} |", outcome.name, cell(&sum));
        for (_, reason) in &outcome.skipped {
            *skips.entry(reason).or_default() += 1;
        }
    }
    text.push('\n');
    for outcome in outcomes {
        for (test, reason) in &outcome.failed {
            let _ = writeln!(text, "- failed, {}: `{test}`: {reason}", outcome.name);
        }
    }
    for (reason, count) in &skips {
        let _ = writeln!(text, "- skipped: {}: {reason}", counted(*count, "test"));
    }
    text
}

/// Returns a number with its noun.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns the table.
pub(crate) fn table(outcomes: &[KernelOutcome]) -> String {
    let columns = columns();
    let mut text = format!("| kernel | {} | minutes |\n", columns.join(" | "));
    let _ = writeln!(text, "|---|{}---|", "---|".repeat(columns.len()));
    for outcome in outcomes {
        let cells: Vec<String> = columns
            .iter()
            .map(|name| column(outcome, name).map_or_else(|| "–".to_owned(), |sum| cell(&sum)))
            .collect();
        let seconds: u64 = outcome.suites.iter().map(|suite| suite.seconds).sum();
        let _ = writeln!(
            text,
            "| {} ({}) | {} | {} |",
            outcome.kernel,
            outcome.of,
            cells.join(" | "),
            seconds.div_ceil(60)
        );
    }
    text
}

/// Returns passed, failed, skipped; trailing zeros are left out.
fn cell(sum: &SuiteOutcome) -> String {
    let mut text = sum.passed.to_string();
    if !sum.failed.is_empty() {
        let _ = write!(text, ", **{} failed**", sum.failed.len());
    }
    if sum.unfinished.is_some() {
        text.push_str(", **unfinished**");
    }
    if !sum.skipped.is_empty() {
        let _ = write!(text, ", {} skipped", sum.skipped.len());
    }
    text
}

/// Returns the failures and skips, by kernel.
fn details(outcomes: &[KernelOutcome]) -> String {
    let mut all = String::new();
    for outcome in outcomes {
        let mut text = String::new();
        let mut skips: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for suite in &outcome.suites {
            for (test, reason) in &suite.failed {
                let _ = writeln!(text, "- failed, {}: `{test}`: {reason}", suite.name);
            }
            if let Some(reason) = &suite.unfinished {
                let _ = writeln!(text, "- failed, {}: {reason}", suite.name);
            }
            let name = suite.name;
            for test in &suite.unsteady {
                let _ = writeln!(text, "- unsteady, {name}: `{test}` passed only alone");
            }
            for (_, reason) in &suite.skipped {
                skips.entry(reason).or_default().push(suite.name);
            }
        }
        for (reason, suites) in &skips {
            let tests = counted(suites.len(), "test");
            let _ = writeln!(text, "- skipped: {tests}: {reason}");
        }
        for suite in &outcome.suites {
            if let Some(first) = suite.alarms.first() {
                let _ = writeln!(
                    text,
                    "- the kernel reported {} during {}, first: `{first}`",
                    counted(suite.alarms.len(), "fault"),
                    suite.id
                );
            }
        }
        if !text.is_empty() {
            let (kernel, release) = (&outcome.kernel, &outcome.release);
            let text = text.trim_end();
            let _ = writeln!(all, "\n### {kernel}: Linux {release}\n\n{text}");
        }
    }
    all
}

/// Writes the results into the page.
///
/// # Errors
/// The page cannot be read or written, or has no place for results.
pub(crate) fn write(
    repository: &Path,
    outcomes: &[KernelOutcome],
    of_programs: &[ProgramOutcome],
) -> Result<(), String> {
    let path = repository.join(PAGE);
    let page = fs::read_to_string(&path).map_err(at(&path))?;
    let mut results = format!("\n{}", table(outcomes));
    results.push_str(&speed::table(repository));
    results.push_str(&details(outcomes));
    if !of_programs.is_empty() {
        results.push_str(&programs(of_programs));
    }
    let page = replaced(&page, &results)
        .ok_or_else(|| format!("{}: no place for results", path.display()))?;
    fs::write(&path, page).map_err(at(&path))
}

/// Returns the page with other results between its marks.
fn replaced(page: &str, results: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{results}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> KernelOutcome {
        let suite = |name, passed| SuiteOutcome {
            name,
            passed,
            ..SuiteOutcome::default()
        };
        let mut tap = suite("tap", 5);
        tap.failed.push(("opens".into(), "no".into()));
        tap.skipped.push(("other".into(), "needs x".into()));
        KernelOutcome {
            kernel: "6.1",
            of: "Debian 12",
            release: "6.1.0-50-amd64".into(),
            suites: vec![suite("stat", 3), suite("stat", 4), tap],
        }
    }

    #[test]
    fn targets_of_a_column_are_summed() {
        let table = table(&[outcome()]);
        let row = table.lines().nth(2).unwrap_or_default();
        assert!(
            row.starts_with("| 6.1 (Debian 12) | – | 5, **1 failed**, 1 skipped | – | 7 |"),
            "{row}"
        );
    }

    #[test]
    fn programs_have_a_row_each() {
        let outcome = ProgramOutcome {
            name: "jit, native".to_owned(),
            passed: 7,
            skipped: vec![("opens".to_owned(), "needs x".to_owned())],
            ..ProgramOutcome::default()
        };
        let text = programs(&[outcome]);
        assert!(text.contains("| jit, native | 7, 1 skipped |"), "{text}");
        assert!(text.contains("- skipped: 1 test: needs x"), "{text}");
    }

    #[test]
    fn the_page_keeps_what_is_around_the_results() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = replaced(&page, "new").unwrap_or_default();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced("no marks", "new"), None);
        let details = details(&[outcome()]);
        assert!(
            details.starts_with("\n### 6.1: Linux 6.1.0-50-amd64\n\n"),
            "{details}"
        );
        assert!(details.contains("- skipped: 1 test: needs x"), "{details}");
    }
}
