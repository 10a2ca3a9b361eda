//! The memory that packets are received into, or sent from.

use std::io;
use std::ptr::NonNull;

use crate::{Error, Result};

/// Bytes of a line of the processor's cache; only speed depends on it.
const CACHE_LINE: u64 = 64;

#[cfg(target_arch = "x86_64")]
#[inline]
fn prefetch(at: NonNull<u8>) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: it reads nothing that the program could see, wherever the pointer points; every x86-64 has it.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.as_ptr().cast_const().cast()) };
}

/// The language has no such instruction for other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch(_: NonNull<u8>) {}

/// Anonymous memory in frames of one size, which several sockets may share: each has frames of its own.
#[derive(Debug)]
pub(super) struct Umem {
    start: NonNull<u8>,
    frame_size: u32,
    frames: u32,
}

// SAFETY: plain memory; who accesses it promises to be alone with the frame, or with others that read.
unsafe impl Send for Umem {}
// SAFETY: as for `Send`.
unsafe impl Sync for Umem {}

impl Umem {
    /// Zeroed memory.
    pub(super) fn new(frames: u32, frame_size: u32) -> Result<Self> {
        let len = frames as usize * frame_size as usize;
        // SAFETY: no address is asked for, so that nothing that exists is replaced.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(Error::last("mmap(UMEM)", format!("{len} bytes")));
        }
        let start = NonNull::new(address.cast()).ok_or_else(|| {
            let source = io::ErrorKind::OutOfMemory.into();
            Error::new("mmap(UMEM)", format!("{len} bytes"), source)
        })?;
        Ok(Self {
            start,
            frame_size,
            frames,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.frames as usize * self.frame_size as usize
    }

    pub(super) fn frame_size(&self) -> u32 {
        self.frame_size
    }

    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// The address within the memory of the frame that a byte lies in.
    #[inline]
    pub(super) fn frame_of(&self, at: u64) -> u64 {
        // Sizes are powers of two; a division takes as long as all else that is done for a packet.
        at & !(u64::from(self.frame_size) - 1)
    }

    /// Has the processor fetch what lies in front of a packet, and its begin: a driver on another processor
    /// has just written them, and frames lie too far apart for it to guess which comes next.
    #[inline]
    pub(super) fn prefetch(&self, packet: u64, len: u32) {
        let first = packet.saturating_sub(CACHE_LINE);
        // What does not fit into the first line, another at most: longer packets are read in sequence, which
        // the processor sees.
        let lines = if len > 64 { 3 } else { 2 };
        for line in 0..lines {
            let at = first.wrapping_add(line * CACHE_LINE);
            if at < self.len() as u64 {
                let at = usize::try_from(at).unwrap_or_default();
                // SAFETY: within the mapping, as just checked.
                prefetch(unsafe { self.start.add(at) });
            }
        }
    }

    /// The frame that begins at an address, to be written where nobody else touches it.
    ///
    /// # Panics
    /// No frame begins there.
    pub(super) fn frame(&self, at: u64) -> NonNull<[u8]> {
        let size = self.frame_size as usize;
        let offset = usize::try_from(at).unwrap_or(usize::MAX);
        assert!(offset.is_multiple_of(size) && offset < self.len());
        // SAFETY: in bounds as just checked, for memory is a whole number of frames.
        NonNull::slice_from_raw_parts(unsafe { self.start.add(offset) }, size)
    }

    /// Bytes of one frame; nothing where they do not all lie in it.
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
        // that nobody writes is the caller's promise.
        Some(unsafe { std::slice::from_raw_parts(self.start.add(at).as_ptr(), len as usize) })
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the mapping made in `new`; every borrow of it has
        // ended. Pages that the kernel still holds for the socket it keeps for itself.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len()) };
    }
}
