//! Captures into a ring of files: the share of the offered packets that is in the files, and the processor time.
//!
//! One processor offers packets of one size, the capturing program runs on the other one. Each program writes
//! files of 64 MB, and may keep as many of them as are needed for all packets. `ringtap dump -w` writes a single
//! file, and is what the recorder is compared with: its files, index and catalogue may cost a tenth.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringtap_lab::netns::Side;
use ringtap_lab::process::Running;
use ringtap_sys::sched::set_affinity;

use super::super::dump::{Generator, Storage, packets_in};
use super::{packets_of, wire};
use crate::helpers::{LIMIT, cpu_seconds, ended, float, in_hand, interrupted, rest, text};
use crate::results::Axis;
use crate::session::{Done, Session, judge};
use crate::stage::Sent;

const SIZE: u16 = 508;
/// Offered loads, in percent of the generator's greatest rate.
const LOADS: [u32; 4] = [10, 40, 70, 100];
const QUICK_LOADS: [u32; 2] = [20, 100];
const SECONDS: f64 = 2.0;
const QUICK_SECONDS: f64 = 1.0;
/// The most packets that are offered: a gigabyte.
const PACKETS: f64 = 2e6;
/// The processor of the capturing program.
const CPU: usize = 1;
/// The recorder's processor time at most, relative to that of `dump -w`.
const GOAL: f64 = 1.1;
/// More than the longest time that a packet waits in a program's ring.
const TIME_OUT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Record,
    Compressed,
    Dump,
    Dumpcap,
    Tcpdump,
    Netsniff,
}

pub(super) fn run(session: &mut Session) -> Done {
    let ringtap = session.ringtap.clone();
    let mut all = vec![
        (Kind::Record, "ringtap record", ringtap.clone()),
        (Kind::Compressed, "ringtap record, zstd", ringtap.clone()),
        (Kind::Dump, "ringtap dump -w", ringtap),
    ];
    for (kind, name, program) in [
        (Kind::Dumpcap, "dumpcap -b", "dumpcap"),
        (Kind::Tcpdump, "tcpdump -C -W", "tcpdump"),
        (Kind::Netsniff, "netsniff-ng", "netsniff-ng"),
    ] {
        if let Some(path) = session.peer(program) {
            all.push((kind, name, path));
        }
    }
    let storage = Storage::first(session)?;
    let pair = wire()?;
    let generator = Generator::new(session, &pair.left, SIZE, false)?;
    let title = format!("{SIZE} bytes into a ring of files, {}", storage.name);
    let metrics = [
        ("captured", "%", 2),
        ("processor time of a packet", "ns", 0),
        ("offered", "million packets/s", 3),
    ];
    let axis = Axis::linear("offered load", "% of the greatest");
    session.figure(&title, axis, metrics);
    let names: Vec<&str> = all.iter().map(|(_, name, _)| *name).collect();
    let seconds = session.amount(SECONDS, QUICK_SECONDS);
    let loads = session.amount(&LOADS[..], &QUICK_LOADS[..]);
    for &load in loads {
        let folder = storage.folder.join("ring");
        let case = format!("{title}, {load} %");
        let counting = Counting {
            ringtap: session.ringtap.clone(),
        };
        let measured = session.case(&case, Some(f64::from(load)), &names, 2, |who| {
            let (kind, _, path) = &all[who];
            std::fs::create_dir(&folder)?;
            let mut command = command(*kind, path, &pair.right, &folder);
            let result = counting.measure(*kind, &mut command, &pair.right, &folder, || {
                generator.send(load, seconds, PACKETS)
            });
            std::fs::remove_dir_all(&folder)?;
            result
        })?;
        let what = "of the processor time of dump -w";
        judge(what, GOAL, measured.as_ref(), 1);
    }
    Ok(())
}

/// Options of ringtap's captures.
const RINGTAP: [&str; 6] = ["-Q", "in", "--buffer", "64M", "-Z", "root"];

fn command(kind: Kind, path: &Path, side: &Side, folder: &Path) -> Command {
    let name = path.display().to_string();
    let device = &side.device;
    let mut command = side.namespace.command(&name);
    let file = |name: &str| folder.join(name);
    match kind {
        Kind::Record | Kind::Compressed => {
            let is_plain = kind == Kind::Record;
            let codec = if is_plain { "none" } else { "zstd:1" };
            command.arg("record").args(RINGTAP).args(["-i", device]);
            command.args(["--budget", "4G", "--file-size", "64M", "--compress", codec]);
            command.arg("--dir").arg(folder);
        }
        Kind::Dump => {
            command.arg("dump").args(RINGTAP).args(["-i", device]);
            command.arg("-w").arg(file("one.pcapng"));
        }
        Kind::Dumpcap => {
            command.args(["-q", "-i", device, "-B", "64"]);
            command.args(["-b", "filesize:64000", "-b", "files:64", "-w"]);
            command.arg(file("ring.pcapng"));
        }
        Kind::Tcpdump => {
            command.args(["-Z", "root", "-i", device, "-Q", "in", "-B", "65536"]);
            command.args(["-C", "64", "-W", "64", "-w"]);
            command.arg(file("ring.pcap"));
        }
        Kind::Netsniff => {
            command.args(["--silent", "--in", device, "--ring-size", "64MiB"]);
            command.args(["--interval", "64MiB", "--out"]).arg(folder);
        }
    }
    command
}

struct Counting {
    ringtap: PathBuf,
}

impl Counting {
    /// Measures the captured share in percent, nanoseconds of a packet, and offered packets in millions a second.
    fn measure(
        &self,
        kind: Kind,
        command: &mut Command,
        side: &Side,
        folder: &Path,
        send: impl FnOnce() -> Done<Sent>,
    ) -> Done<Vec<f64>> {
        set_affinity(&[CPU])?;
        let mut running = Running::start_piped(command)?;
        match kind {
            Kind::Record | Kind::Compressed => running.wait_until_told("recording on", LIMIT),
            _ => running.wait_until_capturing(side, LIMIT),
        }?;
        let before = cpu_seconds(running.id())?;
        let sent = send()?;
        let time_out = if kind == Kind::Tcpdump {
            Duration::ZERO
        } else {
            TIME_OUT
        };
        rest(&mut running, time_out)?;
        let used = cpu_seconds(running.id())? - before;
        let said = match kind {
            Kind::Record | Kind::Compressed => ended(running)?,
            _ => text(&interrupted(running)?.stderr),
        };
        let mut came = self.packets(kind, folder)?;
        if kind == Kind::Tcpdump {
            // Those of its last block, which it would have received a second later.
            came += in_hand(&said);
        }
        Ok(vec![
            (float(came) / sent.packets).min(1.0) * 100.0,
            used / sent.packets * 1e9,
            sent.packets / sent.seconds / 1e6,
        ])
    }

    fn packets(&self, kind: Kind, folder: &Path) -> Done<u64> {
        if matches!(kind, Kind::Record | Kind::Compressed) {
            return packets_of(&self.ringtap, folder);
        }
        let mut sum = 0;
        for entry in std::fs::read_dir(folder)? {
            sum += packets_in(&entry?.path())?;
        }
        Ok(sum)
    }
}
