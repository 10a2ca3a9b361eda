//! The same tcpdump on ringtap's libpcap and on Debian's: a file read, filtered and written, and a
//! live capture's processor time.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_testkit::Need;
use ringtap_testkit::need::find_tool;
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Sizes, Traffic};

use super::Session;
use super::live::{captured, cpu_seconds};
use super::pairs::{self, Metric, Side};
use super::read::fill_cache;
use crate::process;

const BYTES: u64 = 1_000_000_000;
const QUICK_BYTES: u64 = 100_000_000;
/// Bytes that a packet of the Internet mix takes in the file on average.
const RECORD: u64 = 370;
const SECONDS: Metric = Metric {
    name: "wall seconds",
    digits: 3,
};
const EXPRESSIONS: [&str; 3] = [
    "tcp port 443",
    "udp and not port 53 and greater 500",
    "host 10.0.0.1 or tcp[tcpflags] & tcp-syn != 0",
];
const NAMES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];

const PACKETS: u64 = 1_000_000;
const QUICK_PACKETS: u64 = 200_000;
const RATES: [u32; 2] = [20_000, 200_000];
const LIMIT: Duration = Duration::from_secs(120);
const LIVE: [Metric; 2] = [
    Metric {
        name: "lost packets",
        digits: 0,
    },
    Metric {
        name: "ns CPU a packet",
        digits: 0,
    },
];

/// What all runs share.
struct Setting {
    tcpdump: PathBuf,
    /// Where ringtap's library stands under the names that programs ask for.
    library: PathBuf,
    folder: tempfile::TempDir,
}

pub(super) fn run(session: &mut Session) -> Result<(), String> {
    let setting = Setting::new()?;
    reading(session, &setting)?;
    capturing(session, &setting)
}

impl Setting {
    fn new() -> Result<Self, String> {
        let repository = ringtap_testkit::repository();
        let mut cargo = process::cargo(&repository);
        let package = ["--package", "ringtap-pcap-abi"];
        process::check(cargo.args(["build", "--quiet", "--release"]).args(package))?;
        let built = process::release_program("libpcap.so")?;
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| format!("no temporary folder: {error}"))?;
        let library = folder.path().join("lib");
        let explain = |error: std::io::Error| format!("{}: {error}", library.display());
        std::fs::create_dir(&library).map_err(explain)?;
        for name in NAMES {
            symlink(&built, library.join(name)).map_err(explain)?;
        }
        Ok(Self {
            tcpdump: find_tool("tcpdump").ok_or("needs tcpdump")?,
            library,
            folder,
        })
    }

    /// Makes the command use one of the libraries.
    fn choose(&self, side: Side, command: &mut Command) {
        match side {
            Side::Ringtap => command.env("LD_LIBRARY_PATH", &self.library),
            Side::Peer => command.env_remove("LD_LIBRARY_PATH"),
        };
        // Else it gives up the right to write where it is told to.
        command.args(["-Z", "root"]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// What the goal allows: at most two thirds of the time on Debian's library.
const READ_GOAL: f64 = 1.0 / 1.5;

fn reading(session: &mut Session, setting: &Setting) -> Result<(), String> {
    let file = setting.path("bench.pcap");
    let bytes = if session.quick { QUICK_BYTES } else { BYTES };
    let traffic = Traffic {
        packets: bytes / RECORD,
        sizes: Sizes::Imix,
        ..Traffic::default()
    };
    let explain = |error: std::io::Error| format!("the capture: {error}");
    traffic.write_file(&file).map_err(explain)?;
    fill_cache(&file).map_err(explain)?;
    for expression in EXPRESSIONS {
        let case = format!("tcpdump -r, {} packets, {expression}", traffic.packets);
        if !session.wants(&case) {
            continue;
        }
        let (comparison, rows) =
            pairs::run(&case, "Debian's", &[SECONDS], session.pairs(), |side| {
                let mut command = Command::new(&setting.tcpdump);
                setting.choose(side, &mut command);
                read(&mut command, &file, expression).map(|seconds| vec![seconds])
            })?;
        session.record(&comparison, &rows)?;
        judge("of the time on Debian's library", READ_GOAL, &comparison);
    }
    Ok(())
}

fn read(command: &mut Command, file: &Path, expression: &str) -> Result<f64, String> {
    command
        .arg("-r")
        .arg(file)
        .args(["-w", "/dev/null", expression]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let begun = Instant::now();
    process::check(command)?;
    Ok(begun.elapsed().as_secs_f64())
}

fn capturing(session: &mut Session, setting: &Setting) -> Result<(), String> {
    let needs = [Need::Root, Need::Tool("tcpreplay")];
    if let Some(reason) = needs.iter().find_map(Need::unmet) {
        return Err(reason);
    }
    let file = setting.path("live.pcap");
    let traffic = Traffic {
        packets: if session.quick {
            QUICK_PACKETS
        } else {
            PACKETS
        },
        sizes: Sizes::Imix,
        ..Traffic::default()
    };
    let made = traffic.write_file(&file);
    made.map_err(|error| format!("the traffic: {error}"))?;
    for rate in RATES {
        let case = format!("tcpdump -i, {} packets at {rate} a second", traffic.packets);
        if !session.wants(&case) {
            continue;
        }
        let pair = VethPair::new();
        let replay = Replay::new(&file, Rate::Pps(rate));
        let (comparison, rows) = pairs::run(&case, "Debian's", &LIVE, session.pairs(), |side| {
            capture(setting, side, &pair, &replay)
        })?;
        session.record(&comparison, &rows)?;
        judge(
            "of the processor time on Debian's library",
            1.0,
            &comparison,
        );
    }
    Ok(())
}

fn capture(
    setting: &Setting,
    side: Side,
    pair: &VethPair,
    replay: &Replay,
) -> Result<Vec<f64>, String> {
    let explain = |error: std::io::Error| format!("{side:?}: {error}");
    let mut command = pair
        .right
        .namespace
        .command(&setting.tcpdump.to_string_lossy());
    setting.choose(side, &mut command);
    command.args(["-i", &pair.right.device, "-w", "/dev/null"]);
    let mut running = Running::start_piped(&mut command).map_err(explain)?;
    running
        .wait_until_capturing(&pair.right, LIMIT)
        .map_err(explain)?;
    let sent = replay.run(&pair.left);
    // The last packets wait for the time-out of the ring.
    std::thread::sleep(Duration::from_millis(1500));
    let used = cpu_seconds(running.id()).map_err(explain)?;
    running.signal("INT").map_err(explain)?;
    let output = running.wait(LIMIT).map_err(explain)?;
    let summary = String::from_utf8_lossy(&output.stderr);
    let captured = captured(&summary).ok_or_else(|| format!("{side:?}: {summary}"))?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53 packets")]
    let (sent, captured) = (sent as f64, captured as f64);
    Ok(vec![sent - captured, used * 1e9 / captured.max(1.0)])
}

/// Against a goal it is the worst pair that counts; the last figure is the one with a goal.
fn judge(what: &str, goal: f64, comparison: &pairs::Comparison) {
    if let Some(figure) = comparison.figures.last() {
        let worst = figure.ratio.most();
        let reached = if worst <= goal {
            "reached"
        } else {
            "not reached"
        };
        println!("  goal: at most {goal:.3} {what}: {reached} in every pair (worst {worst:.3})");
    }
}
