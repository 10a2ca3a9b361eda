//! The tap against tcpdump, and against the limit: an XDP program that drops every packet.
//!
//! The kernel makes and receives frames on one processor, as fast as it can. The capturing program
//! runs on the other, and writes a capture file to `/dev/null`. The tap steals packets in some
//! cases, tcpdump always copies them: that is their purpose, and part of the difference. Rates are
//! by the clock and, because other programs may use the machine, by the time that the sender spent
//! on its processor.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use ringtap_filter::ebpf::Helper;
use ringtap_lab::Need;
use ringtap_lab::netns::VethPair;
use ringtap_lab::process::Running;
use ringtap_lab::traffic::{Cost, LiveFrames, Target, XdpDrop};
use ringtap_sys::bpf::{Kernel, TcxSide, query_tcx};
use ringtap_sys::sched::set_affinity;

use super::filter::{addresses, ports};
use crate::helpers::{
    captured, capturing, cpu_seconds, datagram, float, interrupted, rest, taken, text,
};
use crate::results::Axis;
use crate::session::{Done, Session, Side};

const PACKETS: u32 = 1_500_000;
const QUICK_PACKETS: u32 = 400_000;
/// The number of packets sent first, until caches are warm.
const WARM_UP: u32 = 50_000;
/// The processor where frames are made and received, and the one where the capturing program runs.
const CPUS: [usize; 2] = [0, 1];

/// The program that the tap is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peer {
    Tcpdump,
    Drop,
    /// A program that reads the clock and drops: the limit for a tap that stamps each packet.
    StampedDrop,
    /// The tap itself, without ordering across processors.
    Unordered,
    /// The tap itself, compared with `ringtap flow` instead of `ringtap dump`.
    Dump,
    /// The same, with all fields of the payloads.
    DumpWithNames,
}

impl Peer {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcpdump => "tcpdump",
            Self::Drop => "XDP drop",
            Self::StampedDrop => "XDP drop with a stamp",
            Self::Unordered => "--unordered",
            Self::Dump | Self::DumpWithNames => "ringtap dump",
        }
    }
}

/// A case: the capture, its place, and its peer.
#[derive(Clone, Copy, Debug)]
struct Case {
    engine: &'static str,
    steal: bool,
    size: u16,
    snaplen: u32,
    /// The number of senders, each on a processor of its own.
    senders: usize,
    peer: Peer,
    /// The number of simultaneous captures.
    captures: usize,
    /// Whether the capturing program runs on the sender's processor.
    crowded: bool,
    /// The clock that stamps packets, if not the default: at XDP it is read for each poll,
    /// otherwise for each packet.
    stamp: Option<&'static str>,
    filter: Filter,
}

/// The filter. All of them accept every packet, so that each test is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filter {
    None,
    /// The documents' short filter.
    Short,
    /// Ten addresses and ten ports that no packet has.
    Long,
}

impl Filter {
    fn expression(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Short => Some("ip".to_owned()),
            Self::Long => {
                let (hosts, ports) = (addresses(), ports(10));
                Some(format!("not ip host ({hosts}) and not udp port ({ports})"))
            }
        }
    }
}

const WHOLE: u32 = 262_144;

const fn case(
    engine: &'static str,
    steal: bool,
    size: u16,
    snaplen: u32,
    senders: usize,
    peer: Peer,
) -> Case {
    Case {
        engine,
        steal,
        size,
        snaplen,
        senders,
        peer,
        captures: 1,
        crowded: false,
        stamp: None,
        filter: Filter::None,
    }
}

impl Case {
    /// Returns whether `--quick` includes the case.
    const fn is_telling(&self) -> bool {
        match self.peer {
            Peer::Tcpdump => self.snaplen == WHOLE || self.size == 64,
            Peer::Drop => self.size == 64,
            Peer::StampedDrop | Peer::Unordered | Peer::Dump | Peer::DumpWithNames => false,
        }
    }
}

/// Whole packets of 64 bytes, copied at tcx.
const SMALL: Case = case("tcx", false, 64, WHOLE, 1, Peer::Tcpdump);

