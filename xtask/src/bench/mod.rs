//! `cargo xtask bench NAME`: ringtap measured against a peer in the same minutes.
//!
//! What it is: pairs of runs by turns, medians with their spread and the ratio, printed as a table
//! and appended to `bench-out/NAME.csv` with the machine's description. Where the ranges of both
//! overlap it draws no conclusion. What it is not: a test; nothing fails by being slow.

mod clock;
mod delay;
mod figure;
mod flow;
mod idle;
mod libpcap;
mod live;
mod machine;
mod pace;
mod pairs;
mod read;
mod sample;
mod send;
mod stat;
mod tap;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::process;
use machine::Machine;
use pairs::{Comparison, Row, Side};

/// A benchmark: its name, what it shows, how it runs.
type Bench = (
    &'static str,
    &'static str,
    fn(&mut Session) -> Result<(), String>,
);

const BENCHES: [Bench; 11] = [
    (
        "flow",
        "a capture in the page cache metered, against softflowd and nfpcapd",
        flow::run,
    ),
    (
        "read",
        "a capture in the page cache read, filtered, written to /dev/null",
        read::run,
    ),
    (
        "live",
        "200,000 packets a second over a veth pair: loss and processor time",
        live::run,
    ),
    (
        "delay",
        "how late packets are delivered, by time-out and in immediate mode",
        delay::run,
    ),
    (
        "clock",
        "what a stamp costs: an XDP program that reads a clock and drops, against one that drops",
        clock::run,
    ),
    (
        "idle",
        "the processor time of a capture to which no packet comes",
        idle::run,
    ),
    (
        "stat",
        "1, 16 and 64 filters counted at XDP, against a program that only drops",
        stat::run,
    ),
    (
        "tap",
        "the tap at XDP and tcx, against tcpdump and a program that only drops",
        tap::run,
    ),
    (
        "libpcap",
        "one tcpdump on ringtap's libpcap and on Debian's: reading files, live captures",
        libpcap::run,
    ),
    (
        "send",
        "sending at top speed, against trafgen and tcpreplay, and over frame sizes",
        send::run,
    ),
    (
        "pace",
        "gaps of 1, 10 and 100 thousand packets a second from a file, against tcpreplay",
        pace::run,
    ),
];

/// What the command line asks of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Less data and fewer pairs: to see that it works, not to compare.
    quick: bool,
    /// Only cases whose title has this text.
    case: Option<String>,
}

impl Options {
    /// What follows the benchmark's name; nothing where that is not understood.
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--quick" => options.quick = true,
                "--case" => options.case = Some((*words.next()?).to_owned()),
                _ => return None,
            }
        }
        Some(options)
    }
}

/// What the benchmarks of a run share.
struct Session {
    /// ringtap, built with `--release`.
    ringtap: PathBuf,
    /// Less data and fewer pairs: to see that it works, not to compare.
    quick: bool,
    /// Only cases whose title has this text.
    case: Option<String>,
    machine: Machine,
    csv: File,
    name: &'static str,
}

/// Runs one benchmark, or `all`.
pub(crate) fn run(name: &str, options: &Options) -> ExitCode {
    let chosen: Vec<&Bench> = BENCHES
        .iter()
        .filter(|bench| name == "all" || bench.0 == name)
        .collect();
    if chosen.is_empty() {
        eprintln!("no benchmark of that name; there are:");
        for (name, purpose, _) in BENCHES {
            eprintln!("  {name:<8} {purpose}");
        }
        return ExitCode::from(2);
    }
    for bench in chosen {
        if let Err(reason) = run_one(bench, options) {
            eprintln!("{}: {reason}", bench.0);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run_one(&(name, purpose, body): &Bench, options: &Options) -> Result<(), String> {
    let repository = ringtap_testkit::repository();
    let mut cargo = process::cargo(&repository);
    process::check(cargo.args(["build", "--quiet", "--release", "--package", "ringtap"]))?;
    let ringtap = process::release_program("ringtap")?;
    let machine = Machine::here();
    println!("\nbench {name}: {purpose}");
    println!(
        "{} at {}, {}",
        machine.commit, machine.time, machine.description
    );
    let csv = open_csv(&repository, name).map_err(|error| format!("bench-out: {error}"))?;
    body(&mut Session {
        ringtap,
        quick: options.quick,
        case: options.case.clone(),
        machine,
        csv,
        name,
    })
}

fn open_csv(repository: &Path, name: &str) -> io::Result<File> {
    let folder = repository.join("bench-out");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{name}.csv"));
    let is_new = !path.exists();
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if is_new {
        writeln!(
            file,
            "time,commit,machine,bench,quick,case,pair,contender,metric,value"
        )?;
    }
    Ok(file)
}

impl Session {
    /// Whether a case of that title is asked for.
    fn wants(&self, title: &str) -> bool {
        self.case
            .as_ref()
            .is_none_or(|case| title.contains(case.as_str()))
    }

    fn pairs(&self) -> usize {
        if self.quick { 2 } else { 5 }
    }

    /// Prints a comparison and appends its raw figures.
    fn record(&mut self, comparison: &Comparison, rows: &[Row]) -> Result<(), String> {
        comparison.print();
        for &(pair, side, metric, value) in rows {
            let contender = if side == Side::Ringtap {
                "ringtap"
            } else {
                comparison.peer
            };
            self.append(&comparison.case, pair, contender, metric, value)?;
        }
        Ok(())
    }

    /// Appends one figure.
    fn append(
        &mut self,
        case: &str,
        pair: usize,
        contender: &str,
        metric: &str,
        value: f64,
    ) -> Result<(), String> {
        let Machine {
            time,
            commit,
            description,
        } = &self.machine;
        let (name, quick) = (self.name, self.quick);
        writeln!(
            self.csv,
            "{time},{commit},\"{description}\",{name},{quick},\"{case}\",{pair},\
             \"{contender}\",{metric},{value}"
        )
        .map_err(|error| format!("bench-out: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    #[test]
    fn options_are_understood_or_refused() {
        let both = Options {
            quick: true,
            case: Some("tcx".to_owned()),
        };
        assert_eq!(Options::parse(&[]), Some(Options::default()));
        assert_eq!(Options::parse(&["--case", "tcx", "--quick"]), Some(both));
        assert_eq!(Options::parse(&["--case"]), None);
        assert_eq!(Options::parse(&["--fast"]), None);
    }
}
