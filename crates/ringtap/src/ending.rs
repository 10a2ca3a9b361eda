//! The requested end of a live capture: packets that are already in the ring are still delivered, however
//! late the kernel hands them over.

use std::time::{Duration, Instant};

use ringtap_capture::Stats;

/// The time that the kernel may need beyond its timeout to hand over a partial block.
const GRACE: Duration = Duration::from_millis(100);
/// The same if packets are known to be missing: on a busy processor, the kernel's timer has to wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// Decides when a capture that should end has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// The number of packets that had gone into the ring. `None` if it is not known.
    last: Option<u64>,
    /// How long to wait without packets.
    patience: Duration,
    deadline: Instant,
}

impl Ending {
    /// Returns an end that is requested now, with the present counters and the capture's timeout.
    pub(crate) fn asked(stats: &Stats, timeout: Duration) -> Self {
        let last = put_into_ring(stats);
        let patience = timeout + last.map_or(GRACE, |_| PATIENCE);
        Self {
            last,
            patience,
            deadline: Instant::now() + patience,
        }
    }

    /// Waits longer, since packets were delivered: a slow reader gets all that are in the ring.
    pub(crate) fn go_on(&mut self) {
        if self.last.is_some() {
            self.deadline = Instant::now() + self.patience;
        }
    }

    /// Returns whether the capture need not wait any more after this number of delivered packets.
    pub(crate) fn is_over(&self, delivered: u64) -> bool {
        self.last.is_some_and(|last| last <= delivered) || Instant::now() >= self.deadline
    }

    /// Returns whether a timeout is the end: yes unless packets are known to be missing.
    pub(crate) fn is_over_at_a_time_out(&self) -> bool {
        self.last.is_none()
    }
}

/// Returns the number of packets that went into the ring so far, if known. Those that were not delivered yet
/// will be.
fn put_into_ring(stats: &Stats) -> Option<u64> {
    stats.received?.checked_sub(stats.dropped.ring?)
}

#[cfg(test)]
mod tests {
    use ringtap_capture::Dropped;

    use super::*;

    #[test]
    fn what_is_missing_is_waited_for() {
        let stats = Stats {
            received: Some(10),
            dropped: Dropped {
                ring: Some(3),
                ..Dropped::default()
            },
            ..Stats::default()
        };
        let long = Duration::from_secs(3600);
        let known = Ending::asked(&stats, long);
        assert!(!known.is_over(6) && known.is_over(7));
        assert!(!known.is_over_at_a_time_out());
        let unknown = Ending::asked(&Stats::default(), long);
        assert!(!unknown.is_over(7) && unknown.is_over_at_a_time_out());
    }
}
