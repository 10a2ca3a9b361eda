//! The kernel's statistics on programs, and programs at tracepoints.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use super::abi;
use super::attribute::fd_number;
use super::error::{Error, Needs, Result};
use super::kernel::{Kernel, Request};
use super::program::Program;

/// While a value of this type lives, the kernel measures the number of runs and the run time of
/// every program of the system ([`super::ProgramInfo::run_time_ns`]). This costs each run two
/// readings of the clock. It is held by an fd, so it ends with the process. Linux 5.8,
/// `CAP_SYS_ADMIN`.
#[derive(Debug)]
#[must_use = "dropping it ends the statistics"]
pub struct Statistics {
    _fd: OwnedFd,
}

impl Statistics {
    /// Starts measuring.
    ///
    /// # Errors
    /// `EPERM` without the privilege, `EINVAL` on older kernels.
    pub fn enable(kernel: &Kernel) -> Result<Self> {
        let mut attribute = abi::Statistics {
            kind: abi::STATS_RUN_TIME,
        };
        // SAFETY: the attribute holds no pointer, and the command makes a descriptor.
        let answer =
            unsafe { kernel.open(abi::ENABLE_STATS, &Request::Statistics, &mut attribute) };
        let needs = Needs {
            what: "statistics of BPF programs",
            since: (5, 8),
        };
        let fd = answer
            .map_err(|source| Error::call("bpf(BPF_ENABLE_STATS)", "", source, Some(needs)))?;
        Ok(Self { _fd: fd })
    }
}

/// A program at a raw tracepoint or a kernel function; dropping it detaches the program.
#[derive(Debug)]
#[must_use = "dropping it takes the program away"]
pub struct Tracepoint {
    _fd: OwnedFd,
}

impl Tracepoint {
    /// Runs a program each time that the kernel passes a tracepoint, by its name (`napi_poll`).
    /// Needs `CAP_BPF` and `CAP_PERFMON`.
    ///
    /// # Errors
    /// `ENOENT` if the kernel has no such tracepoint; `EPERM` without the privileges.
    pub fn attach(kernel: &Kernel, name: &CStr, program: &Program) -> Result<Self> {
        Self::open(kernel, Some(name), program)
    }

    /// Runs a program each time that the kernel calls the function which the program was loaded
    /// for ([`super::ProgramKind::FunctionEntry`]).
    ///
    /// # Errors
    /// The kernel cannot trace the function; `EPERM` without the privileges.
    pub fn at_function(kernel: &Kernel, program: &Program) -> Result<Self> {
        Self::open(kernel, None, program)
    }

    fn open(kernel: &Kernel, name: Option<&CStr>, program: &Program) -> Result<Self> {
        let mut attribute = abi::RawTracepoint {
            name: name.map_or(0, |name| name.as_ptr() as u64),
            program_fd: fd_number(&program.as_fd()),
            reserved: 0,
        };
        // SAFETY: the name, if there is one, is read up to its closing zero, and lives until the
        // call returns.
        let answer = unsafe {
            kernel.open(
                abi::RAW_TRACEPOINT_OPEN,
                &Request::Tracepoint,
                &mut attribute,
            )
        };
        let fd = answer.map_err(|source| {
            let context = name.map_or(program.name().into(), CStr::to_string_lossy);
            Error::call("bpf(BPF_RAW_TRACEPOINT_OPEN)", context, source, None)
        })?;
        Ok(Self { _fd: fd })
    }
}
