//! The session of an experiment: its options, its peers, and its results.

use std::fmt::{Display, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ringtap_lab::Need;
use ringtap_lab::need::find_tool;

use crate::Options;
use crate::contest::{self, Limits, Row};
use crate::machine::{self, Machine, first_line};
use crate::results::{Axis, Case, Figure, Metric, Peer, Results, Scale};
use crate::sample::Sample;

const QUICK_ROUNDS: usize = 2;
/// For a case in which all contenders have the same value.
const ROUNDS_WHERE_EQUAL: usize = 3;

/// The reason why an experiment ends early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The machine lacks something.
    Needs(String),
    /// It failed.
    Failed(String),
}

/// Every error and text is the reason of a failure; [`Stop`] itself has no `Display`, so that this includes all others.
impl<E: Display> From<E> for Stop {
    fn from(reason: E) -> Self {
        Self::Failed(reason.to_string())
    }
}

impl Stop {
    /// Returns the reason.
    pub(crate) fn reason(self) -> String {
        match self {
            Self::Needs(reason) | Self::Failed(reason) => reason,
        }
    }
}

/// The result of an experiment's body, and of its parts.
pub(crate) type Done<T = ()> = Result<T, Stop>;

/// A running experiment.
pub(crate) struct Session {
    /// The program to measure.
    pub(crate) ringtap: PathBuf,
    /// Less data and fewer rounds: a check that it works, not a comparison.
    pub(crate) quick: bool,
    /// The minutes of a soak, if one is wanted.
    pub(crate) minutes: Option<u32>,
    /// Only cases whose title contains this text.
    only: Option<String>,
    deadline: Instant,
    /// The number of rounds of a case.
    rounds: usize,
    /// Whether a case ends early if all contenders have the same value.
    ends_where_equal: bool,
    /// Whether everything has run once before the measurement.
    warm: bool,
    results: Results,
    rows: String,
}

impl Session {
    pub(crate) fn new(
        name: &str,
        purpose: &str,
        caption: &str,
        limits: (Instant, usize),
        options: &Options,
    ) -> Self {
        let (deadline, rounds) = limits;
        Self {
            ringtap: options.ringtap.clone(),
            quick: options.quick,
            only: options.case.clone(),
            deadline,
            rounds: if options.quick { QUICK_ROUNDS } else { rounds },
            ends_where_equal: false,
            minutes: options.minutes,
            // A quick check needs no warm-up.
            warm: options.quick,
            results: Results {
                experiment: name.to_owned(),
                purpose: purpose.to_owned(),
                caption: caption.to_owned(),
                quick: options.quick,
                only: options.case.clone(),
                build: machine::build(&options.ringtap),
                failures: Vec::new(),
                machine: Machine::here(&options.ringtap),
                seconds: 0.0,
                peers: Vec::new(),
                absent: Vec::new(),
                notes: Vec::new(),
                figures: Vec::new(),
            },
            rows: String::new(),
        }
    }

    /// Returns the results, and the raw values as CSV without a head.
    pub(crate) fn finish(self, seconds: f64) -> (Results, String) {
        let mut results = self.results;
        results.seconds = seconds;
        results.figures.retain(|figure| !figure.cases.is_empty());
        (results, self.rows)
    }

    /// Ends the experiment if the machine lacks one of these, or has fewer processors.
    pub(crate) fn require(&self, needs: &[Need], cpus: usize) -> Done {
        let few = || (self.results.machine.cpus < cpus).then(|| format!("needs {cpus} processors"));
        let lacking = needs.iter().find_map(Need::unmet).or_else(few);
        lacking.map_or(Ok(()), |reason| Err(Stop::Needs(reason)))
    }

