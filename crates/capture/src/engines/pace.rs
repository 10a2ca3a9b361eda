//! Measures how fast packets come: readers wait longer if they come fast.

use std::time::{Duration, Instant};

/// A count, such as of packets or bytes, as it was when the last wait began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    at: Instant,
    count: u64,
}

impl Pace {
    /// Starts now, with nothing counted.
    pub(super) fn new() -> Self {
        Self {
            at: Instant::now(),
            count: 0,
        }
    }

    /// Returns the time since the last wait began, and what came in it; the next wait begins `now`.
    pub(super) fn step(&mut self, now: Instant, count: u64) -> (Duration, u64) {
        let before = std::mem::replace(self, Self { at: now, count });
        (
            now.duration_since(before.at),
            count.saturating_sub(before.count),
        )
    }
}
