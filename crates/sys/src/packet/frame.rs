//! The frames of one block: found, completed and delivered in place.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use ringtap_packet::ether_type;

use super::layout::{
    BLOCK_HEADER_LEN, BlockHeader, FRAME_ALIGNMENT, FRAME_HEADER_LEN, FrameHeader,
    LINK_ADDRESS_OFFSET, LinkAddress, STATUS_CHECKSUM_NOT_READY, STATUS_KERNEL, STATUS_LOSING,
    STATUS_USER, STATUS_VLAN_TPID_VALID, STATUS_VLAN_VALID,
};

use super::slots::{self, Taken};

/// Length of the Ethernet addresses; a VLAN tag follows them.
const MAC_ADDRESSES: u32 = 12;
const VLAN_TAG: u32 = 4;
/// Length of a LINKTYPE_LINUX_SLL2 header.
const SLL2: u32 = 20;
/// Length of a LINKTYPE_LINUX_SLL header; that of LINKTYPE_NETLINK has the same format.
const SLL: u32 = 16;

/// The header that the packets of a ring begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// An Ethernet header; a VLAN tag that the kernel removed is put back.
    Ethernet,
    /// The interface's own link-layer header, of any kind.
    Native,
    /// Linux cooked v2 (LINKTYPE_LINUX_SLL2), built here. A VLAN tag that the kernel removed
    /// becomes the payload's first four bytes, as if it had never been removed.
    CookedV2,
    /// Linux cooked v1 (LINKTYPE_LINUX_SLL), built here; VLAN tags as in v2.
    CookedV1,
    /// The header of LINKTYPE_NETLINK, built here.
    Netlink,
}

impl LinkLayer {
    /// Returns whether the socket must be `SOCK_DGRAM`, so that the kernel strips the interface's
    /// header.
    #[must_use]
    pub const fn is_cooked(self) -> bool {
        matches!(self, Self::CookedV1 | Self::CookedV2 | Self::Netlink)
    }
}

/// The form in which packets are delivered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) link: LinkLayer,
    pub(super) snaplen: u32,
}

/// The position of the reader. It outlives the block: if a block is forgotten instead of dropped,
/// it is found again unchanged.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The next block to read.
    pub(super) block: u32,
    /// Number of frames of that block that were visited already and are complete.
    visited: Cell<u32>,
    /// Number of frames of that block that must not be delivered again ([`RingBlock::keep_from`]).
    pub(super) passed: u32,
    /// Number of blocks with an invalid header.
    pub(super) damaged: Cell<u64>,
    /// Whether the present block is among them.
    block_damaged: Cell<bool>,
    /// The next slot of that block to read, in a ring of slots.
    pub(super) slot: u32,
    /// Number of slots from there on that were converted already.
    pub(super) converted: u32,
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Seconds since the epoch.
    pub secs: u32,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// Length on the wire in bytes, with the header or tag that was added here.
    pub len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
    /// `PACKET_HOST`, `PACKET_OUTGOING` … of packet(7).
    pub packet_type: u8,
    /// The interface that received or sent it.
    pub ifindex: u32,
    status: u32,
}

impl Frame<'_> {
    /// Returns whether packets were lost before this one, since the statistics were last read.
    #[must_use]
    pub const fn is_after_loss(&self) -> bool {
        self.status & STATUS_LOSING != 0
    }

    /// Returns whether the checksum in the packet is incomplete, because the adapter has yet to
    /// compute it.
    #[must_use]
    pub const fn is_checksum_partial(&self) -> bool {
        self.status & STATUS_CHECKSUM_NOT_READY != 0
    }
}

/// A block of packets. Dropping it returns the memory to the kernel.
#[derive(Debug)]
pub struct RingBlock<'a> {
    /// First byte of the block; see [`RingBlock::new`] for its guarantees.
    base: NonNull<u8>,
    size: u32,
    blocks: u32,
    shape: Shape,
    cursor: &'a mut Cursor,
    /// The slots, if the ring has slots: the block's other slots do not belong to it.
    taken: Option<Taken>,
}

