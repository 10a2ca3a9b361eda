//! Why a source could not be opened, or ended.

use ringtap_filter::CompileError;
use ringtap_packet::LinkType;
use ringtap_savefile::ReadError;
use ringtap_sys::{bpf, netlink, packet::GeometryError};

use crate::options::OptionError;

/// A failed capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device asks for an engine that does not exist.
    #[error("{device}: unknown engine {engine:?}; engines are {}", known.join(", "))]
    UnknownEngine {
        /// The device as given.
        device: String,
        /// What stands before the colon.
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
    /// An option has a value that cannot be.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Snaplen and buffer do not go together.
    #[error("option buffer: {0}")]
    Buffer(GeometryError),
    /// The filter cannot be compiled for this link type.
    #[error("filter for {link_type}: {error}")]
    Filter {
        /// The expression.
        expression: String,
        /// What the packets begin with.
        link_type: LinkType,
        /// What is wrong, and where.
        error: Box<CompileError>,
    },
    /// The caller lacks a privilege.
    #[error("{device}: not permitted; capturing needs {needed} ({source})")]
    NotPermitted {
        /// The device.
        device: String,
        /// The capability.
        needed: &'static str,
        /// The call that was refused.
        r#source: ringtap_sys::Error,
    },
    /// The NIC cannot stamp packets.
    #[error("{device}: the adapter has no clock for timestamps ({source})")]
    NoAdapterClock {
        /// The device.
        device: String,
        /// The call that was refused.
        r#source: ringtap_sys::Error,
    },
    /// The interface is down. A capture that runs goes on once the interface is up again.
    #[error("{device}: the interface is down")]
    InterfaceDown {
        /// The device.
        device: String,
    },
    /// Other programs were put before the capture's at a hook, where they may end the way of packets. The
    /// capture goes on.
    #[error(
        "{device}: {others} other program(s) run before the capture at {hook} now, and may hide packets"
    )]
    Overtaken {
        /// The device.
        device: String,
        /// Where.
        hook: String,
        /// How many.
        others: usize,
    },
    /// The interface receives packets and none reach the capture, since another program takes them away
    /// before. The capture goes on.
    #[error(
        "{device}: the capture at {hook} sees no packets, but the interface receives them ({packets} so \
         far): another program takes them before; \"bpftool net show dev {device}\" lists programs"
    )]
    Blind {
        /// The device.
        device: String,
        /// Where.
        hook: String,
        /// How many were not seen so far.
        packets: u64,
    },
    /// Packets reach the capture again, after [`Error::Blind`].
    #[error("{device}: the capture at {hook} sees packets again; it did not see {packets}")]
    SeesAgain {
        /// The device.
        device: String,
        /// Where.
        hook: String,
        /// How many were not seen.
        packets: u64,
    },
    /// Another capture that steals was put in front of this one, which does not see what that one takes.
    /// The capture goes on.
    #[error(
        "{device}: another capture of ringtap{} takes {} at {hook} before this one",
        numbered(*process),
        if *all { "all packets" } else { "the packets that its filter matches" }
    )]
    TakenBefore {
        /// The device.
        device: String,
        /// Its process, where that has a number in the PID namespace of this one.
        process: Option<u32>,
        /// Where its program is.
        hook: &'static str,
        /// Whether it takes all packets; else those that its filter matches.
        all: bool,
    },
    /// A capture that stole in front of this one is gone, after [`Error::TakenBefore`].
    #[error(
        "{device}: the other capture of ringtap{} is gone: packets reach this one again",
        numbered(*process)
    )]
    TakenNoMore {
        /// The device.
        device: String,
        /// Its process, as in [`Error::TakenBefore`].
        process: Option<u32>,
    },
    /// Somebody has taken the capture's program away from a hook, or put another in its place.
    #[error(
        "{device}: the capture's program was taken away from {hook}, where packets are seen no more"
    )]
    Detached {
        /// The device.
        device: String,
        /// Where.
        hook: String,
        /// Whether packets are captured at another hook, so that the capture goes on.
        goes_on: bool,
    },
    /// The interface is gone: deleted, or moved to another network namespace.
    #[error("{device}: the interface is gone")]
    InterfaceGone {
        /// The device.
        device: String,
    },
    /// A member of a bond cannot be captured on, and so the bond cannot.
    #[error("{device}: member {member}: {source}")]
    Member {
        /// The bond.
        device: String,
        /// The member.
        member: String,
        /// Why not.
        r#source: Box<Self>,
    },
    /// An interface has left the bond that is captured on, or is gone. The capture of the others goes on.
    #[error("{device}: member {member} is gone")]
    MemberGone {
        /// The bond.
        device: String,
        /// Its former member.
        member: String,
    },
    /// An interface has joined the bond that is captured on, and its packets do not come to the capture,
    /// which goes on.
    #[error("{device}: {member} has become a member and is not captured: {source}")]
    MemberNotCaptured {
        /// The bond.
        device: String,
        /// Its new member.
        member: String,
        /// Why not.
        r#source: Box<Self>,
    },
    /// A tap cannot make the header that packets of such an interface are given.
    #[error("{device}: only engine packet can make the header {link_type} of its packets")]
    NoLinkType {
        /// The device.
        device: String,
        /// What its packets begin with.
        link_type: LinkType,
    },
    /// The engine cannot change this while it runs.
    #[error("this engine settles {what} when it is opened")]
    FixedAtOpening {
        /// What was to be changed.
        what: &'static str,
    },
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No index could be made of a file.
    #[error("{name}: no index can be made: {source}")]
    Index {
        /// The file.
        name: String,
        /// Why.
        r#source: std::io::Error,
    },
    /// The interface's properties cannot be found out.
    #[error("{device}: {source}")]
    Interface {
        /// The device.
        device: String,
        /// The request that failed.
        r#source: netlink::Error,
    },
    /// The kernel is older than the engine's program.
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
    /// Statistics cannot be had.
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
    /// Returns the log of the kernel's verifier, where the error is about a program that it rejected.
    #[must_use]
    pub fn verifier_log(&self) -> Option<String> {
        crate::engines::verifier_log(self)
    }

    /// Whether the source that gave the error may be asked for more.
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
        )
    }

    /// Whether the kernel refused for want of rights, such as those that a program has given up since it
    /// opened the source.
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

/// The number of a process in parentheses, where it is known.
fn numbered(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" (process {process})"))
}

/// Numbers of the kernel's errors.
const EPERM: i32 = 1;
const EACCES: i32 = 13;

/// What this crate's calls return.
pub type Result<T> = std::result::Result<T, Error>;