    /// Returns the amount for a full or for a quick run.
    pub(crate) fn amount<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Returns the path of a peer's program and adds it to the report with its version. If it is
    /// not installed, adds it to the missing peers and returns `None`.
    pub(crate) fn peer(&mut self, name: &str) -> Option<PathBuf> {
        let found = find_tool(name);
        match &found {
            Some(path) if !self.results.peers.iter().any(|peer| peer.name == name) => {
                let path = path.to_string_lossy();
                let version = match name {
                    "nfpcapd" | "nfcapd" | "nfdump" => first_line(&path, &["-V"]),
                    // softflowd prints its version nowhere.
                    "softflowd" => first_line(
                        "dpkg-query",
                        &["-W", "-f", "${Package} ${Version}", "softflowd"],
                    ),
                    _ => first_line(&path, &["--version"]),
                };
                let name = name.to_owned();
                self.results.peers.push(Peer { name, version });
            }
            None if !self.results.absent.iter().any(|absent| absent == name) => {
                self.results.absent.push(name.to_owned());
            }
            _ => {}
        }
        found
    }

    /// Returns the path of a peer that the experiment cannot do without.
    pub(crate) fn needed_peer(&mut self, name: &str) -> Done<PathBuf> {
        self.peer(name)
            .ok_or_else(|| Stop::Needs(format!("needs the program {name}")))
    }

    /// Measures at most three rounds of a case in which all contenders have the same first metric,
    /// such as all of the packets: more rounds would decide nothing.
    pub(crate) fn end_where_equal(&mut self) {
        self.ends_where_equal = true;
    }

    /// Measures at most so many rounds of the following cases.
    pub(crate) fn at_most_rounds(&mut self, rounds: usize) {
        self.rounds = self.rounds.min(rounds);
    }

    /// Records a failure of the experiment.
    pub(crate) fn fail(&mut self, reason: &str) {
        self.results.failures.push(reason.to_owned());
    }

    /// Adds a note for the reader of the figures.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        let text = text.into();
        println!("  note: {text}");
        self.results.notes.push(text);
    }

    /// Begins a figure, to which the following cases belong.
    pub(crate) fn figure(
        &mut self,
        title: &str,
        x: Axis,
        metrics: impl IntoIterator<Item = impl Into<Metric>>,
    ) {
        println!("\n== {title}");
        self.results.figures.push(Figure {
            title: title.to_owned(),
            x,
            metrics: metrics.into_iter().map(Into::into).collect(),
            cases: Vec::new(),
        });
    }

    /// Returns whether a case of that title is selected.
    pub(crate) fn wants(&self, title: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| title.contains(only.as_str()))
    }

    /// Measures a case of the current figure, prints its table and keeps the values. Returns `None`
    /// if the case is not selected, if the experiment's time is over (which is noted), or if it
    /// fails (which is recorded): other cases still run.
    pub(crate) fn case(
        &mut self,
        title: &str,
        x: Option<f64>,
        contenders: &[&str],
        reference: usize,
        mut measure: impl FnMut(usize) -> Done<Vec<f64>>,
    ) -> Done<Option<Case>> {
        if !self.wants(title) {
            return Ok(None);
        }
        if Instant::now() > self.deadline {
            self.note(format!("left out, the time is over: {title}"));
            return Ok(None);
        }
        let limits = Limits {
            rounds: self.rounds,
            where_equal: if self.ends_where_equal {
                self.rounds.min(ROUNDS_WHERE_EQUAL)
            } else {
                self.rounds
            },
            warm_up: !std::mem::replace(&mut self.warm, true),
            deadline: self.deadline,
        };
        let figure = self.results.figures.last_mut();
        let figure = figure.ok_or("no figure was begun")?;
        let metrics = figure.metrics.len();
        let measure = |who| measure(who).map_err(Stop::reason);
        let measured = contest::run(title, contenders, reference, metrics, limits, measure);
        let (mut case, rows) = match measured {
            Ok(measured) => measured,
            Err(reason) => {
                println!("  failed: {reason}");
                self.results.failures.push(reason);
                return Ok(None);
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "a few cases")]
        let place = figure.cases.len() as f64;
        case.x = match figure.x.scale {
            Scale::Names => place,
            Scale::Linear | Scale::Log => x.unwrap_or(place),
        };
        print!("{}", contest::table(&case, &figure.metrics));
        let prefix = self.results.experiment.clone();
        append(&mut self.rows, &prefix, figure, &case, &rows);
        figure.cases.push(case.clone());
        Ok(Some(case))
    }

    /// Measures ringtap against one peer; `measure` gets the side whose turn it is.
    pub(crate) fn versus(
        &mut self,
        title: &str,
        peer: &str,
        mut measure: impl FnMut(Side) -> Done<Vec<f64>>,
    ) -> Done<Option<Case>> {
        self.case(title, None, &["ringtap", peer], 1, |who| {
            measure(if who == 0 { Side::Ringtap } else { Side::Peer })
        })
    }
}

