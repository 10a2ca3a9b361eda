//! Why something was not sent.

use ringtap_packet::LinkType;
use ringtap_sys::{bpf, netlink};

/// A sender that could not be opened, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no such interface in this network namespace.
    #[error("{device}: no such interface")]
    NoSuchDevice {
        /// The device as given.
        device: String,
    },
    /// The device asks for a back-end that does not exist.
    #[error("{device}: unknown back-end {name:?}; back-ends are {}", known.join(", "))]
    UnknownBackEnd {
        /// The device as given.
        device: String,
        /// What stands before the colon.
        name: String,
        /// The back-ends' names.
        known: Vec<&'static str>,
    },
    /// The back-end cannot do what is asked of it, or not on this interface.
    #[error("{device}: {back_end} cannot be used: {reason}")]
    Unsuitable {
        /// The device.
        device: String,
        /// The back-end.
        back_end: &'static str,
        /// Why.
        reason: String,
    },
    /// The caller lacks a privilege.
    #[error("{device}: not permitted; sending needs {needed} ({source})")]
    NotPermitted {
        /// The device.
        device: String,
        /// The capability.
        needed: &'static str,
        /// The call that was refused.
        r#source: ringtap_sys::Error,
    },
    /// Packets of one link type cannot leave by an interface of another.
    #[error("{device} takes packets of link type {expected}, these are {found}")]
    LinkType {
        /// The device.
        device: String,
        /// What its packets begin with.
        expected: LinkType,
        /// What the packets begin with.
        found: LinkType,
    },
    /// The interface is down.
    #[error("{device}: the interface is down")]
    InterfaceDown {
        /// The device.
        device: String,
    },
    /// The interface is gone: deleted, or moved to another network namespace.
    #[error("{device}: the interface is gone")]
    InterfaceGone {
        /// The device.
        device: String,
    },
    /// The queue took nothing for as long as was to be waited.
    #[error("{device}: the queue has taken nothing for {millis} ms (a link without carrier?)")]
    Stuck {
        /// The device.
        device: String,
        /// How long.
        millis: u128,
    },
    /// A frame that the interface does not take.
    #[error("{device}: a frame of {len} bytes {}", reason.text())]
    Rejected {
        /// The device.
        device: String,
        /// Bytes of the frame.
        len: usize,
        /// Why.
        reason: Rejection,
    },
    /// A rate, factor or size that cannot be.
    #[error("{what} must be {expected}, not {found}")]
    Value {
        /// What it is for.
        what: &'static str,
        /// What would be accepted.
        expected: &'static str,
        /// What was given.
        found: String,
    },
    /// The interface's properties cannot be found out.
    #[error("{device}: {source}")]
    Interface {
        /// The device.
        device: String,
        /// The request that failed.
        r#source: netlink::Error,
    },
    /// A program could not be loaded or run.
    #[error("{device}: {source}")]
    Bpf {
        /// The device.
        device: String,
        /// The call.
        r#source: bpf::Error,
    },
    /// A program could not be written.
    #[error(transparent)]
    Assemble(#[from] ringtap_filter::ebpf::AssembleError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] ringtap_sys::Error),
}

/// Why an interface does not take a frame, ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// It is longer than the MTU and a link-layer header, or than the back-end's frames.
    TooLong,
    /// It is shorter than a link-layer header, or otherwise no frame.
    Invalid,
}

impl Rejection {
    /// The reason as the end of a sentence about a frame.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TooLong => "is longer than the interface takes",
            Self::Invalid => "is not a frame that the interface accepts",
        }
    }
}

/// Error numbers of Linux.
const EPERM: i32 = 1;
const ENXIO: i32 = 6;
const EACCES: i32 = 13;
const ENODEV: i32 = 19;
const ENETDOWN: i32 = 100;

impl SendError {
    /// What a failed call on a socket of `device` means.
    pub(crate) fn of_call(device: &str, source: ringtap_sys::Error) -> Self {
        let device = device.to_owned();
        match source.errno() {
            Some(EPERM | EACCES) => Self::NotPermitted {
                device,
                needed: "CAP_NET_RAW",
                source,
            },
            Some(ENETDOWN) => Self::InterfaceDown { device },
            Some(ENXIO | ENODEV) => Self::InterfaceGone { device },
            _ => Self::System(source),
        }
    }

    /// What a request that `bpf(2)` refused for `device` means.
    pub(crate) fn of_bpf(device: &str, source: bpf::Error) -> Self {
        let device = device.to_owned();
        match source {
            bpf::Error::Call { error, .. } if error.errno() == Some(EPERM) => Self::NotPermitted {
                device,
                needed: "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON",
                source: error,
            },
            source => Self::Bpf { device, source },
        }
    }
}

/// What this module's calls return.
pub type Result<T> = std::result::Result<T, SendError>;
