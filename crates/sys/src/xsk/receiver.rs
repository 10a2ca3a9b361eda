//! A socket that receives the packets of one queue.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::ring::{Descriptor, Ring};
use super::socket::{Opened, QueueOptions, get, set_at};
use super::umem::Umem;
use crate::Result;

/// Bytes that the kernel keeps free in front of each packet, for XDP programs
/// (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;

/// Socket options of Linux 5.11, which the C library's headers lack.
const SO_PREFER_BUSY_POLL: libc::c_int = 69;
const SO_BUSY_POLL_BUDGET: libc::c_int = 70;
/// How many packets ahead a packet is prefetched: enough for memory to answer, few enough for the
/// fetches that a processor can have in flight.
const AHEAD: u32 = 4;
/// The most packets that one poll of the driver handles.
const BUSY_POLL_BUDGET: libc::c_int = 64;

/// The packets that a socket lost (`struct xdp_statistics`, 5.9 for all).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Lost for other reasons; the packet was too long for a frame.
    pub dropped: u64,
    /// The receive ring was full.
    pub ring_full: u64,
    /// There was no free frame.
    pub no_frame: u64,
    /// Addresses in the fill ring that the kernel rejected.
    pub invalid: u64,
}

/// A socket with its memory and rings. Dropping it removes it from every map that redirects to it.
#[derive(Debug)]
pub struct Receiver {
    // Dropped in this order: the socket before the memory that the kernel writes for it.
    socket: OwnedFd,
    fill: Ring<u64>,
    receive: Ring<Descriptor>,
    umem: Arc<Umem>,
    /// Number of its own frames: they stay in its rings and never reach another socket.
    frames: u32,
    zero_copy: bool,
}

impl Receiver {
    /// Opens a socket and binds it to the queue, with all frames in the fill ring. Needs
    /// `CAP_NET_RAW`.
    ///
    /// # Errors
    /// - `EINVAL` if the number of frames is not a power of two, their size is not supported, or
    ///   the device does not have the queue;
    /// - `EBUSY` if another socket has the queue. It is tried for two seconds, because the kernel
    ///   frees a queue late;
    /// - `EOPNOTSUPP` if the driver does not support zero-copy;
    /// - `ENOBUFS` if the memory may not be locked.
    pub fn open(options: &QueueOptions) -> Result<Self> {
        Self::with(options, Arc::new(options.memory(1)?), None, 0)
    }

    /// Opens sockets for several queues, of one or more devices, with one memory that is registered
    /// once. Each queue has as many frames as the first option says, and its own fill ring
    /// (`XDP_SHARED_UMEM`; Linux 5.10). The frame size and the binding are also those of the first.
    ///
    /// A device may have fewer queues than it reports: if a queue does not exist, it and all later
    /// ones are left out.
    ///
    /// # Errors
    /// The same as [`Receiver::open`].
    pub fn open_all(queues: &[QueueOptions]) -> Result<Vec<Self>> {
        let Some(first) = queues.first() else {
            return Ok(Vec::new());
        };
        let count = u32::try_from(queues.len()).unwrap_or(u32::MAX);
        let umem = Arc::new(first.memory(count)?);
        let mut receivers: Vec<Self> = Vec::with_capacity(queues.len());
        for (share, queue) in (0..).zip(queues) {
            let options = QueueOptions {
                ifindex: queue.ifindex,
                queue: queue.queue,
                ..*first
            };
            match Self::with(&options, Arc::clone(&umem), receivers.first(), share) {
                Ok(receiver) => receivers.push(receiver),
                Err(error) if share > 0 && error.errno() == Some(libc::EINVAL) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(receivers)
    }

    /// Opens a socket with a share of the memory. If there is a `first` socket, it has registered
    /// the memory.
    fn with(
        options: &QueueOptions,
        umem: Arc<Umem>,
        first: Option<&Self>,
        share: u32,
    ) -> Result<Self> {
        let descriptors = (libc::XDP_RX_RING, "setsockopt(XDP_RX_RING)");
        let registered_by = first.map(AsFd::as_fd);
        let opened = Opened::new(options, umem, registered_by, descriptors)?;
        let (socket, umem, offsets) = (&opened.socket, &opened.umem, &opened.offsets);
        let size = options.frames;
        let mut fill = Ring::map(
            socket.as_fd(),
            libc::XDP_UMEM_PGOFF_FILL_RING,
            offsets.fr,
            size,
        )?;
        let receive_page = libc::XDP_PGOFF_RX_RING.cast_unsigned();
        let receive = Ring::map(socket.as_fd(), receive_page, offsets.rx, size)?;
        let begin = u64::from(share) * u64::from(size);
        for frame in 0..size {
            let address = (begin + u64::from(frame)) * u64::from(umem.frame_size());
            fill.write(frame, address);
        }
        fill.publish(size);
        let (socket, umem, zero_copy) = opened.bind(options)?;
        Ok(Self {
            socket,
            fill,
            receive,
            umem,
            frames: size,
            zero_copy,
        })
    }

    /// Returns whether the adapter writes packets directly into the memory.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Returns the longest packet that a frame holds, in bytes.
    #[must_use]
    pub fn longest_packet(&self) -> u32 {
        self.umem.frame_size() - HEADROOM
    }

    /// Returns the most packets that it holds.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the bytes of memory for its packets.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.frames as usize * self.umem.frame_size() as usize
    }

    /// Returns the number of packets that wait to be taken. No system call.
    #[inline]
    #[must_use]
    pub fn available(&self) -> u32 {
        self.receive.available()
    }

    /// Takes the packets that have arrived, at most `most`; empty if there are none. Makes no
    /// system call, unless the driver asks for one.
    pub fn batch(&mut self, most: u32) -> Batch<'_> {
        if self.fill.needs_wakeup() {
            self.wake_kernel();
        }
        let count = self.receive.available().min(most);
        Batch {
            receiver: self,
            count,
        }
    }