/// The peer, or ringtap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ringtap,
    Peer,
}

/// The columns of the raw values.
pub(crate) const COLUMNS: &str = "experiment,figure,case,x,round,contender,metric,unit,value\n";

fn append(out: &mut String, experiment: &str, figure: &Figure, case: &Case, rows: &[Row]) {
    for &(round, who, metric, value) in rows {
        let contender = case.contenders.get(who).map_or("", |who| who.name.as_str());
        let Some(metric) = figure.metrics.get(metric) else {
            continue;
        };
        let x = match figure.x.scale {
            Scale::Names => String::new(),
            Scale::Linear | Scale::Log => case.x.to_string(),
        };
        let texts = [
            &figure.title,
            &case.title,
            contender,
            &metric.name,
            &metric.unit,
        ];
        let [title, case_title, contender, name, unit] = texts.map(quoted);
        let line = writeln!(
            out,
            "{experiment},{title},{case_title},{x},{round},{contender},{name},{unit},{value}"
        );
        // Writing to memory does not fail.
        debug_assert!(line.is_ok());
    }
}

/// Returns a field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// Judges whether a ratio stays at or below a goal: the worst round counts.
pub(crate) fn judge(what: &str, goal: f64, case: Option<&Case>, metric: usize) {
    if let Some(worst) = case.and_then(|case| case.worst_ratio(metric)) {
        let reached = told(worst <= goal);
        println!("  goal: at most {goal:.3} {what}: {reached} in every round (worst {worst:.3})");
    }
}

/// Judges whether a ratio reaches a goal: the worst round counts.
pub(crate) fn judge_least(
    what: &str,
    goal: f64,
    case: Option<&Case>,
    contender: usize,
    metric: usize,
) {
    let ratio = case.and_then(|case| case.ratio(contender, metric));
    if let Some(worst) = ratio.map(Sample::least) {
        let reached = told(worst >= goal);
        println!("  goal: at least {goal:.3} {what}: {reached} in every round (worst {worst:.3})");
    }
}

/// Returns the word for a goal's outcome.
pub(crate) const fn told(is_reached: bool) -> &'static str {
    if is_reached { "reached" } else { "not reached" }
}

/// Returns the path of an experiment's file in a folder of results.
pub(crate) fn file(folder: &Path, experiment: &str, extension: &str) -> PathBuf {
    folder.join(format!("{experiment}.{extension}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_case_that_fails_ends_no_other() {
        let options = Options {
            quick: true,
            minutes: None,
            case: None,
            out: PathBuf::new(),
            ringtap: PathBuf::new(),
            resume: false,
        };
        let mut session = Session::new(
            "none",
            "",
            "",
            (Instant::now() + Duration::from_secs(60), 5),
            &options,
        );
        session.figure(
            "a figure",
            Axis::names("case"),
            vec![Metric::new("time", "s", 1)],
        );
        let broken = session.case("first", None, &["a"], 0, |_| Err("broken".into()));
        assert_eq!(broken, Ok(None));
        let measured = session.case("second", None, &["a"], 0, |_| Ok(vec![1.0]));
        assert!(measured.is_ok_and(|case| case.is_some()));
        let (results, _) = session.finish(1.0);
        assert_eq!(results.failures, ["first: a: broken"]);
        assert_eq!(results.figures[0].cases.len(), 1);
        assert!(!results.is_whole(&results.build, true));
    }
}
