//! Loads programs through the verifier and runs them on test data.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::abi;
use super::attribute::{address, address_mut, fd_number, get_info, size, u32_at, u64_at};
use super::bound::{self, Roomy};
use super::error::{Error, Needs, Result};
use super::kernel::{Kernel, Request};
use super::marks::{Marks, NativePart};
use super::verifier::Rejection;
use crate::netns::Namespace;

/// The licence that programs declare; the kernel treats it as compatible with the GPL. Since 5.8 no
/// helper that ringtap calls requires that (before, `bpf_ktime_get_ns` did). Kernel functions
/// (kfuncs, such as the one for an adapter's receive time) always do.
pub const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// The first and the largest size of the buffer for the verifier's log, in bytes.
const LOG_FIRST: usize = 1 << 16;
const LOG_LARGEST: usize = 1 << 24;
/// The kernel's log levels: with every instruction; errors and statistics only.
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_STATISTICS: u32 = 4;
/// The number of attempts at a load that signals interrupt.
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
        /// Whether the program supports packets of several buffers (5.18).
        frags: bool,
    },
    /// `BPF_PROG_TYPE_RAW_TRACEPOINT`: the context is the event's arguments, 8 bytes each.
    RawTracepoint,
    /// `BPF_PROG_TYPE_TRACING` at the entry of a kernel function (5.5): the context is the
    /// function's arguments, 8 bytes each.
    FunctionEntry {
        /// The function's type ([`super::KernelTypes::function`]).
        function: u32,
    },
    /// `BPF_PROG_TYPE_TRACING` at a tracepoint (5.5): the context is the event's arguments, whose
    /// types the verifier knows.
    TypedTracepoint {
        /// The tracepoint's type ([`super::KernelTypes::tracepoint`]).
        tracepoint: u32,
    },
    /// A program for all sockets of a control group: `BPF_PROG_TYPE_CGROUP_SOCK`,
    /// `BPF_PROG_TYPE_CGROUP_SOCK_ADDR` or `BPF_PROG_TYPE_CGROUP_SKB`.
    Cgroup(CgroupHook),
}

/// Where a program for the sockets of a control group runs (5.7 for links).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CgroupHook {
    /// A socket was created.
    Create,
    /// An IPv4 socket was bound.
    Bind4,
    /// An IPv6 socket was bound.
    Bind6,
    /// An IPv4 socket is connected.
    Connect4,
    /// An IPv6 socket is connected.
    Connect6,
    /// An IPv4 socket sends to an address.
    Send4,
    /// An IPv6 socket sends to an address.
    Send6,
    /// A packet leaves.
    Egress,
}

impl CgroupHook {
    fn program(self) -> u32 {
        match self {
            Self::Egress => 8,
            Self::Create | Self::Bind4 | Self::Bind6 => 9,
            Self::Connect4 | Self::Connect6 | Self::Send4 | Self::Send6 => 18,
        }
    }

    pub(super) fn attach_type(self) -> u32 {
        match self {
            Self::Egress => abi::ATTACH_CGROUP_SKB_EGRESS,
            Self::Create => 2,
            Self::Connect4 => 10,
            Self::Connect6 => 11,
            Self::Bind4 => 12,
            Self::Bind6 => 13,
            Self::Send4 => 14,
            Self::Send6 => 15,
        }
    }
}