/// Returns whether the block at `base` belongs to this process.
///
/// # Safety
///
/// `base` is the start of a block of a mapped ring, aligned to 8 bytes.
#[inline]
pub(super) unsafe fn is_ready(base: NonNull<u8>) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { status(base) }.load(Ordering::Acquire) & STATUS_USER != 0
}

/// Returns the status word of the block at `base`.
///
/// # Safety
///
/// As [`is_ready`]; the reference must not outlive the block.
#[inline]
unsafe fn status<'a>(base: NonNull<u8>) -> &'a AtomicU32 {
    // SAFETY: the block is larger than its header and aligned to 8 bytes, so the word is in bounds
    // and aligned to 4. It is accessed as an atomic only, here and in the kernel.
    unsafe { AtomicU32::from_ptr(base.as_ptr().add(offset_of!(BlockHeader, status)).cast()) }
}

impl<'a> RingBlock<'a> {
    /// Returns the block at `base`.
    ///
    /// # Safety
    ///
    /// `base` is the start of `size` bytes, at least [`BLOCK_HEADER_LEN`], aligned to 8 and
    /// readable and writable for `'a`. [`is_ready`] returned true for it, so nothing else accesses
    /// them until the status is given back. `cursor` belongs to the same ring.
    pub(super) unsafe fn new(
        base: NonNull<u8>,
        size: u32,
        blocks: u32,
        shape: Shape,
        cursor: &'a mut Cursor,
    ) -> Self {
        Self {
            base,
            size,
            blocks,
            shape,
            cursor,
            taken: None,
        }
    }

    /// Returns a block of slots that have been converted.
    ///
    /// # Safety
    ///
    /// As [`RingBlock::new`], for the bytes of those slots.
    pub(super) unsafe fn of_slots(
        base: NonNull<u8>,
        (size, blocks): (u32, u32),
        shape: Shape,
        taken: Taken,
        cursor: &'a mut Cursor,
    ) -> Self {
        Self {
            base,
            size,
            blocks,
            shape,
            cursor,
            taken: Some(taken),
        }
    }

    /// Returns the number of packets in the block, without those that [`RingBlock::keep_from`]
    /// passed.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.end().saturating_sub(self.cursor.passed)
    }

    /// Returns the number of the last frame, plus one.
    fn end(&self) -> u32 {
        match &self.taken {
            Some(taken) => taken.count,
            // SAFETY: the header is in bounds and aligned ([`RingBlock::new`]).
            None => unsafe { (&raw const (*self.header()).packets).read() },
        }
    }

    /// Leaves the block so that [`super::Ring::take`] returns it again, with its frames from that
    /// number on. The number is that of [`Frames::position`].
    pub fn keep_from(self, frame: u32) {
        self.cursor.passed = frame;
        std::mem::forget(self);
    }

    /// Returns whether the block holds no packet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the packets in the order of arrival. A missing VLAN tag or cooked header is added on
    /// a packet's first visit.
    #[inline]
    #[must_use]
    pub fn frames(&self) -> Frames<'_> {
        let first = match &self.taken {
            Some(taken) => taken.first_frame(),
            // SAFETY: the header is in bounds and aligned ([`RingBlock::new`]).
            None => unsafe { (&raw const (*self.header()).first_packet).read() },
        };
        let mut frames = Frames {
            block: self,
            offset: first,
            index: 0,
            packets: self.end(),
        };
        if self.cursor.passed > 0 {
            frames.pass(self.cursor.passed);
        }
        frames
    }

    fn header(&self) -> *const BlockHeader {
        self.base.as_ptr().cast_const().cast()
    }

    /// Returns those slots to the kernel and goes on after them.
    fn give_slots_back(&mut self, taken: Taken) {
        let Taken {
            slots,
            first,
            count,
        } = taken;
        for slot in first..first + count {
            // SAFETY: the slots belong to this process and are valid for `'a` ([`RingBlock::of_slots`]).
            // Every borrow of their bytes ended before the drop.
            unsafe { slots::give_back(self.base.add(slots.offset(slot) as usize)) };
        }
        self.cursor.converted = 0;
        self.cursor.slot = first + count;
        if self.cursor.slot >= slots.per_block {
            self.cursor.slot = 0;
            self.cursor.block = (self.cursor.block + 1) % self.blocks;
        }
    }

    #[cold]
    fn mark_damaged(&self) {
        if !self.cursor.block_damaged.replace(true) {
            self.cursor.damaged.set(self.cursor.damaged.get() + 1);
        }
    }
}

