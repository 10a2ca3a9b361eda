//! Memory that the kernel maps into the process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// The pages may be read and written.
pub(crate) const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping with one owner; unmapped when dropped. It gives no access to the bytes by itself: its
/// owner knows who else writes to them.
#[derive(Debug)]
pub(crate) struct Pages {
    /// The first byte.
    pub(crate) start: NonNull<u8>,
    /// Length in bytes.
    pub(crate) len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; every access to its bytes has a reason of
// its own.
unsafe impl Send for Pages {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes of a file from `offset` on, or, without a file, memory that is zero at first.
    /// The flags must not ask for an address (`MAP_FIXED`).
    pub(crate) fn map(
        file: Option<BorrowedFd<'_>>,
        offset: usize,
        len: usize,
        protection: libc::c_int,
        flags: libc::c_int,
    ) -> io::Result<Self> {
        let (fd, kind) = file.map_or((-1, libc::MAP_ANONYMOUS), |fd| (fd.as_raw_fd(), 0));
        let offset = libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
        // SAFETY: the kernel picks addresses that are free, so no existing memory is touched.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), len, protection, flags | kind, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `map`; every borrow of it ended
        // with its owner. The kernel itself keeps pages that it still uses.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
