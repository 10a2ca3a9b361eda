//! Whether the profiler puts a known load where it belongs: filters of so many instructions, packets of
//! which so many bytes are copied, an application that works for so long.
//!
//! What a filter costs is also measured alone, on one packet over and over, which no profiler has a hand
//! in. What is copied is told by the two methods of the profiler, samples and captures cut short, against
//! each other. For each load it is said what it should add, what the samples show, and whether that is
//! right.

use std::cell::RefCell;
use std::process::Command;

use ringtap_capture::{Filter, LinkType};
use ringtap_filter::ebpf::lower::{Hook, standalone};
use ringtap_lab::Need;
use serde_json::Value;

use crate::helpers::{Alone, float};
use crate::results::{Axis, Case, Metric};
use crate::sample::Sample;
use crate::session::{Done, Session};

/// Comparisons of each filter: a load and a jump each, besides the answers.
const COMPARISONS: [usize; 3] = [1, 10, 44];
const SNAPLENS: [u16; 3] = [64, 512, 1514];
/// Packets a second where the ring must have room for all: what is lost is not copied, and not read. And
/// bytes that wait before the reader is woken: else longer packets wake it more often.
const PACE: [&str; 4] = ["--pps", "300000", "--min-to-copy", "4M"];
const FRAME: u16 = 60;
const LONG_FRAME: u16 = 1514;
/// Nanoseconds that the application works on a packet.
const WORK: u16 = 200;
/// A load is where it belongs where the samples show so much of it: the difference of two profiles, each
/// of which is known to some percent.
const RIGHT: std::ops::RangeInclusive<f64> = 0.7..=1.4;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 1)])?;
    session.require_cpus(2)?;
    let profiler = Profiler {
        ringtap: session.ringtap.to_string_lossy().into_owned(),
        duration: session.amount("2s", "1500ms"),
        last: RefCell::default(),
    };
    loads(session, &profiler)?;
    filters(session, &profiler)?;
    copies(session, &profiler)
}

/// A filter that accepts after so many comparisons, none of which another makes unnecessary.
fn filter(comparisons: usize) -> String {
    let tests =
        (0..comparisons).map(|at| format!("ether[{at}:4] != {}", 0x7e5a_1000_u32 + number_of(at)));
    tests.collect::<Vec<_>>().join(" and ")
}

fn number_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn filters(session: &mut Session, profiler: &Profiler) -> Done {
    session.figure(
        "What a filter costs, by its instructions",
        Axis::linear("instructions", ""),
        vec![Metric::new("filter", "ns a packet", 1)],
    );
    for comparisons in session.amount(COMPARISONS.as_slice(), &COMPARISONS[1..]) {
        let text = filter(*comparisons);
        let (count, alone) = alone(&text)?;
        let contenders = [
            "profile: samples",
            "profile: capture cut short",
            "run alone",
        ];
        let title = format!("a filter of {count} instructions");
        session.case(&title, Some(float(count)), &contenders, 2, |who| {
            let ns = match who {
                0 => component(&profiler.either(who, &[], &text)?, "filter")?,
                1 => step(&profiler.either(who, &[], &text)?, "filter")?,
                _ => alone.nanoseconds()?,
            };
            Ok(vec![ns])
        })?;
    }
    Ok(())
}

/// A filter's instructions, and what runs it alone.
fn alone(text: &str) -> Result<(u64, Alone), String> {
    let compiled = Filter::new(text).compile(LinkType::ETHERNET, 262_144);
    let compiled = compiled.map_err(|error| error.to_string())?;
    let code =
        standalone(&compiled, Hook::Xdp { frags: true }).map_err(|error| error.to_string())?;
    let alone = Alone::new(&code, true, FRAME)?;
    Ok((compiled.insns().len() as u64, alone))
}

