//! The page that a reader shares with its programs on all CPUs.

use std::sync::atomic::{Ordering, fence};

use super::layout;
use crate::bpf::{Kernel, Map, MapKind, MapSpec, Mapping, Result, page_size};

/// The shared page of a capture.
#[derive(Debug)]
pub struct Control {
    map: Map,
    mapping: Mapping,
}

impl Control {
    /// Creates the page, with no reader waiting.
    ///
    /// # Errors
    /// As [`Map::create`] and [`Mapping::new`].
    pub fn create(kernel: &Kernel) -> Result<Self> {
        let page = page_size();
        let bytes = u32::try_from(page).unwrap_or(4096);
        let spec = MapSpec::new("ringtap_control", MapKind::MAPPED_ARRAY, bytes, 1);
        let map = Map::create(kernel, &spec)?;
        let mapping = Mapping::new(&map, 0..page)?;
        Ok(Self { map, mapping })
    }

    /// Returns the map, for programs.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Sets the offset that programs add to the kernel's clock, in nanoseconds modulo 2^64.
    pub fn set_clock_offset(&self, nanos: u64) {
        let word = self.mapping.word_u64(layout::CLOCK_OFFSET);
        word.store(nanos, Ordering::Relaxed);
    }

    /// Returns whether a program for received packets has run since the last call.
    #[must_use]
    pub fn take_received(&self) -> bool {
        // Programs write 32 bits of this word, and nothing else uses the rest.
        let word = self.mapping.word_u64(layout::RECEIVED);
        let received = word.load(Ordering::Relaxed) != 0;
        if received {
            word.store(0, Ordering::Relaxed);
        }
        received
    }

    /// Requests a wake-up when `wanted` bytes are available; `available` returns how many are
    /// available now. Returns false if there are enough already, so that the reader need not wait.
    ///
    /// The documentation of the module `tap` explains why no wake-up is lost.
    pub fn arm(&self, wanted: u64, available: impl FnOnce() -> u64) -> bool {
        let gathered = self.mapping.word_u64(layout::GATHERED);
        let word = self.mapping.word_u64(layout::WANTED);
        word.store(wanted, Ordering::Relaxed);
        gathered.store(0, Ordering::Relaxed);
        let waiting = self.mapping.word_u64(layout::WAITING);
        waiting.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let available = available();
        let before = gathered.fetch_add(available, Ordering::SeqCst);
        if before.saturating_add(available) >= wanted {
            self.disarm();
            return false;
        }
        true
    }

    /// Cancels the request.
    pub fn disarm(&self) {
        let waiting = self.mapping.word_u64(layout::WAITING);
        waiting.store(0, Ordering::Relaxed);
    }
}
