//! Compression as the load of a capturing application: ringtap with one and two compressing
//! threads, against tcpdump piped into gzip or zstd.
//!
//! The payload comes from the corpus. Packets are sent from a file at top speed on one processor;
//! the capturing programs may use both. The result is what the compressed file contains afterwards.
//!
//! Both sides have room for the same amount of waiting packets: the pipe in tcpdump's ring and in
//! the compressor, ringtap in its ring and its queue. The capacity of the rings and of the
//! compressor is measured before each case ([`room`]). ringtap's `--write-buffer` is computed from
//! that, rounded down to whole chunks. Its ring and queue together use no more memory than
//! tcpdump's ring and the compressor's peak. Both amounts are among the results, with the peak of
//! all memory of the programs, their code included.

mod room;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ringtap_lab::netns::{Side, VethPair};
use ringtap_lab::process::{Running, peak_memory};
use ringtap_lab::{Need, corpus, pcap};
use ringtap_sys::sched::set_affinity;

use self::room::{Room, held};
use super::dump::{Storage, packets_in, sent_by, settle_by};
use crate::goals::PACKZIP;
use crate::helpers::{LIMIT, cpu_seconds, datagram, float, interrupted, text};
use crate::results::Axis;
use crate::session::{Done, Session, Stop, judge_least};
use crate::stage::Sent;

const SIZES: [u16; 3] = [256, 64, 512];
const LEVELS: [u32; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
/// gzip's levels for large packets, and for small ones, of which a pipe captures all up to level 3.
const FEW_LEVELS: [u32; 5] = [0, 1, 3, 6, 9];
const SMALL_LEVELS: [u32; 4] = [0, 3, 6, 9];
const ZSTD_LEVELS: [u32; 3] = [1, 5, 9];
/// The zstd level at which a pipe loses small packets.
const ZSTD_SMALL: [u32; 1] = [9];
const QUICK_LEVELS: [u32; 2] = [1, 6];
/// The number of bytes sent, record headers included, as a multiple of what can wait, so that the
/// compression decides. With a third of that, a pipe that compresses a third of the packets would
/// seem to keep two thirds: it still held the rest at the end.
const TIMES: u64 = 8;
/// The least number of bytes.
const BYTES: u64 = 180_000_000;
/// The number of packets in the file that is sent repeatedly.
const FILE_PACKETS: usize = 20_000;
/// The size of a record header in the file, and in the pipe, in bytes.
const RECORD_HEAD: u64 = 16;
/// The size of ringtap's ring, and of tcpdump's; ringtap's queue is [`Room::queue`].
const RING: u64 = 8 << 20;
const PEER_RING_KIB: u64 = 24 << 10;
const SEND_CPU: &str = "0";
const CPUS: [usize; 2] = [0, 1];
/// The offset of the payload after Ethernet, IPv4 and UDP.
const PAYLOAD: usize = 42;
/// The interval of the check whether a file still grows.
const LOOK: Duration = Duration::from_millis(150);

/// A compression, and the program that does it in a pipe.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    program: &'static str,
    extension: &'static str,
    /// The levels for each packet size.
    levels: [&'static [u32]; SIZES.len()],
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "zlib",
        program: "gzip",
        extension: "gz",
        levels: [&LEVELS, &SMALL_LEVELS, &FEW_LEVELS],
    },
    Kind {
        name: "zstd",
        program: "zstd",
        extension: "zst",
        levels: [&ZSTD_LEVELS, &ZSTD_SMALL, &ZSTD_LEVELS],
    },
];

pub(crate) fn run(session: &mut Session) -> Done {
    session.require(&[Need::Root, Need::Corpus], 2)?;
    let tcpdump = session.needed_peer("tcpdump")?;
    let mut places = Storage::find(session).into_iter();
    let storage = places.next().ok_or("no place to write to")?;
    let pair = VethPair::new();
    let sizes = session.amount(SIZES.len(), 1);
    for kind in session.amount(&KINDS[..], &KINDS[..1]) {
        let Some(compressor) = session.peer(kind.program) else {
            continue;
        };
        for (&size, levels) in SIZES.iter().zip(kind.levels).take(sizes) {
            let traffic = storage.folder.join("traffic.pcap");
            write_traffic(&traffic, size).map_err(|error| format!("the traffic: {error}"))?;
            let setting = Setting {
                pair: &pair,
                folder: &storage.folder,
                traffic: &traffic,
                ringtap: session.ringtap.clone(),
                tcpdump: &tcpdump,
                compressor: &compressor,
                kind: *kind,
                size,
            };
            let levels = session.amount(levels, &QUICK_LEVELS[..]);
            setting.run(session, levels)?;
        }
    }
    Ok(())
}

