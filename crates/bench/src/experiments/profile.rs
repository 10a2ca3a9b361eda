//! Whether the profiler puts a known load where it belongs: filters of so many instructions, packets of
//! which so many bytes are copied.
//!
//! What a filter costs is also measured alone, on one packet a million times over, which no profiler has
//! a hand in. What is copied is told by the two methods of the profiler, samples and programs cut short,
//! against each other.

use std::process::Command;

use ringtap_capture::{Filter, LinkType};
use ringtap_filter::ebpf::lower::{Hook, standalone};
use ringtap_filter::ebpf::{Assembler, Reg};
use ringtap_lab::Need;
use ringtap_sys::bpf::{Kernel, Program, ProgramKind, Run};
use serde_json::Value;

use crate::helpers::{datagram, float};
use crate::results::{Axis, Metric};
use crate::session::{Done, Session};

/// Comparisons of each filter: a load and a jump each, besides the answers.
const COMPARISONS: [usize; 4] = [1, 10, 24, 44];
const SNAPLENS: [u16; 4] = [64, 256, 768, 1514];
const FRAME: u16 = 60;
const LONG_FRAME: u16 = 1514;
/// Runs of a filter alone.
const REPEAT: u32 = 1_000_000;
const XDP: ProgramKind = ProgramKind::Xdp { frags: true };

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 1)])?;
    session.require_cpus(2)?;
    let profiler = Profiler {
        ringtap: session.ringtap.to_string_lossy().into_owned(),
        duration: session.amount("3s", "1500ms"),
    };
    filters(session, &profiler)?;
    copies(session, &profiler)?;
    rest(session, &profiler)
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
    for comparisons in session.amount(COMPARISONS.as_slice(), &COMPARISONS[2..]) {
        let text = filter(*comparisons);
        let compiled = Filter::new(text.as_str()).compile(LinkType::ETHERNET, 262_144);
        let compiled = compiled.map_err(|error| error.to_string())?;
        let count = compiled.insns().len();
        let alone = Alone::new(&compiled)?;
        let contenders = [
            "profile: samples",
            "profile: program cut short",
            "run alone",
        ];
        let title = format!("a filter of {count} instructions");
        session.case(&title, Some(float(count as u64)), &contenders, 2, |who| {
            let ns = match who {
                0 => component(&profiler.run(&["--no-steps"], &text)?, "filter")?,
                1 => step(&profiler.run(&[], &text)?, "filter")?,
                _ => alone.nanoseconds()?,
            };
            Ok(vec![ns])
        })?;
    }
    Ok(())
}

fn copies(session: &mut Session, profiler: &Profiler) -> Done {
    session.figure(
        "What copying costs, by the bytes copied",
        Axis::linear("snapshot length", "bytes"),
        vec![Metric::new(
            "copy (cut short: with all of the ring)",
            "ns a packet",
            1,
        )],
    );
    for snaplen in session.amount(SNAPLENS.as_slice(), &SNAPLENS[2..]) {
        let (size, bytes) = (LONG_FRAME.to_string(), snaplen.to_string());
        let options = ["--size", &size, "-s", &bytes];
        let contenders = ["profile: samples", "profile: program cut short"];
        let title = format!("{snaplen} of {LONG_FRAME} bytes");
        session.case(&title, Some(f64::from(*snaplen)), &contenders, 1, |who| {
            let ns = if who == 0 {
                component(
                    &profiler.run(&[options.as_slice(), &["--no-steps"]].concat(), "")?,
                    "copy",
                )?
            } else {
                step(&profiler.run(&options, "")?, "copy")?
            };
            Ok(vec![ns])
        })?;
    }
    Ok(())
}

/// What the load must not move, and what stays unexplained.
fn rest(session: &mut Session, profiler: &Profiler) -> Done {
    session.figure(
        "All but the component that is loaded",
        Axis::names("load"),
        vec![
            Metric::new("loaded component", "ns a packet", 1),
            Metric::new("kernel's other components", "ns a packet", 1),
            Metric::new("unexplained", "% of the total", 1),
        ],
    );
    let long = filter(COMPARISONS[3]);
    let size = LONG_FRAME.to_string();
    let loads: [(&str, &str, Vec<&str>, &str); 4] = [
        ("filter of a few instructions", "filter", vec![], "ip"),
        ("filter of many instructions", "filter", vec![], &long),
        (
            "64 bytes of each packet",
            "copy",
            vec!["--size", &size, "-s", "64"],
            "",
        ),
        (
            "1514 bytes of each packet",
            "copy",
            vec!["--size", &size, "-s", "1514"],
            "",
        ),
    ];
    for (title, loaded, options, filter) in loads {
        session.case(title, None, &["profile: samples"], 0, |_| {
            let report = profiler.run(&[options.as_slice(), &["--no-steps"]].concat(), filter)?;
            let mut others = 0.0;
            for other in ["driver", "stack", "tap", "filter", "timestamp", "copy"] {
                others += if other == loaded {
                    0.0
                } else {
                    component(&report, other)?
                };
            }
            let unexplained = number(&report["unexplained"]["share"])? * 100.0;
            Ok(vec![component(&report, loaded)?, others, unexplained])
        })?;
    }
    Ok(())
}

/// A filter's program, run without a capture.
struct Alone {
    program: Program,
    empty: Program,
    frame: Vec<u8>,
}

impl Alone {
    fn new(filter: &ringtap_filter::Program) -> Result<Self, String> {
        let code =
            standalone(filter, Hook::Xdp { frags: true }).map_err(|error| error.to_string())?;
        let mut empty = Assembler::new();
        empty.mov32(Reg::R0, 1);
        empty.exit();
        let load = |code: &Assembler| {
            let code = code.finish().map_err(|error| error.to_string())?;
            let program = Program::load(&Kernel::running(), "filter_alone", XDP, &code);
            program.map_err(|error| error.to_string())
        };
        Ok(Self {
            program: load(&code)?,
            empty: load(&empty)?,
            frame: datagram(FRAME),
        })
    }

    /// Of a run, without what running an empty program takes.
    fn nanoseconds(&self) -> Result<f64, String> {
        let run = Run {
            data: &self.frame,
            repeat: REPEAT,
            ..Run::default()
        };
        let time = |program: &Program| {
            let outcome = program.run(&run).map_err(|error| error.to_string())?;
            Ok::<_, String>(outcome.duration.as_secs_f64() * 1e9)
        };
        Ok((time(&self.program)? - time(&self.empty)?).max(0.0))
    }
}

/// `ringtap profile` of generated packets.
struct Profiler {
    ringtap: String,
    duration: &'static str,
}

impl Profiler {
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
