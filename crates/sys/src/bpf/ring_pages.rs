//! The mapped pages of a BPF ring buffer.
//!
//! The layout is that of `BPF_MAP_TYPE_RINGBUF` (Documentation/bpf/ringbuf.rst): a writable page with the
//! consumer's position, a page with the producer's, and the data, mapped twice.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use super::error::{Error, Result};
use super::map::Map;
use super::mapping::page_size;

/// In the header of a record: the record is still being written (`BPF_RINGBUF_BUSY_BIT`).
pub(crate) const BUSY: u32 = 1 << 31;
/// In the header of a record: the record was discarded (`BPF_RINGBUF_DISCARD_BIT`).
pub(crate) const DISCARDED: u32 = 1 << 30;
/// Bytes of a record's header (`BPF_RINGBUF_HDR_SZ`).
pub(crate) const HEADER: u64 = 8;

/// Pages of the ring buffer; unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Pages {
    pub(crate) start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages are plain memory that any thread may use; all access is atomic.
unsafe impl Send for Pages {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps a ring buffer of `size` bytes of data: the consumer's page, which may be written, and the
    /// producer's page with both copies of the data behind it.
    pub(crate) fn of_ring(map: &Map, size: usize) -> Result<(Self, Self)> {
        let page = page_size();
        let failed = |source| Error::call("mmap(ring buffer)", map.name(), source, None);
        let consumer = Self::map(map, 0, page, libc::PROT_READ | libc::PROT_WRITE);
        let consumer = consumer.map_err(failed)?;
        let producer = Self::map(map, page, page + 2 * size, libc::PROT_READ).map_err(failed)?;
        Ok((consumer, producer))
    }

    fn map(map: &Map, offset: usize, len: usize, protection: i32) -> io::Result<Self> {
        let fd = map.as_fd().as_raw_fd();
        let offset = libc::off_t::try_from(offset).unwrap_or(libc::off_t::MAX);
        // SAFETY: the kernel picks addresses that are free.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                libc::MAP_SHARED,
                fd,
                offset,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping made in `map`, which nothing can use
        // any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
