//! Describes how a source captures, for `--explain-capture`: every choice with its reason.

use std::fmt;
use std::time::Duration;

use ringtap_packet::LinkType;
use ringtap_savefile::Interface;
use ringtap_sys::privileges::Capability;

use crate::options::{Direction, TimestampSource};

/// Returns the link types of interfaces, each once.
pub(crate) fn link_types(interfaces: &[Interface]) -> Vec<LinkType> {
    let mut link_types = Vec::new();
    for interface in interfaces {
        if !link_types.contains(&interface.link_type) {
            link_types.push(interface.link_type);
        }
    }
    link_types
}

/// The description of a source: how it captures, and what it cannot see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The engine's name.
    pub engine: &'static str,
    /// Why the engine was chosen, if the device did not name it.
    pub choice: Option<String>,
    /// The device or file.
    pub device: String,
    /// The link types of its packets. A pcapng file may have several.
    pub link_types: Vec<LinkType>,
    /// Where packets are captured.
    pub hook: &'static str,
    /// The clock of timestamps.
    pub clock: Clock,
    /// How VLAN tags are handled.
    pub vlan: &'static str,
    /// The memory that holds packets.
    pub memory: Option<Memory>,
    /// The snapshot length, in bytes.
    pub snaplen: Option<u32>,
    /// Whether the interface is loopback.
    pub loopback: bool,
    /// Whether the source has set the interface to promiscuous mode.
    pub promiscuous: bool,
    /// The direction of the packets.
    pub direction: Direction,
    /// The maximum time that a packet waits in the kernel before delivery, in theory. A thread that waits for
    /// a processor adds to it.
    pub delivery_bound: Option<Duration>,
    /// Where the filter runs.
    pub filter: FilterPlace,
    /// The fanout group that shares the packets.
    pub fanout_group: Option<u16>,
    /// The capabilities that the process must keep, so that the source can remove at the end what the kernel
    /// does not remove with the process (see [`crate::hook`]). Most sources need none.
    pub required_capabilities: &'static [Capability],
    /// Differences from the request, and other facts worth knowing.
    pub notes: Vec<Note>,
    /// The packets that the source cannot see.
    pub blind: Vec<&'static str>,
}

/// A clock of timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The clock of a live capture.
    Live(TimestampSource),
    /// A clock of the kernel that its programs can read.
    Kernel(KernelClock),
    /// The adapter's clock, as a tap's program reads it. Packets without such a stamp get one of the kernel's
    /// clocks.
    Adapter(KernelClock),
    /// The clock of the file's writer.
    File,
}

/// A clock of the kernel for a tap's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelClock {
    /// International atomic time (`bpf_ktime_get_tai_ns`, Linux 6.1), less the leap seconds: the
    /// host's wall clock.
    Tai,
    /// The same, read once for each poll of the driver.
    TaiByPoll,
    /// The monotonic clock (`bpf_ktime_get_ns`), shifted to the wall clock.
    Monotonic,
    /// The monotonic clock as of the last tick (`bpf_ktime_get_coarse_ns`, Linux 5.11), shifted.
    Coarse,
    /// None: all stamps are 0.
    None,
}

impl KernelClock {
    /// Returns the clock that is read for each packet instead.
    pub(crate) fn by_packet(self) -> Self {
        match self {
            Self::TaiByPoll => Self::Tai,
            clock => clock,
        }
    }
}

/// The memory of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The size of a block, in bytes.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// The requested size, in bytes.
    pub requested: u64,
}

impl Memory {
    /// Returns the size of all blocks, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.block_size as u64 * self.blocks as u64
    }
}

/// Where a filter runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FilterPlace {
    /// There is no filter.
    #[default]
    None,
    /// In the kernel, before a packet is copied.
    Kernel {
        /// The program's length.
        instructions: usize,
    },
    /// In the kernel as far as it knows the process of a packet; then in user space, which knows its container and
    /// its control group.
    Both,
    /// In user space, after the packet was copied.
    UserSpace {
        /// The reason.
        reason: UserSpaceReason,
    },
}

