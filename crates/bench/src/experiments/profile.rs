//! Whether the profiler attributes a known load to the right component: filters with many
//! instructions, packets with many copied bytes, an application that works for a fixed time.
//!
//! The expected cost of each load is measured without sampling. A filter is run alone by the
//! kernel, on one packet over and over; copying is measured with truncated captures; the
//! application's work by the reader's own clock. For each load the experiment reports the expected
//! cost, the cost in the samples, and whether they agree, disagree, or allow no conclusion.

use std::cell::RefCell;
use std::process::Command;

use ringtap_capture::{Filter, LinkType};
use ringtap_filter::ebpf::lower::{Hook, standalone};
use ringtap_lab::Need;
use serde_json::Value;

use crate::helpers::{Alone, float, succeeded};
use crate::results::{Axis, Case};
use crate::sample::Sample;
use crate::session::{Done, Session};

/// The numbers of terms of the filters: a load, a multiplication and an addition each.
const TERMS: [usize; 3] = [1, 40, 150];
const SNAPLENS: [u16; 3] = [64, 512, 1514];
/// A packet rate at which the ring has room for all packets, and the bytes that wait before the
/// reader is woken. A lost packet is not copied or read.
const PACE: &str = "--pps 300000 --min-to-copy 4M";
/// A rate at which the filter and copying are a good part of a processor's time, with many samples.
const FILTER_PACE: &str = "--pps 1000000";
const COPY_PACE: &str = "--pps 600000";
/// The number of packets of a delivery for copied bytes. It is the same for few and many bytes, so
/// that waking costs a packet the same with and without the load.
const DELIVERY: u32 = 2_500;
/// The approximate size of a record beside the packet's bytes.
const RECORD: u32 = 44;
const FRAME: u16 = 60;
const LONG_FRAME: u16 = 1514;
/// The nanoseconds that the application works on a packet.
const WORK: u16 = 200;
/// The result is right if the samples show this much of the expected cost. It is the difference of
/// two profiles, each accurate to some percent.
const RIGHT: std::ops::RangeInclusive<f64> = 0.7..=1.4;

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 1)], 2)?;
    let ringtap = session.ringtap.to_string_lossy().into_owned();
    let profiler = |duration| Profiler {
        ringtap: ringtap.clone(),
        duration,
    };
    loads(session, &profiler(session.amount("4s", "2s")))?;
    let profiler = profiler(session.amount("2s", "1s"));
    filters(session, &profiler)?;
    copies(session, &profiler)
}

/// Returns a filter that accepts nearly every packet, after `terms` terms of which a compiler can
/// leave none out. Each term depends on the one before, so its multiplications and additions run in
/// sequence, in the kernel's test run and in the capture alike. The cost of independent terms would
/// depend on the processor's caches: a packet's whole path evicts the program, which stays there if
/// it runs alone.
fn filter(terms: usize) -> String {
    /// Offsets of four bytes each in the shortest frame.
    const PLACES: usize = 56;
    let first = format!("{}ether[0:4]", "(".repeat(terms));
    let text = (0..terms).fold(first, |text, term| {
        let factor = 2 * term + 3;
        format!("{text} * {factor} + ether[{}:4])", (term + 1) % PLACES)
    });
    format!("{text} != 77")
}

fn filters(session: &mut Session, profiler: &Profiler) -> Done {
    let title = "What a filter costs, by its instructions";
    session.figure(
        title,
        Axis::linear("instructions", ""),
        [("filter", "ns a packet", 1)],
    );
    for terms in session.amount(TERMS.as_slice(), &TERMS[1..]) {
        let text = filter(*terms);
        let (count, alone) = alone(&text)?;
        let [samples, cut] = METHODS;
        let contenders = [samples, cut, "run alone"];
        let title = format!("a filter of {count} instructions");
        let shared = Shared::default();
        session.case(&title, Some(float(count)), &contenders, 2, |who| {
            if who == 2 {
                return Ok(vec![alone.nanoseconds()?]);
            }
            let report = shared.of(who, || profiler.run("", &text))?;
            Ok(vec![method(who)(&report, "filter")?])
        })?;
    }
    Ok(())
}

/// Returns the number of a filter's instructions, and a runner for it alone.
fn alone(text: &str) -> Done<(u64, Alone)> {
    let compiled = Filter::new(text).compile(LinkType::ETHERNET, 262_144)?;
    let code = standalone(&compiled, Hook::Xdp { frags: true })?;
    let alone = Alone::new(&code, true, FRAME)?;
    Ok((compiled.insns().len() as u64, alone))
}

