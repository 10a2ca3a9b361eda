//! Sends frames from a ring that is shared with the kernel (`PACKET_TX_RING`, version 2; packet(7),
//! Documentation/networking/packet_mmap.rst; Linux 4.6 for how it is used here).
//!
//! This is the fastest way to pass many frames to a packet socket. Each frame is written to a slot,
//! and one system call sends all that were written. Every slot has a virtio header
//! (`PACKET_VNET_HDR`) that declares the whole frame as header. The kernel then copies the frame
//! into its own buffer instead of lending the ring's pages to the driver. Up to the usual MTU,
//! lending costs more than it saves: pages have to be counted, and a receiver on the same host
//! copies them again. The kernel does not check lengths on this path, so the caller must.
//!
//! # Access rules
//!
//! Each slot has a status word, accessed only as an atomic. While it is `AVAILABLE`, only this
//! process accesses the slot; from `SEND_REQUEST` on, only the kernel does. The kernel looks at
//! slots only during the system call, in the order in which they were filled. It stores `SENDING`
//! in those that it takes. When a frame has left, it stores `AVAILABLE`, possibly on another
//! processor. So after the call, a slot that still has `SEND_REQUEST` was not taken, and belongs to
//! this process again.

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::layout::{RingRequest, TPACKET_V2, option};
use super::ring::map_ring;
use super::send::{BATCH, Refused, SenderOptions};
use super::socket::Socket;
use crate::Result;
use crate::pages::Pages;

/// `TP_STATUS_AVAILABLE`, `TP_STATUS_SEND_REQUEST`, `TP_STATUS_WRONG_FORMAT`.
const AVAILABLE: u32 = 0;
const SEND_REQUEST: u32 = 1;
const WRONG_FORMAT: u32 = 4;

/// `struct tpacket2_hdr`.
#[repr(C)]
struct Header {
    status: AtomicU32,
    len: u32,
    /// Fields for received packets only.
    received: [u32; 6],
}

/// `struct virtio_net_hdr`, in the machine's byte order, of a frame that needs no processing.
#[repr(C)]
#[derive(Clone, Copy)]
struct Virtio {
    flags_and_type: [u8; 2],
    header_len: u16,
    rest: [u16; 3],
}

const VIRTIO: usize = size_of::<Virtio>();
/// Offset of the data: `TPACKET2_HDRLEN` without the link-layer address in it.
const DATA: usize = size_of::<Header>();

const _: () = assert!(VIRTIO == 10 && DATA == 32 && offset_of!(Virtio, header_len) == 2);

/// Slots are aligned to cache lines.
const ALIGNMENT: usize = 64;
/// The size of the ring's blocks and of the ring, in bytes, and the most slots.
const BLOCK: usize = 1 << 16;
const MEMORY: usize = 1 << 20;
const MOST_SLOTS: usize = 512;
/// The longest frame that a ring takes, in bytes: an MTU of 9,000 with all headers, and more.
const LONGEST: usize = 9_216;

/// A socket that sends by one interface from a ring.
#[derive(Debug)]
pub struct RingSender {
    // The mapping is declared first, so that it is dropped before the socket.
    slots: Option<Slots>,
    socket: Socket,
    /// The reason why the frame after the last ones taken was rejected: the next call reports it.
    owed: Option<Refused>,
}

/// The ring.
#[derive(Debug)]
struct Slots {
    map: Pages,
    shape: Shape,
    /// The slot that the kernel looks at next.
    next: usize,
    /// Number of slots from there on that are filled but not sent.
    filled: usize,
}

/// How the ring is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    slot: usize,
    per_block: usize,
    blocks: usize,
}

