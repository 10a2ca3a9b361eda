//! The programs that capture into a file, each with a ring of the same size.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ringtap_lab::netns::Side;

use super::shown;
use crate::helpers::in_hand;
use crate::session::{Done, Session};

/// The size of the ring, in the form that each program takes.
const RING: [&str; 3] = ["64M", "65536", "64"];

/// A program that captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tap,
    Packet,
    Tcpdump,
    Dumpcap,
    Netsniff,
}

/// The programs that are installed.
pub(super) struct Capturers {
    all: Vec<(Kind, &'static str, PathBuf)>,
    snaplen: Option<u32>,
    /// A filter that keeps this many bytes, in the form that netsniff-ng reads.
    filter: PathBuf,
}

impl Capturers {
    /// Finds ringtap twice, tcpdump, and the peers that are installed.
    pub(super) fn find(session: &mut Session, snaplen: Option<u32>, folder: &Path) -> Done<Self> {
        let ringtap = session.ringtap.clone();
        let mut all = vec![
            (Kind::Tap, "ringtap (tap at tcx)", ringtap.clone()),
            (Kind::Packet, "ringtap (AF_PACKET)", ringtap),
            (Kind::Tcpdump, "tcpdump", session.needed_peer("tcpdump")?),
        ];
        for (kind, name) in [(Kind::Dumpcap, "dumpcap"), (Kind::Netsniff, "netsniff-ng")] {
            if let Some(path) = session.peer(name) {
                all.push((kind, name, path));
            }
        }
        let filter = folder.join("snaplen.bpf");
        let written = write_filter(&filter, snaplen.unwrap_or(u32::MAX));
        written.map_err(|error| format!("{}: {error}", shown(&filter)))?;
        Ok(Self {
            all,
            snaplen,
            filter,
        })
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.all.iter().map(|(_, name, _)| *name).collect()
    }

    /// Returns the extension of a program's file; netsniff-ng chooses the format by it.
    pub(super) fn extension(&self, who: usize) -> &'static str {
        match self.all.get(who) {
            // Their own formats; the records in the tap's ring have it already.
            Some((Kind::Tap | Kind::Dumpcap, ..)) => ".pcapng",
            _ => ".pcap",
        }
    }

    /// Returns more than the longest time that a packet waits in the program's ring.
    pub(super) fn time_out(&self, who: usize) -> Duration {
        let millis = match self.all.get(who) {
            Some((Kind::Tap | Kind::Packet, ..)) => 120,
            // tcpdump's is a second, which is not waited for: see `in_hand` for its last block.
            Some((Kind::Tcpdump, ..)) => 0,
            _ => 300,
        };
        Duration::from_millis(millis)
    }

    /// Returns the number of packets that a program had but did not write before it was stopped,
    /// from its summary. These are the packets of tcpdump's last block, which it would have
    /// received a second later.
    pub(super) fn in_hand(&self, who: usize, summary: &str) -> u64 {
        match self.all.get(who) {
            Some((Kind::Tcpdump, ..)) => in_hand(summary),
            _ => 0,
        }
    }

    /// Returns the command that captures at that end of the wire into a file.
    pub(super) fn command(&self, who: usize, side: &Side, file: &Path) -> Command {
        let (kind, _, path) = &self.all[who];
        let mut command = side.namespace.command(&shown(path));
        let device = &side.device;
        match kind {
            Kind::Tap => command.args(["dump", "-i", &format!("tcx:{device}")]),
            Kind::Packet => command.args(["dump", "-i", &format!("packet:{device}")]),
            // Otherwise tcpdump would give up the privilege to write to our folder.
            Kind::Tcpdump => command.args(["-Z", "root", "-i", device]),
            Kind::Dumpcap => command.args(["-q", "-i", device]),
            Kind::Netsniff => command.args(["--silent", "--in", device]),
        };
        let [bytes, kibibytes, mebibytes] = RING;
        match kind {
            Kind::Tap | Kind::Packet => command.args(["-Q", "in", "--buffer", bytes, "-Z", "root"]),
            Kind::Tcpdump => command.args(["-Q", "in", "-B", kibibytes]),
            Kind::Dumpcap => command.args(["-B", mebibytes]),
            Kind::Netsniff => command.args(["--ring-size", "64MiB"]),
        };
        match (kind, self.snaplen) {
            (_, None) => {}
            (Kind::Netsniff, Some(_)) => {
                command.arg("--filter").arg(&self.filter);
            }
            (_, Some(bytes)) => {
                command.args(["-s", &bytes.to_string()]);
            }
        }
        match kind {
            Kind::Netsniff => command.arg("--out").arg(file),
            _ => command.arg("-w").arg(file),
        };
        command
    }
}

/// Writes a program of one instruction that returns `bytes`.
fn write_filter(path: &Path, bytes: u32) -> io::Result<()> {
    std::fs::write(path, format!("{{ 0x6, 0, 0, {bytes:#010x} }},\n"))
}
