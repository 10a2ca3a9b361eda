//! A wire, a load on it, and readers of the packets: ringtap's library in a thread of this process,
//! or a peer's program.
//!
//! The kernel makes and receives the frames on one processor, so the sender does not limit the
//! measurement. A reader looks at every packet and throws it away, unless the experiment gives it
//! work.

use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap_capture::{CaptureOptions, Next, Waker, open};
use ringtap_lab::netns::VethPair;
use ringtap_lab::process::{Running, status_field};
use ringtap_lab::traffic::{LiveFrames, Target};
use ringtap_sys::cycles::{Rate, Usage, thread_id, ticks};
use ringtap_sys::sched::set_affinity;

use crate::helpers::{
    captured, capturing, cpu_seconds, datagram, float, interrupted, rest, taken, text,
};
use crate::session::{Done, Stop};
use crate::syscalls::{Syscalls, Who};

/// The processor where frames are made and received.
pub(crate) const SENDER: usize = 0;
/// The processor where readers run, unless an experiment chooses another.
pub(crate) const READER: usize = 1;
/// The wait after the last packet, so that timeouts pass.
const SETTLE: Duration = Duration::from_millis(150);
/// More than the timeouts of dumpcap and netsniff-ng. tcpdump's is a second, which is not waited for: the
/// packets in its last block are counted, too.
const SETTLE_PROGRAM: Duration = Duration::from_millis(300);

/// The wire. Frames arrive at its right end.
pub(crate) struct Stage {
    pub(crate) pair: VethPair,
}

/// The traffic on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bytes of a frame.
    pub(crate) size: u16,
    pub(crate) packets: u32,
    pub(crate) pace: LoadPace,
    /// Whether frames arrive at the driver, where XDP sees them, or at the stack after it, where none is lost
    /// on the way.
    pub(crate) at_driver: bool,
}

impl Load {
    /// Returns packets at top speed, which arrive at the stack.
    pub(crate) const fn top(size: u16, packets: u32) -> Self {
        Self {
            size,
            packets,
            pace: LoadPace::Top,
            at_driver: false,
        }
    }

    /// Returns the same packets at another pace.
    pub(crate) const fn paced(self, pace: LoadPace) -> Self {
        Self { pace, ..self }
    }
}

/// The rate of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadPace {
    /// As fast as the sender's processor can.
    Top,
    /// This many packets a second, in bursts of half a millisecond.
    Rate(u32),
    /// This many packets a second, in bursts of this many at top speed.
    Bursts(u32, u32),
}

/// A reader of packets.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    /// ringtap's library: an engine, its options, and nanoseconds of work on each packet.
    Library {
        engine: &'static str,
        options: Box<CaptureOptions>,
        work: u32,
    },
    /// `ringtap dump`, with further options.
    Dump(PathBuf, Vec<String>),
    /// tcpdump, with further options.
    Tcpdump(Vec<String>),
    Dumpcap,
    NetsniffNg,
}

/// The result of sending.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) packets: f64,
    pub(crate) seconds: f64,
    /// Seconds on the sender's processor, receiving included; at top speed only.
    pub(crate) processor: f64,
}

/// The result of a reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) packets: f64,
    /// Seconds on a processor.
    pub(crate) processor: f64,
    /// How often it went to sleep.
    pub(crate) waits: f64,
    pub(crate) syscalls: f64,
}

impl Reader {
    /// Returns the library on the tap at tcx, which copies.
    pub(crate) fn tcx() -> Self {
        Self::library("tcx", own_options())
    }

    /// Returns the library on the AF_PACKET ring.
    pub(crate) fn packet() -> Self {
        Self::library("packet", own_options())
    }

    pub(crate) fn library(engine: &'static str, options: CaptureOptions) -> Self {
        Self::Library {
            engine,
            options: Box::new(options),
            work: 0,
        }
    }

    /// Returns the same reader with work on each packet.
    pub(crate) fn working(mut self, nanoseconds: u32) -> Self {
        if let Self::Library { work, .. } = &mut self {
            *work = nanoseconds;
        }
        self
    }
}

/// Options of the library: received packets only, a short timeout, and as much memory as the peers have.
pub(crate) fn own_options() -> CaptureOptions {
    CaptureOptions::default()
        .direction(ringtap_capture::Direction::In)
        .timeout(Duration::from_millis(100))
        .buffer(64 << 20)
}

impl Stage {
    pub(crate) fn new() -> Done<Self> {
        let pair = VethPair::new();
        pair.right.take_frames()?;
        Ok(Self { pair })
    }

    /// Sends while readers read. Each runs on the given processors, or where the scheduler puts it
    /// if there are none.
    pub(crate) fn run(
        &self,
        load: Load,
        readers: &[Reader],
        cpus: &[usize],
    ) -> Done<(Sent, Vec<Seen>)> {
        let frame = datagram(load.size);
        let target = if load.at_driver {
            Target::OutOf(&self.pair.left)
        } else {
            Target::ReceivedOn(&self.pair.right)
        };
        let frames = LiveFrames::new(&frame, target)?;
        self.run_with(readers, cpus, || on_sender(|| send(&frames, load)))
    }