    /// Returns the losses since the socket was opened.
    ///
    /// # Errors
    /// The kernel rejects the request.
    pub fn statistics(&self) -> Result<Statistics> {
        // SAFETY: the structure holds integers only, for which zero is valid.
        let mut found: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let call = "getsockopt(XDP_STATISTICS)";
        // Older kernels fill only the first fields; the others stay zero.
        get(&self.socket, libc::XDP_STATISTICS, &mut found, call)?;
        Ok(Statistics {
            dropped: found.rx_dropped,
            ring_full: found.rx_ring_full,
            no_frame: found.rx_fill_ring_empty_descs,
            invalid: found.rx_invalid_descs,
        })
    }

    /// Makes the kernel poll the driver in [`Receiver::poll_driver`], for at most `duration`, and keep
    /// interrupts off in the meantime if it can. Needs `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// ENOPROTOOPT before Linux 5.11.
    pub fn set_busy_poll(&self, duration: Duration) -> Result<()> {
        let micros = libc::c_int::try_from(duration.as_micros()).unwrap_or(libc::c_int::MAX);
        for (option, value, call) in [
            (SO_PREFER_BUSY_POLL, 1, "setsockopt(SO_PREFER_BUSY_POLL)"),
            (libc::SO_BUSY_POLL, micros, "setsockopt(SO_BUSY_POLL)"),
            (
                SO_BUSY_POLL_BUDGET,
                BUSY_POLL_BUDGET,
                "setsockopt(SO_BUSY_POLL_BUDGET)",
            ),
        ] {
            set_at(&self.socket, libc::SOL_SOCKET, option, &value, call)?;
        }
        Ok(())
    }

    /// Makes the driver process the queue now, on the calling thread's processor; see
    /// [`Receiver::set_busy_poll`].
    pub fn poll_driver(&self) {
        self.wake_kernel();
    }

    /// Makes the kernel take frames from the fill ring again.
    fn wake_kernel(&self) {
        // SAFETY: no buffer is passed. An error can be ignored: a later call meets it again.
        unsafe {
            libc::recvfrom(
                self.socket.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }
}

impl AsFd for Receiver {
    /// Returns the descriptor, for maps that redirect to the socket and for waiting until it is
    /// readable.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Packets, borrowed in place. Dropping it returns their frames to the fill ring.
#[derive(Debug)]
pub struct Batch<'a> {
    receiver: &'a mut Receiver,
    count: u32,
}

/// A packet of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// All bytes of the packet.
    pub data: &'a [u8],
    /// The bytes before the packet in its frame. An XDP program may have stored metadata at their
    /// end (`bpf_xdp_adjust_meta`); the rest is unused.
    pub headroom: &'a [u8],
}

impl Batch<'_> {
    /// Returns the number of packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the packets in the order of arrival.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> + Clone {
        (0..self.count).map(|at| self.packet(at))
    }

    /// Returns the packet with this number; an empty one after the last.
    #[inline]
    #[must_use]
    pub fn packet(&self, at: u32) -> Packet<'_> {
        if at >= self.count {
            return Packet::default();
        }
        let Receiver { receive, umem, .. } = &*self.receiver;
        if at + AHEAD < self.count {
            let Descriptor { address, len, .. } = receive.entry(at + AHEAD);
            umem.prefetch(address, len);
        }
        let Descriptor { address, len, .. } = receive.entry(at);
        let begin = umem.frame_of(address);
        let before = u32::try_from(address - begin).unwrap_or_default();
        // SAFETY: the kernel has put the frame into the receive ring. It returns to the fill ring
        // only when the batch, from which the slice borrows, is dropped.
        let bytes = unsafe { umem.bytes(begin, before.saturating_add(len)) };
        // The kernel writes only descriptors of whole packets in a frame.
        let bytes = bytes.unwrap_or_default();
        let (headroom, data) = bytes.split_at_checked(before as usize).unwrap_or_default();
        Packet { data, headroom }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let Receiver {
            fill,
            receive,
            umem,
            ..
        } = &mut *self.receiver;
        for at in 0..self.count {
            // There are as many frames as entries in the ring, so there is room.
            fill.write(at, umem.frame_of(receive.entry(at).address));
        }
        fill.publish(self.count);
        receive.release(self.count);
    }
}
