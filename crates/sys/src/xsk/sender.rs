//! A socket that sends by one queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::receiver::{Binding, bind, is_zero_copy, register, ring_offsets, set};
use super::ring::{Descriptor, Ring};
use super::umem::Umem;
use crate::{Error, Result};

/// How to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderOptions {
    /// Index of the device, in the calling thread's network namespace.
    pub ifindex: u32,
    /// The queue.
    pub queue: u32,
    /// Frames of memory, a power of two; each holds one packet on its way.
    pub frames: u32,
    /// Bytes of a frame: 2048 or 4096.
    pub frame_size: u32,
    /// How packets leave the memory. Without a copy, the host receives nothing by this queue as long
    /// as the socket lives: its frames would have to come from here.
    pub binding: Binding,
}

/// A socket with its memory and rings, for sending only.
///
/// Each frame is either free, being written, or with the kernel: in the transmit ring or beyond,
/// until it comes back through the completion ring.
#[derive(Debug)]
pub struct Sender {
    // Dropped in this order: the socket before the memory that the kernel reads from for it.
    socket: OwnedFd,
    transmit: Ring<Descriptor>,
    complete: Ring<u64>,
    umem: Umem,
    /// Addresses of frames that are free.
    free: Vec<u64>,
    /// Descriptors written that the kernel does not see yet.
    unpublished: u32,
    zero_copy: bool,
}

impl Sender {
    /// Opens a socket and binds it to the queue. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// As [`super::Receiver::open`].
    pub fn open(options: &SenderOptions) -> Result<Self> {
        let context = || format!("queue {} of interface {}", options.queue, options.ifindex);
        if !options.frames.is_power_of_two() || ![2048, 4096].contains(&options.frame_size) {
            let invalid = io::Error::from_raw_os_error(libc::EINVAL);
            return Err(Error::new("setsockopt(XDP_UMEM_REG)", context(), invalid));
        }
        // SAFETY: takes no pointer; the result is checked before use.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(Error::last("socket(AF_XDP)", context()));
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let umem = Umem::new(options.frames, options.frame_size)?;
        register(&socket, &umem)?;
        for (option, call) in [
            // The kernel asks for one, although nothing is received.
            (libc::XDP_UMEM_FILL_RING, "setsockopt(XDP_UMEM_FILL_RING)"),
            (
                libc::XDP_UMEM_COMPLETION_RING,
                "setsockopt(XDP_UMEM_COMPLETION_RING)",
            ),
            (libc::XDP_TX_RING, "setsockopt(XDP_TX_RING)"),
        ] {
            set(&socket, option, &options.frames, call)?;
        }
        let offsets = ring_offsets(&socket)?;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = libc::off_t::try_from(completion).unwrap_or(0);
        let size = options.frames;
        let transmit = Ring::map(socket.as_fd(), libc::XDP_PGOFF_TX_RING, offsets.tx, size)?;
        let complete = Ring::map(socket.as_fd(), completion, offsets.cr, size)?;
        let bound = bind(&socket, options.ifindex, options.queue, options.binding);
        bound.map_err(|source| Error::new("bind(AF_XDP)", context(), source))?;
        let frame_size = u64::from(umem.frame_size());
        Ok(Self {
            free: (0..u64::from(umem.frames()))
                .map(|frame| frame * frame_size)
                .collect(),
            zero_copy: is_zero_copy(&socket),
            socket,
            transmit,
            complete,
            umem,
            unpublished: 0,
        })
    }

    /// Whether the adapter reads packets from the memory itself.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Takes back frames that the kernel is done with; returns how many are free.
    pub fn reclaim(&mut self) -> usize {
        let done = self.complete.available();
        for at in 0..done {
            let address = self.complete.entry(at);
            self.free.push(self.umem.frame_of(address));
        }
        self.complete.release(done);
        self.free.len()
    }

    /// Frames that are with the kernel.
    #[must_use]
    pub fn pending(&self) -> u64 {
        u64::from(self.umem.frames()) - self.free.len() as u64
    }

    /// Has a packet written into a free frame; `write` returns its length. False where none is free.
    ///
    /// [`Sender::submit`] then hands it to the kernel.
    pub fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(address) = self.free.pop() else {
            return false;
        };
        // SAFETY: the frame is free: neither ring holds it, and the kernel has given it back.
        let frame = unsafe { self.umem.frame_mut(address) };
        let len = write(frame).min(frame.len());
        let descriptor = Descriptor {
            address,
            len: u32::try_from(len).unwrap_or_default(),
            options: 0,
        };
        // There are as many frames as entries in the ring: it has room.
        self.transmit.write(self.unpublished, descriptor);
        self.unpublished += 1;
        true
    }

    /// Hands what was pushed to the kernel, and wakes it where it waits for that.
    ///
    /// # Errors
    /// ENETDOWN where the interface is down, ENXIO where it is gone. That the kernel is busy is none.
    pub fn submit(&mut self) -> Result<()> {
        self.transmit.publish(self.unpublished);
        self.unpublished = 0;
        if !self.transmit.needs_wakeup() {
            return Ok(());
        }
        // SAFETY: no buffer is passed.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // More is to be done, the driver's queue is full, or memory was short: a later call.
            Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => Ok(()),
            _ => Err(Error::new("sendto(AF_XDP)", "", error)),
        }
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
