//! The memory that packets are received into or sent from.

use std::ptr::NonNull;

use crate::pages::{Pages, READ_WRITE};
use crate::{Error, Result};

/// Bytes of a cache line of the processor; this affects only the speed.
const CACHE_LINE: u64 = 64;

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(at: NonNull<u8>) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it reads nothing that the program could see, wherever the pointer points; every
    // x86-64 processor has the instruction.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.as_ptr().cast_const().cast()) };
}

/// Does nothing: Rust has no such instruction for other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch(_: NonNull<u8>) {}

/// Anonymous memory in frames of one size. Several sockets may share it, each with its own frames.
#[derive(Debug)]
pub(super) struct Umem {
    pages: Pages,
    frame_size: u32,
    frames: u32,
}

impl Umem {
    /// Allocates zeroed memory.
    pub(super) fn new(frames: u32, frame_size: u32) -> Result<Self> {
        let len = frames as usize * frame_size as usize;
        let flags = libc::MAP_PRIVATE | libc::MAP_POPULATE;
        let pages = Pages::map(None, 0, len, READ_WRITE, flags);
        Ok(Self {
            pages: pages
                .map_err(|source| Error::new("mmap(UMEM)", format!("{len} bytes"), source))?,
            frame_size,
            frames,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.pages.start.as_ptr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len
    }

    pub(super) fn frame_size(&self) -> u32 {
        self.frame_size
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Returns the address, within the memory, of the frame that a byte lies in.
    #[inline]
    pub(super) fn frame_of(&self, at: u64) -> u64 {
        // Sizes are powers of two, so a mask suffices. A division would cost as much as all other
        // work for a packet.
        at & !(u64::from(self.frame_size) - 1)
    }

    /// Prefetches the start of a packet and the bytes before it. A driver on another processor has
    /// just written them, and the processor cannot guess the next frame, because frames lie far
    /// apart.
    #[inline]
    pub(super) fn prefetch(&self, packet: u64, len: u32) {
        let first = packet.saturating_sub(CACHE_LINE);
        // Two lines, or three for a packet longer than a line. The processor itself prefetches the
        // rest of longer packets, which is read in sequence.
        let lines = if len > 64 { 3 } else { 2 };
        for line in 0..lines {
            let at = first.wrapping_add(line * CACHE_LINE);
            if at < self.len() as u64 {
                let at = usize::try_from(at).unwrap_or_default();
                // SAFETY: within the mapping, as just checked.
                prefetch(unsafe { self.pages.start.add(at) });
            }
        }
    }

    /// Returns the frame that begins at an address; it may be written if nothing else accesses it.
    ///
    /// # Panics
    /// No frame begins there.
    pub(super) fn frame(&self, at: u64) -> NonNull<[u8]> {
        let size = self.frame_size as usize;
        let offset = usize::try_from(at).unwrap_or(usize::MAX);
        assert!(offset.is_multiple_of(size) && offset < self.len());
        // SAFETY: in bounds as just checked, because the memory is a whole number of frames.
        NonNull::slice_from_raw_parts(unsafe { self.pages.start.add(offset) }, size)
    }

    /// Returns bytes of one frame; `None` if they do not all lie in it.
    ///
    /// # Safety
    /// The kernel has handed the frame over, and it is not given back while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes(&self, at: u64, len: u32) -> Option<&[u8]> {
        let end = at.checked_add(len.into())?;
        let last_frame = self.frame_of(end.saturating_sub(1).max(at));
        if end > self.len() as u64 || self.frame_of(at) != last_frame {
            return None;
        }
        let at = usize::try_from(at).ok()?;
        // SAFETY: in bounds as just checked; mapped and initialised for as long as `self` lives;
        // the caller promises that nothing writes to the frame.
        Some(unsafe { std::slice::from_raw_parts(self.pages.start.add(at).as_ptr(), len as usize) })
    }
}
