//! The memory for ethtool replies, followed by a guard page without access.
//!
//! For statistics and strings the kernel writes as many entries as the driver has at that moment,
//! whatever the buffer's size. If a driver gains queues between the request for the count and the
//! reply, a buffer of the exact size would overflow. Here the overflow hits a page without access:
//! the call fails with `EFAULT`, and no memory is damaged.

use crate::pages::{Pages, READ_WRITE};
use crate::{Error, Result};

/// The size of one reply, in bytes: over a hundred thousand counters, or thirty thousand names.
const ROOM: usize = 1 << 20;
/// At least a page on every architecture.
const GUARD: usize = 64 << 10;

/// A private mapping of [`ROOM`] bytes, zero at first, followed by one without access.
#[derive(Debug)]
pub(super) struct Scratch(Pages);

impl Scratch {
    pub(super) fn new() -> Result<Self> {
        // Map everything without access first, then open the room; the rest is the guard.
        const WHAT: &str = "memory for ethtool";
        let pages = Pages::map(None, 0, ROOM + GUARD, libc::PROT_NONE, libc::MAP_PRIVATE);
        let pages = pages.map_err(|source| Error::new("mmap", WHAT, source))?;
        // SAFETY: the range is the first part of the mapping made above, which this object owns.
        let opened = unsafe { libc::mprotect(pages.start.as_ptr().cast(), ROOM, READ_WRITE) };
        Error::check(opened, "mprotect", WHAT)?;
        Ok(Self(pages))
    }

    /// Writes a request to the beginning, then zeros up to `clear` bytes, and returns its address.
    pub(super) fn fill(&mut self, request: &[u8], clear: usize) -> *mut libc::c_char {
        let room = self.bytes_mut();
        let used = request.len().max(clear).min(room.len());
        room[..used].fill(0);
        room[..request.len()].copy_from_slice(request);
        self.0.start.as_ptr().cast()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: ROOM bytes from the start are mapped readable and initialised (anonymous memory
        // is zero) as long as this object lives, and nothing writes them while it is borrowed.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), ROOM) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), ROOM) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_room_is_all_there_is() {
        let mut scratch = Scratch::new().expect("a mapping");
        let start = scratch.fill(b"request", 64);
        assert_eq!(&scratch.bytes()[..8], b"request\0");
        assert_eq!(scratch.bytes().len(), ROOM);
        let zeros = File::open("/dev/zero").expect("/dev/zero");
        let read = |at: usize, len: usize| {
            // SAFETY: the kernel checks access to the range as it writes; it lies in the mapping.
            unsafe { libc::read(zeros.as_raw_fd(), start.add(at).cast(), len) }
        };
        assert_eq!(read(ROOM - 8, 8), 8);
        assert_eq!(read(ROOM, 8), -1, "the guard can be written");
    }
}
