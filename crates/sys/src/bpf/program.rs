//! Programs: loaded through the verifier, run on test data.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::abi;
use super::bound::{self, Roomy};
use super::error::{Error, Needs, Result};
use super::kernel::{Kernel, Request};
use super::marks::{Marks, NativePart};
use super::verifier::Rejection;
use crate::netns::Namespace;

/// The licence that programs declare. The kernel knows it as compatible with the GPL; none of the
/// helpers that ringtap calls asks for that since 5.8 (before, `bpf_ktime_get_ns` did), kernel
/// functions (kfuncs, such as the one for a NIC's receive time) always do.
pub const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// Bounds of the verifier's log: the first try and the largest.
const LOG_FIRST: usize = 1 << 16;
const LOG_LARGEST: usize = 1 << 24;
/// Log levels of the kernel: with every instruction; objections and statistics alone.
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_STATISTICS: u32 = 4;
/// Loads that a signal interrupts are tried again this many times.
const LOAD_ATTEMPTS: usize = 5;

/// The kinds of program that ringtap loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProgramKind {
    /// `BPF_PROG_TYPE_SOCKET_FILTER`: the result is the number of bytes accepted.
    SocketFilter,
    /// `BPF_PROG_TYPE_SCHED_CLS`: for tcx and clsact.
    SchedCls,
    /// `BPF_PROG_TYPE_XDP`.
    Xdp {
        /// Whether the program copes with packets of several buffers (5.18).
        frags: bool,
    },
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`: the context is the event's arguments, 8 bytes each.
    RawTracepoint,
}

impl ProgramKind {
    fn number(self) -> u32 {
        match self {
            Self::SocketFilter => 1,
            Self::SchedCls => 3,
            Self::Xdp { .. } => 6,
            Self::RawTracepoint => 17,
        }
    }

    fn flags(self) -> u32 {
        if self == (Self::Xdp { frags: true }) {
            abi::PROG_XDP_HAS_FRAGS
        } else {
            0
        }
    }

    fn expected_attach_type(self) -> u32 {
        if matches!(self, Self::Xdp { .. }) {
            abi::ATTACH_XDP
        } else {
            0
        }
    }

    fn load_call(self) -> &'static str {
        match self {
            Self::SocketFilter => "bpf(BPF_PROG_LOAD, socket filter)",
            Self::SchedCls => "bpf(BPF_PROG_LOAD, sched_cls)",
            Self::Xdp { .. } => "bpf(BPF_PROG_LOAD, XDP)",
            Self::RawTracepoint => "bpf(BPF_PROG_LOAD, raw tracepoint)",
        }
    }

    fn needs(self) -> Option<Needs> {
        let frags = self == (Self::Xdp { frags: true });
        frags.then_some(Needs {
            what: "XDP with several buffers a packet",
            since: (5, 18),
        })
    }
}

/// A loaded program; unloaded when the last of fd and links is gone.
#[derive(Debug)]
pub struct Program {
    kernel: Kernel,
    fd: OwnedFd,
    name: String,
    kind: ProgramKind,
    /// The names of stretches as the kernel has them, by their number there.
    marks: Vec<(u32, &'static str)>,
}

/// What the kernel made of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The program's id, as `bpftool prog` lists it.
    pub id: u32,
    /// Bytes of native code; 0 where the JIT is off.
    pub native_bytes: u32,
    /// Bytes of eBPF after the verifier's rewriting.
    pub translated_bytes: u32,
    /// Instructions that the verifier walked (5.16), else 0.
    pub verified_instructions: u32,
    /// Nanoseconds that the program ran, while [`super::Statistics`] was enabled.
    pub run_time_ns: u64,
    /// How often it ran in that time.
    pub run_count: u64,
    /// Bytes of the whole pages that hold the instructions, where the kernel tells them.
    pub memory: Option<usize>,
}

/// How a program is loaded, where that is not as [`Program::load`] does it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions<'a> {
    /// The device that the program is for, as [`Program::load_for_device`] has it.
    pub device: Option<u32>,
    /// The network namespace that the device is in, if not that of the calling thread; to load from
    /// another one takes `CAP_SYS_ADMIN`.
    pub namespace: Option<&'a Namespace>,
    /// Whether the program is to stay where the kernel puts it at first, in pages that hold whatever the
    /// verifier makes of it. One for a device has to, and does without this being asked for.
    pub stays: bool,
    /// Names for stretches of the code, each with the index of its first word, ascending from 0 on;
    /// [`Program::native_parts`] then tells where they are. Empty for none.
    pub marks: &'a [(usize, &'static str)],
}

impl Program {
    /// The same program by another fd, to be attached in several places.
    ///
    /// # Errors
    /// No fd is left.
    pub fn try_clone(&self) -> Result<Self> {
        let fd = self.fd.try_clone();
        let fd = fd.map_err(|source| Error::call("dup", self.name.as_str(), source, None))?;
        Ok(Self {
            kernel: self.kernel.clone(),
            fd,
            name: self.name.clone(),
            kind: self.kind,
            marks: self.marks.clone(),
        })
    }

    /// Loads a program; `instructions` are in the kernel's encoding (`struct bpf_insn`, 8 bytes
    /// each, in host order). Names are cut to 15 bytes.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the verifier's words; [`Error::Call`] where the load failed before
    /// the verifier looked at it.
    pub fn load(
        kernel: &Kernel,
        name: &str,
        kind: ProgramKind,
        instructions: &[u64],
    ) -> Result<Self> {
        Self::load_licensed(kernel, name, kind, instructions, LICENCE)
    }

    /// [`Program::load`] of an XDP program for one device, whose driver then answers its calls for
    /// what it knows of a packet beside the bytes (6.3). It runs in that driver only. The device is
    /// one of the calling thread's network namespace.
    ///
    /// # Errors
    /// As [`Program::load`]; EOPNOTSUPP where the driver knows nothing, and where the kernel would lose
    /// track of the program ([`super::programs_stay`]).
    pub fn load_for_device(
        kernel: &Kernel,
        name: &str,
        kind: ProgramKind,
        instructions: &[u64],
        ifindex: u32,
    ) -> Result<Self> {
        let device = Some(ifindex);
        let options = LoadOptions {
            device,
            ..LoadOptions::default()
        };
        Self::load_with(kernel, name, kind, instructions, &options)
    }

    /// [`Program::load`] with options.
    ///
    /// # Errors
    /// As [`Program::load_for_device`]. A kernel that keeps no names of stretches is no error.
    pub fn load_with(
        kernel: &Kernel,
        name: &str,
        kind: ProgramKind,
        instructions: &[u64],
        options: &LoadOptions<'_>,
    ) -> Result<Self> {
        if options.device.is_none() && !options.stays {
            return Self::load_marked(kernel, name, kind, instructions, options);
        }
        if !bound::programs_stay(kernel)? {
            return Err(bound::moves(name));
        }
        let roomy = Roomy::new(instructions, options.marks);
        let options = LoadOptions {
            marks: &roomy.marks,
            ..*options
        };
        let program = Self::load_marked(kernel, name, kind, &roomy.instructions, &options)?;
        roomy.has_stayed(&program)?;
        Ok(program)
    }

    fn load_marked(
        kernel: &Kernel,
        name: &str,
        kind: ProgramKind,
        instructions: &[u64],
        options: &LoadOptions<'_>,
    ) -> Result<Self> {
        let marks = if options.marks.is_empty() {
            None
        } else {
            Marks::load(kernel, options.marks).ok()
        };
        let load = Load {
            kernel,
            name,
            kind,
            instructions,
            licence: LICENCE,
            device: options.device,
            marks: marks.as_ref(),
        };
        match options.namespace.filter(|_| options.device.is_some()) {
            // The kernel looks the device up in the namespace of the thread that asks.
            Some(namespace) => {
                let loaded = namespace.within(|| load.load());
                loaded.map_err(|error| Error::Call { error, hint: None })?
            }
            None => load.load(),
        }
    }

    /// [`Program::load`] with another licence than [`LICENCE`].
    ///
    /// # Errors
    /// As [`Program::load`].
    pub fn load_licensed(
        kernel: &Kernel,
        name: &str,
        kind: ProgramKind,
        instructions: &[u64],
        licence: &std::ffi::CStr,
    ) -> Result<Self> {
        Load {
            kernel,
            name,
            kind,
            instructions,
            licence,
            device: None,
            marks: None,
        }
        .load()
    }

    /// The name given at load.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kind of program.
    #[must_use]
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// What the kernel made of the program.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn info(&self) -> Result<ProgramInfo> {
        let buffer: [u8; abi::PROGRAM_INFO_SIZE] =
            get_info(&self.kernel, self.fd.as_fd(), &self.name)?;
        let field = |at: usize| u32_at(&buffer, at);
        Ok(ProgramInfo {
            id: field(abi::PROGRAM_INFO_ID),
            native_bytes: field(abi::PROGRAM_INFO_NATIVE_SIZE),
            translated_bytes: field(abi::PROGRAM_INFO_TRANSLATED_SIZE),
            verified_instructions: field(abi::PROGRAM_INFO_VERIFIED),
            run_time_ns: u64_at(&buffer, abi::PROGRAM_INFO_RUN_TIME),
            run_count: u64_at(&buffer, abi::PROGRAM_INFO_RUN_COUNT),
            memory: bound::memory_of(self.fd.as_fd()),
        })
    }

    /// Where the program's native code lies in the kernel, by the stretches that
    /// [`LoadOptions::marks`] named; with an empty name where there were none. Nothing where the
    /// kernel does not show addresses, for which `CAP_SYSLOG` or `CAP_PERFMON` may be needed, or the
    /// JIT is off.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn native_parts(&self) -> Result<Vec<NativePart>> {
        super::marks::native_parts(&self.kernel, self.fd.as_fd(), &self.name, &self.marks)
    }

    /// Runs the program on data, without a device (`BPF_PROG_TEST_RUN`).
    ///
    /// What the kernel makes of the data depends on the kind. XDP takes it as the packet, of 14
    /// bytes at least; with frags, what is beyond a page less head- and tailroom (3,520 bytes of
    /// 4,096) lies in further buffers. sched_cls takes it as an Ethernet frame with at least one
    /// byte of payload, and with whole headers where it says IPv4 or IPv6. A socket filter sees it
    /// without its first 14 bytes.
    ///
    /// # Errors
    /// EINVAL for data that is too short or too long for the kind; EINTR when a signal came.
    pub fn run(&self, run: &ProgramRun<'_>) -> Result<Outcome> {
        let mut data = vec![0_u8; run.data_out];
        let mut context = vec![0_u8; run.context.len()];
        let mut attribute = abi::TestRun {
            program_fd: fd_number(&self.fd),
            data_size_in: size(run.data.len()),
            data_size_out: size(data.len()),
            data_in: address(run.data),
            data_out: address_mut(&mut data),
            repeat: run.repeat,
            context_size_in: size(run.context.len()),
            context_in: address(run.context),
            context_size_out: size(context.len()),
            context_out: address_mut(&mut context),
            flags: if run.live_frames {
                abi::RUN_LIVE_FRAMES
            } else {
                0
            },
            batch_size: run.batch_size,
            ..Default::default()
        };
        if run.live_frames {
            // The kernel refuses room for results that it will not give.
            (attribute.data_size_out, attribute.data_out) = (0, 0);
            (attribute.context_size_out, attribute.context_out) = (0, 0);
        }
        // SAFETY: data and context slices are read within their stated sizes; the output pointers
        // are to vectors of the stated sizes, alive and not otherwise used until the call returns.
        let answer = unsafe {
            self.kernel
                .call(abi::PROG_TEST_RUN, &Request::ProgramRun, &mut attribute)
        };
        let needs = run.live_frames.then_some(Needs {
            what: "running XDP programs on live frames",
            since: (5, 18),
        });
        answer.map_err(|source| {
            Error::call("bpf(BPF_PROG_TEST_RUN)", self.name.as_str(), source, needs)
        })?;
        data.truncate(attribute.data_size_out as usize);
        context.truncate(attribute.context_size_out as usize);
        Ok(Outcome {
            return_value: attribute.return_value,
            data,
            context,
            duration: Duration::from_nanos(attribute.duration.into()),
        })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Data for [`Program::run`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramRun<'a> {
    /// The packet.
    pub data: &'a [u8],
    /// `struct xdp_md` or `struct __sk_buff`; empty for the kernel's default.
    pub context: &'a [u8],
    /// How often to run; 0 and 1 are the same.
    pub repeat: u32,
    /// Bytes of the packet to be handed back.
    pub data_out: usize,
    /// XDP: carry out the verdict on real frames, `repeat` of them (5.18).
    pub live_frames: bool,
    /// Live frames: how many at once, 0 for the kernel's default (64).
    pub batch_size: u32,
}

/// What came of [`Program::run`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// R0 at the program's end; 0 for live frames.
    pub return_value: u32,
    /// The packet afterwards, up to [`ProgramRun::data_out`] bytes.
    pub data: Vec<u8>,
    /// The context afterwards; empty where none was given.
    pub context: Vec<u8>,
    /// Average time of one run.
    pub duration: Duration,
}

/// One program on its way into the kernel.
struct Load<'a> {
    kernel: &'a Kernel,
    name: &'a str,
    kind: ProgramKind,
    instructions: &'a [u64],
    licence: &'a std::ffi::CStr,
    /// The device that it is for, where it is for one alone.
    device: Option<u32>,
    marks: Option<&'a Marks>,
}

impl Load<'_> {
    fn load(&self) -> Result<Program> {
        match self.attempt(0, &mut []) {
            Ok(fd) => Ok(Program {
                kernel: self.kernel.clone(),
                fd,
                name: self.name.to_owned(),
                kind: self.kind,
                marks: self.marks.map(Marks::names).unwrap_or_default(),
            }),
            Err(source) => Err(self.explain(source)),
        }
    }

    fn flags(&self) -> u32 {
        let bound = if self.device.is_some() {
            abi::PROG_XDP_DEV_BOUND
        } else {
            0
        };
        self.kind.flags() | bound
    }

    fn attempt(&self, log_level: u32, log: &mut [u8]) -> io::Result<OwnedFd> {
        let request = Request::ProgramLoad {
            kind: self.kind.number(),
            instructions: self.instructions,
            flags: self.flags(),
        };
        let mut outcome = Err(io::Error::from_raw_os_error(libc::EAGAIN));
        for _ in 0..LOAD_ATTEMPTS {
            let mut attribute = abi::ProgramLoad {
                kind: self.kind.number(),
                instruction_count: size(self.instructions.len()),
                instructions: address(self.instructions),
                licence: self.licence.as_ptr() as u64,
                log_level,
                log_size: size(log.len()),
                log: address_mut(log),
                flags: self.flags(),
                name: abi::name(self.name),
                ifindex: self.device.unwrap_or_default(),
                expected_attach_type: self.kind.expected_attach_type(),
                ..Default::default()
            };
            if let Some(marks) = self.marks {
                marks.describe(&mut attribute);
            }
            // SAFETY: instructions, licence (with its closing zero) and the tables of `marks` are
            // read only; the log is written within its stated size and exclusively borrowed.
            let answer = unsafe { self.kernel.call(abi::PROG_LOAD, &request, &mut attribute) };
            outcome = match answer {
                // SAFETY: the kernel answers a load with a new fd that is ours alone.
                Ok(fd) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
                Err(error) => Err(error),
            };
            let interrupted = |error: &io::Error| error.raw_os_error() == Some(libc::EAGAIN);
            if !outcome.as_ref().is_err_and(interrupted) {
                break;
            }
        }
        outcome
    }

    /// Loads again with a log, growing it until it holds everything or the bound is reached.
    fn explain(&self, source: io::Error) -> Error {
        let log = match source.raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS) => String::new(),
            _ => self.log(),
        };
        if log.is_empty() {
            let call = self.kind.load_call();
            return Error::call(call, self.name, source, self.kind.needs());
        }
        Error::Rejected(Box::new(Rejection::from_log(self.name, source, &log)))
    }

    fn log(&self) -> String {
        let mut room = LOG_FIRST;
        while room <= LOG_LARGEST {
            if let Some(log) = self.log_of(LOG_INSTRUCTIONS, room) {
                return log;
            }
            room *= 16;
        }
        self.log_of(LOG_STATISTICS, LOG_FIRST).unwrap_or_default()
    }

    /// The log of one load, if `room` was enough.
    fn log_of(&self, level: u32, room: usize) -> Option<String> {
        let mut log = vec![0_u8; room];
        let outcome = self.attempt(level, &mut log);
        let cut = outcome.is_err_and(|error| error.raw_os_error() == Some(libc::ENOSPC));
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        (!cut).then(|| String::from_utf8_lossy(&log[..end]).into_owned())
    }
}

/// The object's information, as much of it as the kernel knows; the rest is zero.
pub(super) fn get_info<const SIZE: usize>(
    kernel: &Kernel,
    fd: BorrowedFd<'_>,
    context: &str,
) -> Result<[u8; SIZE]> {
    let mut buffer = [0_u8; SIZE];
    let mut attribute = abi::Info {
        fd: fd_number(&fd),
        info_size: size(SIZE),
        info: address_mut(&mut buffer),
    };
    // SAFETY: the kernel writes at most `info_size` bytes to the buffer, and takes pointers out of
    // it only where the length that goes with them is not 0; all of it is 0.
    let answer = unsafe { kernel.call(abi::OBJ_GET_INFO_BY_FD, &Request::Info, &mut attribute) };
    answer.map_err(|source| Error::call("bpf(BPF_OBJ_GET_INFO_BY_FD)", context, source, None))?;
    Ok(buffer)
}

/// An fd as the attributes hold it; fds are never negative.
pub(super) fn fd_number(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().unsigned_abs()
}

/// A slice's size as the attributes hold it; the kernel refuses what does not fit.
pub(super) fn size(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A slice's address as the attributes hold it; 0 for an empty one.
pub(super) fn address<T>(slice: &[T]) -> u64 {
    if slice.is_empty() {
        0
    } else {
        slice.as_ptr() as u64
    }
}

/// As [`address`], for what the kernel writes to.
pub(super) fn address_mut<T>(slice: &mut [T]) -> u64 {
    if slice.is_empty() {
        0
    } else {
        slice.as_mut_ptr() as u64
    }
}

/// The host-order number at an offset of a buffer that is known to hold it.
pub(super) fn u32_at(buffer: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&buffer[at..at + 4]);
    u32::from_ne_bytes(bytes)
}

/// As [`u32_at`], of eight bytes.
pub(super) fn u64_at(buffer: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&buffer[at..at + 8]);
    u64::from_ne_bytes(bytes)
}