fn copies(session: &mut Session, profiler: &Profiler) -> Done {
    session.figure(
        "What copying costs, by the bytes copied",
        Axis::linear("snapshot length", "bytes"),
        vec![Metric::new(
            "copy (samples: with publishing)",
            "ns a packet",
            1,
        )],
    );
    for snaplen in session.amount(SNAPLENS.as_slice(), &SNAPLENS[1..]) {
        let (size, bytes) = (LONG_FRAME.to_string(), snaplen.to_string());
        let own = ["--size", &size, "-s", &bytes];
        let options = [PACE.as_slice(), own.as_slice()].concat();
        let contenders = ["profile: samples", "profile: capture cut short"];
        let title = format!("{snaplen} of {LONG_FRAME} bytes");
        session.case(&title, Some(f64::from(*snaplen)), &contenders, 1, |who| {
            let report = profiler.either(who, &options, "")?;
            Ok(vec![if who == 0 {
                component(&report, "copy")?
            } else {
                step(&report, "copy")?
            }])
        })?;
    }
    Ok(())
}

/// A profile with a load and one without.
struct Load {
    title: String,
    component: &'static str,
    without: (Vec<String>, String),
    with: (Vec<String>, String),
}

/// What the load should add, and what the samples show in its component and in all others.
fn loads(session: &mut Session, profiler: &Profiler) -> Done {
    session.figure(
        "A known load, and where the samples show it",
        Axis::names("load"),
        vec![
            Metric::new("more in its component", "ns a packet", 1),
            Metric::new("more in the kernel's other components", "ns a packet", 1),
            Metric::new("unexplained", "% of the total", 1),
        ],
    );
    let (few, many) = (filter(COMPARISONS[0]), filter(COMPARISONS[2]));
    let ((less, few_alone), (more, many_alone)) = (alone(&few)?, alone(&many)?);
    let paced = |texts: &[&str]| {
        let all = PACE.into_iter().chain(texts.iter().copied());
        all.map(str::to_owned).collect()
    };
    let long = LONG_FRAME.to_string();
    let work = WORK.to_string();
    let loads = [
        Load {
            title: format!("{} more instructions of a filter", more - less),
            component: "filter",
            without: (Vec::new(), few),
            with: (Vec::new(), many),
        },
        Load {
            title: format!("{} more bytes of a packet copied", LONG_FRAME - 64),
            component: "copy",
            without: (paced(&["--size", &long, "-s", "64"]), String::new()),
            with: (paced(&["--size", &long, "-s", &long]), String::new()),
        },
        Load {
            title: format!("{WORK} ns of the application's work on a packet"),
            component: "application",
            without: (paced(&[]), String::new()),
            with: (paced(&["--work", &work]), String::new()),
        },
    ];
    for load in loads {
        let contenders = ["profile: samples", "expected"];
        let name = load.component;
        let case = session.case(&load.title, None, &contenders, 1, |who| {
            if who == 1 && name == "filter" {
                let ns = many_alone.nanoseconds()? - few_alone.nanoseconds()?;
                return Ok(vec![ns, 0.0, 0.0]);
            }
            let report = |(options, filter): &(Vec<String>, String)| {
                let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
                if who == 0 || name == "application" {
                    options.push("--no-steps");
                }
                profiler.run(&options, filter)
            };
            let (without, with) = (report(&load.without)?, report(&load.with)?);
            if who == 1 {
                // Work ends with the first look at the clock after its time, so it takes longer
                // than was asked for: the reader's own readings of the clock tell how long.
                let cost = |report: &Value| match name {
                    "application" => number(&report["reader_clock"]["in_blocks_ns"]),
                    _ => step(report, "copy"),
                };
                return Ok(vec![cost(&with)? - cost(&without)?, 0.0, 0.0]);
            }
            let unexplained = number(&with["unexplained"]["share"])? * 100.0;
            Ok(vec![
                component(&with, name)? - component(&without, name)?,
                others(&with, name)? - others(&without, name)?,
                unexplained,
            ])
        })?;
        if let Some(case) = case {
            session.note(verdict(&load, &case));
        }
    }
    Ok(())
}