/// The reason why a filter runs in user space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UserSpaceReason {
    /// Packets come from a file.
    #[error("packets of a file")]
    File,
    /// The filter tests a property that a socket does not know.
    #[error("{0}")]
    NotForSockets(ringtap_filter::socket::NotLowerable),
    /// The filter tests a property that is unknown at the hook.
    #[error("{0}")]
    NotForHook(ringtap_filter::ebpf::lower::LowerError),
    /// Packets have a header that the kernel does not know.
    #[error("the header that it tests is built in user space")]
    HeaderBuiltHere,
    /// Packets of all interfaces have a header that the hook does not know.
    #[error("it tests the header that packets of all interfaces get")]
    CookedAtHook,
    /// The kernel rejected the program.
    #[error("the kernel rejected the program of {instructions} instructions (error {errno})")]
    Refused {
        /// The program's length.
        instructions: usize,
        /// The kernel's error number.
        errno: i32,
    },
}

/// A noteworthy fact about a capture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Note {
    /// The kernel had too little memory for the buffer.
    #[error("the buffer has {obtained} bytes instead of {requested}: not enough memory")]
    SmallerBuffer {
        /// The requested bytes.
        requested: u64,
        /// The allocated bytes.
        obtained: u64,
    },
    /// Two packets of the snaplen need more than the requested buffer.
    #[error("the buffer has {obtained} bytes instead of {requested}: packets need as much")]
    LargerBuffer {
        /// The requested bytes.
        requested: u64,
        /// The allocated bytes.
        obtained: u64,
    },
    /// A hook with higher preference was passed over.
    #[error("{0}")]
    PassedOver(String),
    /// XDP does not see tags that the driver removes.
    #[error(
        "the driver takes VLAN tags out of packets before XDP sees them: they are missing from \
         packets and filters (keep tags in: ethtool -K DEV rxvlan off rx-vlan-stag-hw-parse off)"
    )]
    TagsNotSeen,
    /// The frames of the memory are shorter than the longest packets.
    #[error("packets of more than {longest} bytes are lost")]
    LongPacketsLost {
        /// Bytes.
        longest: u32,
    },
    /// Packets of several queues are not merged.
    #[error("packets of the {queues} queues are in order by queue only")]
    OrderByQueue {
        /// How many.
        queues: usize,
    },
    /// Packets come by the queues of a bond's members.
    #[error("members: {}", names.join(", "))]
    Members {
        /// The members.
        names: Vec<String>,
    },
    /// The control frames of a bond are not stolen.
    #[error("frames of LACP (EtherType 0x8809) go on to the host, and are not captured")]
    ControlSpared,
    /// The host uses the device whose packets are stolen.
    #[error("stealing with consent: {0}")]
    StealsFrom(String),
    /// Captures that started earlier do not see the packets that this one takes.
    #[error(
        "captures of ringtap that run already do not see the packets that this one takes: {}",
        listed(processes)
    )]
    HidesFrom {
        /// Their process ids.
        processes: Vec<u32>,
    },
    /// One of all interfaces is not captured.
    #[error("{device} is not captured: {reason}")]
    NotCovered {
        /// The interface.
        device: String,
        /// The reason.
        reason: String,
    },
    /// The adapter was set to stamp received packets.
    #[error(
        "the adapter now stamps received packets; the setting is restored at the end of the capture"
    )]
    AdapterStamps,
    /// The driver passes the adapter's stamps to XDP, but does not support requests to stamp packets.
    #[error("only packets that the adapter stamps by default have its timestamp: {0}")]
    AdapterNotAsked(String),
    /// The functions that dropped packets are unknown.
    #[error("functions that drop packets are shown as addresses: {0}")]
    NoSymbols(String),
    /// Descriptors of other processes could not be examined when the capture was opened.
    #[error(
        "the sockets of {processes} running processes are unknown until they are used: their descriptors are not \
         readable"
    )]
    NotExamined {
        /// How many.
        processes: usize,
    },
    /// The kernel allows no programs at its functions.
    #[error(
        "this kernel allows no programs at its functions: who uses a socket is seen at control groups and \
         tracepoints"
    )]
    FunctionsNotTraced,
    /// Promiscuous mode on all interfaces.
    #[error("interfaces are not made promiscuous for \"any\"")]
    NotPromiscuous,
}

