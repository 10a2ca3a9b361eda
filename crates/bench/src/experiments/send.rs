//! Sending at top speed, against trafgen and tcpreplay: packets a second that arrive.
//!
//! Each sender has one processor and one process (trafgen without `--cpus` has a process for each
//! processor), over a veth pair. A program at the other end counts in the driver, which also uses
//! the sender's processor. The clock runs from the first packet that arrives to the last.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use ringtap_lab::netns::VethPair;
use ringtap_lab::process::Running;
use ringtap_lab::traffic::XdpRecord;
use ringtap_lab::{Need, pcap};
use ringtap_sys::sched::set_affinity;

use crate::helpers::{LIMIT, Load, float, started, succeeded};
use crate::results::Axis;
use crate::session::{Done, Session};

/// The approximate duration of a run, computed from the rates that the senders reach.
const MILLIS: u64 = 700;
const QUICK_MILLIS: u64 = 250;
/// The interval at which the counter is read.
const LOOK: Duration = Duration::from_millis(2);
/// If no packet arrives for this long after the sender's end, the last one has arrived.
const QUIET: Duration = Duration::from_millis(20);
/// The number of packets in the file that tcpreplay repeats.
const FILE_PACKETS: u64 = 1_000;
/// The sender's processor.
const SENDER: usize = 0;
const QUICK_SIZES: [usize; 3] = [60, 508, 1514];
/// The documents found the greatest rate at 88 bytes.
const SIZES: [usize; 6] = [60, 88, 252, 508, 1020, 1514];

/// A sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Live,
    Packet,
    /// Packets that the kernel segments.
    Segments,
    Xsk,
    Trafgen,
    Tcpreplay,
}

impl Contender {
    const fn name(self) -> &'static str {
        match self {
            Self::Live => "ringtap live",
            Self::Packet => "ringtap packet",
            Self::Segments => "ringtap --gso",
            Self::Xsk => "ringtap xsk",
            Self::Trafgen => "trafgen",
            Self::Tcpreplay => "tcpreplay",
        }
    }

    /// Returns the packets a second that it may reach, so that runs have about the same length.
    const fn rate(self) -> u64 {
        match self {
            Self::Live => 6_000_000,
            Self::Segments => 1_500_000,
            _ => 600_000,
        }
    }
}

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 3), Need::Tool("taskset")], 2)?;
    // All threads but the sender's.
    set_affinity(&[1])?;
    let folder = tempfile::tempdir()?;
    let bench = Bench {
        pair: VethPair::new(),
        ringtap: session.ringtap.clone(),
        folder: folder.path().to_owned(),
        quick: session.quick,
    };
    bench.write_inputs()?;
    let mut contenders = vec![
        Contender::Live,
        Contender::Packet,
        Contender::Segments,
        Contender::Xsk,
    ];
    for peer in [Contender::Trafgen, Contender::Tcpreplay] {
        if session.peer(peer.name()).is_some() {
            contenders.push(peer);
        }
    }
    let names: Vec<&str> = contenders.iter().map(|who| who.name()).collect();
    // Ratios are to trafgen if it is installed, otherwise to the sender that uses the same
    // interface.
    let trafgen = contenders.iter().position(|who| *who == Contender::Trafgen);
    let metrics = [
        ("rate", "million packets/s", 3),
        ("load", "Mbit/s", 0),
        ("lost", "%", 2),
        ("sender's processor", "%", 0),
    ];
    let bytes = Axis::log("frame without check sequence", "bytes");
    session.figure("Sending at top speed", bytes, metrics);
    for &size in session.amount(&SIZES[..], &QUICK_SIZES) {
        let title = format!("{size} bytes");
        #[expect(clippy::cast_precision_loss, reason = "bytes of a frame")]
        let bytes = size as f64;
        session.case(&title, Some(bytes), &names, trafgen.unwrap_or(1), |who| {
            let sent = bench.measure(contenders[who], size)?;
            let (rate, busy) = (sent.rate, 100.0 * sent.busy);
            let load = rate * bytes * 8e-6;
            Ok(vec![rate / 1e6, load, 100.0 * sent.lost, busy])
        })?;
    }
    Ok(())
}

/// The wire and the files.
struct Bench {
    pair: VethPair,
    ringtap: PathBuf,
    folder: PathBuf,
    quick: bool,
}