const CASES: [Case; 19] = [
    case("xdp", true, 64, 96, 1, Peer::Tcpdump),
    case("xdp", true, 1496, 96, 1, Peer::Tcpdump),
    case("xdp", true, 1496, WHOLE, 1, Peer::Tcpdump),
    case("xdp", true, 64, 96, 1, Peer::Drop),
    case("xdp", true, 1496, 96, 1, Peer::Drop),
    Case {
        stamp: Some("host_hiprec"),
        ..case("xdp", true, 64, 96, 1, Peer::StampedDrop)
    },
    case("xdp", false, 64, WHOLE, 1, Peer::Tcpdump),
    SMALL,
    case("tcx", false, 1496, WHOLE, 1, Peer::Tcpdump),
    Case {
        filter: Filter::Short,
        ..SMALL
    },
    Case {
        filter: Filter::Long,
        ..SMALL
    },
    case("tcx", false, 64, 96, 2, Peer::Unordered),
    Case {
        captures: 3,
        ..SMALL
    },
    Case {
        crowded: true,
        ..SMALL
    },
    case("xsk", true, 64, WHOLE, 1, Peer::Tcpdump),
    case("xdp", true, 60, 96, 1, Peer::Dump),
    case("xdp", true, 508, 96, 1, Peer::Dump),
    case("xdp", true, 1496, 96, 1, Peer::Dump),
    case("xdp", true, 508, 1600, 1, Peer::DumpWithNames),
];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Kernel(6, 1)], 2)?;
    let tcpdump = session.needed_peer("tcpdump")?;
    let packets = session.amount(PACKETS, QUICK_PACKETS);
    let metrics = [
        ("rate", "million packets/s", 2),
        (
            "rate by the sender's processor time",
            "million packets/s",
            2,
        ),
        ("lost", "of 1000", 3),
        ("reader's processor time of a packet", "ns", 1),
    ];
    session.figure("Captured at top speed", Axis::names("capture"), metrics);
    let ringtap = session.ringtap.clone();
    if session.quick {
        session.note("with --quick half of the cases");
    }
    for case in CASES {
        if session.quick && !case.is_telling() {
            continue;
        }
        // Without GRO, or an XDP program, a veth loses frames that are redirected into it.
        let pair = VethPair::new();
        pair.right.take_frames()?;
        let frame = datagram(case.size);
        let target = if case.engine != "tcx" {
            Target::OutOf(&pair.left)
        } else {
            Target::ReceivedOn(&pair.right)
        };
        let generators = (0..case.senders).map(|_| LiveFrames::new(&frame, target));
        let setting = Setting {
            case,
            pair: &pair,
            generators: &generators.collect::<Result<Vec<_>, _>>()?,
            ringtap: &ringtap,
            tcpdump: &tcpdump,
            packets,
        };
        let title = setting.title();
        if !session.wants(&title) {
            continue;
        }
        session.versus(&title, case.peer.name(), |side| setting.measure(side))?;
    }
    Ok(())
}

struct Setting<'a> {
    case: Case,
    pair: &'a VethPair,
    generators: &'a [LiveFrames<'a>],
    ringtap: &'a Path,
    tcpdump: &'a Path,
    packets: u32,
}

/// The result of sending, averaged over the senders.
struct Sent {
    packets: f64,
    elapsed: f64,
    processor: f64,
}

