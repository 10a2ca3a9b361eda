//! The `AF_PACKET` receive ring, version 3, and two ways to send frames: [`Sender`] and
//! [`RingSender`], which has its own ring (packet(7); `linux/if_packet.h`; Linux 3.2, all that is
//! used here from 4.14).
//!
//! This module alone owns the ring's layout and its memory orderings. It takes compiled filters
//! (instructions), and it never waits: [`crate::poll`] does.
//!
//! Data in: packets, which the kernel puts into blocks of a mapped ring. Data out: a [`RingBlock`]
//! with its [`Frame`]s, borrowed in place. Dropping it returns the block to the kernel.
//!
//! # Access rules
//!
//! Each block has a status word. While it is `TP_STATUS_KERNEL`, only the kernel accesses the
//! block; while it has `TP_STATUS_USER`, only this process does. Each side changes the word only to
//! give the block away:
//!
//! - The kernel writes the packets, issues a barrier, and stores `USER`. This process loads the
//!   word with acquire ordering, so that every later read of the block sees the kernel's writes.
//! - When a block is dropped, this process stores `KERNEL` with release ordering, so that every
//!   read and write of the block happens before. The kernel loads the word and issues a barrier
//!   before it writes packets again.
//!
//! Kernel and process take the blocks in the same order, and wait at a block that is not theirs.
//! The status word is accessed only as an atomic. The rest of the block is plain memory, because
//! the two sides never have access at the same time. A frame is written to (to put a VLAN tag back,
//! or to build a cooked header) only on its first visit, before a reference to its bytes exists,
//! and within its own bounds. [`RingBlock`] borrows the ring mutably, so there is one at a time,
//! and it is neither `Send` nor `Sync`.
//!
//! # Delivery
//!
//! The kernel delivers a block when the next packet does not fit into it, or when its timer finds packets in
//! a block older than the timeout. So a packet waits for at most the timeout, plus the timer's lateness. From
//! Linux 6.18 on, the timer is a high-resolution one. Before, it counts jiffies: a timeout of 1 ms means up
//! to two jiffies, 8 ms at 250 Hz. Before the timeout, the kernel never delivers a block that has room left.
//! The smallest timeout is 1 ms.
//!
//! To receive each packet at once, there is a ring of another version (TPACKET_V2). There each
//! packet has a slot with its own status word, and wakes the reader. The rules for blocks apply to
//! slots; a [`RingBlock`] is then a run of slots that are ready. Each slot is as large as the
//! largest packet, so such a ring holds fewer packets.

mod endpoint;
mod frame;
mod geometry;
pub mod inject;
mod layout;
mod promiscuous;
mod ring;
mod segments;
mod send;
mod slots;
mod socket;
mod stamps;
mod transmit;

use std::time::Duration;

pub use endpoint::Endpoint;
pub use frame::{Frame, Frames, LinkLayer, RingBlock};
pub use geometry::{Geometry, GeometryError, GeometryRequest};
pub use promiscuous::Promiscuous;
pub use ring::Ring;
pub use segments::{MOST_SEGMENTS, SegmentSender, Segments};
pub use send::{BATCH, Refused, Sender, SenderOptions};
pub use stamps::{SendStamp, SendStamps};
pub use transmit::RingSender;

/// A classic-BPF instruction in the kernel's format (`struct sock_filter`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip if the comparison is true.
    pub jt: u8,
    /// Instructions to skip if it is false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

/// The clock that stamps the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampSource {
    /// The host's wall clock, when the kernel receives the packet from the driver.
    #[default]
    Host,
    /// The adapter's clock, if it has one; it may differ from the host's.
    Adapter,
}

/// The way in which a fanout group distributes packets to its sockets (packet(7), `PACKET_FANOUT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanoutMode {
    /// By a hash of the flow: all packets of a flow, in both directions, go to one socket.
    #[default]
    Hash,
    /// In turn.
    RoundRobin,
    /// By the CPU that the packet arrives on.
    Cpu,
    /// To the first socket that has room.
    Rollover,
    /// At random.
    Random,
    /// By the adapter's receive queue.
    Queue,
}

impl FanoutMode {
    const fn kernel_value(self) -> u16 {
        match self {
            Self::Hash => 0,
            Self::RoundRobin => 1,
            Self::Cpu => 2,
            Self::Rollover => 3,
            Self::Random => 4,
            Self::Queue => 5,
        }
    }
}

/// Membership of a fanout group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fanout {
    /// The way in which packets are distributed; the same for all members.
    pub mode: FanoutMode,
    /// The group's number; `None` makes a new group, whose number [`Ring::fanout_group`] returns.
    pub group: Option<u16>,
    /// Reassemble IP fragments before distributing, so that they stay with their flow.
    pub defragment: bool,
    /// Give a packet to another member if the chosen one has no room.
    pub rollover: bool,
}

impl Fanout {
    const ROLLOVER: u16 = 0x1000;
    const DEFRAGMENT: u16 = 0x8000;

    const fn flags(&self) -> u16 {
        let defragment = if self.defragment { Self::DEFRAGMENT } else { 0 };
        let rollover = if self.rollover { Self::ROLLOVER } else { 0 };
        defragment | rollover
    }
}

/// The options for opening a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions<'a> {
    /// The interface's name, for messages and the adapter's clock.
    pub device: &'a str,
    /// The interface; 0 for all.
    pub ifindex: u32,
    /// The header that packets begin with.
    pub link: LinkLayer,
    /// The most bytes of a packet that are delivered. The filter's result limits the bytes that the
    /// kernel copies.
    pub snaplen: u32,
    /// The time after which the kernel delivers a block that is not full, in milliseconds; at least
    /// 1.
    pub retire_timeout_ms: u16,
    /// Deliver each packet at once, by itself (TPACKET_V2): the timeout is then ignored.
    pub immediate: bool,
    /// Also receive packets for other hosts; ignored for all interfaces.
    pub promiscuous: bool,
    /// Exclude packets that the host sends, if the kernel supports it (Linux 4.20).
    pub ignore_outgoing: bool,
    /// The clock that stamps the packets.
    pub timestamp: TimestampSource,
    /// `SO_BUSY_POLL`: how long the kernel polls the driver before a wait sleeps.
    pub busy_poll: Option<Duration>,
    /// Membership of a fanout group.
    pub fanout: Option<Fanout>,
}

/// Counters of a ring since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that passed the filter, including the dropped ones.
    pub received: u64,
    /// Packets for which the ring had no room.
    pub dropped: u64,
    /// How often the ring became full.
    pub freezes: u64,
    /// Blocks cut short because of an invalid header in them: a kernel bug.
    pub damaged_blocks: u64,
}

/// Returns the size of a memory page in bytes.
#[must_use]
pub fn page_size() -> u32 {
    // SAFETY: takes no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}
