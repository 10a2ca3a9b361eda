//! What an experiment found: figures, cases, contenders, samples. Written as JSON, read again by
//! whoever draws, tabulates or compares.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::sample::{Sample, Verdict, compare};

/// One experiment's outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The name by which it is called.
    pub experiment: String,
    /// What it shows, in a sentence.
    pub purpose: String,
    /// What the documents found, and what is measured here.
    pub caption: String,
    /// Less data and fewer rounds: to see that it works, not to compare.
    pub quick: bool,
    /// Only cases whose title had this text, where not all were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// A hash of the measured program and of the one that measured it; the same build gives the same text.
    #[serde(default)]
    pub build: String,
    /// What went wrong; what was measured nevertheless is here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// Where and when.
    pub machine: Machine,
    /// Seconds that it took.
    pub seconds: f64,
    /// Programs that it was measured against, with their versions.
    pub peers: Vec<Peer>,
    /// Programs that it would have been measured against, were they installed.
    pub absent: Vec<String>,
    /// What the reader of its figures should know, such as cases that were left out.
    pub notes: Vec<String>,
    /// What was measured.
    pub figures: Vec<Figure>,
}

/// A program of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The program's name.
    pub name: String,
    /// The line with which it tells its version.
    pub version: String,
}

/// Cases that belong on one pair of axes; each metric has an axis of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What is seen.
    pub title: String,
    /// What differs from case to case.
    pub x: Axis,
    /// What was measured in each case, of each contender.
    pub metrics: Vec<Metric>,
    /// The cases, in their order.
    pub cases: Vec<Case>,
}

/// What a figure runs over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name.
    pub name: String,
    /// The unit of its numbers; empty where they count or are names.
    pub unit: String,
    /// How its numbers lie.
    pub scale: Scale,
}

/// How the numbers of an axis lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Numbers, evenly.
    Linear,
    /// Numbers, by their logarithm.
    Log,
    /// No numbers: cases by name.
    Names,
}

impl Axis {
    /// Numbers, evenly.
    #[must_use]
    pub fn linear(name: &str, unit: &str) -> Self {
        Self::new(name, unit, Scale::Linear)
    }

    /// Numbers, by their logarithm.
    #[must_use]
    pub fn log(name: &str, unit: &str) -> Self {
        Self::new(name, unit, Scale::Log)
    }

    /// Cases by name.
    #[must_use]
    pub fn names(name: &str) -> Self {
        Self::new(name, "", Scale::Names)
    }

    fn new(name: &str, unit: &str, scale: Scale) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, scale }
    }

    /// The name with its unit.
    #[must_use]
    pub fn label(&self) -> String {
        labelled(&self.name, &self.unit)
    }
}

/// A figure that a run yields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Digits after the point.
    pub digits: usize,
}

impl Metric {
    /// A metric whose values are shown with so many digits after the point.
    #[must_use]
    pub fn new(name: &str, unit: &str, digits: usize) -> Self {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        Self { name, unit, digits }
    }

    /// The name with its unit.
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

/// The same done by several contenders, by turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// What is done.
    pub title: String,
    /// Where it lies on the axis: a number, or its place among the names.
    pub x: f64,
    /// Who did it.
    pub contenders: Vec<Contender>,
    /// Which of them the ratios are to.
    pub reference: usize,
}

/// What one contender reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Its name.
    pub name: String,
    /// A sample for each metric of the figure.
    pub samples: Vec<Sample>,
    /// Of each metric, by round: its value divided by the reference's in the same round. Without
    /// values for the reference itself, and where the reference's was zero.
    pub ratios: Vec<Sample>,
}

impl Case {
    /// The contender of that name.
    #[must_use]
    pub fn contender(&self, name: &str) -> Option<&Contender> {
        self.contenders
            .iter()
            .find(|contender| contender.name == name)
    }

    /// What may be said of a contender against the reference; nothing of the reference itself.
    #[must_use]
    pub fn verdict(&self, contender: usize, metric: usize) -> Option<Verdict> {
        if contender == self.reference {
            return None;
        }
        let sample = |who: usize| self.contenders.get(who)?.samples.get(metric);
        Some(compare(sample(contender)?, sample(self.reference)?))
    }

    /// The greatest ratio of the first contender, by which a goal is judged: the worst round counts.
    #[must_use]
    pub fn worst_ratio(&self, metric: usize) -> Option<f64> {
        let ratio = self.contenders.first()?.ratios.get(metric)?;
        (!ratio.is_empty()).then(|| ratio.most())
    }
}

/// Results with a figure of either kind, for the tests of what shows them.
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
    /// Whether it is all of an experiment, of the same program and as long a run.
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
