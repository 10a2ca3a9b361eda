//! The ring of slots, one packet each (TPACKET_V2): the kernel delivers each packet at once.
//!
//! A packet in a slot is converted to the format of a block's frames. The converted header is
//! stored beside the kernel's own, so the same code reads both kinds of ring.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::geometry::Geometry;
use super::layout::{
    FRAME_HEADER_LEN, FrameHeader, LINK_ADDRESS_OFFSET, LinkAddress, SLOT_ADDRESS_OFFSET,
    STATUS_KERNEL, STATUS_USER, SlotHeader,
};

/// Additional bytes of headroom for the converted frame header.
pub(super) const RESERVE: u32 = FRAME_OFFSET + 16;
/// Offset of the frame in a slot: after the kernel's header and address, where a block's first
/// frame could be.
pub(super) const FRAME_OFFSET: u32 = 64;
/// Slots begin at multiples of this (`TPACKET_ALIGNMENT`).
const ALIGNMENT: u32 = 16;
/// The most slots that are read at once, so that the kernel gets the first back while it fills
/// others.
const MOST: u32 = 64;

/// The slots of each block of the ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slots {
    /// Bytes of a slot.
    pub(super) size: u32,
    pub(super) per_block: u32,
}

/// Slots of one block that belong to this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) slots: Slots,
    pub(super) first: u32,
    pub(super) count: u32,
}

impl Slots {
    /// Fits as many slots as possible into a block. Each holds a packet with its headers and the
    /// requested headroom.
    pub(super) fn new(geometry: Geometry) -> Self {
        // A block is a power of two and larger than a packet, so there is at least one slot.
        let size = geometry.frame_size().next_multiple_of(ALIGNMENT);
        Self {
            size,
            per_block: geometry.block_size() / size,
        }
    }

    /// Returns the offset of a slot in its block, in bytes.
    pub(super) const fn offset(self, slot: u32) -> u32 {
        slot * self.size
    }
}

/// Returns the status word of a slot.
///
/// # Safety
///
/// `slot` is the start of a slot of a mapped ring, aligned to 16 bytes; the reference must not outlive
/// the mapping.
unsafe fn status<'a>(slot: NonNull<u8>) -> &'a AtomicU32 {
    // SAFETY: the word is the slot's first, in bounds and aligned. It is accessed as an atomic
    // only, here and in the kernel: the converted header lies after it.
    unsafe { AtomicU32::from_ptr(slot.as_ptr().cast()) }
}

/// Returns whether the slot belongs to this process.
///
/// # Safety
///
/// As [`status`].
#[inline]
pub(super) unsafe fn is_ready(slot: NonNull<u8>) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { status(slot) }.load(Ordering::Acquire) & STATUS_USER != 0
}

/// Returns the slot to the kernel.
///
/// # Safety
///
/// As [`status`]; the slot belongs to this process, and no reference to its bytes exists.
pub(super) unsafe fn give_back(slot: NonNull<u8>) {
    // SAFETY: by the caller's promise. The release keeps every access to the bytes before it.
    unsafe { status(slot) }.store(STATUS_KERNEL, Ordering::Release);
}

/// Writes the converted frame header after the kernel's header.
///
/// # Safety
///
/// `slot` is the start of a slot of a mapped ring, `size` bytes, aligned to 16; it belongs to this
/// process, and no reference to its bytes exists.
pub(super) unsafe fn convert(slot: NonNull<u8>, size: u32) {
    debug_assert!(size >= FRAME_OFFSET + FRAME_HEADER_LEN);
    // SAFETY: by the caller's promise both structures are in bounds and aligned.
    let (header, address) = unsafe {
        let address = slot.add(SLOT_ADDRESS_OFFSET as usize);
        (
            slot.cast::<SlotHeader>().read(),
            address.cast::<LinkAddress>().read(),
        )
    };
    let offset = |from_slot: u16| {
        // An invalid value becomes 0, which the frame's reader rejects.
        u32::from(from_slot)
            .checked_sub(FRAME_OFFSET)
            .and_then(|offset| u16::try_from(offset).ok())
            .unwrap_or_default()
    };
    let frame = FrameHeader {
        next: size,
        secs: header.secs,
        nanos: header.nanos,
        caplen: header.caplen,
        len: header.len,
        // SAFETY: as above.
        status: unsafe { status(slot) }.load(Ordering::Relaxed),
        mac: offset(header.mac),
        net: offset(header.net),
        rxhash: 0,
        vlan_tci: header.vlan_tci.into(),
        vlan_tpid: header.vlan_tpid,
    };
    // SAFETY: the slot is larger than the frame's offset and headers; both places are aligned. They
    // lie in the headroom that the kernel left for them, so no captured byte is overwritten.
    unsafe {
        let start = slot.add(FRAME_OFFSET as usize);
        start.cast().write(frame);
        start
            .add(LINK_ADDRESS_OFFSET as usize)
            .cast()
            .write(address);
    }
}

impl Taken {
    /// Converts the slots of a block that are ready, from `first` on. Those before `converted` have
    /// been converted already.
    ///
    /// # Safety
    ///
    /// `base` is the start of a block of a mapped ring of such slots, aligned to a page; no
    /// reference exists to the bytes of those that belong to this process.
    pub(super) unsafe fn take(
        base: NonNull<u8>,
        slots: Slots,
        first: u32,
        converted: u32,
    ) -> Option<Self> {
        let most = slots.per_block.saturating_sub(first).min(MOST);
        let mut count = converted;
        while count < most {
            // SAFETY: the slot is one of the block's, by the caller's promise.
            let slot = unsafe { base.add(slots.offset(first + count) as usize) };
            // SAFETY: as above.
            if !unsafe { is_ready(slot) } {
                break;
            }
            // SAFETY: as above; it belongs to this process.
            unsafe { convert(slot, slots.size) };
            count += 1;
        }
        (count > 0).then_some(Self {
            slots,
            first,
            count,
        })
    }

    /// Returns the offset of the first frame in the block, in bytes.
    pub(super) const fn first_frame(&self) -> u32 {
        self.slots.offset(self.first) + FRAME_OFFSET
    }
}
