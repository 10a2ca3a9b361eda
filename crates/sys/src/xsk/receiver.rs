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
/// How many packets before it is looked at a packet is fetched: enough for memory to answer, few enough for
/// the fetches that a processor has under way at once.
const AHEAD: u32 = 4;
/// Packets that the driver is polled for at once.
const BUSY_POLL_BUDGET: libc::c_int = 64;

/// What a socket lost, in packets (`struct xdp_statistics`, 5.9 for all).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// For other reasons than the following; the packet was too long for a frame.
    pub dropped: u64,
    /// The receive ring was full.
    pub ring_full: u64,
    /// There was no free frame.
    pub no_frame: u64,
    /// Addresses in the fill ring that the kernel refused.
    pub invalid: u64,
}

/// A socket with its memory and rings. Dropped, it is gone from every map that redirects to it.
#[derive(Debug)]
pub struct Receiver {
    // Dropped in this order: the socket before the memory that the kernel writes to for it.
    socket: OwnedFd,
    fill: Ring<u64>,
    receive: Ring<Descriptor>,
    umem: Arc<Umem>,
    /// Frames that are its own: they go round between its rings, and never to another socket's.
    frames: u32,
    zero_copy: bool,
}

impl Receiver {
    /// Opens a socket and binds it to the queue, with all frames ready to be filled. Needs
    /// `CAP_NET_RAW`.
    ///
    /// # Errors
    /// EINVAL for frames that are no power of two or have another size, and for a queue that the
    /// device does not have; EBUSY where another socket has the queue, after two seconds, as the
    /// kernel takes its time to give a queue free; EOPNOTSUPP without zero-copy in the driver; ENOBUFS where memory may not be locked.
    pub fn open(options: &QueueOptions) -> Result<Self> {
        Self::with(options, Arc::new(options.memory(1)?), None, 0)
    }

    /// The same for several queues, of one device or of more, with one memory, which is registered once.
    /// Each queue has as many frames of it as the first option says, and a fill ring of its own
    /// (`XDP_SHARED_UMEM`; Linux 5.10). Size of frames and binding are those of the first, too.
    ///
    /// Devices may have fewer queues than they tell: from the first on that is not there, what
    /// follows is left out.
    ///
    /// # Errors
    /// As [`Receiver::open`].
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

    /// With a share of memory, which is registered already where there is a `first` one with it.
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
        let fill_page = libc::off_t::try_from(libc::XDP_UMEM_PGOFF_FILL_RING).unwrap_or(0);
        let size = options.frames;
        let mut fill = Ring::map(socket.as_fd(), fill_page, offsets.fr, size)?;
        let receive = Ring::map(socket.as_fd(), libc::XDP_PGOFF_RX_RING, offsets.rx, size)?;
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

    /// Whether the adapter writes packets into the memory itself.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// The longest packet that a frame holds, in bytes.
    #[must_use]
    pub fn longest_packet(&self) -> u32 {
        self.umem.frame_size() - HEADROOM
    }

    /// How many packets it holds at most.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.frames
    }

    /// Bytes of memory for its packets.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.frames as usize * self.umem.frame_size() as usize
    }

    /// How many packets have come and were not taken. No system call.
    #[inline]
    #[must_use]
    pub fn available(&self) -> u32 {
        self.receive.available()
    }

    /// The packets that have come, `most` of them at most; empty where none has. No system call,
    /// unless the driver asks for one.
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

    /// What was lost since the opening.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn statistics(&self) -> Result<Statistics> {
        // SAFETY: the structure holds integers only, for which zero is valid.
        let mut found: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        let call = "getsockopt(XDP_STATISTICS)";
        // Older kernels fill the first fields only, and the others stay zero.
        get(&self.socket, libc::XDP_STATISTICS, &mut found, call)?;
        Ok(Statistics {
            dropped: found.rx_dropped,
            ring_full: found.rx_ring_full,
            no_frame: found.rx_fill_ring_empty_descs,
            invalid: found.rx_invalid_descs,
        })
    }

    /// Has the kernel poll the driver when it is asked to by [`Receiver::poll_driver`], for so long at
    /// most, and keep interrupts off meanwhile where it can. Needs `CAP_NET_ADMIN`.
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

    /// Has the driver looked after the queue now, on the calling thread's processor; see
    /// [`Receiver::set_busy_poll`].
    pub fn poll_driver(&self) {
        self.wake_kernel();
    }

    /// Has the kernel take frames from the fill ring again.
    fn wake_kernel(&self) {
        // SAFETY: no buffer is passed. It fails only for reasons that a later call meets again.
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
    /// For maps that redirect to the socket, and for waiting until there is something to read.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Packets, borrowed in place. Dropped, their frames go back to be filled.
#[derive(Debug)]
pub struct Batch<'a> {
    receiver: &'a mut Receiver,
    count: u32,
}

/// A packet of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Its bytes, all of them.
    pub data: &'a [u8],
    /// What lies in front of it in the frame. Its end is what an XDP program has put there
    /// (`bpf_xdp_adjust_meta`); the rest is of no use.
    pub headroom: &'a [u8],
}

impl Batch<'_> {
    /// How many packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The packets in the order in which they came.
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> + Clone {
        (0..self.count).map(|at| self.packet(at))
    }

    /// The packet of this number; an empty one beyond the last.
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
        // SAFETY: the kernel has put the frame into the receive ring, and it goes back to the fill
        // ring only when the batch, from which the slice borrows, is dropped.
        let bytes = unsafe { umem.bytes(begin, before.saturating_add(len)) };
        // The kernel writes no other descriptors than those of whole packets in a frame.
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
            // There are as many frames as entries in the ring: it has room for each.
            fill.write(at, umem.frame_of(receive.entry(at).address));
        }
        fill.publish(self.count);
        receive.release(self.count);
    }
}
