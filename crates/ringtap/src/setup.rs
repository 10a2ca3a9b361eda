//! The setup before a command runs, and its error: signals, threads, descriptors.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use ringtap_capture::Waker;

/// Something that a run needs could not be set up.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(crate) struct SetupError {
    what: &'static str,
    r#source: Box<dyn std::error::Error + Send + Sync>,
}

/// Returns the error for a failed setup step, with its cause.
pub(crate) fn setup(
    what: &'static str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SetupError {
    SetupError {
        what,
        source: source.into(),
    }
}

/// Starts a thread.
pub(crate) fn spawn<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, SetupError> {
    let thread = thread::Builder::new().name(name.into()).spawn(work);
    thread.map_err(|source| setup("start a thread", source))
}

/// Makes a waker.
pub(crate) fn waker() -> Result<Waker, SetupError> {
    Waker::new().map_err(|source| setup("make an eventfd", source))
}

/// Locks a value, also after a panic of another thread.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
