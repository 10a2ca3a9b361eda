//! The doorbell: a BPF ring buffer that is used only for its wake-up.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Error;
use crate::bpf::{Kernel, Map, MapKind, MapSpec, page_size};

/// In the header of a record: the record is still being written (`BPF_RINGBUF_BUSY_BIT`).
const BUSY: u32 = 1 << 31;
/// In the header of a record: the record was discarded (`BPF_RINGBUF_DISCARD_BIT`).
const DISCARDED: u32 = 1 << 30;
/// Bytes of a record's header (`BPF_RINGBUF_HDR_SZ`).
const HEADER: u64 = 8;

/// A descriptor that becomes readable when a program writes to the ring buffer (5.8).
///
/// The layout is that of `BPF_MAP_TYPE_RINGBUF` (Documentation/bpf/ringbuf.rst): a writable page
/// with the consumer's position, a page with the producer's, and the data, mapped twice.
#[derive(Debug)]
pub struct Doorbell {
    map: Map,
    consumer: Pages,
    producer: Pages,
}

impl Doorbell {
    /// Creates a doorbell.
    ///
    /// # Errors
    /// The same as [`Map::create`], and the errors of mmap(2).
    pub fn create(kernel: &Kernel) -> crate::bpf::Result<Self> {
        let page = page_size();
        let spec = MapSpec::new(
            "ringtap_bell",
            MapKind::RingBuffer,
            0,
            u32::try_from(page).unwrap_or(4096),
        );
        let map = Map::create(kernel, &spec)?;
        let failed = |source| crate::bpf::Error::Call {
            error: Error::new("mmap(ring buffer)", "ringtap_bell", source),
            hint: None,
        };
        let consumer = Pages::map(&map, 0, page, libc::PROT_READ | libc::PROT_WRITE);
        let consumer = consumer.map_err(failed)?;
        let producer = Pages::map(&map, page, 3 * page, libc::PROT_READ).map_err(failed)?;
        Ok(Self {
            map,
            consumer,
            producer,
        })
    }

    /// Returns the map, for programs.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Makes the descriptor unreadable until the next ring.
    pub fn silence(&self) {
        let page = page_size();
        // SAFETY: the word is at the start of a mapped page that only this process writes; the
        // kernel loads it whole.
        let consumer = unsafe { AtomicU64::from_ptr(self.consumer.start.as_ptr().cast()) };
        // SAFETY: the word is at the start of a mapped page; it is loaded only.
        let producer = unsafe { AtomicU64::from_ptr(self.producer.start.as_ptr().cast()) };
        let mut at = consumer.load(Ordering::Relaxed);
        let end = producer.load(Ordering::Acquire);
        while at < end {
            let offset = page + usize::try_from(at).unwrap_or_default() % page;
            // SAFETY: the data's first copy is the page behind the producer's; records are 8-aligned,
            // so the word is in that page. It is loaded only.
            let header =
                unsafe { AtomicU32::from_ptr(self.producer.start.add(offset).as_ptr().cast()) };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                break;
            }
            at += (u64::from(header & !DISCARDED) + HEADER).next_multiple_of(8);
        }
        consumer.store(at, Ordering::Release);
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

/// Pages of the ring buffer; unmapped when dropped.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages are plain memory that any thread may use; all access is atomic.
unsafe impl Send for Pages {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pages {}

impl Pages {
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
