//! The experiments of `ringtap bench`, and how their results are shown.
//!
//! Contenders take turns within the same minutes. The results are medians with their spread,
//! ratios, and no conclusion if the spread exceeds the difference. Each experiment's results are
//! written as a table, CSV, JSON and SVG; one HTML report shows all of them beside the documents'
//! own figures. Experiments are no tests: nothing fails for being slow. Traffic stays in network
//! namespaces of its own.
//!
//! The data flow: the body of an `experiments` entry has a `session::Session` measure cases;
//! [`contest`] lets contenders take turns; [`results`] stores the values; [`chart`] and [`report()`]
//! show them.
#![forbid(unsafe_code)]

pub mod chart;
pub mod contest;
mod documents;
mod error;
mod experiments;
mod goals;
mod helpers;
pub mod machine;
pub mod report;
pub mod results;
pub mod sample;
mod session;
mod stage;
mod syscalls;
pub mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use error::Error;
use experiments::{ALONE, EXPERIMENTS, Experiment};
use results::Results;
use ringtap_sys::output::{self, Access};
use session::{Session, Stop};

/// Options of a run: the cases to measure, and the folder for results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Less data and fewer rounds: a check that experiments work, not a comparison.
    pub quick: bool,
    /// Only cases whose title contains this text.
    pub case: Option<String>,
    /// The minutes of a soak; without them it is left out.
    pub minutes: Option<u32>,
    /// The folder for results; it is created if it is missing.
    pub out: PathBuf,
    /// The ringtap program to measure.
    pub ringtap: PathBuf,
    /// Skip experiments whose complete results are in the folder, from the same program and with
    /// the same `quick`. So an interrupted run can continue.
    pub resume: bool,
}

/// Returns the name of every experiment and its purpose.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    EXPERIMENTS
        .iter()
        .map(|experiment| (experiment.name, experiment.purpose))
}

/// Runs one experiment, or `all`, and writes the results. If one of all fails, the others still
/// run.
///
/// # Errors
/// Returns an error if no experiment has this name, if one fails, or if results cannot be written.
/// If the machine lacks something that an experiment needs, that is an error only for an experiment
/// called by its name.
pub fn run(name: &str, options: &Options) -> Result<(), Error> {
    if name == "all" {
        return run_all(options);
    }
    let experiment = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
        .ok_or_else(|| Error::Unknown(name.to_owned()))?;
    std::fs::create_dir_all(&options.out).map_err(Error::at(&options.out))?;
    if options.resume && is_there(experiment, options) {
        println!("{name}: there already");
        return Ok(());
    }
    // Alone it has more time, so that no case is left out on a machine that is slow today.
    let deadline = Instant::now() + 2 * experiment.budget(options.quick);
    run_one(experiment, options, deadline)
}

fn run_all(options: &Options) -> Result<(), Error> {
    std::fs::create_dir_all(&options.out).map_err(Error::at(&options.out))?;
    let (there, wanted): (Vec<&Experiment>, Vec<&Experiment>) = EXPERIMENTS
        .iter()
        .filter(|experiment| !ALONE.contains(&experiment.name))
        .partition(|experiment| options.resume && is_there(experiment, options));
    print_plan(&there, &wanted, options);
    let (mut left_out, mut failed) = (Vec::new(), Vec::new());
    // Time that one experiment leaves goes to the next; time that it overruns is taken from the
    // next.
    let mut deadline = Instant::now();
    for experiment in wanted {
        deadline += experiment.budget(options.quick);
        match run_one(experiment, options, deadline) {
            Ok(()) => {}
            Err(Error::Needs { experiment, reason }) => {
                println!("{experiment}: left out: {reason}");
                left_out.push(format!("{experiment}: {reason}"));
            }
            Err(error) => {
                println!("{error}");
                failed.push((experiment.name, error.to_string()));
            }
        }
    }
    write_page(&options.out, &report::load(&options.out)?)?;
    for reason in left_out {
        println!("left out: {reason}");
    }
    for (_, reason) in &failed {
        println!("failed: {reason}");
    }
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    Err(Error::Some(names.join(", ")))
}

/// Returns whether the folder already holds the results of this run.
fn is_there(experiment: &Experiment, options: &Options) -> bool {
    let build = machine::build(&options.ringtap);
    let results = report::load_one(&options.out, experiment.name);
    // Unreadable results are measured again.
    results
        .is_ok_and(|results| results.is_some_and(|results| results.is_whole(&build, options.quick)))
}

/// Writes `report.html` with all results in a folder.
///
/// # Errors
/// Returns an error if the results cannot be read, if there are none, or if the page cannot be
/// written.
pub fn report(folder: &Path) -> Result<(), Error> {
    write_page(folder, &report::load_some(folder)?)
}

