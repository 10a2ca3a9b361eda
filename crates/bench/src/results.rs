//! The results of an experiment: figures, cases, contenders, samples. They are written as JSON, and
//! read again for charts, tables and comparisons.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::sample::{Sample, Verdict, compare};

/// One experiment's outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's purpose, in a sentence.
    pub purpose: String,
    /// The claim of the documents, and the cases measured here.
    pub caption: String,
    /// Less data and fewer rounds: a check that it works, not a comparison.
    pub quick: bool,
    /// Only cases whose title contained this text, if not all ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// A hash over the measured program and the measuring one; the same builds give the same text.
    #[serde(default)]
    pub build: String,
    /// Failures; values measured in spite of them are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// The machine and the time.
    pub machine: Machine,
    /// The duration in seconds.
    pub seconds: f64,
    /// Peers that it was measured against, with their versions.
    pub peers: Vec<Peer>,
    /// Peers that were not installed.
    pub absent: Vec<String>,
    /// Notes for the reader of the figures, such as cases that were left out.
    pub notes: Vec<String>,
    /// The measured figures.
    pub figures: Vec<Figure>,
}

/// A peer: another project's program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The program's name.
    pub name: String,
    /// The line in which it prints its version.
    pub version: String,
}

/// Cases that share a pair of axes; each metric has an axis of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The title.
    pub title: String,
    /// The axis along which cases differ.
    pub x: Axis,
    /// The metrics of each contender in each case.
    pub metrics: Vec<Metric>,
    /// The cases, in their order.
    pub cases: Vec<Case>,
}

/// The horizontal axis of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The unit of its numbers; empty for counts and names.
    pub unit: String,
    /// The spacing of its numbers.
    pub scale: Scale,
}

/// The spacing of the numbers of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Numbers with linear spacing.
    Linear,
    /// Numbers with logarithmic spacing.
    Log,
    /// Cases by name instead of numbers.
    Names,
}

impl Axis {
    /// Returns an axis of numbers with linear spacing.
    #[must_use]
    pub fn linear(name: &str, unit: &str) -> Self {
        Self::new(name, unit, Scale::Linear)
    }

    /// Returns an axis of numbers with logarithmic spacing.
    #[must_use]
    pub fn log(name: &str, unit: &str) -> Self {
        Self::new(name, unit, Scale::Log)
    }

    /// Returns an axis of cases by name.
    #[must_use]
    pub fn names(name: &str) -> Self {
        Self::new(name, "", Scale::Names)
    }

    fn new(name: &str, unit: &str, scale: Scale) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, scale }
    }

    /// Returns the name with its unit.
    #[must_use]
    pub fn label(&self) -> String {
        labelled(&self.name, &self.unit)
    }
}

/// A value that each run measures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Digits after the point.
    pub digits: usize,
}

impl From<(&str, &str, usize)> for Metric {
    fn from((name, unit, digits): (&str, &str, usize)) -> Self {
        Self::new(name, unit, digits)
    }
}

impl Metric {
    /// Returns a metric whose values have this many digits after the point.
    #[must_use]
    pub fn new(name: &str, unit: &str, digits: usize) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, digits }
    }

    /// Returns the name with its unit.
    #[must_use]
    pub fn label(&self) -> String {
        labelled(&self.name, &self.unit)
    }
}

fn labelled(name: &str, unit: &str) -> String {
    if unit.is_empty() {
        name.to_owned()
    } else {
        format!("{name} [{unit}]")
    }
}

/// The same work done by several contenders in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The title.
    pub title: String,
    /// The place on the axis: a number, or an index into the names.
    pub x: f64,
    /// The contenders.
    pub contenders: Vec<Contender>,
    /// The contender that the ratios refer to.
    pub reference: usize,
}

/// The values of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// A sample for each metric of the figure.
    pub samples: Vec<Sample>,
    /// For each metric, by round: its value divided by the reference's in the same round. No values
    /// for the reference itself, or if the reference's value was zero.
    pub ratios: Vec<Sample>,
}

impl Figure {
    /// Returns the index of the metric of that name.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<usize> {
        self.metrics.iter().position(|metric| metric.name == name)
    }
}