    /// Does the same with another sender.
    pub(crate) fn run_with(
        &self,
        readers: &[Reader],
        cpus: &[usize],
        send: impl FnOnce() -> Done<Sent>,
    ) -> Done<(Sent, Vec<Seen>)> {
        let started = readers
            .iter()
            .map(|reader| Started::new(self, reader, cpus));
        let mut started = started.collect::<Result<Vec<_>, _>>()?;
        if readers.len() > 1 {
            // The second program looks like the first one until it opens its socket.
            std::thread::sleep(Duration::from_millis(400));
        }
        let sent = send()?;
        started.iter_mut().try_for_each(Started::settle)?;
        let seen = started.into_iter().map(Started::end);
        let seen = seen.collect::<Result<Vec<_>, _>>()?;
        Ok((sent, seen))
    }
}

/// Does this in a thread of its own on the sender's processor.
pub(crate) fn on_sender<T: Send>(work: impl FnOnce() -> Done<T> + Send) -> Done<T> {
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            set_affinity(&[SENDER])?;
            work()
        });
        sender.join().map_err(|_| "the sender panicked")?
    })
}

fn send(frames: &LiveFrames<'_>, load: Load) -> Done<Sent> {
    let paced = |rate: u32, burst: u32| {
        let elapsed = frames.send_paced(load.packets, rate, burst);
        elapsed.map(|elapsed| (elapsed.as_secs_f64(), 0.0))
    };
    let (seconds, processor) = match load.pace {
        LoadPace::Top => frames
            .send_measured(load.packets)
            .map(|cost| (cost.elapsed.as_secs_f64(), cost.processor.as_secs_f64())),
        LoadPace::Rate(rate) => paced(rate, (rate / 2_000).max(16)),
        LoadPace::Bursts(rate, burst) => paced(rate, burst),
    }?;
    Ok(Sent {
        packets: f64::from(load.packets),
        seconds,
        processor,
    })
}

/// A running reader.
struct Started {
    work: Work,
    /// Counts from its start on.
    syscalls: Syscalls,
}

enum Work {
    Thread {
        waker: Waker,
        thread: JoinHandle<Done<Seen>>,
    },
    Program {
        running: Box<Running>,
        reader: Reader,
        used: f64,
        waits: f64,
    },
}

impl Started {
    fn new(stage: &Stage, reader: &Reader, cpus: &[usize]) -> Done<Self> {
        let (work, who) = match reader {
            Reader::Library {
                engine,
                options,
                work,
            } => Work::thread(stage, engine, options, *work, cpus)?,
            program => Work::program(stage, program, cpus)?,
        };
        let syscalls = Syscalls::of(who)?;
        Ok(Self { work, syscalls })
    }

    /// Waits until all sent packets are read.
    fn settle(&mut self) -> Done {
        match &mut self.work {
            Work::Thread { .. } => std::thread::sleep(SETTLE),
            Work::Program {
                running,
                reader: Reader::Dump(..) | Reader::Tcpdump(_),
                ..
            } => rest(running, Duration::ZERO)?,
            Work::Program { running, .. } => rest(running, SETTLE_PROGRAM)?,
        }
        Ok(())
    }

    fn end(self) -> Done<Seen> {
        let syscalls = float(self.syscalls.count()?);
        match self.work {
            Work::Thread { waker, thread } => {
                waker.wake();
                let seen = thread.join().map_err(|_| "the reader panicked")??;
                Ok(Seen { syscalls, ..seen })
            }
            Work::Program {
                running,
                reader,
                used,
                waits: waited,
            } => {
                let processor = cpu_seconds(running.id())? - used;
                let waits = waits(running.id()) - waited;
                let output = interrupted(*running)?;
                let summary = text(&[output.stdout, output.stderr].concat());
                let packets = float(count(&reader, &summary).ok_or(summary)?);
                Ok(Seen {
                    packets,
                    processor,
                    waits,
                    syscalls,
                })
            }
        }
    }
}

impl Work {
    /// Starts the library in a thread.
    fn thread(
        stage: &Stage,
        engine: &str,
        options: &CaptureOptions,
        work: u32,
        cpus: &[usize],
    ) -> Done<(Self, Who)> {
        let side = &stage.pair.right;
        let device = format!("{engine}:{}", side.device);
        let mut source = side.run(|| open(&device, options, None))?;
        let waker = source.waker();
        let (options, cpus) = (options.clone(), cpus.to_vec());
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            if !cpus.is_empty() {
                set_affinity(&cpus)?;
            }
            options.place_thread()?;
            ready.send(thread_id())?;
            read(&mut *source, work)
        });
        let Ok(number) = is_ready.recv() else {
            let ended = thread.join().map_err(|_| "the reader panicked")?;
            return Err(ended.err().map(Stop::reason).unwrap_or_default().into());
        };
        Ok((Self::Thread { waker, thread }, Who::Thread(number)))
    }

    /// Starts a program.
    fn program(stage: &Stage, reader: &Reader, cpus: &[usize]) -> Done<(Self, Who)> {
        let running = capturing(&mut command(stage, reader, cpus), &stage.pair.right)?;
        let id = running.id();
        let work = Self::Program {
            used: cpu_seconds(id)?,
            waits: waits(id),
            running: Box::new(running),
            reader: reader.clone(),
        };
        Ok((work, Who::Process(id)))
    }
}

