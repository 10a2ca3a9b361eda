//! A day of flows on the disk, asked: `ringtap query` on its store, DuckDB and ClickHouse's engine (chDB) on the same
//! Parquet files, and nfdump on nfcapd's files of the same flows.
//!
//! The questions are those of a day's work: who sent most in an hour, who in the whole day, and how much one host sent and
//! received. The files are in the page cache. Times of `ringtap query` and nfdump are those of whole programs; DuckDB and
//! chDB are measured within Python, after their start. Set `RINGTAP_PYTHON` to a Python that has them.

mod engines;
mod flows;

use std::path::{Path, PathBuf};

use ringtap_lab::need::python;

use crate::helpers::float;
use crate::results::{Axis, Case};
use crate::session::{Done, Session, Stop, told};
use engines::{Engine, Question};

/// Flows of the day, and with `--minutes`.
const FLOWS: u64 = 10_000_000;
const QUICK_FLOWS: u64 = 240_000;
const ALL_FLOWS: u64 = 100_000_000;
/// The seconds of `ringtap query` at most, for each question.
const GOALS: [f64; 3] = [0.5, 5.0, 1.0];
/// The most memory, in MiB, and the most time relative to DuckDB and nfdump.
const MEMORY: f64 = 512.0;
const AGAINST_DUCKDB: f64 = 1.2;
const AGAINST_NFDUMP: f64 = 0.2;

pub(crate) fn run(session: &mut Session) -> Done {
    let query = program(session)?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let count = match session.minutes {
        Some(_) => ALL_FLOWS,
        None => session.amount(FLOWS, QUICK_FLOWS),
    };
    let store = folder.path().join("store");
    let seconds = flows::write_store(&store, count)?;
    let bytes = flows::bytes_in(&store)?;
    session.note(format!(
        "{count} flows of a day; the store was written in {seconds:.0} s and takes {:.1} bytes a flow",
        float(bytes) / float(count)
    ));
    let mut engines = vec![Engine::Ringtap {
        query,
        store: store.clone(),
    }];
    engines.extend(nfdump(session, folder.path(), count)?);
    for module in ["duckdb", "chdb"] {
        let script = folder.path().join(format!("ask_{module}.py"));
        match Engine::python(&python(), module, &script, &store)? {
            Some((engine, version)) => {
                session.note(format!("{module} {version}"));
                engines.push(engine);
            }
            None => session.note(format!("{module} is not there")),
        }
    }
    let size = match count / 1_000_000 {
        0 => format!("{} thousand", count / 1_000),
        millions => format!("{millions} million"),
    };
    let metrics = [("time", "s", 3), ("peak memory", "MiB", 0)];
    let title = format!("A day of {size} flows, asked");
    session.figure(&title, Axis::names("question"), metrics);
    let names: Vec<&str> = engines.iter().map(Engine::name).collect();
    let rare = flows::host();
    for (question, goal) in Question::all(rare).into_iter().zip(GOALS) {
        let mut answers: Vec<Vec<String>> = vec![Vec::new(); engines.len()];
        let case = session.case(question.title, None, &names, 0, |who| {
            let answered = engines[who].ask(&question)?;
            answers[who].push(answered.answer);
            Ok(vec![answered.seconds, answered.memory])
        })?;
        let Some(case) = case else { continue };
        compare(&answers, &names, question.title)?;
        let text = judged(&case, &names, goal);
        session.note(format!("{}: {text}", question.title));
    }
    Ok(())
}

/// Returns the program of `ringtap query`: beside ringtap, or where `.ci/query` and `cargo xtask install --query` build it.
fn program(session: &Session) -> Done<PathBuf> {
    let beside = session.ringtap.with_file_name("ringtap-query");
    let built = Path::new("target/query/release/ringtap-query").to_owned();
    let found = [beside, built].into_iter().find(|path| path.is_file());
    found.ok_or_else(|| Stop::Needs("needs ringtap-query: cargo xtask install --query".to_owned()))
}

/// Has nfcapd write the same flows. `None` if it is not installed.
fn nfdump(session: &mut Session, folder: &Path, count: u64) -> Done<Option<Engine>> {
    let (Some(capture), Some(ask)) = (session.peer("nfcapd"), session.peer("nfdump")) else {
        return Ok(None);
    };
    let files = folder.join("nfcapd");
    flows::write_nfcapd(&capture, &files, count)?;
    let bytes = flows::bytes_in(&files)?;
    let engine = Engine::Nfdump { ask, files };
    let known = engine.flows()?;
    session.note(format!(
        "nfcapd has {known} of {count} flows, by LZ4 in {:.1} bytes a flow",
        float(bytes) / float(count)
    ));
    match float(known) >= 0.99 * float(count) {
        true => Ok(Some(engine)),
        false => Err(format!("nfcapd has lost flows: {known} of {count} came").into()),
    }
}

/// Checks that all engines have the same rows in every round.
fn compare(answers: &[Vec<String>], names: &[&str], title: &str) -> Done {
    let own = answers.first().and_then(|rounds| rounds.first());
    let own = own.ok_or_else(|| format!("{title}: ringtap query has no answer"))?;
    for (rounds, name) in answers.iter().zip(names) {
        if let Some(other) = rounds.iter().find(|answer| *answer != own) {
            return Err(format!("{title}: ringtap query says {own}, {name} {other}").into());
        }
    }
    Ok(())
}

/// Judges the goals by medians.
fn judged(case: &Case, names: &[&str], goal: f64) -> String {
    let median = |who: usize, metric: usize| case.contenders[who].samples[metric].median();
    let (time, memory) = (median(0, 0), median(0, 1));
    let mut text = format!(
        "{time:.3} s (goal {goal} s: {}), {memory:.0} MiB (goal {MEMORY} MiB: {})",
        told(time <= goal),
        told(memory <= MEMORY)
    );
    for (name, most) in [("DuckDB", AGAINST_DUCKDB), ("nfdump", AGAINST_NFDUMP)] {
        if let Some(who) = names.iter().position(|other| *other == name) {
            let ratio = time / median(who, 0);
            let told = told(ratio <= most);
            text += &format!("; {ratio:.2} of {name}'s time (goal {most}: {told})");
        }
    }
    text
}