impl Bench {
    /// Writes for each size a configuration of trafgen and a capture file for tcpreplay.
    fn write_inputs(&self) -> Done {
        for size in SIZES {
            let frame = frame(size);
            let bytes: Vec<_> = frame.iter().map(|byte| format!("0x{byte:02x}")).collect();
            let text = format!("{{ {} }}\n", bytes.join(", "));
            let mut file = pcap::header(1).to_vec();
            for _ in 0..FILE_PACKETS {
                pcap::record(&mut file, 0, 0, &frame)?;
            }
            std::fs::write(self.input(size, "cfg"), text)?;
            std::fs::write(self.input(size, "pcap"), file)?;
        }
        Ok(())
    }

    fn input(&self, size: usize, extension: &str) -> PathBuf {
        self.folder.join(format!("{size}.{extension}"))
    }

    /// Returns the packets a second that arrive, and how busy the sender was.
    fn measure(&self, who: Contender, size: usize) -> Done<Sent> {
        let millis = if self.quick { QUICK_MILLIS } else { MILLIS };
        let count = who.rate() * millis / 1_000;
        let record = XdpRecord::on(&self.pair.right, 0)?;
        let explain = |error: std::io::Error| format!("{}: {error}", who.name());
        let mut running = started(&mut self.command(who, size, count)).map_err(explain)?;
        let arrived = arriving(&record, &mut running);
        let output = running.wait(LIMIT).map_err(explain)?;
        succeeded(&output).map_err(|said| format!("{}: {said}", who.name()))?;
        let mut sent = arrived?;
        sent.lost = (1.0 - sent.packets / float(count)).max(0.0);
        Ok(sent)
    }

    fn command(&self, who: Contender, size: usize, count: u64) -> Command {
        let device = &self.pair.left.device;
        let mut command = self.pair.left.namespace.command("taskset");
        command.args(["-c", "0"]);
        let count_text = count.to_string();
        let mut own = |back_end: &str, options: &[&str]| {
            command.arg(&self.ringtap);
            command.args(["gen", "-i", &format!("{back_end}:{device}")]);
            command.args(["-c", &count_text, "--size", &size.to_string()]);
            command.args(options);
        };
        match who {
            Contender::Live => own("live", &[]),
            Contender::Packet => own("packet", &[]),
            Contender::Segments => own("packet", &["--gso"]),
            Contender::Xsk => own("xsk", &[]),
            Contender::Trafgen => {
                command.args(["trafgen", "-o", device, "-n", &count_text, "--cpus", "1"]);
                command.arg("-c").arg(self.input(size, "cfg"));
            }
            Contender::Tcpreplay => {
                let rounds = (count / FILE_PACKETS).to_string();
                command.args(["tcpreplay", "-q", "-i", device, "--topspeed", "-K"]);
                command.args(["--loop", &rounds]);
                command.arg(self.input(size, "pcap"));
            }
        }
        command
    }
}

/// The packets that arrived.
struct Sent {
    /// Packets a second, from the first to the last.
    rate: f64,
    /// The share of that time in which the sender's processor was busy.
    busy: f64,
    packets: f64,
    /// The share of the packets that did not arrive.
    lost: f64,
}

/// Watches the counter until the sender has ended and no more packets arrive.
fn arriving(record: &XdpRecord, sender: &mut Running) -> Done<Sent> {
    let count = || record.count();
    let begin = Instant::now();
    while count()? == 0 {
        if begin.elapsed() > LIMIT || sender.has_ended() && count()? == 0 {
            return Err("no packet came".into());
        }
        std::thread::sleep(LOOK);
    }
    let (first, first_at, before) = (count()?, Instant::now(), Load::of(SENDER));
    let (mut last, mut last_at, mut after) = (first, first_at, before);
    while !sender.has_ended() || last_at.elapsed() < QUIET {
        if last_at.elapsed() > LIMIT {
            return Err("the sender does not end".into());
        }
        std::thread::sleep(LOOK);
        let now = count()?;
        if now != last {
            (last, last_at, after) = (now, Instant::now(), Load::of(SENDER));
        }
    }
    Ok(Sent {
        rate: float(last - first) / (last_at - first_at).as_secs_f64(),
        busy: after.since(before),
        packets: float(last),
        lost: 0.0,
    })
}

/// Returns a datagram of `size` bytes.
fn frame(size: usize) -> Vec<u8> {
    let be = |value: usize| u16::try_from(value).unwrap_or(u16::MAX).to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(be(size - 14));
    frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 19, 0, 1]);
    frame.extend([0xc0, 0, 0, 9]);
    frame.extend(be(size - 34));
    frame.resize(size, 0);
    frame
}
