//! The `AF_PACKET` receive ring, version 3 (packet(7); `linux/if_packet.h`; Linux 3.2, all that is
//! used here from 4.14), and senders of frames: [`Sender`] and, from a ring of its own, [`RingSender`].
//!
//! What it is: the one module that owns the ring's layout and its memory orderings. What it is
//! not: it knows no filter expression (instructions come in ready) and waits for nothing
//! ([`crate::poll`] does).
//!
//! Data in: packets, which the kernel puts into blocks of a ring that is mapped here. Data out: a
//! [`RingBlock`] with its [`Frame`]s, borrowed in place. Its drop gives the block back.
//!
//! # Who may touch what
//!
//! Each block has a status word. While it is `TP_STATUS_KERNEL` the kernel alone touches the block;
//! while it has `TP_STATUS_USER` this process alone does. Each side changes the word only to give
//! the block away:
//!
//! - The kernel writes the packets, issues a barrier, and stores `USER`. Here the word is loaded
//!   with acquire ordering, so that every later read of the block sees what was written before it.
//! - When a block is dropped, `KERNEL` is stored with release ordering, so that every read and
//!   write of the block happens before it; the kernel loads the word and issues a barrier before it
//!   writes packets again.
//!
//! Kernel and process take the blocks in the same order, and wait at a block that is not theirs.
//! The status word is accessed as an atomic only. Everything else in the block is plain memory, for
//! at no time have two sides access to it. Frames are written to (a VLAN tag put back, a cooked
//! header built) on the first visit only, before a reference to their bytes exists, and within their
//! own bounds. [`RingBlock`] borrows the ring mutably, so there is one at a time, and it is neither
//! `Send` nor `Sync`.
//!
//! # Delivery
//!
//! The kernel hands over a block when the next packet does not fit into it, or when its timer finds
//! packets in a block that is older than the time-out: a packet waits for the time-out at most,
//! plus the timer's lateness. From Linux 6.18 the timer is a high-resolution one; before, it counts
//! jiffies (a time-out of 1 ms means up to two jiffies, 8 ms at 250 Hz). Nothing short of the time-out
//! makes the kernel hand over a block with room left; the time-out's least value is 1 ms.
//!
//! Who wants packets as they come has a ring of another version (TPACKET_V2): each packet has a slot of
//! its own, which has a status word of its own, and wakes the reader. What was said of blocks holds of
//! slots; a [`RingBlock`] is then a run of slots that are ready. A slot holds the largest packet, so
//! that such a ring has room for fewer.

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

/// A classic-BPF instruction as the kernel takes it (`struct sock_filter`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip where the comparison holds.
    pub jt: u8,
    /// Instructions to skip where it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

/// Whose clock stamps the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampSource {
    /// The host's wall clock, when the kernel receives the packet from the driver.
    #[default]
    Host,
    /// The NIC's own clock, where it has one; it need not agree with the host's.
    Adapter,
}

/// How a fanout group divides packets between its sockets (packet(7), `PACKET_FANOUT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FanoutMode {
    /// By a hash of the flow: a flow stays with one socket, both directions of it too.
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
    /// By the NIC's receive queue.
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
    /// How packets are divided; the same for all members.
    pub mode: FanoutMode,
    /// The group's number; none makes a new group, whose number [`Ring::fanout_group`] tells.
    pub group: Option<u16>,
    /// Reassemble IP fragments before dividing, so that they stay with their flow.
    pub defragment: bool,
    /// Give a packet to another member where the chosen one has no room.
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

/// What a ring is opened with.
#[derive(Clone, Copy, Debug)]
pub struct RingOptions<'a> {
    /// The interface's name, for the messages and the NIC's clock.
    pub device: &'a str,
    /// The interface; 0 for all.
    pub ifindex: u32,
    /// What packets begin with.
    pub link: LinkLayer,
    /// The most that is handed out of a packet, in bytes. The filter's result bounds what the
    /// kernel copies.
    pub snaplen: u32,
    /// When the kernel hands over a block that is not full, in milliseconds; at least 1.
    pub retire_timeout_ms: u16,
    /// Hand over each packet by itself, at once (TPACKET_V2): the time-out means nothing then.
    pub immediate: bool,
    /// Receive what is addressed to others; ignored for all interfaces.
    pub promiscuous: bool,
    /// Leave out what the host sends, where the kernel can (Linux 4.20).
    pub ignore_outgoing: bool,
    /// Whose clock stamps the packets.
    pub timestamp: TimestampSource,
    /// `SO_BUSY_POLL`: how long the kernel polls the driver before a wait sleeps.
    pub busy_poll: Option<Duration>,
    /// Membership of a fanout group.
    pub fanout: Option<Fanout>,
}

/// Counters of a ring since it was bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets that passed the filter, the dropped ones among them.
    pub received: u64,
    /// Packets for which the ring had no room.
    pub dropped: u64,
    /// How often the ring became full.
    pub freezes: u64,
    /// Blocks cut short because a header in them cannot be; a fault of the kernel's.
    pub damaged_blocks: u64,
}

/// The size of a memory page in bytes.
#[must_use]
pub fn page_size() -> u32 {
    // SAFETY: takes no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u32::try_from(size)
        .ok()
        .filter(|size| size.is_power_of_two())
        .unwrap_or(4096)
}
