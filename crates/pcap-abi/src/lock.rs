//! Locks that a panic leaves usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock, also after a panic of its former holder.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
