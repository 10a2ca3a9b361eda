//! The memory that the kernel writes samples to.
//!
//! It consists of a control page and a ring of 2^n bytes. The kernel writes records and then
//! `data_head`. The reader loads `data_head` with acquire, copies the records, and stores
//! `data_tail` with release; after that the kernel may overwrite them (perf_event_open(2), "MMAP
//! layout").

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::abi;
use crate::bpf::page_size;
use crate::pages::{Pages, READ_WRITE};
use crate::{Error, Result};

/// One event's ring; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Ring {
    pages: Pages,
    page: usize,
    /// Bytes of the ring, a power of two.
    size: usize,
}

impl Ring {
    /// Maps an event's memory: `pages`, a power of two, or fewer if that many are not allowed.
    pub(super) fn map(fd: &OwnedFd, mut pages: usize) -> Result<Self> {
        let page = page_size();
        loop {
            let size = pages * page;
            match Pages::map(
                Some(fd.as_fd()),
                0,
                page + size,
                READ_WRITE,
                libc::MAP_SHARED,
            ) {
                Ok(pages) => return Ok(Self { pages, page, size }),
                // Beyond kernel.perf_event_mlock_kb the memory counts as locked.
                Err(error) if pages > 1 && error.raw_os_error() == Some(libc::EPERM) => pages /= 2,
                Err(error) => {
                    let context = format!("{size} bytes");
                    return Err(Error::new("mmap(perf event)", context, error));
                }
            }
        }
    }

    /// Takes the next record: returns its type, and puts its body into `body`.
    pub(super) fn take(&mut self, body: &mut Vec<u8>) -> Option<u32> {
        let tail = self.word(abi::DATA_TAIL).load(Ordering::Relaxed);
        let head = self.word(abi::DATA_HEAD).load(Ordering::Acquire);
        let available = usize::try_from(head.wrapping_sub(tail)).ok()?;
        if available < abi::HEADER || available > self.size {
            return None;
        }
        body.clear();
        self.copy(tail, abi::HEADER, body);
        let kind = u32::from_ne_bytes(body.get(..4)?.try_into().ok()?);
        let size = usize::from(u16::from_ne_bytes(body.get(6..8)?.try_into().ok()?));
        body.clear();
        if size < abi::HEADER || size > available {
            // The kernel never writes such a record: drop all available bytes.
            self.word(abi::DATA_TAIL).store(head, Ordering::Release);
            return None;
        }
        self.copy(tail + abi::HEADER as u64, size - abi::HEADER, body);
        self.word(abi::DATA_TAIL)
            .store(tail + size as u64, Ordering::Release);
        Some(kind)
    }

    /// Appends `len` bytes from a position on; records wrap around the end.
    fn copy(&self, position: u64, len: usize, to: &mut Vec<u8>) {
        // The low bits are the offset in the ring, which is smaller than the address space.
        let mask = self.size as u64 - 1;
        let at = usize::try_from(position & mask).unwrap_or_default();
        let first = len.min(self.size - at);
        for (from, len) in [(at, first), (0, len - first)] {
            // SAFETY: `from + len` is within the ring, which is mapped as long as `self` lives; the
            // kernel writes only beyond what `take` has seen published and not yet given back.
            let bytes = unsafe {
                std::slice::from_raw_parts(self.pages.start.as_ptr().add(self.page + from), len)
            };
            to.extend_from_slice(bytes);
        }
    }

    /// Returns a word of the control page.
    fn word(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset + 8 <= self.page);
        // SAFETY: both offsets in use are aligned and inside the first page, mapped and writable for
        // as long as `self` lives; the kernel accesses the words whole.
        unsafe { AtomicU64::from_ptr(self.pages.start.as_ptr().add(offset).cast()) }
    }
}
