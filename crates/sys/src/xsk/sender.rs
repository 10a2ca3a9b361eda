//! A socket that sends by one queue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::ring::{Descriptor, Ring};
use super::socket::{Opened, QueueOptions};
use super::umem::Umem;
use crate::{Error, Result};

/// A socket with its memory and rings, for sending only.
///
/// Each frame is either free, being written, or with the kernel: in the transmit ring or sent,
/// until it returns through the completion ring.
#[derive(Debug)]
pub struct Sender {
    // Dropped in this order: the socket before the memory that the kernel reads for it.
    socket: OwnedFd,
    transmit: Ring<Descriptor>,
    complete: Ring<u64>,
    umem: Arc<Umem>,
    /// Addresses of frames that are free.
    free: Vec<u64>,
    /// Written descriptors that the kernel does not see yet.
    unpublished: u32,
    zero_copy: bool,
}

impl Sender {
    /// Opens a socket and binds it to the queue. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// The same as [`super::Receiver::open`].
    pub fn open(options: &QueueOptions) -> Result<Self> {
        let umem = Arc::new(options.memory(1)?);
        let descriptors = (libc::XDP_TX_RING, "setsockopt(XDP_TX_RING)");
        let opened = Opened::new(options, umem, None, descriptors)?;
        let (socket, offsets) = (&opened.socket, &opened.offsets);
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING;
        let size = options.frames;
        let transmit = libc::XDP_PGOFF_TX_RING.cast_unsigned();
        let transmit = Ring::map(socket.as_fd(), transmit, offsets.tx, size)?;
        let complete = Ring::map(socket.as_fd(), completion, offsets.cr, size)?;
        let (socket, umem, zero_copy) = opened.bind(options)?;
        let frame_size = u64::from(umem.frame_size());
        Ok(Self {
            free: (0..u64::from(umem.frames()))
                .map(|frame| frame * frame_size)
                .collect(),
            zero_copy,
            socket,
            transmit,
            complete,
            umem,
            unpublished: 0,
        })
    }

    /// Returns whether the adapter reads packets directly from the memory.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Takes back frames that the kernel has finished with; returns the number of free frames.
    pub fn reclaim(&mut self) -> usize {
        let done = self.complete.available();
        for at in 0..done {
            let address = self.complete.entry(at);
            self.free.push(self.umem.frame_of(address));
        }
        self.complete.release(done);
        self.free.len()
    }

    /// Returns the number of frames that are with the kernel.
    #[must_use]
    pub fn pending(&self) -> u64 {
        u64::from(self.umem.frames()) - self.free.len() as u64
    }

    /// Lets `write` write a packet into a free frame and return its length. Returns false if no
    /// frame is free.
    ///
    /// [`Sender::submit`] then passes it to the kernel.
    pub fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(address) = self.free.pop() else {
            return false;
        };
        // SAFETY: mapped and initialised for as long as the memory lives, which `self` holds. The frame
        // is free: neither ring holds it, the kernel has given it back, and no socket shares the memory.
        let frame = unsafe { self.umem.frame(address).as_mut() };
        let len = write(frame).min(frame.len());
        let descriptor = Descriptor {
            address,
            len: u32::try_from(len).unwrap_or_default(),
            options: 0,
        };
        // There are as many frames as entries in the ring, so there is room.
        self.transmit.write(self.unpublished, descriptor);
        self.unpublished += 1;
        true
    }

    /// Passes the pushed packets to the kernel, and wakes it if it waits for that. If the kernel is
    /// busy, a later call continues.
    ///
    /// # Errors
    /// `ENETDOWN` if the interface is down, `ENXIO` if it does not exist any more.
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
            // There is more to do, the driver's queue is full, or memory is short: a later call
            // continues.
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