impl RingSender {
    /// Opens a socket. Needs `CAP_NET_RAW`. Allocates no ring yet.
    ///
    /// # Errors
    /// The same as [`Sender::open`](super::Sender::open); or the kernel does not support such rings.
    pub fn open(options: &SenderOptions<'_>) -> Result<Self> {
        let socket = Socket::open(false, options.device)?;
        socket.set_version(TPACKET_V2)?;
        socket.set_packet(option::VNET_HDR, &1_i32, "setsockopt(PACKET_VNET_HDR)")?;
        socket.begin_sending(options)?;
        Ok(Self {
            slots: None,
            socket,
            owed: None,
        })
    }

    /// Allocates the ring, at most 1 MiB, for frames of up to `longest` bytes, at most 9,216. The
    /// result is [`RingSender::longest`]. Further calls do nothing. Needs no privilege.
    ///
    /// # Errors
    /// The kernel has no memory for it (`ENOMEM`).
    pub fn reserve(&mut self, longest: usize) -> Result<()> {
        if self.slots.is_some() {
            return Ok(());
        }
        let shape = Shape::new(longest.min(LONGEST));
        self.socket.set_packet(
            option::TX_RING,
            &shape.request(),
            "setsockopt(PACKET_TX_RING)",
        )?;
        let map = map_ring(&self.socket, shape.bytes(), "mmap(PACKET_TX_RING)")?;
        self.slots = Some(Slots {
            map,
            shape,
            next: 0,
            filled: 0,
        });
        Ok(())
    }

    /// Returns the longest frame that a slot takes, in bytes; 0 without a ring.
    #[must_use]
    pub fn longest(&self) -> usize {
        let slots = self.slots.as_ref();
        slots.map_or(0, |slots| slots.shape.longest())
    }

    /// Lets `write` write a frame into a slot and return its length. Returns false if no slot is
    /// free, or if as many are filled as one call sends: [`RingSender::submit`] sends them.
    #[inline]
    pub fn push(&mut self, write: impl FnOnce(&mut [u8]) -> usize) -> bool {
        let Some(slots) = &mut self.slots else {
            return false;
        };
        if self.owed.is_some() || slots.filled >= BATCH.min(slots.shape.slots()) {
            return false;
        }
        let at = slots.next + slots.filled;
        if slots.status(at).load(Ordering::Acquire) != AVAILABLE {
            return false;
        }
        slots.fill(at, write);
        slots.status(at).store(SEND_REQUEST, Ordering::Release);
        slots.filled += 1;
        true
    }

