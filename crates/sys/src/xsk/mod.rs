//! AF_XDP: packets of one queue, in memory that the application shares with the driver.
//!
//! What it is: a receiver for one queue, with its memory (UMEM) and rings, and the packets in it as
//! borrowed slices; and a [`Sender`]. What it is not: it chooses no queue and loads no program;
//! packets come once an XDP program on the device redirects them to the socket through an
//! [`XskMap`](crate::bpf::MapKind::XskMap).
//!
//! # Memory and ordering
//! The UMEM is cut into frames of one size. Each frame is at any moment in one place: with the kernel
//! (its address is in the fill ring, or the kernel has taken it from there), in the receive ring,
//! or with the application as part of a [`Batch`]. The application reads frames of a batch only, and
//! the batch gives them back to the fill ring when it is dropped; the borrow makes sure that no slice
//! outlives it. Where the sockets of several queues share the memory, each has a stretch of frames that
//! stay with it: what its receive ring brought goes back to its own fill ring, so that queues cannot
//! take frames from one another, and nothing is shared between the threads that read them.
//!
//! Rings have one producer and one consumer, and two counters that only grow (modulo 2³²). Each side
//! writes its own counter with release order after it has written, or finished reading, the entries;
//! and reads the other's with acquire order before it touches them. So entries and frames are never
//! read before they are complete, and never overwritten while they are read. The kernel keeps to the
//! same (`net/xdp/xsk_queue.h`; Documentation/networking/af_xdp.rst).
//!
//! The kernel is trusted to keep to it; still, every descriptor is checked against the UMEM before
//! it becomes a slice.
//!
//! Needs Linux 5.4, `CAP_NET_RAW` to open, and before 5.11 room under `RLIMIT_MEMLOCK` for the UMEM.

mod receiver;
mod ring;
mod sender;
mod socket;
mod umem;

pub use receiver::{Batch, Packet, Receiver, Statistics};
pub use sender::Sender;
pub use socket::{Binding, QueueOptions};