impl Drop for RingBlock<'_> {
    fn drop(&mut self) {
        self.cursor.visited.set(0);
        self.cursor.passed = 0;
        self.cursor.block_damaged.set(false);
        if let Some(taken) = self.taken {
            self.give_slots_back(taken);
            return;
        }
        self.cursor.block = (self.cursor.block + 1) % self.blocks;
        // SAFETY: the block is valid for `'a` and its status accessed as an atomic only. Every
        // borrow of its bytes ended before the drop, and the release keeps their reads before it.
        unsafe { status(self.base) }.store(STATUS_KERNEL, Ordering::Release);
    }
}

/// The packets of a [`RingBlock`].
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    block: &'a RingBlock<'a>,
    offset: u32,
    index: u32,
    packets: u32,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        if self.index >= self.packets {
            return None;
        }
        let last = self.index + 1 == self.packets;
        let Some((start, next)) = self.check(last) else {
            self.packets = self.index;
            self.block.mark_damaged();
            return None;
        };
        if self.index >= self.block.cursor.visited.get() {
            // SAFETY: `check` found the frame to be valid, and it was not visited before.
            unsafe { complete(start, self.block.shape) };
            self.block.cursor.visited.set(self.index + 1);
        }
        self.index += 1;
        // `check` found the sum to be within the block, and after this frame, for all but the last.
        self.offset = self.offset.wrapping_add(next);
        // SAFETY: `check` found both structures to be in bounds and aligned. No reference to them
        // exists, and they are read by value.
        let (header, address) = unsafe {
            let address = start.add(LINK_ADDRESS_OFFSET as usize);
            (
                start.cast::<FrameHeader>().read(),
                address.cast::<LinkAddress>().read(),
            )
        };
        // SAFETY: `check` found the captured bytes to be within the frame, and `complete` moved
        // their start down by no more than the headroom that it found there. They are initialised
        // (the kernel allocates the ring zeroed). Nothing writes to them while the block is
        // borrowed: not the kernel, because the block is ours; and `complete` writes to a frame
        // only on its first visit, before its bytes are delivered, and within its own bounds, which
        // no other frame overlaps.
        let data = unsafe {
            let data = start.as_ptr().add(usize::from(header.mac)).cast_const();
            std::slice::from_raw_parts(data, header.caplen as usize)
        };
        Some(Frame {
            secs: header.secs,
            nanos: header.nanos,
            len: header.len,
            data,
            packet_type: address.packet_type,
            ifindex: address.ifindex.cast_unsigned(),
            status: header.status,
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some((self.packets - self.index) as usize))
    }
}