impl ProgramKind {
    fn number(self) -> u32 {
        match self {
            Self::SocketFilter => 1,
            Self::SchedCls => 3,
            Self::Xdp { .. } => 6,
            Self::RawTracepoint => 17,
            Self::FunctionEntry { .. } | Self::TypedTracepoint { .. } => 26,
            Self::Cgroup(hook) => hook.program(),
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
        match self {
            Self::Xdp { .. } => abi::ATTACH_XDP,
            Self::FunctionEntry { .. } => abi::ATTACH_FUNCTION_ENTRY,
            Self::TypedTracepoint { .. } => abi::ATTACH_TYPED_TRACEPOINT,
            Self::Cgroup(hook) => hook.attach_type(),
            _ => 0,
        }
    }

    fn function(self) -> u32 {
        match self {
            Self::FunctionEntry { function } => function,
            Self::TypedTracepoint { tracepoint } => tracepoint,
            _ => 0,
        }
    }

    fn load_call(self) -> &'static str {
        match self {
            Self::SocketFilter => "bpf(BPF_PROG_LOAD, socket filter)",
            Self::SchedCls => "bpf(BPF_PROG_LOAD, sched_cls)",
            Self::Xdp { .. } => "bpf(BPF_PROG_LOAD, XDP)",
            Self::RawTracepoint => "bpf(BPF_PROG_LOAD, raw tracepoint)",
            Self::FunctionEntry { .. } => "bpf(BPF_PROG_LOAD, fentry)",
            Self::TypedTracepoint { .. } => "bpf(BPF_PROG_LOAD, typed tracepoint)",
            Self::Cgroup(_) => "bpf(BPF_PROG_LOAD, control group)",
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

/// A loaded program; it is unloaded when its last fd and link is gone.
#[derive(Debug)]
pub struct Program {
    kernel: Kernel,
    fd: OwnedFd,
    name: String,
    kind: ProgramKind,
    /// The names of its parts, by the offsets of their strings in the kernel.
    marks: Vec<(u32, &'static str)>,
}

/// The kernel's information on a loaded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// The program's ID, as `bpftool prog` lists it.
    pub id: u32,
    /// Bytes of native code; 0 if the JIT is off.
    pub native_bytes: u32,
    /// Bytes of eBPF after the verifier's rewriting.
    pub translated_bytes: u32,
    /// Instructions that the verifier processed (5.16), otherwise 0.
    pub verified_instructions: u32,
    /// Nanoseconds that the program ran, while [`super::Statistics`] was enabled.
    pub run_time_ns: u64,
    /// Number of runs in that time.
    pub run_count: u64,
    /// Number of runs at a tracepoint that the kernel left out, since the program was running on that
    /// processor (5.12), otherwise 0. It counts whether or not [`super::Statistics`] was enabled.
    pub recursion_misses: u64,
    /// Bytes of the whole pages that hold the instructions, if the kernel reports them.
    pub memory: Option<usize>,
}

/// Options for loading, where [`Program::load`]'s defaults do not fit.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions<'a> {
    /// The device that the program is for, as in [`Program::load_for_device`].
    pub device: Option<u32>,
    /// The network namespace of the device, if not that of the calling thread; loading from another
    /// one needs `CAP_SYS_ADMIN`.
    pub namespace: Option<&'a Namespace>,
    /// Whether the kernel must not move the program: it is loaded with room for the verifier's
    /// rewriting. Programs for a device always are.
    pub stays: bool,
    /// Names for parts of the code, each with the index of its first word, ascending from 0 on;
    /// [`Program::native_parts`] then returns their addresses. Empty for none.
    pub marks: &'a [(usize, &'static str)],
}

impl Program {
    /// Returns another handle to the same program, for attaching it in several places.
    ///
    /// # Errors
    /// The process has no fd left.
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
    /// [`Error::Rejected`] with the verifier's log; [`Error::Call`] if the load failed before the
    /// verifier ran.
    pub fn load(
        kernel: &Kernel,
        name: &str,
        kind: ProgramKind,
        instructions: &[u64],
    ) -> Result<Self> {
        Self::load_licensed(kernel, name, kind, instructions, LICENCE)
    }

    /// Loads an XDP program for one device, as [`Program::load`]. It can read metadata of packets
    /// from that device's driver (6.3), and runs only there. The device is in the calling thread's
    /// network namespace.
    ///
    /// # Errors
    /// The same as [`Program::load`]; `EOPNOTSUPP` if the driver offers no metadata, or if the kernel would
    /// lose track of the program ([`super::programs_stay`]).
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

