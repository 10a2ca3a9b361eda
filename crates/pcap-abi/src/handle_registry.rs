//! The registry of open handles.
//!
//! C may close a handle while a thread waits for its packets, and may close one twice. So after a
//! wait, and before closing, the registry is asked before the handle is touched. Not every handle
//! that C passes is checked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::lock;

/// The handles that C has received and not closed.
static OPEN: Mutex<Vec<HandleId>> = Mutex::new(Vec::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A handle, identified by its address and a unique number, because a later handle may have the
/// same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandleId {
    address: usize,
    number: u64,
}

/// Returns a number that no other handle has.
pub(crate) fn number() -> u64 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Returns whether a handle at that address is open.
pub(crate) fn has(address: usize) -> bool {
    lock(&OPEN).iter().any(|one| one.address == address)
}

impl HandleId {
    pub(crate) fn new(address: usize, number: u64) -> Self {
        Self { address, number }
    }

    /// Registers the handle, which C has received.
    pub(crate) fn open(self) {
        lock(&OPEN).push(self);
    }

    /// Removes the handle, which will be freed.
    pub(crate) fn close(self) {
        let mut open = lock(&OPEN);
        open.retain(|one| *one != self);
        if open.is_empty() {
            // A leak checker finds no unfreed memory.
            open.shrink_to_fit();
        }
    }

    /// Returns whether C has not closed the handle.
    pub(crate) fn is_open(self) -> bool {
        lock(&OPEN).contains(&self)
    }
}