impl Frames<'_> {
    /// Returns the number of the next frame, counted from the block's first.
    #[inline]
    #[must_use]
    pub fn position(&self) -> u32 {
        self.index
    }

    /// Skips frames up to number `frames`.
    #[cold]
    fn pass(&mut self, frames: u32) {
        while self.index < frames.min(self.packets) {
            let last = self.index + 1 == self.packets;
            let Some((_, next)) = self.check(last) else {
                self.packets = self.index;
                return;
            };
            self.index += 1;
            self.offset = self.offset.wrapping_add(next);
        }
    }

    /// Returns whether every frame was delivered.
    #[inline]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.index >= self.packets
    }

    /// Returns the frame at the offset, and the distance to the next one, if everything that its
    /// header states is within the block and before the next frame.
    ///
    /// The kernel wrote the numbers, and no other process can change them. But a wrong one would be
    /// undefined behaviour here, and the comparisons cost nothing.
    #[inline]
    fn check(&self, last: bool) -> Option<(NonNull<u8>, u32)> {
        let size = self.block.size;
        let aligned = self.offset.is_multiple_of(FRAME_ALIGNMENT);
        if !aligned || self.offset < BLOCK_HEADER_LEN || self.offset >= size {
            return None;
        }
        let room = size - self.offset;
        if room < FRAME_HEADER_LEN {
            return None;
        }
        // SAFETY: offset + FRAME_HEADER_LEN is within the block, whose start is aligned to 8, as is
        // the offset; both structures lie within FRAME_HEADER_LEN.
        let (start, header) = unsafe {
            let start = self.block.base.add(self.offset as usize);
            (start, start.cast::<FrameHeader>().read())
        };
        // The last frame's offset to the next one has no meaning.
        let end = if last { room } else { header.next };
        let mac = u32::from(header.mac);
        let bounded = FRAME_HEADER_LEN <= mac && mac <= end && end <= room;
        let fits = bounded && header.caplen <= end - mac;
        fits.then_some((start, header.next))
    }
}

/// Adds what the frame at `start` lacks. A frame that is complete is not written to: its cache
/// lines stay shared with the processor that the kernel writes from.
///
/// # Safety
///
/// The frame was found to be valid, lies in a block that this process owns, and is visited for the
/// first time: no reference to it exists.
#[inline]
unsafe fn complete(start: NonNull<u8>, shape: Shape) {
    // SAFETY: by the caller's promise the header is in bounds and aligned.
    let header = unsafe { start.cast::<FrameHeader>().read() };
    let lacks = match shape.link {
        LinkLayer::Ethernet => header.status & STATUS_VLAN_VALID != 0,
        LinkLayer::Native => false,
        LinkLayer::CookedV1 | LinkLayer::CookedV2 | LinkLayer::Netlink => true,
    };
    if lacks || header.caplen > shape.snaplen {
        // SAFETY: by the caller's promise, both structures are in bounds and aligned.
        let frame = unsafe {
            Checked {
                start,
                header,
                address: start.add(LINK_ADDRESS_OFFSET as usize).cast().read(),
            }
        };
        frame.complete(shape);
    }
}

/// A frame to complete, whose header was found to be valid.
struct Checked {
    /// First byte of the frame.
    start: NonNull<u8>,
    header: FrameHeader,
    address: LinkAddress,
}

impl Checked {
    /// Adds what the frame lacks, and writes its header back, so that the next visit finds it
    /// complete.
    #[inline(never)]
    fn complete(mut self, shape: Shape) {
        match shape.link {
            LinkLayer::Ethernet => {
                if self.header.status & STATUS_VLAN_VALID != 0 {
                    self.restore_vlan_tag();
                }
            }
            LinkLayer::Native => {}
            LinkLayer::CookedV1 => {
                let protocol = self.restore_cooked_tag();
                self.build_sll(protocol);
            }
            LinkLayer::CookedV2 => self.build_sll2(),
            LinkLayer::Netlink => self.build_sll(self.address.protocol.to_ne_bytes()),
        }
        self.header.caplen = self.header.caplen.min(shape.snaplen);
        // SAFETY: `check` found the header to be in bounds and aligned; no reference to it exists.
        unsafe { self.start.cast::<FrameHeader>().write(self.header) };
    }

    /// Returns the tag that the kernel removed: ethertype and control information.
    fn vlan_tag(&self) -> [u8; VLAN_TAG as usize] {
        let valid = self.header.status & STATUS_VLAN_TPID_VALID != 0;
        let tpid = if valid {
            self.header.vlan_tpid
        } else {
            ether_type::VLAN
        };
        let [a, b] = tpid.to_be_bytes();
        // The kernel keeps 16 bits in a 32-bit field.
        let [.., c, d] = self.header.vlan_tci.to_be_bytes();
        [a, b, c, d]
    }

