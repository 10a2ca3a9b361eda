//! The same tcpdump on ringtap's libpcap and on Debian's: a file is read, filtered and written; the
//! processor time of a live capture and of its start is measured.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::process::Running;
use ringtap_lab::traffic::{Rate, Replay, Sizes, Traffic};

use crate::goals;
use crate::helpers::{
    captured, capturing, cpu_seconds, fill_cache, float, interrupted, text, timed,
};
use crate::results::Axis;
use crate::session::{Done, Session, Side, Stop, judge};

const BYTES: u64 = 1_000_000_000;
const QUICK_BYTES: u64 = 100_000_000;
/// The average size of a packet of the Internet mix in the file, in bytes.
const RECORD: u64 = 370;
const EXPRESSIONS: [&str; 3] = [
    "tcp port 443",
    "udp and not port 53 and greater 500",
    "host 10.0.0.1 or tcp[tcpflags] & tcp-syn != 0",
];
const NAMES: [&str; 3] = ["libpcap.so.1", "libpcap.so.0.8", "libpcap.so"];

/// Packets a second, and the number of packets.
const RATES: [(u32, u64); 2] = [(20_000, 60_000), (200_000, 250_000)];
const QUICK_RATES: [(u32, u64); 2] = [(20_000, 40_000), (200_000, 200_000)];
/// The number of starts in one run.
const STARTS: u64 = 15;
const QUICK_STARTS: u64 = 10;
/// After binding the socket, a program still sets its filter and gives up its privileges.
const SETTLING: Duration = Duration::from_millis(100);
/// The goal of captures is about this part.
const PROCESSOR: &str = "of the processor time on Debian's";

/// The setup that all runs share.
struct Setting {
    tcpdump: PathBuf,
    /// The folder with ringtap's library under the names that programs load.
    library: PathBuf,
    folder: tempfile::TempDir,
}

pub(crate) fn run(session: &mut Session) -> Done {
    let setting = Setting::new(session)?;
    reading(session, &setting)?;
    starting(session, &setting)?;
    captures(session, &setting)
}

impl Setting {
    fn new(session: &mut Session) -> Done<Self> {
        let tcpdump = session.needed_peer("tcpdump")?;
        let built = library(&session.ringtap)
            .ok_or_else(|| Stop::Needs("needs ringtap's libpcap beside ringtap".to_owned()))?;
        let folder = tempfile::tempdir();
        let folder = folder.map_err(|error| format!("no temporary folder: {error}"))?;
        let library = folder.path().join("lib");
        let explain = |error: std::io::Error| format!("{}: {error}", library.display());
        std::fs::create_dir(&library).map_err(explain)?;
        for name in NAMES {
            symlink(&built, library.join(name)).map_err(explain)?;
        }
        Ok(Self {
            tcpdump,
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
        // Otherwise tcpdump gives up the privilege to write its file.
        command.args(["-Z", "root"]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Returns the folder of ringtap's library: beside the program, as cargo builds it, or `lib` in an
/// installation.
fn library(ringtap: &Path) -> Option<PathBuf> {
    let folder = ringtap.parent()?;
    let places = [
        "libpcap.so",
        "../lib/libpcap.so.1",
        "../lib/ringtap/libpcap.so.1",
    ];
    let mut places = places.iter().map(|place| folder.join(place));
    places.find_map(|place| place.canonicalize().ok())
}

fn reading(session: &mut Session, setting: &Setting) -> Done {
    let time = [("time", "s", 4)];
    session.figure("tcpdump reads a file", Axis::names("filter"), time);
    let file = setting.path("bench.pcap");
    let bytes = session.amount(BYTES, QUICK_BYTES);
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
        let case = session.versus(&case, "Debian's", |side| {
            let mut command = Command::new(&setting.tcpdump);
            setting.choose(side, &mut command);
            command.arg("-r").arg(&file);
            command.args(["-w", "/dev/null", expression]);
            Ok(vec![timed(&mut command)?])
        })?;
        let what = "of the time on Debian's library";
        judge(what, goals::LIBPCAP_READS, case.as_ref(), 0);
    }
    Ok(())
}

fn captures(session: &mut Session, setting: &Setting) -> Done {
    session.require(&[Need::Root], 1)?;
    session.needed_peer("tcpreplay")?;
    let metrics = [
        ("lost", "packets", 0),
        ("processor time of a packet", "ns", 0),
    ];
    session.figure("tcpdump captures", Axis::names("rate"), metrics);
    let file = setting.path("live.pcap");
    for (rate, packets) in session.amount(RATES, QUICK_RATES) {
        let case = format!("tcpdump -i, {packets} packets at {rate} a second");
        if !session.wants(&case) {
            continue;
        }
        let traffic = Traffic {
            packets,
            sizes: Sizes::Imix,
            ..Traffic::default()
        };
        let made = traffic.write_file(&file);
        made.map_err(|error| format!("the traffic: {error}"))?;
        let pair = VethPair::new();
        let replay = Replay::new(&file, Rate::Pps(rate));
        let case = session.versus(&case, "Debian's", |side| {
            capture(setting, side, &pair, &replay)
        })?;
        judge(PROCESSOR, goals::LIBPCAP_CAPTURES, case.as_ref(), 1);
    }
    Ok(())
}

fn starting(session: &mut Session, setting: &Setting) -> Done {
    session.require(&[Need::Root], 1)?;
    let metrics = [("processor time of a start", "ms", 3)];
    session.figure("tcpdump begins to capture", Axis::names("start"), metrics);
    let starts = session.amount(STARTS, QUICK_STARTS);
    let case = format!("tcpdump -i, {starts} starts");
    if !session.wants(&case) {
        return Ok(());
    }
    let pair = VethPair::new();
    let case = session.versus(&case, "Debian's", |side| {
        let mut used = 0.0;
        for _ in 0..starts {
            let running = start(setting, side, &pair)?;
            std::thread::sleep(SETTLING);
            used += cpu_seconds(running.id()).map_err(|error| format!("{side:?}: {error}"))?;
            stop(running, side)?;
        }
        Ok(vec![used * 1e3 / float(starts)])
    })?;
    judge(PROCESSOR, goals::LIBPCAP_CAPTURES, case.as_ref(), 0);
    Ok(())
}

/// Starts a tcpdump that captures.
fn start(setting: &Setting, side: Side, pair: &VethPair) -> Done<Running> {
    let tcpdump = setting.tcpdump.to_string_lossy();
    let mut command = pair.right.namespace.command(&tcpdump);
    setting.choose(side, &mut command);
    command.args(["-i", &pair.right.device, "-w", "/dev/null"]);
    Ok(capturing(&mut command, &pair.right).map_err(|error| format!("{side:?}: {error}"))?)
}

/// Stops it, and returns its output.
fn stop(running: Running, side: Side) -> Done<String> {
    let output = interrupted(running).map_err(|error| format!("{side:?}: {error}"))?;
    Ok(text(&output.stderr))
}

fn capture(setting: &Setting, side: Side, pair: &VethPair, replay: &Replay) -> Done<Vec<f64>> {
    let running = start(setting, side, pair)?;
    let sent = replay.run(&pair.left);
    // The last packets wait for the timeout of the ring.
    std::thread::sleep(Duration::from_millis(1500));
    let used = cpu_seconds(running.id()).map_err(|error| format!("{side:?}: {error}"))?;
    let summary = stop(running, side)?;
    let captured = captured(&summary).ok_or_else(|| format!("{side:?}: {summary}"))?;
    let (sent, captured) = (float(sent), float(captured));
    Ok(vec![sent - captured, used * 1e9 / captured.max(1.0)])
}