impl Setting<'_> {
    fn title(&self) -> String {
        let Case {
            engine,
            steal,
            size,
            snaplen,
            senders,
            ..
        } = self.case;
        let mode = if steal { "steal" } else { "copy" };
        let peer = self.case.peer.name();
        let what = match self.case.peer {
            Peer::Dump => "flows, ",
            Peer::DumpWithNames => "flows, all fields, ",
            _ => "",
        };
        let kept = if snaplen == WHOLE {
            "whole".to_owned()
        } else {
            format!("up to {snaplen} bytes")
        };
        let filtered = match self.case.filter {
            Filter::None => "",
            Filter::Short => ", a short filter",
            Filter::Long => ", a long filter",
        };
        let packets = self.packets;
        let crowd = match (self.case.captures, self.case.crowded) {
            (1, false) => "",
            (1, true) => ", all on one processor",
            _ => ", three captures at once",
        };
        let clock = self.case.stamp.map(|name| format!(", -j {name}"));
        let clock = clock.unwrap_or_default();
        format!(
            "{what}{engine}, {mode}, {senders} x {packets} frames of {size} bytes, {kept}{filtered}{clock}{crowd}, against \
             {peer}"
        )
    }

    fn measure(&self, side: Side) -> Done<Vec<f64>> {
        match (side, self.case.peer) {
            (Side::Peer, Peer::Drop) => self.drop_only(None),
            (Side::Peer, Peer::StampedDrop) => self.drop_only(Some(Helper::KtimeGetTaiNs)),
            (Side::Peer, Peer::Tcpdump) => self.capture(&mut self.tcpdump(), false),
            (Side::Peer, Peer::Unordered) => self.capture(self.ringtap().arg("--unordered"), true),
            (Side::Ringtap, Peer::Dump) => self.capture(&mut self.own("flow"), true),
            (Side::Ringtap, Peer::DumpWithNames) => {
                self.capture(self.own("flow").args(["--fields", "all"]), true)
            }
            (Side::Peer, Peer::Dump | Peer::DumpWithNames) | (Side::Ringtap, _) => {
                self.capture(&mut self.ringtap(), true)
            }
        }
    }

    /// Returns the command of `ringtap dump` or `ringtap flow`, with the options that both have.
    fn own(&self, subcommand: &str) -> Command {
        let Case {
            engine,
            steal,
            snaplen,
            ..
        } = self.case;
        let mode = if steal { "steal" } else { "copy" };
        let device = format!("{engine}:{}", self.pair.right.device);
        let ringtap = self.ringtap.to_string_lossy();
        let mut command = self.pair.right.namespace.command(&ringtap);
        command
            .args([subcommand, "-i", &device, "--direction", "in"])
            .args(["--mode", mode, "-s", &snaplen.to_string()])
            .args(["--buffer", "64M", "-Z", "root"]);
        command
    }

    fn ringtap(&self) -> Command {
        let mut command = self.own("dump");
        command.args(["--format", "pcapng", "-w", "/dev/null"]);
        if let Some(stamp) = self.case.stamp {
            command.args(["-j", stamp]);
        }
        command.args(self.case.filter.expression());
        command
    }

    fn tcpdump(&self) -> Command {
        let tcpdump = self.tcpdump.to_string_lossy();
        let mut command = self.pair.right.namespace.command(&tcpdump);
        command
            .args(["-i", &self.pair.right.device, "-Q", "in", "-Z", "root"])
            .args(["-s", &self.case.snaplen.to_string(), "-B", "65536"])
            .args(["-w", "/dev/null"])
            .args(self.case.filter.expression());
        command
    }

    fn drop_only(&self, helper: Option<Helper>) -> Done<Vec<f64>> {
        let dropping = XdpDrop::after(&self.pair.right, helper)?;
        let sent = self.send()?;
        drop(dropping);
        let rate = sent.packets / 1e6;
        Ok(vec![rate / sent.elapsed, rate / sent.processor, 0.0, 0.0])
    }

    fn capture(&self, command: &mut Command, is_tap: bool) -> Done<Vec<f64>> {
        let cpus = match self.case.senders {
            1 if self.case.crowded => &CPUS[..1],
            1 => &CPUS[1..],
            _ => &CPUS[..],
        };
        set_affinity(cpus).map_err(|error| format!("two processors are needed: {error}"))?;
        let mut captures = Vec::new();
        for number in 1..=self.case.captures {
            captures.push(if is_tap {
                let mut running = Running::start_piped(command)?;
                self.wait_until_attached(&mut running, number)?;
                running
            } else {
                capturing(command, &self.pair.right)?
            });
        }
        let processor = |captures: &[Running]| {
            let each = captures.iter().map(|running| cpu_seconds(running.id()));
            each.sum::<std::io::Result<f64>>()
        };
        let before = processor(&captures)?;
        let sent = self.send()?;
        // The contents of a ring are read by now: the tap's timeout of 100 ms has passed.
        for running in &mut captures {
            rest(running, Duration::ZERO)?;
        }
        let used = processor(&captures)? - before;
        let mut came = 0;
        for running in captures {
            let summary = text(&interrupted(running)?.stderr);
            let count = if is_tap { captured } else { taken };
            came += count(&summary).ok_or(summary)?;
        }
        let came = float(came) / self.case.captures as f64;
        let warm_up = f64::from(WARM_UP) * self.case.senders as f64;
        let lost = 1000.0 * (1.0 - came / (sent.packets + warm_up));
        let rate = sent.packets / 1e6 * (came / (sent.packets + warm_up));
        Ok(vec![
            rate / sent.elapsed,
            rate / sent.processor,
            lost.max(0.0),
            used * 1e9 / came.max(1.0),
        ])
    }

    /// Sends all packets, each sender on its processor.
    fn send(&self) -> Done<Sent> {
        let packets = self.packets;
        let costs = std::thread::scope(|scope| {
            let generators = self.generators.iter().enumerate();
            let senders = generators.map(|(number, frames)| {
                scope.spawn(move || -> Done<Cost> {
                    set_affinity(&CPUS[number..=number])?;
                    frames.send_measured(WARM_UP)?;
                    Ok(frames.send_measured(packets)?)
                })
            });
            let senders: Vec<_> = senders.collect();
            let joined = senders
                .into_iter()
                .map(|sender| -> Done<Cost> { sender.join().map_err(|_| "the sender panicked")? });
            joined.collect::<Done<Vec<_>>>()
        })?;
        let count = costs.len() as f64;
        let mean = |time: fn(&Cost) -> Duration| {
            costs.iter().map(time).sum::<Duration>().as_secs_f64() / count
        };
        Ok(Sent {
            packets: f64::from(packets) * count,
            elapsed: mean(|cost| cost.elapsed),
            processor: mean(|cost| cost.processor),
        })
    }

    /// Waits until this many taps are attached.
    fn wait_until_attached(&self, running: &mut Running, number: usize) -> Done {
        let side = &self.pair.right;
        let mut netlink = side.namespace.netlink();
        loop {
            let link = netlink.link(&side.device)?;
            let chain = side.run(|| query_tcx(&Kernel::running(), link.index, TcxSide::Ingress));
            let attached = match chain {
                Ok(chain) => chain.members.len(),
                // Before Linux 6.6 the tap is a filter at clsact.
                Err(_) => {
                    let filters = netlink.bpf_filters(link.index, TcxSide::Ingress);
                    filters.map_or(0, |filters| filters.len())
                }
            };
            if !link.xdp.is_empty() || attached >= number {
                return Ok(());
            }
            if running.has_ended() {
                return Err("ringtap dump did not start".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
