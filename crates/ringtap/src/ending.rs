//! The end of a live capture that was asked for: what the ring has taken until then is still
//! delivered, however late the kernel hands it over.

use std::time::{Duration, Instant};

use ringtap_capture::Stats;

/// What the kernel may need beyond its time-out to hand over a block that is not full.
const GRACE: Duration = Duration::from_millis(100);
/// The same where packets are known to be missing: the kernel's timer waits for its turn on a busy
/// processor, as everything does.
const PATIENCE: Duration = Duration::from_secs(2);

/// When a capture that is to end has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    /// Packets that had gone into the ring; `None` where that is not known.
    last: Option<u64>,
    deadline: Instant,
}

impl Ending {
    /// Asked for now, with the counters as they are and the capture's time-out.
    pub(crate) fn asked(stats: &Stats, timeout: Duration) -> Self {
        let last = put_into_ring(stats);
        let patience = last.map_or(GRACE, |_| PATIENCE);
        Self {
            last,
            deadline: Instant::now() + timeout + patience,
        }
    }

    /// Whether nothing is to be waited for any more, where so many packets were delivered.
    pub(crate) fn is_over(&self, delivered: u64) -> bool {
        self.last.is_some_and(|last| last <= delivered) || Instant::now() >= self.deadline
    }

    /// Whether a time-out is the end: where it is not known that packets are missing.
    pub(crate) fn is_over_at_a_time_out(&self) -> bool {
        self.last.is_none()
    }
}

/// Packets that went into the ring so far, where that is known: those that were not delivered yet
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
