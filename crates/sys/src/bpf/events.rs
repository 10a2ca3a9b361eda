//! Records that programs write to a BPF ring buffer, and that the application takes from the mapped
//! memory, without a system call.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::error::Result;
use super::kernel::Kernel;
use super::map::{Map, MapKind, MapSpec};
use super::mapping::page_size;
use super::ring_pages::{BUSY, DISCARDED, HEADER, map_ring};
use crate::pages::Pages;

/// A ring buffer with one reader (Linux 5.8).
#[derive(Debug)]
pub struct Events {
    map: Map,
    consumer: Pages,
    producer: Pages,
    size: usize,
}

impl Events {
    /// Creates a ring buffer of at least `size` bytes.
    ///
    /// # Errors
    /// The same as [`Map::create`], and the errors of mmap(2).
    pub fn create(kernel: &Kernel, name: &str, size: usize) -> Result<Self> {
        let size = size.max(page_size()).next_power_of_two();
        let bytes = u32::try_from(size).unwrap_or(1 << 31);
        let map = Map::create(kernel, &MapSpec::new(name, MapKind::RingBuffer, 0, bytes))?;
        let (consumer, producer) = map_ring(&map, size)?;
        Ok(Self {
            map,
            consumer,
            producer,
            size,
        })
    }

    /// Returns the map, for programs.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Takes the next record that is complete, and passes its bytes to `with`. Returns `None` if there is
    /// none.
    pub fn take<T>(&mut self, with: impl FnOnce(&[u8]) -> T) -> Option<T> {
        // SAFETY: the word is at the start of a mapped page that only this process writes; the kernel
        // loads it whole.
        let consumer = unsafe { AtomicU64::from_ptr(self.consumer.start.as_ptr().cast()) };
        // SAFETY: the word is at the start of a mapped page; it is loaded only.
        let producer = unsafe { AtomicU64::from_ptr(self.producer.start.as_ptr().cast()) };
        let mut at = consumer.load(Ordering::Relaxed);
        while at < producer.load(Ordering::Acquire) {
            let offset = usize::try_from(at).unwrap_or_default() & (self.size - 1) & !7;
            let record = page_size() + offset;
            // SAFETY: the offset is below the size of the data and a multiple of 8, so the word is in the
            // data's first copy, behind the producer's page. It is loaded only.
            let header =
                unsafe { AtomicU32::from_ptr(self.producer.start.add(record).as_ptr().cast()) };
            let header = header.load(Ordering::Acquire);
            if header & BUSY != 0 {
                return None;
            }
            let length = header & !DISCARDED;
            at += (u64::from(length) + HEADER).next_multiple_of(8);
            // The kernel accepts no longer record. Only a length within the mapping is used.
            let length = usize::try_from(length)
                .unwrap_or_default()
                .min(self.size - 8);
            if header & DISCARDED != 0 {
                consumer.store(at, Ordering::Release);
                continue;
            }
            // SAFETY: the record begins in the first copy of the data, and is at most as long as the data
            // without its header, so it ends in the second copy. The program has completed it, and no other
            // is written in its place before the consumer's position is stored below.
            let bytes = unsafe {
                let start = self.producer.start.add(record + 8);
                std::slice::from_raw_parts(start.as_ptr(), length)
            };
            let taken = with(bytes);
            consumer.store(at, Ordering::Release);
            return Some(taken);
        }
        None
    }
}