struct Setting<'a> {
    pair: &'a VethPair,
    folder: &'a Path,
    traffic: &'a Path,
    ringtap: PathBuf,
    tcpdump: &'a Path,
    compressor: &'a Path,
    kind: Kind,
    /// The size of a packet in bytes.
    size: u16,
}

impl Setting<'_> {
    fn run(&self, session: &mut Session, levels: &[u32]) -> Done {
        let name = self.kind.name;
        let title = format!("{} bytes, {name}", self.size);
        let case = |level: u32| format!("{title}, level {level}");
        let wanted = levels.iter().filter(|level| session.wants(&case(**level)));
        let wanted: Vec<u32> = wanted.copied().collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let metrics = [
            ("captured", "%", 2),
            // Until everything is compressed, which may be after sending.
            ("processor time of a captured packet", "ns", 0),
            ("compressed to", "%", 1),
            ("offered", "million packets/s", 3),
            ("room for packets that wait", "MB", 1),
            ("memory at its peak", "MB", 1),
        ];
        session.figure(&title, Axis::linear("level", ""), metrics);
        let rings = self.rings()?;
        for level in wanted {
            let case = case(level);
            match self.room(rings, level) {
                Ok(room) => self.level(session, &case, level, &room)?,
                Err(reason) => session.fail(&format!("{case}: {}", reason.reason())),
            }
        }
        Ok(())
    }

    fn level(&self, session: &mut Session, case: &str, level: u32, room: &Room) -> Done {
        let pipe = format!("tcpdump | {}", self.kind.program);
        let contenders = ["ringtap, 1 thread", "ringtap, 2 threads", &pipe];
        let of = Some(f64::from(level));
        let measured = session.case(case, of, &contenders, 2, |who| {
            self.measure(who, level, room)
        })?;
        let pipe = measured.as_ref().and_then(|case| case.contenders.last());
        let kept = pipe.map_or(100.0, |pipe| pipe.samples[0].most());
        if kept < 100.0 {
            // Nobody captures more than everything.
            let most = 100.0 / kept.max(1.0);
            if most < PACKZIP {
                session.note(format!(
                    "{case}: the pipe kept {kept:.1} % of what was offered, so that the \
                     goal of {PACKZIP} times as much can't be decided; {most:.3} is all there is"
                ));
            }
            let goal = PACKZIP.min(most);
            for (who, threads) in ["1 thread", "2 threads"].into_iter().enumerate() {
                let what = format!("of what the pipe captures, with {threads}");
                judge_least(&what, goal, measured.as_ref(), who, 0);
            }
        }
        Ok(())
    }

    fn measure(&self, who: usize, level: u32, room: &Room) -> Done<Vec<f64>> {
        set_affinity(&CPUS)?;
        let side = &self.pair.right;
        let name = format!("capture.pcap.{}", self.kind.extension);
        let file = self.folder.join(name);
        let (mut running, compressor) = match who {
            2 => self.pipe(side, level, &file)?,
            threads => (
                self.compressing(side, threads + 1, level, (room, &file))?,
                None,
            ),
        };
        running.wait_until_capturing(side, LIMIT)?;
        let sent = self.send(BYTES.max(room.pipe * TIMES))?;
        settle_by(LOOK, &file);
        let behind = compressor.as_ref().map(Child::id);
        let ids = || [Some(running.id()), behind].into_iter().flatten();
        let used = ids().map(cpu_seconds).sum::<io::Result<f64>>()?;
        let memory: u64 = ids().filter_map(peak_memory).sum();
        let told = text(&interrupted(running)?.stderr);
        if let Some(mut compressor) = compressor {
            compressor.wait()?;
        }
        let came = packets_in(&file).map_err(|error| format!("{error}: {told}"))?;
        let size = file.metadata()?.len();
        std::fs::remove_file(&file)?;
        let captured = (float(came) / sent.packets).min(1.0);
        let whole = float(came) * float(self.record());
        let waiting = match who {
            2 => room.pipe,
            threads => room.ringtap(threads + 1),
        };
        Ok(vec![
            captured * 100.0,
            used * 1e9 / float(came).max(1.0),
            float(size) / whole.max(1.0) * 100.0,
            sent.packets / sent.seconds / 1e6,
            float(waiting) / 1e6,
            float(memory) / 1e6,
        ])
    }

    /// Returns the capacity of each ring, in bytes of the pipe's records: ringtap's and tcpdump's.
    fn rings(&self) -> Done<[u64; 2]> {
        let bytes = PEER_RING_KIB << 10;
        let (side, file) = (&self.pair.right, self.folder.join("ring.pcap"));
        let holds = |mut command: Command| {
            let send = || self.send(bytes).map(drop);
            let packets = room::ring(command.arg("-w").arg(&file), side, &file, send)?;
            Ok::<u64, Stop>(packets * self.record())
        };
        let mut capture = self.capture(side);
        capture.args(["--write-buffer", "1"]);
        Ok([holds(capture)?, holds(self.peer(side))?])
    }

    /// Returns how much can wait at that level.
    fn room(&self, rings: [u64; 2], level: u32) -> Done<Room> {
        let compressor = held(&mut self.behind(level))?;
        let [own, peer] = rings;
        Ok(Room {
            pipe: peer + compressor.bytes,
            memory: (PEER_RING_KIB << 10) + compressor.memory,
            own_ring: own,
            own_memory: RING,
        })
    }

    /// Returns the size of a packet in the file, in bytes.
    fn record(&self) -> u64 {
        u64::from(self.size) + RECORD_HEAD
    }

    /// Returns ringtap's capture command of this case, without its output.
    fn capture(&self, side: &Side) -> Command {
        let mut command = side.namespace.command(&self.ringtap.to_string_lossy());
        command
            .args(["dump", "-i", &side.device, "-Q", "in", "-Z", "root"])
            .args(["--buffer", &RING.to_string()]);
        command
    }

    /// Returns the same for tcpdump.
    fn peer(&self, side: &Side) -> Command {
        let mut command = side.namespace.command(&self.tcpdump.to_string_lossy());
        command
            .args(["-i", &side.device, "-Q", "in", "-Z", "root"])
            .args(["-B", &PEER_RING_KIB.to_string()]);
        command
    }

    fn compressing(
        &self,
        side: &Side,
        threads: usize,
        level: u32,
        (room, file): (&Room, &Path),
    ) -> io::Result<Running> {
        let mut command = self.capture(side);
        command
            .args(["--write-buffer", &room.queue(threads).to_string()])
            .args(["--compress", &format!("{}:{level}", self.kind.name)])
            .args(["--compress-threads", &threads.to_string(), "-w"])
            .arg(file);
        Running::start_piped(&mut command)
    }

    /// Starts tcpdump and its compressor.
    fn pipe(&self, side: &Side, level: u32, file: &Path) -> io::Result<(Running, Option<Child>)> {
        let mut command = self.peer(side);
        command.args(["-w", "-"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let from = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut behind = self.behind(level);
        let behind = behind.stdin(from).stdout(File::create(file)?).spawn()?;
        Ok((Running::watch(child), Some(behind)))
    }

    /// Returns the compressor of a pipe. gzip has no level 0, so nothing is compressed there.
    fn behind(&self, level: u32) -> Command {
        if level == 0 {
            return Command::new("cat");
        }
        let mut command = Command::new(self.compressor);
        command.arg(format!("-{level}"));
        if self.kind.program == "zstd" {
            command.args(["-q", "-c"]);
        }
        command
    }

    /// Sends the traffic until it amounts to this many bytes.
    fn send(&self, bytes: u64) -> Done<Sent> {
        let traffic = self.record() * FILE_PACKETS as u64;
        let loops = bytes.div_ceil(traffic);
        let side = &self.pair.left;
        let mut command = side.namespace.command(&self.ringtap.to_string_lossy());
        command
            .args(["send", "-i", &side.device, "--topspeed", "--json-stats"])
            .args(["--yes", "--cpu", SEND_CPU, "--loop", &loops.to_string()])
            .arg("-r")
            .arg(self.traffic);
        sent_by(&mut command, "the sender")
    }
}

/// Writes a file of packets of one size, with the bytes of the corpus' packets as payload.
fn write_traffic(path: &Path, size: u16) -> io::Result<()> {
    let room = usize::from(size).saturating_sub(PAYLOAD);
    let mut bytes = Vec::new();
    for file in corpus::files() {
        let Ok(content) = std::fs::read(file) else {
            continue;
        };
        // Without file headers; record headers are as regular as any protocol's.
        bytes.extend_from_slice(content.get(24..).unwrap_or_default());
        if bytes.len() > FILE_PACKETS * room {
            break;
        }
    }
    let head = datagram(size);
    let frames = (0..FILE_PACKETS).map(|number| {
        let mut frame = head.clone();
        let from = number * room % bytes.len().saturating_sub(room).max(1);
        if let Some(payload) = bytes.get(from..from + room) {
            frame[PAYLOAD..].copy_from_slice(payload);
        }
        frame
    });
    pcap::write(path, frames)
}