impl Case {
    /// Returns the index of the contender of that name.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<usize> {
        let mut contenders = self.contenders.iter();
        contenders.position(|contender| contender.name == name)
    }

    /// Returns the contender of that name.
    #[must_use]
    pub fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders.get(self.place(name)?)
    }

    /// Returns the ratios of a contender; `None` if there are none.
    #[must_use]
    pub fn ratio(&self, contender: usize, metric: usize) -> Option<&Sample> {
        let ratio = self.contenders.get(contender)?.ratios.get(metric)?;
        (!ratio.is_empty()).then_some(ratio)
    }

    /// Returns the conclusion about a contender and the reference; `None` for the reference itself.
    #[must_use]
    pub fn verdict(&self, contender: usize, metric: usize) -> Option<Verdict> {
        if contender == self.reference {
            return None;
        }
        let sample = |who: usize| self.contenders.get(who)?.samples.get(metric);
        Some(compare(sample(contender)?, sample(self.reference)?))
    }

    /// Returns the greatest ratio of the first contender. Goals are judged by it: the worst round
    /// counts.
    #[must_use]
    pub fn worst_ratio(&self, metric: usize) -> Option<f64> {
        self.ratio(0, metric).map(Sample::most)
    }
}

/// Results with a figure of either kind, for tests.
#[cfg(test)]
pub(crate) fn sample_results(experiment: &str) -> Results {
    let sample = |values: &[f64]| {
        let mut sample = Sample::default();
        values.iter().for_each(|&value| sample.push(value));
        sample
    };
    let contender = |name: &str, value: f64, ratio: &[f64]| Contender {
        name: name.to_owned(),
        samples: vec![sample(&[value, value * 1.1]), sample(&[0.0, 0.0])],
        ratios: vec![sample(ratio), Sample::default()],
    };
    let case = |title: &str, x: f64| Case {
        title: title.to_owned(),
        x,
        contenders: vec![
            contender("ringtap", 4.0 + x / 1e3, &[2.0, 2.2]),
            contender("tcpdump", 2.0, &[]),
            contender("a third", 2.1, &[1.0, 1.1]),
        ],
        reference: 1,
    };
    let figure = |title: &str, x: Axis| Figure {
        title: title.to_owned(),
        x,
        metrics: vec![
            Metric::new("rate", "million packets/s", 2),
            Metric::new("lost", "packets", 0),
        ],
        cases: vec![case("64 bytes", 64.0), case("1500 bytes", 1500.0)],
    };
    Results {
        experiment: experiment.to_owned(),
        purpose: "a sample".to_owned(),
        caption: "The documents found one thing, and this is another.".to_owned(),
        quick: true,
        only: None,
        build: String::new(),
        failures: Vec::new(),
        machine: Machine::here(std::path::Path::new("")),
        seconds: 1.5,
        peers: vec![Peer {
            name: "tcpdump".to_owned(),
            version: "tcpdump version 4.99.3".to_owned(),
        }],
        absent: vec!["trafgen".to_owned()],
        notes: vec!["1.8 < 2 & more".to_owned()],
        figures: vec![
            figure("Over sizes", Axis::log("frame", "bytes")),
            figure("By name", Axis::names("engine")),
        ],
    }
}

impl Results {
    /// Returns whether these are all cases of an experiment, from the same program and with the same `quick`.
    #[must_use]
    pub fn is_whole(&self, build: &str, quick: bool) -> bool {
        let of_the_same = !build.is_empty() && self.build == build && self.quick == quick;
        of_the_same && self.only.is_none() && self.failures.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::sample_results;

    #[test]
    fn only_whole_results_of_the_same_program_need_no_further_run() {
        let mut results = sample_results("tap");
        assert!(!results.is_whole("", true), "an unknown program");
        results.build = "a".to_owned();
        assert!(results.is_whole("a", true));
        assert!(!results.is_whole("b", true) && !results.is_whole("a", false));
        let failed = super::Results {
            failures: vec!["broken".to_owned()],
            ..results.clone()
        };
        assert!(!failed.is_whole("a", true));
        results.only = Some("64".to_owned());
        assert!(!results.is_whole("a", true));
    }

    #[test]
    fn results_survive_their_file() {
        let results = sample_results("tap");
        let text = serde_json::to_string(&results).expect("written");
        let read: super::Results = serde_json::from_str(&text).expect("read");
        assert_eq!(read, results);
    }
}
