//! Frames made in the kernel: an XDP program run on live frames, one system call for as many as
//! wanted (`BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18;
//! Documentation/bpf/bpf_prog_run.rst).
//!
//! It makes 3 to 7 million frames a second on one processor, which no sender through sockets does.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::{
    self, Kernel, Link, Map, MapKind, MapSpec, Program, ProgramKind, ProgramRun, XdpMode,
};

use crate::netns::{Namespace, Side};

/// Where the frames go.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Out of an end of a veth pair, into its other end: where that has an XDP program, frames meet
    /// it as frames of a driver, without a socket buffer. Else the other end must have GRO on
    /// (`ethtool -K DEV gro on`), or all are lost.
    OutOf(&'a Side),
    /// Into the stack, as if the end had received them; its XDP program does not see them, tcx does.
    /// None is lost on the way.
    ReceivedOn(&'a Side),
}

/// A frame ready to be multiplied.
#[derive(Debug)]
pub struct LiveFrames<'a> {
    frame: Vec<u8>,
    target: Target<'a>,
    program: Program,
    context: Vec<u8>,
    batch: u32,
    /// Lives as long as the program.
    _counter: Map,
    /// Where the program is attached though no packet comes by, so that the kernel's dispatcher of XDP
    /// programs has it already: else it is rewritten in each call, with two waits for an RCU grace
    /// period. Ends before its namespace.
    _anchor: Option<Link>,
    _beside: Namespace,
}

/// What sending took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// From the begin to the end.
    pub elapsed: Duration,
    /// On the processor.
    pub processor: Duration,
}

/// Frames that the kernel hands on at once, if not told otherwise.
const BATCH: u32 = 64;
/// `struct xdp_md`: six words, of which `data_end` is the second and `ingress_ifindex` the fourth.
const CONTEXT_WORDS: usize = 6;
/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;
const XDP_PASS: i32 = 2;
/// `XDP_REDIRECT`'s flag word of `bpf_redirect`: none are defined.
const NO_FLAGS: i32 = 0;

impl<'a> LiveFrames<'a> {
    /// Frames that are all alike. Needs [`crate::Need::Root`] and Linux 5.18.
    ///
    /// # Errors
    /// The kernel takes no such program.
    ///
    /// # Panics
    /// The device is missing.
    pub fn new(frame: &[u8], target: Target<'a>) -> bpf::Result<Self> {
        Self::made(frame, target, None)
    }

    /// The same with a running number, from 0 on, in network order in the four bytes at `offset`.
    ///
    /// # Errors
    /// As [`LiveFrames::new`].
    ///
    /// # Panics
    /// The four bytes are not in the frame, or the device is missing.
    pub fn numbered(frame: &[u8], target: Target<'a>, offset: u16) -> bpf::Result<Self> {
        assert!(usize::from(offset) + 4 <= frame.len(), "outside the frame");
        Self::made(frame, target, Some(offset))
    }

    fn made(frame: &[u8], target: Target<'a>, number_at: Option<u16>) -> bpf::Result<Self> {
        let kernel = Kernel::running();
        let counter = Map::create(
            &kernel,
            &MapSpec::new(
                "frame_number",
                MapKind::Array {
                    mmapable: false,
                    inner: false,
                },
                4,
                1,
            ),
        )?;
        let (Target::OutOf(side) | Target::ReceivedOn(side)) = target;
        let index = side.namespace.netlink().index(&side.device);
        let index = index.expect("the pair has this end");
        let mut asm = Assembler::new();
        if let Some(offset) = number_at {
            write_number(offset, &counter, &mut asm);
        }
        let mut context = Vec::new();
        match target {
            Target::OutOf(_) => {
                asm.mov32(Reg::R1, index.cast_signed());
                asm.mov32(Reg::R2, NO_FLAGS);
                asm.call(Helper::Redirect);
            }
            Target::ReceivedOn(_) => {
                asm.mov32(Reg::R0, XDP_PASS);
                let length = u32::try_from(frame.len()).expect("frames are short");
                let mut words = [0; CONTEXT_WORDS];
                (words[1], words[3]) = (length, index);
                context = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            }
        }
        asm.exit();
        let code = asm.finish().expect("labels are placed");
        let kind = ProgramKind::Xdp { frags: false };
        let program = Program::load(&kernel, "live_frames", kind, &code)?;
        let beside = Namespace::new();
        // Without it calls are slow, not wrong.
        let anchor = beside.run(|| Link::xdp(&program, &kernel, LOOPBACK, XdpMode::Generic));
        Ok(Self {
            frame: frame.to_vec(),
            target,
            program,
            context,
            batch: BATCH,
            _counter: counter,
            _anchor: anchor.ok(),
            _beside: beside,
        })
    }

    /// Has the kernel hand on so many frames at once (1 to 256; 64 if not told).
    #[must_use]
    pub fn with_batch(mut self, frames: u32) -> Self {
        self.batch = frames;
        self
    }

    /// Sends so many from the calling thread's processor, and says how long it took. What a full
    /// queue of the other end loses is not told.
    ///
    /// # Errors
    /// The kernel refuses: the frame is longer than a page less 576 bytes, or the device is gone.
    pub fn send(&self, count: u32) -> io::Result<Duration> {
        self.send_measured(count).map(|cost| cost.elapsed)
    }