    /// Sends the pushed frames, without waiting. Returns how many of them the kernel has taken,
    /// from the first on, at least 1 unless there are none. The others are removed from the ring.
    ///
    /// # Errors
    /// The reason why the first frame was not sent. If the last call sent frames before a rejected
    /// one, this call reports that rejection and does not send the frame again.
    pub fn submit(&mut self) -> std::result::Result<usize, Refused> {
        if let Some(refused) = self.owed.take() {
            return Err(refused);
        }
        let Some(slots) = self.slots.as_mut().filter(|slots| slots.filled > 0) else {
            return Ok(0);
        };
        let fd = self.socket.as_fd().as_raw_fd();
        // SAFETY: no buffer is passed; the parts of the ring that the kernel reads and writes stay
        // mapped.
        let sent = unsafe { libc::send(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        let refused = (sent < 0).then(|| self.socket.refusal("send(PACKET_TX_RING)"));
        match slots.settle() {
            // If memory is short, the kernel may skip a slot although the call did not fail.
            0 => Err(refused.unwrap_or(Refused::NoRoom)),
            taken => {
                self.owed = refused.filter(|refused| !matches!(refused, Refused::NoRoom));
                Ok(taken)
            }
        }
    }
}

impl Slots {
    /// Returns the address of the slot with this number, which may be up to one round too high.
    fn place(&self, number: usize) -> NonNull<u8> {
        let offset = self.shape.offset(number % self.shape.slots());
        // SAFETY: the shape's slots lie within its bytes, which is the length of the mapping.
        unsafe { self.map.start.add(offset) }
    }

    fn status(&self, number: usize) -> &AtomicU32 {
        // SAFETY: the slot begins with a header, aligned to 64 bytes, in memory that is mapped for
        // as long as `self` lives; both sides access the status as an atomic.
        unsafe { &(*self.place(number).cast::<Header>().as_ptr()).status }
    }

    /// Lets `write` write the frame, after the two headers.
    #[inline]
    fn fill(&mut self, number: usize, write: impl FnOnce(&mut [u8]) -> usize) {
        let place = self.place(number);
        let room = self.shape.slot - DATA;
        // SAFETY: the slot is `AVAILABLE`, so the kernel does not access it, and `self` is borrowed
        // mutably: there is no other reference to these bytes, all within the slot.
        let data = unsafe { std::slice::from_raw_parts_mut(place.as_ptr().add(DATA), room) };
        let (virtio, frame) = data.split_at_mut(VIRTIO);
        let len = write(frame).min(frame.len());
        virtio.fill(0);
        // A slot has fewer than 65,536 bytes.
        let header_len = u16::try_from(len).unwrap_or(u16::MAX);
        virtio[2..4].copy_from_slice(&header_len.to_ne_bytes());
        let len = u32::try_from(len + VIRTIO).unwrap_or(u32::MAX);
        // SAFETY: as above; the place is the header's length field, which nothing else accesses
        // now.
        unsafe { (&raw mut (*place.cast::<Header>().as_ptr()).len).write(len) };
    }

    /// Returns how many of the filled slots the kernel took, and takes the others back.
    fn settle(&mut self) -> usize {
        let filled = std::mem::take(&mut self.filled);
        let is_taken = |at: &usize| {
            let status = self.status(self.next + at).load(Ordering::Acquire);
            status != SEND_REQUEST && status != WRONG_FORMAT
        };
        let taken = (0..filled).take_while(is_taken).count();
        for at in taken..filled {
            let status = self.status(self.next + at);
            status.store(AVAILABLE, Ordering::Release);
        }
        self.next = (self.next + taken) % self.shape.slots();
        taken
    }
}

impl Shape {
    /// Divides a ring for frames of up to `longest` bytes, less than a block.
    fn new(longest: usize) -> Self {
        // With smaller slots, a block would have more than the ring may; the kernel requires whole
        // blocks.
        let slot = (DATA + VIRTIO + longest)
            .next_multiple_of(ALIGNMENT)
            .max(BLOCK / MOST_SLOTS);
        let per_block = BLOCK / slot;
        let slots = (MEMORY / slot).min(MOST_SLOTS);
        Self {
            slot,
            per_block,
            blocks: slots / per_block,
        }
    }

    fn slots(&self) -> usize {
        self.per_block * self.blocks
    }

    fn offset(&self, slot: usize) -> usize {
        slot / self.per_block * BLOCK + slot % self.per_block * self.slot
    }

    fn longest(&self) -> usize {
        self.slot - DATA - VIRTIO
    }

    fn bytes(&self) -> u64 {
        (self.blocks * BLOCK) as u64
    }

    fn request(&self) -> RingRequest {
        // All numbers are at most 1 MiB.
        let number = |value: usize| u32::try_from(value).unwrap_or(0);
        RingRequest {
            block_size: number(BLOCK),
            blocks: number(self.blocks),
            frame_size: number(self.slot),
            frames: number(self.slots()),
            ..RingRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_lie_inside_their_blocks() {
        for longest in [14, 60, 1_518, 4_000, LONGEST] {
            let shape = Shape::new(longest);
            assert!(shape.longest() >= longest);
            assert!(
                shape.slots() >= 96 && shape.bytes() <= MEMORY as u64,
                "{shape:?}"
            );
            let mut end = 0;
            for slot in 0..shape.slots() {
                let begin = shape.offset(slot);
                assert!(begin >= end, "{shape:?}");
                end = begin + shape.slot;
                assert_eq!(begin / BLOCK, (end - 1) / BLOCK, "{shape:?}");
            }
            assert!(end as u64 <= shape.bytes());
        }
    }
}
