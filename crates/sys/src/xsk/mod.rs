//! AF_XDP: packets of one queue, in memory that the application shares with the driver.
//!
//! A [`Receiver`] has the memory (UMEM) and the rings of one queue, and yields packets as borrowed
//! slices; a [`Sender`] sends. This module neither chooses a queue nor loads a program. Packets
//! arrive when an XDP program on the device redirects them to the socket through an
//! [`XskMap`](crate::bpf::MapKind::XskMap).
//!
//! # Memory and ordering
//! The UMEM is divided into frames of one size. Each frame is in one place at a time:
//!
//! - with the kernel: its address is in the fill ring, or the kernel has taken it from there;
//! - in the receive ring;
//! - with the application, as part of a [`Batch`].
//!
//! The application reads only frames of a batch. Dropping the batch returns them to the fill ring;
//! the borrow ensures that no slice outlives it. If the sockets of several queues share the memory,
//! each has its own range of frames: those from its receive ring return to its own fill ring. So
//! queues cannot take frames from one another, and the threads that read them share no data.
//!
//! A ring has one producer and one consumer, and two counters that only grow (modulo 2³²). Each
//! side stores its own counter with release order, after it has written or read the entries. It
//! loads the other side's counter with acquire order before it touches them. So entries and frames
//! are never read before they are complete, and never overwritten while they are read. The kernel
//! keeps the same rules (`net/xdp/xsk_queue.h`; Documentation/networking/af_xdp.rst).
//!
//! The kernel is trusted to keep them; still, every descriptor is checked against the UMEM before
//! it becomes a slice.
//!
//! Needs Linux 5.4, `CAP_NET_RAW` to open, and before 5.11 enough `RLIMIT_MEMLOCK` for the UMEM.

mod receiver;
mod ring;
mod sender;
mod socket;
mod umem;

pub use receiver::{Batch, Packet, Receiver, Statistics};
pub use sender::Sender;
pub use socket::{Binding, QueueOptions};