/// Returns process ids, in words.
fn listed(processes: &[u32]) -> String {
    let numbers: Vec<String> = processes.iter().map(u32::to_string).collect();
    let noun = if numbers.len() == 1 {
        "process"
    } else {
        "processes"
    };
    format!("{noun} {}", numbers.join(", "))
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adapter(other) => {
                return write!(
                    f,
                    "adapter, in nanoseconds; for packets without its stamp: {}",
                    Self::Kernel(*other)
                );
            }
            Self::Live(TimestampSource::Host) => "host, in nanoseconds",
            Self::Live(TimestampSource::Adapter) => "adapter, in nanoseconds",
            Self::Kernel(KernelClock::Tai) => {
                "host, in nanoseconds (atomic time less leap seconds)"
            }
            Self::Kernel(KernelClock::TaiByPoll) => {
                "host, in nanoseconds, read once for each poll of the driver (atomic time less leap \
                 seconds)"
            }
            Self::Kernel(KernelClock::Monotonic) => "host, in nanoseconds (monotonic, shifted)",
            Self::Kernel(KernelClock::Coarse) => "host, as of the kernel's last tick",
            Self::Kernel(KernelClock::None) => "none",
            Self::File => "the file's",
        })
    }
}

impl fmt::Display for FilterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Kernel { instructions } => {
                write!(f, "in the kernel, {instructions} instructions")
            }
            Self::Both => f.write_str(
                "in the kernel, which knows numbers, users and names of processes, then in user space, which knows \
                 containers and control groups",
            ),
            Self::UserSpace { reason } => write!(f, "in user space: {reason}"),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} blocks of {} bytes, {} together",
            self.blocks,
            self.block_size,
            self.bytes()
        )
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.choice {
            Some(reason) => writeln!(f, "engine:         {} ({reason})", self.engine)?,
            None => writeln!(f, "engine:         {}", self.engine)?,
        }
        writeln!(f, "device:         {}", self.device)?;
        for link_type in &self.link_types {
            writeln!(f, "link type:      {link_type}")?;
        }
        writeln!(f, "hook:           {}", self.hook)?;
        writeln!(f, "clock:          {}", self.clock)?;
        writeln!(f, "VLAN tags:      {}", self.vlan)?;
        if let Some(memory) = &self.memory {
            writeln!(f, "memory:         {memory}")?;
        }
        if let Some(snaplen) = self.snaplen {
            writeln!(f, "snaplen:        {snaplen} bytes")?;
        }
        let direction = match self.direction {
            Direction::In => "received",
            Direction::Out => "sent",
            Direction::Both => "received and sent",
        };
        writeln!(f, "packets:        {direction}")?;
        writeln!(
            f,
            "promiscuous:    {}",
            if self.promiscuous { "yes" } else { "no" }
        )?;
        match self.delivery_bound {
            Some(bound) if bound.is_zero() => writeln!(f, "delivery:       at once")?,
            Some(bound) => writeln!(f, "delivery:       within {} ms", bound.as_millis())?,
            None => {}
        }
        writeln!(f, "filter:         {}", self.filter)?;
        if let Some(group) = self.fanout_group {
            writeln!(f, "fanout group:   {group}")?;
        }
        for blind in &self.blind {
            writeln!(f, "cannot see:     {blind}")?;
        }
        for note in &self.notes {
            writeln!(f, "note:           {note}")?;
        }
        Ok(())
    }
}
