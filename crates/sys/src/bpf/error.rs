//! Errors of `bpf(2)`, with reasons that an errno alone does not give.

use std::fmt;
use std::io;

use super::verifier::Rejection;
use crate::privileges::{Capability, CapabilitySet, capabilities};

/// A failed request to `bpf(2)`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel rejected the call.
    #[error("{error}{}", Explained(.hint.as_ref()))]
    Call {
        /// The call, its object, and the errno.
        error: crate::Error,
        /// The meaning of the errno here, if known.
        hint: Option<Hint>,
    },
    /// The verifier rejected the program.
    #[error(transparent)]
    Rejected(Box<Rejection>),
    /// A buffer does not have the size that the map requires.
    #[error("{map}: {what} of {found} bytes, {expected} expected")]
    Size {
        /// The map's name.
        map: String,
        /// `key` or `value`.
        what: &'static str,
        /// Bytes that the map holds.
        expected: usize,
        /// Bytes of the buffer.
        found: usize,
    },
}

/// The result of `bpf` functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns the error number, if the kernel gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { error, .. } => error.errno(),
            Self::Rejected(rejection) => rejection.source.raw_os_error(),
            Self::Size { .. } => None,
        }
    }

    /// Returns the error of a call, with the hint for its errno.
    pub(super) fn call(
        call: &'static str,
        context: impl Into<String>,
        source: io::Error,
        needs: Option<Needs>,
    ) -> Self {
        let hint = hint(source.raw_os_error(), call, needs);
        Self::Call {
            error: crate::Error::new(call, context, source),
            hint,
        }
    }
}

/// The first kernel version that supports a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The feature, such as `tcx`.
    pub what: &'static str,
    /// The kernel version, major and minor.
    pub since: (u32, u32),
}

/// The meaning of an errno of `bpf(2)`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Hint {
    /// Capabilities are missing.
    #[error("needs {}, not held", .0.join(", "))]
    Capabilities(Vec<String>),
    /// All capabilities are held, but not in the initial user namespace, or the kernel is locked
    /// down.
    #[error(
        "the capabilities must be held in the initial user namespace, and neither a kernel \
         lockdown nor a security module may forbid bpf"
    )]
    NotInitialNamespace,
    /// The kernel is probably older than the request.
    #[error("{} needs Linux {}.{} or later", .0.what, .0.since.0, .0.since.1)]
    TooOld(Needs),
    /// The kernel would lose track of a program for one device, and stop when the device is
    /// deleted.
    #[error(
        "the kernel would lose track of a program for one device, because it hides constants \
         (net.core.bpf_jit_harden = 2) or the program is too long: deleting the device would stop this kernel"
    )]
    WouldMove,
    /// `CONFIG_BPF_SYSCALL` is not set.
    #[error("the kernel is built without bpf(2)")]
    NoBpf,
    /// The hook takes one program, and another is attached.
    #[error("another XDP program is attached to the device; use tcx, which supports several")]
    XdpTaken,
    /// The chain changed between its query and the request.
    #[error("the tcx chain has changed since it was queried")]
    ChainChanged,
    /// The driver rejects XDP with these settings, or does not support native XDP.
    #[error("the driver does not support XDP in this mode with the device's MTU and offloads")]
    DriverRefuses,
    /// The memory limit of the control group is reached; before 5.11, `RLIMIT_MEMLOCK`.
    #[error("the memory limit of the control group (before Linux 5.11: RLIMIT_MEMLOCK) is reached")]
    Memory,
}

struct Explained<'a>(Option<&'a Hint>);

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |hint| write!(f, " ({hint})"))
    }
}

fn hint(errno: Option<i32>, call: &str, needs: Option<Needs>) -> Option<Hint> {
    let is_xdp = call.contains("XDP");
    match errno? {
        libc::EPERM | libc::EACCES => capabilities()
            .ok()
            .map(|held| missing_capabilities(held.effective)),
        libc::ENOSYS => Some(Hint::NoBpf),
        libc::EBUSY | libc::EEXIST if is_xdp => Some(Hint::XdpTaken),
        libc::EOPNOTSUPP | libc::ERANGE if is_xdp => Some(Hint::DriverRefuses),
        libc::ESTALE => Some(Hint::ChainChanged),
        libc::ENOMEM => Some(Hint::Memory),
        libc::EINVAL | libc::EOPNOTSUPP => needs.map(Hint::TooOld),
        _ => None,
    }
}

/// The capabilities for loading and attaching network programs. `CAP_BPF` is for maps and programs,
/// `CAP_NET_ADMIN` for network program types and attaching, `CAP_PERFMON` for arithmetic on packet
/// pointers. `CAP_SYS_ADMIN` replaces the first and the last, and was the only one before 5.8.
const NEEDED: [Capability; 3] = [Capability::BPF, Capability::NET_ADMIN, Capability::PERFMON];

fn missing_capabilities(effective: CapabilitySet) -> Hint {
    let holds = |capability| {
        effective.contains(capability)
            || (capability != Capability::NET_ADMIN && effective.contains(Capability::SYS_ADMIN))
    };
    let missing = NEEDED.into_iter().filter(|&needed| !holds(needed));
    let missing: Vec<_> = missing.map(Capability::name).collect();
    if missing.is_empty() {
        Hint::NotInitialNamespace
    } else {
        Hint::Capabilities(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(call: &'static str, errno: i32, needs: Option<Needs>) -> String {
        Error::call(call, "veth0", io::Error::from_raw_os_error(errno), needs).to_string()
    }

    #[test]
    fn names_the_missing_capabilities() {
        let held = |list: &[Capability]| missing_capabilities(CapabilitySet::from(list));
        let names =
            |all: &[&str]| Hint::Capabilities(all.iter().map(ToString::to_string).collect());
        let all = names(&["CAP_BPF", "CAP_NET_ADMIN", "CAP_PERFMON"]);
        assert_eq!(held(&[]), all);
        assert_eq!(
            held(&[Capability::NET_ADMIN]),
            names(&["CAP_BPF", "CAP_PERFMON"])
        );
        let before_5_8 = [Capability::NET_ADMIN, Capability::SYS_ADMIN];
        assert_eq!(held(&before_5_8), Hint::NotInitialNamespace);
    }

    #[test]
    fn explains_an_old_kernel_and_a_taken_hook() {
        let tcx = Needs {
            what: "tcx",
            since: (6, 6),
        };
        let text = failed("bpf(BPF_LINK_CREATE, tcx ingress)", libc::EINVAL, Some(tcx));
        assert!(text.ends_with("(tcx needs Linux 6.6 or later)"), "{text}");
        assert!(
            text.starts_with("bpf(BPF_LINK_CREATE, tcx ingress) veth0: "),
            "{text}"
        );
        let text = failed("bpf(BPF_LINK_CREATE, XDP)", libc::EBUSY, None);
        assert!(text.contains("another XDP program"), "{text}");
    }
}
