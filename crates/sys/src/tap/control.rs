//! The page by which a reader and its programs on all CPUs speak to one another.

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
    /// Makes the page; nobody waits.
    ///
    /// # Errors
    /// As [`Map::create`] and [`Mapping::new`].
    pub fn create(kernel: &Kernel) -> Result<Self> {
        let page = page_size();
        let spec = MapSpec::new(
            "ringtap_control",
            MapKind::Array {
                mmapable: true,
                inner: false,
            },
            u32::try_from(page).unwrap_or(4096),
            1,
        );
        let map = Map::create(kernel, &spec)?;
        let mapping = Mapping::new(&map, 0..page)?;
        Ok(Self { map, mapping })
    }

    /// The map, for programs.
    #[must_use]
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Sets what programs add to the kernel's clock, in nanoseconds modulo 2^64.
    pub fn set_clock_offset(&self, nanos: u64) {
        let word = self.mapping.word_u64(layout::CLOCK_OFFSET);
        word.store(nanos, Ordering::Relaxed);
    }

    /// Whether a program for received packets was run since this was asked last.
    #[must_use]
    pub fn take_received(&self) -> bool {
        // Whatever a program writes is 32 bits wide, of a word that nobody else uses.
        let word = self.mapping.word_u64(layout::RECEIVED);
        let received = word.load(Ordering::Relaxed) != 0;
        if received {
            word.store(0, Ordering::Relaxed);
        }
        received
    }

    /// Asks to be rung once `wanted` bytes are there, `available` telling how many are there now.
    /// False where that is the case already, so that there is nothing to wait for.
    ///
    /// The argument is in the documentation of the module `tap`.
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

    /// Asks not to be rung any more.
    pub fn disarm(&self) {
        let waiting = self.mapping.word_u64(layout::WAITING);
        waiting.store(0, Ordering::Relaxed);
    }
}
