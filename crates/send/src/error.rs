//! The reasons why packets were not sent.

use ringtap_packet::LinkType;
use ringtap_sys::{bpf, netlink};

/// A sender that could not be opened, or failed.
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
        /// The text before the colon.
        name: String,
        /// The back-ends' names.
        known: Vec<&'static str>,
    },
    /// The back-end does not support the request, or not on this interface.
    #[error("{device}: {back_end} cannot be used: {reason}")]
    Unsuitable {
        /// The device.
        device: String,
        /// The back-end.
        back_end: &'static str,
        /// The reason.
        reason: String,
    },
    /// The caller lacks a privilege.
    #[error("{device}: not permitted; sending needs {needed} ({source})")]
    NotPermitted {
        /// The device.
        device: String,
        /// The capability.
        needed: &'static str,
        /// The call that failed.
        r#source: ringtap_sys::Error,
    },
    /// Packets of one link type cannot be sent on an interface of another.
    #[error("{device} takes packets of link type {expected}, these are {found}")]
    LinkType {
        /// The device.
        device: String,
        /// The link type of the interface.
        expected: LinkType,
        /// The link type of the packets.
        found: LinkType,
    },
    /// The interface is down.
    #[error("{device}: the interface is down")]
    InterfaceDown {
        /// The device.
        device: String,
    },
    /// The interface was removed: deleted, or moved to another network namespace.
    #[error("{device}: the interface is gone")]
    InterfaceGone {
        /// The device.
        device: String,
    },
    /// The queue accepted nothing for the maximum waiting time.
    #[error("{device}: the queue has accepted nothing for {millis} ms (a link without carrier?)")]
    Stuck {
        /// The device.
        device: String,
        /// The waiting time.
        millis: u128,
    },
    /// A frame that the interface rejects.
    #[error("{device}: a frame of {len} bytes {}", reason.text())]
    Rejected {
        /// The device.
        device: String,
        /// Bytes of the frame.
        len: usize,
        /// The reason.
        reason: Rejection,
    },
    /// An invalid rate, factor or size.
    #[error("{what} must be {expected}, not {found}")]
    Value {
        /// The option.
        what: &'static str,
        /// The valid values.
        expected: &'static str,
        /// The given value.
        found: String,
    },
    /// The interface's properties could not be read.
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

/// The reason why an interface never accepts a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// It is longer than the MTU plus a link-layer header, or than the back-end's frames.
    TooLong,
    /// It is shorter than a link-layer header, or otherwise not a frame.
    Invalid,
}

impl Rejection {
    /// Returns the reason as the end of a sentence about a frame.
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
    /// Returns the error for a failed call on a socket of `device`.
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

    /// Returns the error for a failed request for properties of `device`.
    pub(crate) fn of_interface(device: &str) -> impl Fn(netlink::Error) -> Self {
        move |source| Self::Interface {
            device: device.to_owned(),
            source,
        }
    }

    /// Returns the error for a failed `bpf(2)` request for `device`.
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

/// The result type of this module.
pub type Result<T> = std::result::Result<T, SendError>;
