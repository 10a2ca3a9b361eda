//! Holds the fields of flows against tshark's, on every capture of the corpus.
//!
//! A driver sorts packets into flows by their ends and hands them to the inspector. tshark dissects the
//! same file; its first value of a field among the packets of a flow is what the flow must have. Every
//! difference must be in `differences.txt`, with its reason. Another corpus than the one beside the repository
//! may have a few that are not there.
//!
//! The table of agreement in `docs/reference/flow-fields.md` must be what was found;
//! `RINGTAP_WRITE_TABLE=1 cargo test -p ringtap-inspect --test tshark` writes it. A quick run takes every
//! eighth capture and leaves the table alone.

mod differences;
mod driver;
mod expected;
mod oracle;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use ringtap_testkit::{Need, QUICK, Test, corpus, repository, suite, test};

use differences::{Difference, Known};
use driver::Flow;
use expected::FIELDS;
use oracle::Frame;

/// Tests that share the captures, so that two run at a time and none takes long.
const PARTS: usize = 4;
/// In a corpus that `differences.txt` was not written for, one of so many values may differ for no known reason.
const TOLERATED: usize = 20;
/// The version of tshark that `differences.txt` was written for. Later ones read less: 4.4 has lost the drafts of
/// QUIC before the 34th.
const VERSION: &str = "4.0.";
/// A quick run takes one of so many captures.
const SAMPLE: usize = 8;
/// Writes the table instead of comparing it.
const WRITE_TABLE: &str = "RINGTAP_WRITE_TABLE";
/// The lines between which the page has the table.
const MARKS: [&str; 2] = ["<!-- agreement -->", "<!-- /agreement -->"];

fn main() -> ExitCode {
    let needs = [Need::Corpus, Need::Tool("tshark")];
    let parts = (0..PARTS).map(|part| {
        let name = format!("fields_are_those_of_tshark_{}_of_{PARTS}", part + 1);
        test(name, &needs, move || compare(part))
    });
    let mut tests: Vec<Test> = parts.collect();
    tests.push(test(
        "differences_have_reasons",
        &[],
        || drop(Known::read()),
    ));
    suite(tests)
}

/// How a field of a flow compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Equal,
    Differs,
    OnlyTshark,
    OnlyRingtap,
}

