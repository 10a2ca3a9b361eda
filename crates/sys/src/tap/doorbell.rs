//! The doorbell: a BPF ring buffer that is used only for its wake-up.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::bpf::ring_pages::{BUSY, DISCARDED, HEADER, map_ring};
use crate::bpf::{Kernel, Map, MapKind, MapSpec, page_size};
use crate::pages::Pages;

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
        let bytes = u32::try_from(page).unwrap_or(4096);
        let spec = MapSpec::new("ringtap_bell", MapKind::RingBuffer, 0, bytes);
        let map = Map::create(kernel, &spec)?;
        let (consumer, producer) = map_ring(&map, page)?;
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