fn write_page(folder: &Path, all: &[Results]) -> Result<(), Error> {
    let page = report::html(all).map_err(Error::Report)?;
    let path = folder.join("report.html");
    save(&path, &page)?;
    println!("written: {}", path.display());
    Ok(())
}

/// Returns the results in a folder as text, as printed during a run: for each case the medians with
/// their ranges, and the comparison with the reference. `only` selects an experiment by its name,
/// or cases by a text in their title.
///
/// # Errors
/// Returns an error if the results cannot be read or `only` selects none.
/// The results cannot be read, or none of them is asked for.
pub fn text(folder: &Path, only: Option<&str>) -> Result<String, Error> {
    let mut text = String::new();
    for results in report::load_some(folder)? {
        text += &report::text(&results, only.filter(|only| *only != results.experiment));
    }
    match only {
        Some(only) if text.is_empty() => Err(Error::NoCase {
            folder: folder.to_owned(),
            only: only.to_owned(),
        }),
        _ => Ok(text),
    }
}

/// Returns the README's table, as Markdown, from the results in a folder.
///
/// # Errors
/// Returns an error if the results cannot be read or there are none.
pub fn markdown(folder: &Path) -> Result<String, Error> {
    table::markdown(&report::load_some(folder)?).map_err(Error::Report)
}

fn print_plan(there: &[&Experiment], wanted: &[&Experiment], options: &Options) {
    for experiment in there {
        println!("  {:<10} there already", experiment.name);
    }
    println!("the plan, each experiment with the time that it may take:");
    let mut total = Duration::ZERO;
    for experiment in wanted {
        let budget = experiment.budget(options.quick);
        total += budget;
        println!(
            "  {:<10} {:>5} s  {}",
            experiment.name,
            budget.as_secs(),
            experiment.purpose
        );
    }
    let minutes = total.as_secs().div_ceil(60);
    println!(
        "  together   {:>5} s at most, {minutes} minutes",
        total.as_secs()
    );
}

/// Runs one experiment; no case begins after the deadline.
fn run_one(experiment: &Experiment, options: &Options, deadline: Instant) -> Result<(), Error> {
    let Experiment {
        name,
        purpose,
        caption,
        ..
    } = *experiment;
    let limits = (deadline, experiment.rounds);
    let mut session = Session::new(name, purpose, caption, limits, options);
    println!("\nbench {name}: {purpose}");
    let begun = Instant::now();
    // A thread of its own, so that its choice of processors does not affect the next experiment.
    let ended = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn_scoped(scope, || (experiment.body)(&mut session));
        let thread = thread.map_err(|error| Stop::Failed(error.to_string()))?;
        let ended = thread.join();
        ended.unwrap_or_else(|panic| Err(Stop::Failed(message(&*panic))))
    });
    if let Err(Stop::Failed(reason)) = &ended {
        session.fail(reason);
    }
    let (results, rows) = session.finish(begun.elapsed().as_secs_f64());
    // Values measured before a failure are kept.
    if !results.figures.is_empty() {
        write(&results, &rows, &options.out)?;
    }
    let experiment = name.to_owned();
    match (ended, results.failures.as_slice()) {
        (Err(Stop::Needs(reason)), _) => Err(Error::Needs { experiment, reason }),
        (_, []) => Ok(()),
        (_, failures) => Err(Error::Failed {
            experiment,
            reason: failures.join("; "),
        }),
    }
}

/// Returns the message of a panic: namespaces, wires and programs of an experiment panic if the
/// system refuses them.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked".to_owned())
}

/// Writes a file of results, readable for everyone whom the umask allows.
fn save(path: &Path, text: &str) -> Result<(), Error> {
    let opened = output::open(path, Access::Umask, false).map_err(Error::at(path))?;
    let mut file = opened.file;
    let saved = file
        .set_len(0)
        .and_then(|()| file.write_all(text.as_bytes()));
    saved.map_err(Error::at(path))
}

fn write(results: &Results, rows: &str, out: &Path) -> Result<(), Error> {
    let name = results.experiment.as_str();
    let announced = |path: PathBuf, text: &str| {
        save(&path, text).map(|()| println!("written: {}", path.display()))
    };
    let json = serde_json::to_string_pretty(results).map_err(|source| Error::Json {
        path: session::file(out, name, "json"),
        source,
    })?;
    println!();
    announced(session::file(out, name, "json"), &(json + "\n"))?;
    let csv = format!("{}{rows}", session::COLUMNS);
    announced(session::file(out, name, "csv"), &csv)?;
    for (number, figure) in (1..).zip(&results.figures) {
        let svg = chart::svg(figure, &results.caption).map_err(|error| Error::Failed {
            experiment: name.to_owned(),
            reason: error.to_string(),
        })?;
        announced(session::file(out, &format!("{name}-{number}"), "svg"), &svg)?;
    }
    Ok(())
}
