//! A live capture into a file while packets arrive at a fixed rate, against tcpdump, and against
//! ringtap without its sandbox: the cost of least privilege.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::traffic::{Rate, Replay, Sizes, Traffic};

use crate::helpers::{captured, capturing, cpu_seconds, float, interrupted, rest, taken, text};
use crate::results::Axis;
use crate::session::{Done, Session};

const PACKETS: u64 = 600_000;
const QUICK_PACKETS: u64 = 200_000;
const PPS: u32 = 200_000;

/// The programs that capture. tcpdump is the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Capturer {
    Ringtap,
    Tcpdump,
    /// Stays root, without the sandbox.
    Unfenced,
}

const CAPTURERS: [(Capturer, &str); 3] = [
    (Capturer::Ringtap, "ringtap"),
    (Capturer::Tcpdump, "tcpdump"),
    (Capturer::Unfenced, "ringtap -Z root --no-sandbox"),
];

/// A run: the interface, the programs, and the traffic.
struct Setting<'a> {
    pair: &'a VethPair,
    folder: &'a Path,
    ringtap: &'a Path,
    tcpdump: &'a Path,
    replay: &'a Replay,
}

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root], 1)?;
    let tcpdump = session.needed_peer("tcpdump")?;
    session.needed_peer("tcpreplay")?;
    let metrics = [("lost", "packets", 0), ("processor time", "s", 3)];
    session.figure(
        "A live capture into a file",
        Axis::names("traffic"),
        metrics,
    );
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
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
        let names = CAPTURERS.map(|(_, name)| name);
        session.case(&case, None, &names, 1, |who| {
            let (capturer, _) = CAPTURERS[who];
            setting.measure(capturer)
        })?;
    }
    Ok(())
}

impl Setting<'_> {
    fn measure(&self, capturer: Capturer) -> Done<Vec<f64>> {
        let explain = |error: std::io::Error| format!("{capturer:?}: {error}");
        let file = self.folder.join("capture.pcap");
        let mut command = self.command(capturer, &file);
        let mut running = capturing(&mut command, &self.pair.right).map_err(explain)?;
        let sent = self.replay.run(&self.pair.left);
        // ringtap's timeout has passed; tcpdump's, a second, is not waited for.
        rest(&mut running, Duration::ZERO)?;
        let used = cpu_seconds(running.id()).map_err(explain)?;
        let summary = text(&interrupted(running).map_err(explain)?.stderr);
        let count = if capturer == Capturer::Tcpdump {
            taken
        } else {
            captured
        };
        let captured = count(&summary).ok_or_else(|| format!("{capturer:?}: {summary}"))?;
        std::fs::remove_file(&file).map_err(explain)?;
        Ok(vec![float(sent) - float(captured), used])
    }

    fn command(&self, capturer: Capturer, file: &Path) -> Command {
        let program = if capturer == Capturer::Tcpdump {
            self.tcpdump
        } else {
            self.ringtap
        };
        let side = &self.pair.right;
        let mut command = side.namespace.command(&program.to_string_lossy());
        match capturer {
            Capturer::Ringtap => command.arg("dump"),
            // Otherwise tcpdump would give up the privilege to write to our folder.
            Capturer::Tcpdump => command.args(["-Z", "root"]),
            Capturer::Unfenced => command.args(["dump", "-Z", "root", "--no-sandbox"]),
        };
        command.args(["-i", &side.device, "-w"]).arg(file);
        command
    }
}
