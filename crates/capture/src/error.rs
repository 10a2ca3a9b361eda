//! The errors of opening or reading a source.

use ringtap_filter::CompileError;
use ringtap_packet::LinkType;
use ringtap_savefile::ReadError;
use ringtap_sys::errno::{EACCES, EPERM};
use ringtap_sys::{bpf, netlink, packet::GeometryError};

use crate::options::OptionError;

/// A failed capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device names an engine that does not exist.
    #[error("{device}: unknown engine {engine:?}; engines are {}", known.join(", "))]
    UnknownEngine {
        /// The device as given.
        device: String,
        /// The text before the colon.
        engine: String,
        /// The engines' names.
        known: Vec<&'static str>,
    },
    /// The device names no interface.
    #[error("a device is missing: name an interface or \"any\"")]
    EmptyDevice,
    /// There is no such interface in this network namespace.
    #[error("{device}: no such interface")]
    NoSuchDevice {
        /// The device as given.
        device: String,
    },
    /// An invalid option value.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Snaplen and buffer do not fit together.
    #[error("option buffer: {0}")]
    Buffer(GeometryError),
    /// The filter cannot be compiled for this link type.
    #[error("filter for {link_type}: {error}")]
    Filter {
        /// The expression.
        expression: String,
        /// The link type of the packets.
        link_type: LinkType,
        /// The error, and its place.
        error: Box<CompileError>,
    },
    /// The caller lacks a privilege.
    #[error("{device}: not permitted; capturing needs {needed} ({source})")]
    NotPermitted {
        /// The device.
        device: String,
        /// The capability.
        needed: &'static str,
        /// The call that failed.
        r#source: ringtap_sys::Error,
    },
    /// The kernel, or a missing privilege, prevents finding the processes of packets.
    #[error("{device}: cannot find the processes of packets: {reason}")]
    Who {
        /// The device.
        device: String,
        /// The reason.
        reason: String,
    },
    /// The NIC cannot stamp packets.
    #[error("{device}: the adapter has no clock for timestamps ({source})")]
    NoAdapterClock {
        /// The device.
        device: String,
        /// The call that failed.
        r#source: ringtap_sys::Error,
    },
    /// The interface is down. A running capture continues once the interface is up again.
    #[error("{device}: the interface is down")]
    InterfaceDown {
        /// The device.
        device: String,
    },
    /// Other programs were placed before the capture's at a hook, where they may drop packets. The capture
    /// continues.
    #[error(
        "{device}: {others} other program(s) run before the capture at {hook} now, and may hide packets"
    )]
    Overtaken {
        /// The device.
        device: String,
        /// The hook.
        hook: String,
        /// The number of programs.
        others: usize,
    },
    /// The interface receives packets and none reach the capture, since another program takes them earlier.
    /// The capture continues.
    #[error(
        "{device}: the capture at {hook} sees no packets, but the interface receives them ({packets} so \
         far): another program takes them before; \"bpftool net show dev {device}\" lists programs"
    )]
    Blind {
        /// The device.
        device: String,
        /// The hook.
        hook: String,
        /// The number of packets that were not seen so far.
        packets: u64,
    },
    /// Packets reach the capture again, after [`Error::Blind`].
    #[error("{device}: the capture at {hook} sees packets again; it did not see {packets}")]
    SeesAgain {
        /// The device.
        device: String,
        /// The hook.
        hook: String,
        /// The number of packets that were not seen.
        packets: u64,
    },
    /// Another stealing capture was placed before this one, which does not see the packets that the other
    /// takes. The capture continues.
    #[error(
        "{device}: another capture of ringtap{} takes {} at {hook} before this one",
        numbered(*process),
        if *all { "all packets" } else { "the packets that its filter matches" }
    )]
    TakenBefore {
        /// The device.
        device: String,
        /// Its process id, if it has one in this PID namespace.
        process: Option<u32>,
        /// The hook of its program.
        hook: &'static str,
        /// Whether it takes all packets; otherwise, those that match its filter.
        all: bool,
    },
    /// A capture that stole packets before this one has ended, after [`Error::TakenBefore`].
    #[error(
        "{device}: the other capture of ringtap{} is gone: packets reach this one again",
        numbered(*process)
    )]
    TakenNoMore {
        /// The device.
        device: String,
        /// Its process id, as in [`Error::TakenBefore`].
        process: Option<u32>,
    },
    /// The capture's program was removed from a hook, or replaced.
    #[error(
        "{device}: the capture's program was taken away from {hook}, where packets are seen no more"
    )]
    Detached {
        /// The device.
        device: String,
        /// The hook.
        hook: String,
        /// Whether another hook still captures packets, so that the capture continues.
        goes_on: bool,
    },
    /// The interface no longer exists: it was deleted, or moved to another network namespace.
    #[error("{device}: the interface is gone")]
    InterfaceGone {
        /// The device.
        device: String,
    },
    /// A member of a bond cannot be captured, so the bond cannot.
    #[error("{device}: member {member}: {source}")]
    Member {
        /// The bond.
        device: String,
        /// The member.
        member: String,
        /// The reason.
        r#source: Box<Self>,
    },
    /// An interface has left the captured bond, or no longer exists. The capture of the others continues.
    #[error("{device}: member {member} is gone")]
    MemberGone {
        /// The bond.
        device: String,
        /// Its former member.
        member: String,
    },
    /// An interface has joined the captured bond, and its packets do not reach the capture, which continues.
    #[error("{device}: {member} has become a member and is not captured: {source}")]
    MemberNotCaptured {
        /// The bond.
        device: String,
        /// Its new member.
        member: String,
        /// The reason.
        r#source: Box<Self>,
    },
    /// A new interface cannot be captured in a capture of all interfaces, which continues.
    #[error("{device} is new and is not captured: {source}")]
    NotCovered {
        /// The interface.
        device: String,
        /// The reason.
        r#source: Box<Self>,
    },
    /// The process that follows network namespaces could not capture an interface.
    #[error("{reason}")]
    NotFollowed {
        /// The reason.
        reason: String,
    },
    /// The copy of the process that holds the programs of a capture in all network namespaces has ended, so nothing is
    /// captured any more.
    #[error(
        "the process that captures in all network namespaces has ended, and its programs with it"
    )]
    FollowerGone,
    /// A capture in all network namespaces has had too many interfaces.
    #[error("a capture names at most {most} interfaces")]
    TooManyInterfaces {
        /// The number.
        most: usize,
    },
    /// A tap cannot make the header for packets of such an interface.
    #[error("{device}: only engine packet can make the header {link_type} of its packets")]
    NoLinkType {
        /// The device.
        device: String,
        /// The link type of its packets.
        link_type: LinkType,
    },
    /// The engine cannot change this option while it runs.
    #[error("this engine cannot change {what} after it is opened")]
    FixedAtOpening {
        /// The option.
        what: &'static str,
    },
    /// A file cannot be read, or is corrupt.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The index of a file could not be made.
    #[error("{name}: no index can be made: {source}")]
    Index {
        /// The file.
        name: String,
        /// The reason.
        r#source: std::io::Error,
    },
    /// The interface's properties could not be read.
    #[error("{device}: {source}")]
    Interface {
        /// The device.
        device: String,
        /// The request that failed.
        r#source: netlink::Error,
    },
    /// The kernel is too old for the engine's program.
    #[error(
        "{device}: engine {engine} needs {} (Linux {}.{} or later)",
        feature.name(),
        feature.since().0,
        feature.since().1
    )]
    KernelLacks {
        /// The device.
        device: String,
        /// The engine.
        engine: &'static str,
        /// The feature that the kernel lacks.
        feature: ringtap_sys::bpf::Feature,
    },
    /// The statistics failed.
    #[error(transparent)]
    Stat(#[from] crate::stat::StatError),
    /// No program could be attached to the interface.
    #[error(transparent)]
    Hook(#[from] crate::hook::HookError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] ringtap_sys::Error),
}

impl From<GeometryError> for Error {
    fn from(error: GeometryError) -> Self {
        Self::Buffer(error)
    }
}

impl Error {
    /// Returns the conversion of an error about the properties of an interface.
    pub(crate) fn interface(device: &str) -> impl Fn(netlink::Error) -> Self + Copy {
        move |source| Self::Interface {
            device: device.to_owned(),
            source,
        }
    }

    /// Returns the log of the kernel's verifier, if the error is a rejected program.
    #[must_use]
    pub fn verifier_log(&self) -> Option<String> {
        crate::engines::verifier_log(self)
    }

    /// Returns whether the source can still be read after this error.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::InterfaceDown { .. }
                | Self::Overtaken { .. }
                | Self::Blind { .. }
                | Self::SeesAgain { .. }
                | Self::TakenBefore { .. }
                | Self::TakenNoMore { .. }
                | Self::Detached { goes_on: true, .. }
                | Self::MemberGone { .. }
                | Self::MemberNotCaptured { .. }
                | Self::NotCovered { .. }
        )
    }

    /// Returns whether the kernel denied permission, for example because the program has given up privileges
    /// since it opened the source.
    #[must_use]
    pub fn is_permission_denied(&self) -> bool {
        let error = match self {
            Self::NotPermitted { .. } => return true,
            Self::Member { source, .. } => return source.is_permission_denied(),
            Self::Hook(crate::hook::HookError::Bpf {
                source: bpf::Error::Call { error, .. },
                ..
            })
            | Self::System(error) => error,
            _ => return false,
        };
        matches!(error.errno(), Some(EPERM | EACCES))
    }
}

/// Returns a process id in parentheses, if it is known.
fn numbered(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
