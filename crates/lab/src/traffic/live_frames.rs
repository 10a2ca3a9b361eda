//! Frames made in the kernel: an XDP program is run on live frames, with one system call for any
//! number of them (`BPF_PROG_TEST_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`, Linux 5.18;
//! Documentation/bpf/bpf_prog_run.rst).
//!
//! It makes 3 to 7 million frames a second on one processor, more than any sender through sockets.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::{self, Kernel, Link, Map, Program, ProgramKind, ProgramRun, XdpMode};

use super::xdp_record::single;
use crate::netns::{Namespace, Side};
use crate::process::processor_time;

/// The destination of the frames.
#[derive(Clone, Copy, Debug)]
pub enum Target<'a> {
    /// Out of one end of a veth pair into the other. If the other end has an XDP program, frames
    /// reach it like a driver's frames, without a socket buffer. Otherwise it must have GRO on
    /// (`ethtool -K DEV gro on`), or all frames are lost.
    OutOf(&'a Side),
    /// Into the stack, as if the end had received them. tcx sees them, its XDP program does not.
    /// None is lost on the way.
    ReceivedOn(&'a Side),
}

/// A frame ready to be sent many times.
#[derive(Debug)]
pub struct LiveFrames<'a> {
    frame: Vec<u8>,
    target: Target<'a>,
    program: Program,
    context: Vec<u8>,
    batch: u32,
    /// Lives as long as the program.
    _counter: Map,
    /// Attaches the program at a place without packets, so that the kernel's dispatcher of XDP
    /// programs already contains it. Otherwise each call rewrites the dispatcher, with two waits
    /// for an RCU grace period. It is dropped before its namespace.
    _anchor: Option<Link>,
    _beside: Namespace,
}

/// The time that sending took.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The elapsed time.
    pub elapsed: Duration,
    /// The time on the processor.
    pub processor: Duration,
}

/// The default number of frames that the kernel sends at once.
const BATCH: u32 = 64;
/// `struct xdp_md`: six words; `data_end` is the second and `ingress_ifindex` the fourth.
const CONTEXT_WORDS: usize = 6;
/// The index of `lo` in every namespace.
const LOOPBACK: u32 = 1;
const XDP_PASS: i32 = 2;
/// `XDP_REDIRECT`'s flag word of `bpf_redirect`: none are defined.
const NO_FLAGS: i32 = 0;

impl<'a> LiveFrames<'a> {
    /// Prepares identical frames. Needs [`crate::Need::Root`] and Linux 5.18.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects the program.
    ///
    /// # Panics
    /// Panics if the device does not exist.
    pub fn new(frame: &[u8], target: Target<'a>) -> bpf::Result<Self> {
        Self::made(frame, target, None)
    }

    /// Prepares frames with a running number, from 0 on, in network order in the four bytes at
    /// `offset`.
    ///
    /// # Errors
    /// The same as for [`LiveFrames::new`].
    ///
    /// # Panics
    /// Panics if the four bytes are not in the frame or the device does not exist.
    pub fn numbered(frame: &[u8], target: Target<'a>, offset: u16) -> bpf::Result<Self> {
        assert!(usize::from(offset) + 4 <= frame.len(), "outside the frame");
        Self::made(frame, target, Some(offset))
    }

    fn made(frame: &[u8], target: Target<'a>, number_at: Option<u16>) -> bpf::Result<Self> {
        let kernel = Kernel::running();
        let counter = single(&kernel, "frame_number", 4)?;
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
        // Without it calls are slow, but correct.
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

    /// Sends `count` frames from the calling thread's processor, and returns the time that it took.
    /// Frames that a full queue of the other end drops are not reported.
    ///
    /// # Errors
    /// Returns an error if the kernel rejects it: the frame is longer than a page less 576 bytes,
    /// or the device is gone.
    pub fn send(&self, count: u32) -> io::Result<Duration> {
        self.send_measured(count).map(|cost| cost.elapsed)
    }

    /// Sends like [`LiveFrames::send`], and also returns the processor time. It includes the cost
    /// of receiving at the other end on the same processor. On a busy machine that is the better
    /// measure.
    ///
    /// # Errors
    /// The same as for [`LiveFrames::send`].
    /// As [`LiveFrames::send`].
    pub fn send_measured(&self, count: u32) -> io::Result<Cost> {
        let (Target::OutOf(side) | Target::ReceivedOn(side)) = self.target;
        // The thread inherits the processors of the calling one.
        side.run(|| {
            let receiving = Softirqs::here()?;
            let begun = Instant::now();
            self.run(count)?;
            let elapsed = begun.elapsed();
            // The kernel updates a thread's time when it takes the processor from it.
            std::thread::sleep(Duration::from_millis(1));
            let processor = processor_time(Path::new("/proc/thread-self"))?;
            Ok(Cost {
                elapsed,
                processor: processor + receiving.time_since()?,
            })
        })
    }

    /// Runs the program on so many frames.
    fn run(&self, count: u32) -> io::Result<()> {
        let run = ProgramRun {
            data: &self.frame,
            context: &self.context,
            repeat: count,
            data_out: 0,
            live_frames: true,
            batch_size: self.batch,
        };
        self.program.run(&run).map(drop).map_err(io::Error::other)
    }

    /// Sends `count` frames in bursts on a schedule of `per_second` frames, and returns the time that
    /// it took. A sender that is late sends without pauses until it is on schedule again.
    ///
    /// # Errors
    /// The same as for [`LiveFrames::send`].
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
                self.run(now)?;
                sent += now;
            }
            Ok(begun.elapsed())
        })
    }
}

/// The kernel's thread that receives on a processor if the sender leaves no time for it; otherwise
/// the kernel receives in the sender's thread.
struct Softirqs {
    folder: Option<PathBuf>,
    before: Duration,
}

impl Softirqs {
    /// Finds the thread of the calling thread's processor, which a container may hide.
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
        Ok(processor_time(folder)?.saturating_sub(self.before))
    }
}

/// Returns the processor that the calling thread runs on: the 39th field of `stat` (proc(5)). The
/// second field, in brackets, may contain any text.
fn processor() -> io::Result<u32> {
    let text = fs::read_to_string("/proc/thread-self/stat")?;
    let behind = text.rsplit_once(')').map(|(_, behind)| behind);
    let field = behind.and_then(|fields| fields.split_whitespace().nth(36));
    let number = field.and_then(|field| field.parse().ok());
    number.ok_or_else(|| io::Error::other("no processor in stat"))
}

/// Writes the next number into the packet, which has room for it.
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
