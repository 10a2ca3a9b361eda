//! Requests for a handle that is being read.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ringtap_filter::Program;

use crate::lock::lock;

/// Requests for the reading side while it is in use, by callbacks and other threads.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pending: AtomicBool,
    /// Number of requests so far.
    pub(crate) made: AtomicU64,
    pub(crate) filter: Mutex<Option<Program>>,
}

impl Wishes {
    /// Returns whether a request is pending; a load.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.pending.load(Ordering::Relaxed)
    }

    pub(crate) fn wish(&self, program: Program) {
        *lock(&self.filter) = Some(program);
        self.made.fetch_add(1, Ordering::Release);
        self.pending.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Option<Program> {
        self.pending.store(false, Ordering::Release);
        lock(&self.filter).take()
    }
}
