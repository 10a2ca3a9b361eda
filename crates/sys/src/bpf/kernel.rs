//! The interface to `bpf(2)`: every call of this module goes through a [`Kernel`].
//!
//! A test can put a [`Gate`] before the kernel. It rejects requests before they are made, with the
//! errno of an older kernel or of missing privileges. So "a kernel without tcx" is a value in a
//! test. A gate can reject requests, but never forge results.

use std::fmt;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use super::abi::{self, Attribute};
use super::memlock;

/// A request, with the details that a gate may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request<'a> {
    /// `BPF_MAP_CREATE` with this map type and these flags.
    MapCreate {
        /// `BPF_MAP_TYPE_*`.
        kind: u32,
        /// `BPF_F_*` of map creation.
        flags: u32,
    },
    /// `BPF_MAP_LOOKUP_BATCH`.
    MapLookupBatch,
    /// `BPF_MAP_UPDATE_BATCH`.
    MapUpdateBatch,
    /// Any other access to a map or its elements.
    Map,
    /// `BPF_PROG_LOAD`.
    ProgramLoad {
        /// `BPF_PROG_TYPE_*`.
        kind: u32,
        /// The instructions, in the kernel's encoding.
        instructions: &'a [u64],
        /// `BPF_F_*` of program load.
        flags: u32,
    },
    /// `BPF_PROG_TEST_RUN`.
    ProgramRun,
    /// `BPF_PROG_QUERY` or `BPF_LINK_CREATE` for an attach type (`BPF_XDP`, `BPF_TCX_*`).
    Attach {
        /// `BPF_XDP` = 37, `BPF_TCX_INGRESS` = 46, `BPF_TCX_EGRESS` = 47.
        attach_type: u32,
    },
    /// `BPF_LINK_UPDATE`.
    LinkUpdate,
    /// `BPF_OBJ_GET_INFO_BY_FD`.
    Info,
    /// `BPF_BTF_LOAD`.
    Types,
    /// `BPF_ENABLE_STATS`.
    Statistics,
    /// `BPF_RAW_TRACEPOINT_OPEN`.
    Tracepoint,
}

impl Request<'_> {
    /// Returns whether the request loads a program that calls the helper with this number.
    #[must_use]
    pub fn calls_helper(&self, helper: i32) -> bool {
        let Self::ProgramLoad { instructions, .. } = self else {
            return false;
        };
        instructions.iter().any(|insn| {
            let [code, registers, _, _, imm @ ..] = insn.to_ne_bytes();
            code == 0x85 && registers == 0 && i32::from_ne_bytes(imm) == helper
        })
    }

    /// Returns whether the request attaches to a tcx chain or queries one.
    #[must_use]
    pub fn is_tcx(&self) -> bool {
        matches!(
            self,
            Self::Attach {
                attach_type: abi::ATTACH_TCX_INGRESS | abi::ATTACH_TCX_EGRESS
            }
        )
    }
}

/// A filter before the kernel that may reject requests.
pub trait Gate: Send + Sync {
    /// Lets the request through, or rejects it.
    ///
    /// # Errors
    /// The errno for the caller.
    fn admit(&self, request: &Request<'_>) -> Result<(), i32>;
}

impl<F> Gate for F
where
    F: Fn(&Request<'_>) -> Result<(), i32> + Send + Sync,
{
    fn admit(&self, request: &Request<'_>) -> Result<(), i32> {
        self(request)
    }
}

/// The kernel's `bpf(2)`, as programs, maps and links use it. Cheap to clone.
#[derive(Clone, Default)]
pub struct Kernel {
    gate: Option<Arc<dyn Gate>>,
}

impl Kernel {
    /// Returns the running kernel.
    #[must_use]
    pub fn running() -> Self {
        Self::default()
    }

    /// Returns the running kernel behind a gate, for tests of other kernels.
    #[must_use]
    pub fn behind(gate: impl Gate + 'static) -> Self {
        Self {
            gate: Some(Arc::new(gate)),
        }
    }

    /// Makes the system call and returns its result: an fd or 0, depending on the command.
    ///
    /// # Safety
    /// Every pointer in `attribute` is valid for what `command` reads and writes through it, for
    /// the sizes that `attribute` states, until the call returns.
    pub(super) unsafe fn call<A: Attribute>(
        &self,
        command: u32,
        request: &Request<'_>,
        attribute: &mut A,
    ) -> io::Result<i32> {
        if let Some(gate) = &self.gate {
            gate.admit(request).map_err(io::Error::from_raw_os_error)?;
        }
        let mut call = || {
            // SAFETY: `attribute` is a live, exclusive reference of the size passed, plain bytes by
            // the contract of `Attribute`; the caller promises that the pointers in it are valid.
            let answer = unsafe {
                libc::syscall(
                    libc::SYS_bpf,
                    command,
                    std::ptr::from_mut(attribute),
                    size_of::<A>(),
                )
            };
            match i32::try_from(answer) {
                Ok(answer) if answer >= 0 => Ok(answer),
                _ => Err(io::Error::last_os_error()),
            }
        };
        match call() {
            // Before Linux 5.11, a map or a program also gets EPERM if RLIMIT_MEMLOCK leaves no
            // room.
            Err(error)
                if error.raw_os_error() == Some(libc::EPERM)
                    && matches!(command, abi::MAP_CREATE | abi::PROG_LOAD) =>
            {
                memlock::with_all(call).unwrap_or(Err(error))
            }
            answer => answer,
        }
    }

    /// Makes a call that returns a new descriptor.
    ///
    /// # Safety
    /// The same as [`Self::call`], and the command makes a descriptor.
    pub(super) unsafe fn open<A: Attribute>(
        &self,
        command: u32,
        request: &Request<'_>,
        attribute: &mut A,
    ) -> io::Result<OwnedFd> {
        // SAFETY: the caller keeps the conditions of `call`.
        let answer = unsafe { self.call(command, request, attribute) };
        // SAFETY: the kernel returns a new descriptor, so nothing else owns it.
        answer.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.gate.is_some() {
            "Kernel(behind a gate)"
        } else {
            "Kernel(running)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_refuses_before_the_call() {
        let kernel = Kernel::behind(|request: &Request<'_>| match request {
            Request::Map => Err(libc::ENOSYS),
            _ => Ok(()),
        });
        let mut attribute = abi::MapFd { map_fd: u32::MAX };
        // SAFETY: the attribute holds no pointer.
        let answer = unsafe { kernel.call(abi::MAP_FREEZE, &Request::Map, &mut attribute) };
        assert_eq!(
            answer.expect_err("refused").raw_os_error(),
            Some(libc::ENOSYS)
        );
    }

    #[test]
    fn finds_helper_calls() {
        let call = u64::from_ne_bytes([0x85, 0, 0, 0, 208, 0, 0, 0]);
        let move_same_number = u64::from_ne_bytes([0xb7, 0, 0, 0, 208, 0, 0, 0]);
        let calls = |instructions: &[u64], helper| {
            let (kind, flags) = (6, 0);
            Request::ProgramLoad {
                kind,
                instructions,
                flags,
            }
            .calls_helper(helper)
        };
        assert!(calls(&[move_same_number, call], 208));
        assert!(!calls(&[move_same_number], 208));
        assert!(!calls(&[call], 207));
    }
}