fn copies(session: &mut Session, profiler: &Profiler) -> Done {
    let metric = ("copy (samples: with publishing)", "ns a packet", 1);
    let axis = Axis::linear("snapshot length", "bytes");
    session.figure("What copying costs, by the bytes copied", axis, [metric]);
    for snaplen in session.amount(SNAPLENS.as_slice(), &SNAPLENS[1..]) {
        let options = format!("{PACE} --size {LONG_FRAME} -s {snaplen}");
        let title = format!("{snaplen} of {LONG_FRAME} bytes");
        let shared = Shared::default();
        session.case(&title, Some(f64::from(*snaplen)), &METHODS, 1, |who| {
            let report = shared.of(who, || profiler.run(&options, ""))?;
            Ok(vec![method(who)(&report, "copy")?])
        })?;
    }
    Ok(())
}

/// A profile with a load and one without.
struct Load {
    title: String,
    component: &'static str,
    /// Options, and a filter.
    without: (String, String),
    with: (String, String),
}

impl Load {
    /// Returns the three loads: the filter's instructions, the copied bytes, the application's
    /// work.
    fn all(instructions: u64, few: String, many: String) -> [Self; 3] {
        let copied = |snaplen: u16| {
            let delivery = DELIVERY * (u32::from(snaplen) + RECORD);
            let own = format!("--size {LONG_FRAME} -s {snaplen} --min-to-copy {delivery}");
            (format!("{COPY_PACE} {own}"), String::new())
        };
        let filtered = |filter| (format!("{FILTER_PACE} --no-steps"), filter);
        let working = |work: &str| (format!("{PACE} --no-steps{work}"), String::new());
        [
            Self {
                title: format!("{instructions} more instructions of a filter"),
                component: "filter",
                without: filtered(few),
                with: filtered(many),
            },
            Self {
                title: format!("{} more bytes of a packet copied", LONG_FRAME - SNAPLENS[0]),
                component: "copy",
                without: copied(SNAPLENS[0]),
                with: copied(LONG_FRAME),
            },
            Self {
                title: format!("{WORK} ns of the application's work on a packet"),
                component: "application",
                without: working(""),
                with: working(&format!(" --work {WORK}")),
            },
        ]
    }
}