/// All components of the kernel but the loaded one.
fn others(report: &Value, loaded: &str) -> Result<f64, String> {
    let all = ["driver", "stack", "tap", "filter", "timestamp", "copy"];
    let others = all.into_iter().filter(|name| *name != loaded);
    others.map(|name| component(report, name)).sum()
}

/// The expectation, what was seen, and what that says.
fn verdict(load: &Load, case: &Case) -> String {
    let sample = |who: usize| &case.contenders[who].samples[0];
    let (seen, expected) = (sample(0), sample(1));
    let judgement = judged(seen, expected);
    let Load {
        title, component, ..
    } = load;
    format!(
        "{title}: {} ns expected, {} ns more in component {component}: {judgement}",
        expected.show(1),
        seen.show(1),
    )
}

/// What may be said of what was seen against what was expected.
fn judged(seen: &Sample, expected: &Sample) -> &'static str {
    let ratio = seen.median() / expected.median();
    let spread = seen.most() - seen.least();
    if RIGHT.contains(&ratio) && seen.least() > 0.0 {
        "the right component by the right amount"
    } else if spread > expected.median() || expected.median() <= 0.0 {
        "no telling, the spread swallows it"
    } else {
        "not the right amount"
    }
}

/// `ringtap profile` of generated packets.
struct Profiler {
    ringtap: String,
    duration: &'static str,
    /// What was found for a contender whose other method is still to be asked for.
    last: RefCell<Option<(usize, Value)>>,
}

impl Profiler {
    /// One profile has both methods' figures: the contender that comes second has the first's.
    fn either(&self, who: usize, options: &[&str], filter: &str) -> Result<Value, String> {
        match self.last.take() {
            Some((other, report)) if other != who => Ok(report),
            _ => {
                let report = self.run(options, filter)?;
                self.last.replace(Some((who, report.clone())));
                Ok(report)
            }
        }
    }

    fn run(&self, options: &[&str], filter: &str) -> Result<Value, String> {
        let mut command = Command::new(&self.ringtap);
        command.args([
            "profile",
            "--engine",
            "xdp",
            "--json",
            "--duration",
            self.duration,
        ]);
        command.args(options);
        if !filter.is_empty() {
            command.arg(filter);
        }
        let output = command
            .output()
            .map_err(|error| format!("{}: {error}", self.ringtap))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let reports: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        reports
            .get(0)
            .cloned()
            .ok_or_else(|| "no profile".to_owned())
    }
}

fn component(report: &Value, name: &str) -> Result<f64, String> {
    let parts = report["components"].as_array().into_iter().flatten();
    let part = parts.into_iter().find(|part| part["component"] == name);
    number(&part.ok_or_else(|| format!("no component {name}"))?["cost"]["ns"])
}

/// What a step of the tap's program takes more than the one before.
fn step(report: &Value, stage: &str) -> Result<f64, String> {
    let steps = report["steps"].as_array().into_iter().flatten();
    let step = steps.into_iter().find(|step| step["stage"] == stage);
    number(&step.ok_or_else(|| format!("no step {stage}"))?["more"]["ns"])
}

fn number(value: &Value) -> Result<f64, String> {
    value
        .as_f64()
        .ok_or_else(|| format!("{value} is no number"))
}

#[cfg(test)]
mod tests {
    use super::judged;
    use crate::sample::Sample;

    #[test]
    fn a_load_is_judged_by_what_it_should_add() {
        let sample = |values: &[f64]| {
            let mut sample = Sample::default();
            values.iter().for_each(|&value| sample.push(value));
            sample
        };
        let expected = sample(&[100.0, 102.0]);
        let judge = |values: &[f64]| judged(&sample(values), &expected);
        assert_eq!(
            judge(&[95.0, 110.0]),
            "the right component by the right amount"
        );
        assert_eq!(judge(&[10.0, 20.0]), "not the right amount");
        assert_eq!(judge(&[250.0, 260.0]), "not the right amount");
        assert!(judge(&[-80.0, 120.0]).starts_with("no telling"));
        assert!(judged(&expected, &sample(&[0.0])).starts_with("no telling"));
    }
}