    fn restore_vlan_tag(&mut self) {
        let tag = self.vlan_tag();
        if self.header.caplen < MAC_ADDRESSES {
            // The tag lies after the captured bytes.
            self.header.len = self.header.len.saturating_add(VLAN_TAG);
        } else if let Some(data) = self.grow_down(VLAN_TAG) {
            // SAFETY: `grow_down` gave VLAN_TAG bytes of headroom, after which at least the
            // addresses are captured. No reference to these bytes exists yet.
            unsafe {
                let addresses = data.add(VLAN_TAG as usize).as_ptr().cast_const();
                std::ptr::copy(addresses, data.as_ptr(), MAC_ADDRESSES as usize);
                data.add(MAC_ADDRESSES as usize).cast().write_unaligned(tag);
            }
        }
    }

    /// Puts the VLAN tag before the payload, if there is one, and returns the protocol of the
    /// result.
    fn restore_cooked_tag(&mut self) -> [u8; 2] {
        let mut protocol = self.address.protocol.to_ne_bytes();
        if self.header.status & STATUS_VLAN_VALID != 0 {
            let [tpid_high, tpid_low, tci_high, tci_low] = self.vlan_tag();
            if let Some(payload) = self.grow_down(VLAN_TAG) {
                let inner = [tci_high, tci_low, protocol[0], protocol[1]];
                // SAFETY: `grow_down` gave these VLAN_TAG bytes; no reference to them exists yet.
                unsafe { payload.cast().write_unaligned(inner) };
                protocol = [tpid_high, tpid_low];
            }
        }
        protocol
    }

    fn build_sll2(&mut self) {
        let protocol = self.restore_cooked_tag();
        let LinkAddress {
            ifindex,
            hardware_type,
            packet_type,
            address_len,
            ..
        } = self.address;
        let mut header = [0; SLL2 as usize];
        header[..2].copy_from_slice(&protocol);
        header[4..8].copy_from_slice(&ifindex.to_be_bytes());
        header[8..10].copy_from_slice(&hardware_type.to_be_bytes());
        header[10] = packet_type;
        header[11] = address_len;
        header[12..].copy_from_slice(&self.hardware_address());
        if let Some(data) = self.grow_down(SLL2) {
            // SAFETY: `grow_down` gave these SLL2 bytes; no reference to them exists yet.
            unsafe { data.cast().write_unaligned(header) };
        }
    }

    fn build_sll(&mut self, protocol: [u8; 2]) {
        let mut header = [0; SLL as usize];
        header[..2].copy_from_slice(&u16::from(self.address.packet_type).to_be_bytes());
        header[2..4].copy_from_slice(&self.address.hardware_type.to_be_bytes());
        header[4..6].copy_from_slice(&u16::from(self.address.address_len).to_be_bytes());
        header[6..14].copy_from_slice(&self.hardware_address());
        header[14..].copy_from_slice(&protocol);
        if let Some(data) = self.grow_down(SLL) {
            // SAFETY: `grow_down` gave these SLL bytes; no reference to them exists yet.
            unsafe { data.cast().write_unaligned(header) };
        }
    }

    /// Returns the sender's address; bytes after it belong to an older packet and become zero.
    fn hardware_address(&self) -> [u8; 8] {
        let mut address = self.address.address;
        if let Some(rest) = address.get_mut(usize::from(self.address.address_len)..) {
            rest.fill(0);
        }
        address
    }

    /// Extends the captured bytes down by `bytes` of the headroom, and returns their new start.
    /// Returns `None` if the headroom is too small; the reserve that the socket requests rules that
    /// out.
    fn grow_down(&mut self, bytes: u32) -> Option<NonNull<u8>> {
        let mac = u32::from(self.header.mac);
        let start = mac
            .checked_sub(bytes)
            .filter(|&start| start >= FRAME_HEADER_LEN)?;
        self.header.mac = u16::try_from(start).ok()?;
        self.header.caplen = self.header.caplen.checked_add(bytes)?;
        self.header.len = self.header.len.saturating_add(bytes);
        // SAFETY: start is at least FRAME_HEADER_LEN and below mac, which `check` found to be in
        // the frame.
        Some(unsafe { self.start.add(start as usize) })
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