    /// Loads a program with options.
    ///
    /// # Errors
    /// The same as [`Program::load_for_device`]. It is no error if the kernel does not support names of
    /// parts.
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
        if !programs_stay(kernel)? {
            return Err(bound::moves(name));
        }
        let roomy = Roomy::new(instructions, options.marks);
        let options = LoadOptions {
            marks: &roomy.marks,
            ..*options
        };
        let program = Self::load_marked(kernel, name, kind, &roomy.instructions, &options)?;
        roomy.has_stayed(program.fd.as_fd(), name)?;
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
            // The kernel looks up the device in the namespace of the calling thread.
            Some(namespace) => {
                let loaded = namespace.within(|| load.load());
                loaded.map_err(|error| Error::Call { error, hint: None })?
            }
            None => load.load(),
        }
    }

    /// Loads a program as [`Program::load`], but with another licence than [`LICENCE`].
    ///
    /// # Errors
    /// The same as [`Program::load`].
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

    /// Returns the name given at load.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of program.
    #[must_use]
    pub fn kind(&self) -> ProgramKind {
        self.kind
    }

    /// Returns the kernel's information on the program.
    ///
    /// # Errors
    /// The kernel does not report it.
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
            recursion_misses: u64_at(&buffer, abi::PROGRAM_INFO_MISSES),
            memory: bound::memory_of(self.fd.as_fd()),
        })
    }

    /// Returns the addresses of the program's native code in the kernel, for each part named in
    /// [`LoadOptions::marks`]. Without marks, returns one part with an empty name. Returns nothing
    /// if the JIT is off, or if the kernel does not show addresses, for which `CAP_SYSLOG` or
    /// `CAP_PERFMON` may be needed.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn native_parts(&self) -> Result<Vec<NativePart>> {
        super::marks::native_parts(&self.kernel, self.fd.as_fd(), &self.name, &self.marks)
    }

    /// Runs the program on data, without a device (`BPF_PROG_TEST_RUN`).
    ///
    /// The meaning of the data depends on the kind:
    ///
    /// - XDP: the packet, at least 14 bytes. With frags, the bytes beyond a page without head- and
    ///   tailroom (3,520 bytes of 4,096) are put into further buffers.
    /// - sched_cls: an Ethernet frame with at least one byte of payload, and with complete headers
    ///   if its type is IPv4 or IPv6.
    /// - Socket filter: the program does not see the first 14 bytes.
    ///
    /// # Errors
    /// `EINVAL` if the data is too short or too long for the kind; `EINTR` if a signal arrived.
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
            // The kernel rejects buffers for results that it does not return.
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
    /// Number of runs; 0 and 1 mean once.
    pub repeat: u32,
    /// The most bytes of the packet to return.
    pub data_out: usize,
    /// XDP: carry out the verdict on real frames, `repeat` of them (5.18).
    pub live_frames: bool,
    /// Live frames: the size of a batch, 0 for the kernel's default (64).
    pub batch_size: u32,
}

/// The result of [`Program::run`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// R0 at the program's end; 0 for live frames.
    pub return_value: u32,
    /// The packet afterwards, up to [`ProgramRun::data_out`] bytes.
    pub data: Vec<u8>,
    /// The context afterwards; empty if none was given.
    pub context: Vec<u8>,
    /// Average time of one run.
    pub duration: Duration,
}

/// The load of one program.
struct Load<'a> {
    kernel: &'a Kernel,
    name: &'a str,
    kind: ProgramKind,
    instructions: &'a [u64],
    licence: &'a std::ffi::CStr,
    /// The device, if the program is for one only.
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
                function: self.kind.function(),
                ..Default::default()
            };
            if let Some(marks) = self.marks {
                marks.describe(&mut attribute);
            }
            // SAFETY: instructions, licence (with its closing zero) and the tables of `marks` are
            // read only; the log is written within its stated size and exclusively borrowed. A load
            // makes a descriptor.
            outcome = unsafe { self.kernel.open(abi::PROG_LOAD, &request, &mut attribute) };
            let interrupted = |error: &io::Error| error.raw_os_error() == Some(libc::EAGAIN);
            if !outcome.as_ref().is_err_and(interrupted) {
                break;
            }
        }
        outcome
    }

    /// Loads again with a log, and enlarges the log until it is complete or the bound is reached.
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

    /// Returns the log of one load, if `room` was enough.
    fn log_of(&self, level: u32, room: usize) -> Option<String> {
        let mut log = vec![0_u8; room];
        let outcome = self.attempt(level, &mut log);
        let cut = outcome.is_err_and(|error| error.raw_os_error() == Some(libc::ENOSPC));
        let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
        (!cut).then(|| String::from_utf8_lossy(&log[..end]).into_owned())
    }
}

/// Returns whether programs for one device can be loaded without danger to the kernel: constants are not
/// hidden, as a program of two instructions shows.
///
/// # Errors
/// That program cannot be loaded, so nothing is known. Usually no program can be loaded then, because
/// privileges are missing.
pub fn programs_stay(kernel: &Kernel) -> Result<bool> {
    let kind = ProgramKind::Xdp { frags: false };
    let ends = bound::instruction(0x95, 0, 0);
    let code = [bound::instruction(0xb7, 0, 0x0055_5555), ends];
    let info = Program::load(kernel, "ringtap_probe", kind, &code)?.info()?;
    Ok(info.translated_bytes as usize == code.len() * bound::INSTRUCTION)
}
