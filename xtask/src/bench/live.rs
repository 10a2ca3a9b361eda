//! A live capture into a file while packets come at a fixed rate, against tcpdump.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_testkit::Need;
use ringtap_testkit::need::find_tool;
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Sizes, Traffic};

use super::Session;
use super::pairs::{self, Metric, Side};

const PACKETS: u64 = 1_000_000;
const QUICK_PACKETS: u64 = 200_000;
const PPS: u32 = 200_000;
const LIMIT: Duration = Duration::from_secs(120);
const METRICS: [Metric; 2] = [
    Metric {
        name: "lost packets",
        digits: 0,
    },
    Metric {
        name: "CPU seconds",
        digits: 3,
    },
];

/// A run: who captures, where, what is sent.
struct Setting<'a> {
    pair: &'a VethPair,
    folder: &'a Path,
    ringtap: &'a Path,
    tcpdump: &'a Path,
    replay: &'a Replay,
}

pub(super) fn run(session: &mut Session) -> Result<(), String> {
    let needs = [Need::Root, Need::Tool("tcpdump"), Need::Tool("tcpreplay")];
    if let Some(reason) = needs.iter().find_map(Need::unmet) {
        return Err(reason);
    }
    let tcpdump = find_tool("tcpdump").ok_or("needs tcpdump")?;
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let packets = if session.quick {
        QUICK_PACKETS
    } else {
        PACKETS
    };
    let ringtap = session.ringtap.clone();
    for (mix, sizes) in [
        ("64 bytes", Sizes::Fixed(64)),
        ("Internet mix", Sizes::Imix),
    ] {
        let file = folder.path().join("traffic.pcap");
        let traffic = Traffic {
            packets,
            sizes,
            ..Traffic::default()
        };
        traffic
            .write_file(&file)
            .map_err(|error| format!("the traffic: {error}"))?;
        let case = format!("{mix}, {packets} packets at {PPS} a second");
        if !session.wants(&case) {
            continue;
        }
        let pair = VethPair::new();
        let replay = Replay::new(&file, Rate::Pps(PPS));
        let setting = Setting {
            pair: &pair,
            folder: folder.path(),
            ringtap: &ringtap,
            tcpdump: &tcpdump,
            replay: &replay,
        };
        let (comparison, rows) = pairs::run(&case, "tcpdump", &METRICS, session.pairs(), |side| {
            setting.measure(side)
        })?;
        session.record(&comparison, &rows)?;
    }
    Ok(())
}

impl Setting<'_> {
    fn measure(&self, side: Side) -> Result<Vec<f64>, String> {
        let explain = |error: std::io::Error| format!("{side:?}: {error}");
        let file = self.folder.join("capture.pcap");
        let mut command = self.command(side, &file);
        let mut running = Running::start_piped(&mut command).map_err(explain)?;
        running
            .wait_until_capturing(&self.pair.right, LIMIT)
            .map_err(explain)?;
        let sent = self.replay.run(&self.pair.left);
        // The last packets wait for the time-out of the ring.
        std::thread::sleep(Duration::from_millis(1500));
        let used = cpu_seconds(running.id()).map_err(explain)?;
        running.signal("INT").map_err(explain)?;
        let output = running.wait(LIMIT).map_err(explain)?;
        let summary = String::from_utf8_lossy(&output.stderr);
        let captured = captured(&summary).ok_or_else(|| format!("{side:?}: {summary}"))?;
        std::fs::remove_file(&file).map_err(explain)?;
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53 packets")]
        let lost = sent as f64 - captured as f64;
        Ok(vec![lost, used])
    }

    fn command(&self, side: Side, file: &Path) -> Command {
        let program = if side == Side::Ringtap {
            self.ringtap
        } else {
            self.tcpdump
        };
        let mut command = self
            .pair
            .right
            .namespace
            .command(&program.to_string_lossy());
        match side {
            Side::Ringtap => command.arg("dump"),
            // Else it would give up the right to write to our folder.
            Side::Peer => command.args(["-Z", "root"]),
        };
        command
            .args(["-i", &self.pair.right.device, "-w"])
            .arg(file);
        command
    }
}

/// Error numbers of `/proc` for what has gone: of the entry, and of the task while it is read.
const ENOENT: i32 = 2;
const ESRCH: i32 = 3;

/// The number in `N packets captured`, which both print, or in what `ringtap flow` prints.
pub(super) fn captured(summary: &str) -> Option<u64> {
    let is_it = |line: &&str| line.ends_with(" captured") || line.ends_with(" were metered");
    let line = summary.lines().find(is_it)?;
    line.split(' ').next()?.parse().ok()
}

/// The time that a process's threads spent on a processor, in user and kernel mode: the first field
/// of `schedstat`, in nanoseconds (Documentation/scheduler/sched-stats.rst).
pub(super) fn cpu_seconds(id: u32) -> std::io::Result<f64> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        let text = match std::fs::read_to_string(task?.path().join("schedstat")) {
            // The thread has just ended.
            Err(error) if matches!(error.raw_os_error(), Some(ENOENT | ESRCH)) => continue,
            text => text?,
        };
        let field = text
            .split(' ')
            .next()
            .and_then(|field| field.parse::<u64>().ok());
        nanos += field.ok_or_else(|| std::io::Error::other("no schedstat"))?;
    }
    Ok(Duration::from_nanos(nanos).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{captured, cpu_seconds};

    #[test]
    fn summaries_of_both_are_read() {
        assert_eq!(
            captured("7 packets captured\n8 packets received by filter\n"),
            Some(7)
        );
        assert_eq!(captured("nothing"), None);
    }

    #[test]
    fn own_time_is_counted() {
        // The kernel brings a running thread's time up to date at its next tick.
        let mut seconds = 0.0;
        for _ in 0..1_000_000 {
            seconds = cpu_seconds(std::process::id()).expect("own time");
            if seconds > 0.0 {
                break;
            }
        }
        assert!(seconds > 0.0 && seconds < 3600.0);
    }
}