/// Measures the expected cost of each load, and the cost that the samples show in its component and
/// in all others.
fn loads(session: &mut Session, profiler: &Profiler) -> Done {
    let title = "A known load, and where the samples show it";
    let metrics = [
        ("more in its component", "ns a packet", 1),
        ("more in the kernel's other components", "ns a packet", 1),
        ("unexplained", "% of the total", 1),
    ];
    session.figure(title, Axis::names("load"), metrics);
    let (few, many) = (filter(TERMS[0]), filter(TERMS[2]));
    let ((less, few_alone), (more, many_alone)) = (alone(&few)?, alone(&many)?);
    for load in Load::all(more - less, few, many) {
        let contenders = [METHODS[0], "expected"];
        let name = load.component;
        // Both use the same two profiles: their methods differ, the profiles do not.
        let shared = Shared::default();
        let case = session.case(&load.title, None, &contenders, 1, |who| {
            if who == 1 && name == "filter" {
                let ns = many_alone.nanoseconds()? - few_alone.nanoseconds()?;
                return Ok(vec![ns, 0.0, 0.0]);
            }
            let run = |(options, filter): &(String, String)| profiler.run(options, filter);
            let (without, with) = shared.of(who, || Ok((run(&load.without)?, run(&load.with)?)))?;
            if who == 1 {
                // Work ends with the first look at the clock after its time, so it takes longer
                // than requested; the reader's clock measures how long.
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

/// The contenders that take their values from a profile.
const METHODS: [&str; 2] = ["profile: samples", "profile: capture cut short"];

/// Returns how the value of a part is taken from a profile.
fn method(who: usize) -> fn(&Value, &str) -> Done<f64> {
    if who == 0 { component } else { step }
}

/// Profiles that have the values of both methods: the second contender reuses those of the first.
#[derive(Default)]
struct Shared<T>(RefCell<Option<(usize, T)>>);

impl<T: Clone> Shared<T> {
    fn of(&self, who: usize, measure: impl FnOnce() -> Done<T>) -> Done<T> {
        if let Some((_, theirs)) = self.0.take().filter(|(other, _)| *other != who) {
            return Ok(theirs);
        }
        let own = measure()?;
        self.0.replace(Some((who, own.clone())));
        Ok(own)
    }
}

/// Returns the cost of all components of the kernel except the loaded one.
fn others(report: &Value, loaded: &str) -> Done<f64> {
    let all = ["driver", "stack", "tap", "filter", "timestamp", "copy"];
    let others = all.into_iter().filter(|name| *name != loaded);
    others.map(|name| component(report, name)).sum()
}

/// Returns the expected cost, the observed cost, and the conclusion.
fn verdict(load: &Load, case: &Case) -> String {
    let sample = |who: usize| &case.contenders[who].samples[0];
    let (seen, expected) = (sample(0), sample(1));
    let judgement = judged(seen, expected);
    let Load {
        title, component, ..
    } = load;
    format!(
        "{title}: {} ns expected, {} ns more in component {component}, {} ns in the kernel's others: {judgement}",
        expected.show(1),
        seen.show(1),
        case.contenders[0].samples[1].show(1),
    )
}

/// Returns the conclusion: right by the medians, if the spread of both is less than the load
/// itself; wrong only if no pair of values would have been right.
fn judged(seen: &Sample, expected: &Sample) -> &'static str {
    let ratio = seen.median() / expected.median();
    let spread = |sample: &Sample| sample.most() - sample.least();
    let too_little = seen.most() < RIGHT.start() * expected.least();
    let too_much = seen.least() > RIGHT.end() * expected.most();
    if too_little || too_much {
        "not the right amount"
    } else if RIGHT.contains(&ratio) && spread(seen) + spread(expected) < expected.median() {
        "the right component by the right amount"
    } else {
        "undecided: the spread exceeds the difference"
    }
}

/// Runs `ringtap profile` on generated packets.
struct Profiler {
    ringtap: String,
    duration: &'static str,
}

impl Profiler {
    fn run(&self, options: &str, filter: &str) -> Done<Value> {
        let mut command = Command::new(&self.ringtap);
        command.args(["profile", "--engine", "xdp", "--json", "--duration"]);
        command.arg(self.duration).args(options.split_whitespace());
        if !filter.is_empty() {
            command.arg(filter);
        }
        let output = command
            .output()
            .map_err(|error| format!("{}: {error}", self.ringtap))?;
        succeeded(&output)?;
        let reports: Value = serde_json::from_slice(&output.stdout)?;
        Ok(reports.get(0).cloned().ok_or("no profile")?)
    }
}

fn component(report: &Value, name: &str) -> Done<f64> {
    let parts = report["components"].as_array().into_iter().flatten();
    let part = parts.into_iter().find(|part| part["component"] == name);
    number(&part.ok_or_else(|| format!("no component {name}"))?["cost"]["ns"])
}

/// Returns the additional cost of a step of the tap's program over the step before.
fn step(report: &Value, stage: &str) -> Done<f64> {
    let steps = report["steps"].as_array().into_iter().flatten();
    let step = steps.into_iter().find(|step| step["stage"] == stage);
    number(&step.ok_or_else(|| format!("no step {stage}"))?["more"]["ns"])
}

fn number(value: &Value) -> Done<f64> {
    let number = value.as_f64();
    Ok(number.ok_or_else(|| format!("{value} is not a number"))?)
}

#[cfg(test)]
mod tests {
    use ringtap_capture::{Filter, LinkType};
    use ringtap_filter::ebpf::lower::{Hook, standalone};

    use super::{FRAME, TERMS, filter, judged};
    use crate::helpers::datagram;
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
        assert!(judge(&[-80.0, 120.0]).starts_with("undecided"));
        // Overlapping ranges do not count as wrong, whatever their medians are.
        assert!(
            judged(&sample(&[4.6, 8.6, 10.0]), &sample(&[4.4, 6.1, 7.8])).starts_with("undecided")
        );
        assert_eq!(judged(&expected, &sample(&[0.0])), "not the right amount");
    }

    #[test]
    fn no_term_of_a_filter_is_left_out() {
        let compiled = |terms| {
            let filter = Filter::new(filter(terms)).compile(LinkType::ETHERNET, 262_144);
            filter.expect("compiled")
        };
        for terms in TERMS {
            let program = compiled(terms);
            // A load, a multiplication, an addition and a move for each; a comparison and two ends.
            let least = 4 * terms + 3;
            assert!(
                program.insns().len() >= least,
                "{} of {terms}",
                program.insns().len()
            );
            let code = standalone(&program, Hook::Xdp { frags: true }).expect("lowered");
            let code = code.finish().expect("assembled");
            assert!(code.len() >= least, "{} of {terms}", code.len());
            // Packets are captured nevertheless.
            let frame = datagram(FRAME);
            assert!(program.run(&frame, u32::from(FRAME)) > 0);
        }
    }
}