/// Flows by field and outcome.
type Tally = BTreeMap<(&'static str, Outcome), u32>;

/// The sum over all parts, and how many have added theirs.
static SUM: Mutex<(Tally, usize)> = Mutex::new((Tally::new(), 0));

fn compare(part: usize) -> Result<(), String> {
    let is_quick = std::env::var_os(QUICK).is_some();
    let step = if is_quick { SAMPLE * PARTS } else { PARTS };
    let known = Known::read();
    let (mut tally, mut unknown) = (Tally::new(), Vec::new());
    let is_newer = !oracle::version().starts_with(VERSION);
    let mut left_out = 0;
    let mut found = BTreeSet::new();
    let files = corpus::files();
    let files: Vec<_> = files.iter().skip(part).step_by(step).collect();
    for file in &files {
        for difference in compare_file(file, &mut tally) {
            match known.reason(&difference) {
                Some(at) => drop(found.insert(at)),
                None if is_newer && difference.outcome == Outcome::OnlyRingtap => left_out += 1,
                None => unknown.push(difference.to_string()),
            }
        }
    }
    if left_out > 0 {
        println!("{left_out} values that this version of tshark does not read");
    }
    if corpus::is_beside() && !is_newer {
        let names: BTreeSet<String> = files.iter().map(|file| corpus::name(file)).collect();
        unknown.extend(known.stale(&names, &found));
    }
    let compared = tally.values().map(|&count| count as usize).sum::<usize>();
    let tolerated = match corpus::is_beside() && !is_newer {
        true => 0,
        false => compared / TOLERATED,
    };
    if !unknown.is_empty() {
        let listed = format!(
            "{} of {compared} values differ for reasons that are not in differences.txt:\n{}",
            unknown.len(),
            unknown.join("\n")
        );
        if unknown.len() > tolerated {
            return Err(listed);
        }
        println!("{listed}");
    }
    let mut sum = SUM.lock().unwrap_or_else(PoisonError::into_inner);
    for (key, count) in tally {
        *sum.0.entry(key).or_default() += count;
    }
    sum.1 += 1;
    let is_last = sum.1 == PARTS;
    if is_last && !is_quick {
        check_table(&table(&sum.0))
    } else {
        Ok(())
    }
}

fn compare_file(file: &Path, tally: &mut Tally) -> Vec<Difference> {
    let mut differences = Vec::new();
    let Some(capture) = driver::read(file).filter(|capture| !capture.flows.is_empty()) else {
        return differences;
    };
    let mut frames: Vec<Vec<Frame>> = Vec::new();
    frames.resize_with(capture.flows.len(), Vec::new);
    for frame in oracle::frames(file) {
        let flow = capture.of_frame.get(frame.number).copied().flatten();
        if let Some(flow) = flow.filter(|_| !frame.is_nested()) {
            frames[flow].push(frame);
        }
    }
    for (flow, frames) in capture.flows.iter().zip(&frames) {
        compare_flow(flow, frames, &mut |field, outcome, detail| {
            *tally.entry((field, outcome)).or_default() += 1;
            if outcome != Outcome::Equal {
                differences.push(Difference {
                    file: corpus::name(file),
                    field,
                    outcome,
                    detail,
                });
            }
        });
    }
    differences
}

fn compare_flow(
    flow: &Flow,
    frames: &[Frame],
    each: &mut impl FnMut(&'static str, Outcome, String),
) {
    let fields = flow.entry.fields();
    for field in FIELDS {
        let theirs = (field.theirs)(frames, flow);
        let ours = (field.ours)(&fields);
        let outcome = match (&ours, &theirs) {
            (None, None) => continue,
            (Some(ours), Some(theirs)) if ours.is(theirs) => Outcome::Equal,
            (Some(_), Some(_)) => Outcome::Differs,
            (None, Some(_)) => Outcome::OnlyTshark,
            (Some(_), None) => Outcome::OnlyRingtap,
        };
        let transport = if flow.is_tcp { "tcp" } else { "udp" };
        let (initiator, responder) = (flow.initiator, flow.responder);
        let detail = format!("{initiator} > {responder} {transport}: {ours:?}, tshark: {theirs:?}");
        each(field.name, outcome, detail);
    }
}

fn table(tally: &Tally) -> String {
    let mut text = "| field | flows | equal | different | only tshark | only ringtap |\n\
         |---|---|---|---|---|---|\n"
        .to_owned();
    for field in FIELDS {
        let count = |outcome| tally.get(&(field.name, outcome)).copied().unwrap_or(0);
        let [equal, differs, theirs, ours] = [
            Outcome::Equal,
            Outcome::Differs,
            Outcome::OnlyTshark,
            Outcome::OnlyRingtap,
        ]
        .map(count);
        let sum = equal + differs + theirs + ours;
        let name = field.name;
        let _ = writeln!(
            text,
            "| `{name}` | {sum} | {equal} | {differs} | {theirs} | {ours} |"
        );
    }
    text
}

/// Compares the table with that of the page, or writes it there. Another set of captures has another table.
fn check_table(table: &str) -> Result<(), String> {
    let path = repository().join("docs/reference/flow-fields.md");
    let page = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let (before, rest) = page.split_once(MARKS[0]).ok_or("the page has no table")?;
    let (old, after) = rest
        .split_once(MARKS[1])
        .ok_or("the page's table has no end")?;
    if std::env::var_os(WRITE_TABLE).is_some() {
        let page = format!("{before}{}\n{table}{}{after}", MARKS[0], MARKS[1]);
        return std::fs::write(&path, page).map_err(|error| error.to_string());
    }
    let is_ours = corpus::is_beside() && oracle::version().starts_with(VERSION);
    if is_ours && old.trim() != table.trim() {
        return Err(format!("the table in {} is not\n{table}", path.display()));
    }
    Ok(())
}
