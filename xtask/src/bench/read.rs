//! Reading a file and writing it to `/dev/null`, against tcpdump.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use ringtap_testkit::need::find_tool;
use ringtap_testkit::traffic::{Sizes, Traffic};

use super::Session;
use super::machine::first_line;
use super::pairs::{self, Metric, Side};
use crate::process;

const BYTES: u64 = 1_000_000_000;
const QUICK_BYTES: u64 = 100_000_000;
const SECONDS: Metric = Metric {
    name: "wall seconds",
    digits: 3,
};
const FILTERS: [Option<&str>; 2] = [None, Some("tcp port 443")];
/// What the goal allows: at most a third of tcpdump's time.
const GOAL: f64 = 1.0 / 3.0;

/// Sizes of packets, and how many bytes one takes in the file on average, header included.
const MIXES: [(&str, Sizes, u64); 3] = [
    ("90 to 110 bytes", Sizes::Between(90, 110), 116),
    ("Internet mix", Sizes::Imix, 370),
    ("1500 bytes", Sizes::Fixed(1500), 1516),
];

pub(super) fn run(session: &mut Session) -> Result<(), String> {
    let tcpdump = find_tool("tcpdump").ok_or("needs tcpdump")?;
    println!(
        "against {}",
        first_line(&tcpdump.to_string_lossy(), &["--version"])
    );
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let file = folder.path().join("bench.pcap");
    for (mix, sizes, bytes_per_packet) in MIXES {
        let bytes = if session.quick { QUICK_BYTES } else { BYTES };
        let traffic = Traffic {
            packets: bytes / bytes_per_packet,
            sizes,
            ..Traffic::default()
        };
        let made = traffic
            .write_file(&file)
            .map_err(|error| format!("the capture: {error}"))?;
        fill_cache(&file).map_err(|error| format!("the capture: {error}"))?;
        for filter in FILTERS {
            let case = format!(
                "{mix}, {} packets, {}",
                made.packets,
                filter.unwrap_or("no filter")
            );
            if !session.wants(&case) {
                continue;
            }
            let ringtap = session.ringtap.clone();
            let (comparison, rows) =
                pairs::run(&case, "tcpdump", &[SECONDS], session.pairs(), |side| {
                    let program = if side == Side::Ringtap {
                        &ringtap
                    } else {
                        &tcpdump
                    };
                    time(&mut command(side, program, &file, filter)).map(|seconds| vec![seconds])
                })?;
            session.record(&comparison, &rows)?;
            judge(comparison.figures.first().map(|figure| figure.ratio.most()));
        }
    }
    Ok(())
}

/// Against the goal it is the worst pair that counts.
fn judge(worst: Option<f64>) {
    if let Some(worst) = worst {
        let reached = if worst <= GOAL {
            "reached in every pair"
        } else {
            "not reached in every pair"
        };
        println!("  goal: at most {GOAL:.3} of tcpdump's time: {reached} (worst {worst:.3})");
    }
}

fn command(side: Side, program: &Path, file: &Path, filter: Option<&str>) -> Command {
    let mut command = Command::new(program);
    match side {
        Side::Ringtap => command.arg("dump"),
        // As root it would make the device its own user's.
        Side::Peer => command.args(["-Z", "root"]),
    };
    command
        .arg("-r")
        .arg(file)
        .args(["-w", "/dev/null"])
        .args(filter);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn time(command: &mut Command) -> Result<f64, String> {
    let begun = Instant::now();
    process::check(command)?;
    Ok(begun.elapsed().as_secs_f64())
}

pub(super) fn fill_cache(file: &Path) -> io::Result<u64> {
    io::copy(&mut File::open(file)?, &mut io::sink())
}