/// Reads until it is woken, then reads the rest.
fn read(source: &mut dyn ringtap_capture::Source, work: u32) -> Done<Seen> {
    let rate = Rate::measure(Duration::from_millis(5)).per_nanosecond;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some thousands"
    )]
    let work = (f64::from(work) * rate) as u64;
    let before = Usage::of_this_thread()?;
    let (mut packets, mut bytes, mut ending) = (0_u64, 0, false);
    loop {
        let next = if ending {
            source.try_next()
        } else {
            source.next()
        };
        match next? {
            Next::Block(block) => {
                for packet in block.packets() {
                    packets += 1;
                    bytes += packet.data.len();
                    toil(work);
                }
            }
            Next::Woken => ending = true,
            Next::TimedOut | Next::End if ending => break,
            _ => {}
        }
    }
    std::hint::black_box(bytes);
    let used = Usage::of_this_thread()?.since(before);
    Ok(Seen {
        packets: float(packets),
        processor: (used.user + used.system).as_secs_f64(),
        waits: float(used.waits),
        syscalls: 0.0,
    })
}

/// Keeps the processor busy for this many ticks of its counter.
#[inline]
fn toil(work: u64) {
    if work > 0 {
        let begun = ticks();
        while ticks().wrapping_sub(begun) < work {
            std::hint::spin_loop();
        }
    }
}

fn command(stage: &Stage, reader: &Reader, cpus: &[usize]) -> Command {
    let side = &stage.pair.right;
    let own;
    let (program, fixed, options): (&str, &[&str], &[String]) = match reader {
        Reader::Dump(ringtap, options) => {
            own = ringtap.to_string_lossy();
            (&own, &["dump", "-Q", "in", "-Z", "root", "-i"], options)
        }
        Reader::Tcpdump(options) => {
            let fixed = &["-Q", "in", "-Z", "root", "-w", "/dev/null", "-i"];
            ("tcpdump", fixed, options)
        }
        Reader::Dumpcap => ("dumpcap", &["-q", "-B", "64", "-w", "/dev/null", "-i"], &[]),
        Reader::NetsniffNg | Reader::Library { .. } => {
            let ring = &[
                "--ring-size",
                "64MiB",
                "--silent",
                "--out",
                "/dev/null",
                "--in",
            ];
            ("netsniff-ng", ring, &[])
        }
    };
    let mut command = if cpus.is_empty() {
        side.namespace.command(program)
    } else {
        let list: Vec<String> = cpus.iter().map(usize::to_string).collect();
        let path = ringtap_lab::need::find_tool(program);
        let mut command = side.namespace.command("taskset");
        command.args(["-c", &list.join(",")]);
        command.arg(path.unwrap_or_else(|| program.into()));
        command
    };
    command.args(fixed).arg(&side.device).args(options);
    command
}

/// Returns the number of captured packets in a program's summary.
fn count(reader: &Reader, summary: &str) -> Option<u64> {
    match reader {
        Reader::Dumpcap => {
            let mut lines = summary.lines().map(str::trim);
            let number = lines.find_map(|line| line.strip_prefix("Packets captured: "))?;
            number.parse().ok()
        }
        Reader::NetsniffNg => {
            let mut lines = summary.lines();
            let line = lines.find(|line| line.contains("packets passed filter"))?;
            line.split_whitespace().next()?.parse().ok()
        }
        Reader::Tcpdump(_) => taken(summary),
        Reader::Dump(..) | Reader::Library { .. } => captured(summary),
    }
}

/// Returns how often the threads of a process went to sleep (proc(5), `status`).
fn waits(id: u32) -> f64 {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task"));
    let of_task = |task: std::fs::DirEntry| {
        let task = format!("{id}/task/{}", task.file_name().display());
        let waits = status_field(task, "voluntary_ctxt_switches:")?;
        waits.parse::<u64>().ok()
    };
    float(
        tasks
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(of_task)
            .sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::{Reader, count};

    #[test]
    fn summaries_of_the_peers_are_read() {
        let dumpcap =
            "Capturing on 'vb'\nFile: /dev/null\nPackets captured: 1010\nPackets received/dropped";
        assert_eq!(count(&Reader::Dumpcap, dumpcap), Some(1010));
        let netsniff = "Running!\n\n     7  packets incoming (0 unread on exit)\n     6  packets passed filter\n";
        assert_eq!(count(&Reader::NetsniffNg, netsniff), Some(6));
        let tcpdump = "listening on\n5 packets captured\n9 packets received by filter\n3 packets dropped by kernel\n";
        assert_eq!(count(&Reader::Tcpdump(Vec::new()), tcpdump), Some(6));
        assert_eq!(count(&Reader::Dumpcap, "nothing"), None);
    }
}
