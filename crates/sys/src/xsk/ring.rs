//! One ring: a mapping with two counters, flags and an array of entries.

use std::marker::PhantomData;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::pages::{Pages, READ_WRITE};
use crate::{Error, Result};

/// `XDP_RING_NEED_WAKEUP`: the kernel waits for a system call.
const NEED_WAKEUP: u32 = 1;

/// A type of ring entries.
///
/// # Safety
/// Every bit pattern is a valid value, and the layout is the kernel's.
pub(super) unsafe trait Entry: Copy {}

// SAFETY: the fill ring holds addresses of 64 bits.
unsafe impl Entry for u64 {}

/// A received packet (`struct xdp_desc`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor {
    /// The packet's first byte in the UMEM.
    pub(super) address: u64,
    /// Length in bytes.
    pub(super) len: u32,
    pub(super) options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == size_of::<libc::xdp_desc>());
// SAFETY: integers only, in the order and with the size of the kernel's structure.
unsafe impl Entry for Descriptor {}

/// The offsets of the parts of a ring (`struct xdp_ring_offset`), in bytes from the start of its
/// mapping.
pub(super) type Offsets = libc::xdp_ring_offset;

/// A mapped ring of entries.
#[derive(Debug)]
pub(super) struct Ring<T> {
    pages: Pages,
    offsets: Offsets,
    size: u32,
    /// This side's counter; the kernel only reads it.
    own: u32,
    entries: PhantomData<T>,
}

impl<T: Entry> Ring<T> {
    /// Maps a socket's ring of `size` entries (a power of two).
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        offsets: Offsets,
        size: u32,
    ) -> Result<Self> {
        let entries = usize::try_from(offsets.desc).unwrap_or(usize::MAX);
        let len = entries.saturating_add(size as usize * size_of::<T>());
        let page_offset = usize::try_from(page_offset).unwrap_or(usize::MAX);
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        let pages = Pages::map(Some(socket), page_offset, len, READ_WRITE, flags);
        Ok(Self {
            pages: pages.map_err(|source| {
                Error::new("mmap(AF_XDP ring)", format!("{size} entries"), source)
            })?,
            offsets,
            size,
            own: 0,
            entries: PhantomData,
        })
    }

    /// Returns, as the consumer, the number of entries that the kernel has written and that are not released.
    pub(super) fn available(&self) -> u32 {
        let produced = self.counter(self.offsets.producer).load(Ordering::Acquire);
        produced.wrapping_sub(self.own)
    }

    /// Returns, as the consumer, the entry `ahead` places after the first that is not released. `ahead` must
    /// be less than [`Ring::available`].
    pub(super) fn entry(&self, ahead: u32) -> T {
        let slot = self.slot(self.own.wrapping_add(ahead));
        // SAFETY: inside the array (`slot`), aligned by the kernel's layout, written by the kernel
        // before it published the counter that `available` read; `T` takes every bit pattern.
        unsafe { slot.read() }
    }

    /// Returns, as the consumer, the first `count` entries to the kernel.
    pub(super) fn release(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        let consumer = self.counter(self.offsets.consumer);
        consumer.store(self.own, Ordering::Release);
    }

    /// Writes, as the producer, an entry `ahead` places after the last published one. The ring must have
    /// room, which is certain if it has as many entries as there are frames.
    pub(super) fn write(&mut self, ahead: u32, entry: T) {
        let slot = self.slot(self.own.wrapping_add(ahead));
        // SAFETY: inside the array (`slot`), aligned by the kernel's layout; the kernel does not
        // read it before it is published.
        unsafe { slot.write(entry) };
    }

    /// Passes, as the producer, `count` entries to the kernel.
    pub(super) fn publish(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        let producer = self.counter(self.offsets.producer);
        producer.store(self.own, Ordering::Release);
    }

    /// Returns whether the kernel waits for a system call.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.counter(self.offsets.flags).load(Ordering::Relaxed) & NEED_WAKEUP != 0
    }

    fn counter(&self, offset: u64) -> &AtomicU32 {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        assert!(offset <= self.pages.len - 4 && offset.is_multiple_of(4));
        // SAFETY: in bounds and aligned as just checked, mapped as long as `self` lives; both sides
        // access it whole.
        unsafe { AtomicU32::from_ptr(self.pages.start.add(offset).as_ptr().cast()) }
    }

    /// Returns the address of the entry with this number.
    fn slot(&self, number: u32) -> NonNull<T> {
        let index = (number & (self.size - 1)) as usize;
        let offset = usize::try_from(self.offsets.desc).unwrap_or(usize::MAX);
        // SAFETY: the mapping holds `size` entries behind `desc` (`map` computed its length from
        // that), and the index is less than `size`.
        unsafe { self.pages.start.add(offset).cast::<T>().add(index) }
    }
}