    /// [`LiveFrames::send`] with the processor time that it took, what the other end's receiving
    /// cost on the same processor included. On a busy machine that is the better measure.
    ///
    /// # Errors
    /// As [`LiveFrames::send`].
    pub fn send_measured(&self, count: u32) -> io::Result<Cost> {
        let (Target::OutOf(side) | Target::ReceivedOn(side)) = self.target;
        let run = ProgramRun {
            data: &self.frame,
            context: &self.context,
            repeat: count,
            data_out: 0,
            live_frames: true,
            batch_size: self.batch,
        };
        let namespace = &side.namespace;
        // The thread inherits the processors of the calling one.
        namespace.run(|| {
            let receiving = Softirqs::here()?;
            let begun = Instant::now();
            let outcome = self.program.run(&run);
            outcome.map_err(io::Error::other)?;
            let elapsed = begun.elapsed();
            // The kernel brings a thread's time up to date when it takes the processor from it.
            std::thread::sleep(Duration::from_millis(1));
            let processor = thread_time("/proc/thread-self")? + receiving.time_since()?;
            Ok(Cost { elapsed, processor })
        })
    }
}

impl LiveFrames<'_> {
    /// Sends so many in bursts, each when its time has come, so that on average so many leave a second
    /// and never more; says how long it took. A sender that is late is not made up for by gaps.
    ///
    /// # Errors
    /// As [`LiveFrames::send`].
    pub fn send_paced(&self, count: u32, per_second: u32, burst: u32) -> io::Result<Duration> {
        let (Target::OutOf(side) | Target::ReceivedOn(side)) = self.target;
        let burst = burst.max(1);
        side.namespace.run(|| {
            let begun = Instant::now();
            let mut sent = 0;
            while sent < count {
                let due = f64::from(sent) / f64::from(per_second.max(1));
                let wait = Duration::from_secs_f64(due).checked_sub(begun.elapsed());
                std::thread::sleep(wait.unwrap_or_default());
                let now = burst.min(count - sent);
                let run = ProgramRun {
                    data: &self.frame,
                    context: &self.context,
                    repeat: now,
                    data_out: 0,
                    live_frames: true,
                    batch_size: self.batch,
                };
                self.program.run(&run).map_err(io::Error::other)?;
                sent += now;
            }
            Ok(begun.elapsed())
        })
    }
}

/// The kernel's thread that receives for a processor where the sender leaves it no time to, which it
/// otherwise does in the sender's.
struct Softirqs {
    folder: Option<PathBuf>,
    before: Duration,
}

impl Softirqs {
    /// The one of the calling thread's processor; none where a container hides it.
    fn here() -> io::Result<Self> {
        let name = format!("ksoftirqd/{}", processor()?);
        let is_it = |folder: &PathBuf| {
            let comm = fs::read_to_string(folder.join("comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        };
        let folders = fs::read_dir("/proc")?.filter_map(Result::ok);
        let folder = folders.map(|entry| entry.path()).find(is_it);
        let mut found = Self {
            folder,
            before: Duration::ZERO,
        };
        found.before = found.time_since()?;
        Ok(found)
    }

    fn time_since(&self) -> io::Result<Duration> {
        let Some(folder) = &self.folder else {
            return Ok(Duration::ZERO);
        };
        Ok(thread_time(folder)?.saturating_sub(self.before))
    }
}

/// The processor that the calling thread runs on: the 39th field of `stat` (proc(5)), of which the
/// second, in brackets, may hold anything.
fn processor() -> io::Result<u32> {
    let text = fs::read_to_string("/proc/thread-self/stat")?;
    let behind = text.rsplit_once(')').map(|(_, behind)| behind);
    let field = behind.and_then(|fields| fields.split_whitespace().nth(36));
    let number = field.and_then(|field| field.parse().ok());
    number.ok_or_else(|| io::Error::other("no processor in stat"))
}

/// The time that a thread spent on a processor since it began: the first field of `schedstat`, in
/// nanoseconds (Documentation/scheduler/sched-stats.rst).
fn thread_time(folder: impl AsRef<Path>) -> io::Result<Duration> {
    let text = fs::read_to_string(folder.as_ref().join("schedstat"))?;
    let field = text.split(' ').next().and_then(|field| field.parse().ok());
    let nanos = field.ok_or_else(|| io::Error::other("no schedstat"))?;
    Ok(Duration::from_nanos(nanos))
}

/// Puts the next number into the packet, which has room for it.
fn write_number(offset: u16, counter: &Map, asm: &mut Assembler) {
    let behind = asm.label();
    let at = i16::try_from(offset).expect("frames are short");
    asm.load(Size::W, Reg::R2, Reg::R1, 0);
    asm.load(Size::W, Reg::R3, Reg::R1, 4);
    asm.mov64(Reg::R4, Reg::R2);
    asm.add64(Reg::R4, i32::from(offset) + 4);
    asm.jump_if(Cond::Gt, Width::W64, Reg::R4, Reg::R3, behind);
    asm.push(Insn::LoadMapValue {
        dst: Reg::R5,
        fd: counter.as_fd().as_raw_fd(),
        offset: 0,
    });
    asm.load(Size::W, Reg::R0, Reg::R5, 0);
    asm.mov32(Reg::R4, Reg::R0);
    asm.from_network(Reg::R4, Size::W);
    asm.store(Size::W, Reg::R2, at, Reg::R4);
    asm.alu32(AluOp::Add, Reg::R0, 1);
    asm.store(Size::W, Reg::R5, 0, Reg::R0);
    asm.place(behind);
}
