//! The state of a file that is written in the background.

use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex};
use std::thread::JoinHandle;

use crate::lock::lock;

/// A file that is written in the background.
#[derive(Default)]
pub(crate) struct LiveDump {
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) stop: AtomicBool,
    pub(crate) ended: Mutex<bool>,
    pub(crate) end: Condvar,
}

impl LiveDump {
    /// Returns whether the file is complete; waits for that if `wait` is set.
    pub(crate) fn has_ended(&self, wait: bool) -> bool {
        let mut ended = lock(&self.ended);
        while wait && !*ended {
            ended = self
                .end
                .wait(ended)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        *ended
    }
}
