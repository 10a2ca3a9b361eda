//! Compares the times at which packets left, by the stamps of driver or adapter, with their due times.

use std::time::Duration;

use hdrhistogram::Histogram;
use ringtap_sys::packet::SendStamp;

/// The number of packets whose due times are remembered until their stamps come.
const REMEMBERED: usize = 1 << 16;

/// The times at which packets left, relative to the first stamped one and its due time: the stamping clock
/// may differ from any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departures {
    /// Packets with a stamp.
    pub stamped: u64,
    /// Median of how late or early they left.
    pub median: Duration,
    /// 99 of 100 packets were within this time.
    pub p99: Duration,
    /// The largest deviation.
    pub max: Duration,
}

/// Due times by number, and their results.
#[derive(Debug)]
pub(crate) struct Watch {
    /// By number modulo their count.
    dues: Box<[u64]>,
    /// Packets accepted before, and so far.
    from: u32,
    taken: u32,
    first: Option<(u64, u64)>,
    errors: Histogram<u64>,
}

impl Watch {
    /// Starts after `taken` accepted packets.
    pub(crate) fn new(taken: u32) -> Self {
        Self {
            dues: vec![0; REMEMBERED].into_boxed_slice(),
            from: taken,
            taken,
            first: None,
            errors: crate::pace::empty_histogram(),
        }
    }

    /// Records that the next accepted packet was due at this time, in nanoseconds.
    #[inline]
    pub(crate) fn taken(&mut self, due: u64) {
        self.dues[self.taken as usize % REMEMBERED] = due;
        self.taken = self.taken.wrapping_add(1);
    }

    /// Records a stamp. A stamp of an earlier packet, or one that comes too late for its due time to be
    /// known, does not count.
    #[inline]
    pub(crate) fn stamped(&mut self, stamp: SendStamp) {
        let behind = self.taken.wrapping_sub(stamp.number) as usize;
        let is_ours = stamp.number.wrapping_sub(self.from) < self.taken.wrapping_sub(self.from);
        if !is_ours || behind > REMEMBERED {
            return;
        }
        let due = self.dues[stamp.number as usize % REMEMBERED];
        let (first_due, first_left) = *self.first.get_or_insert((due, stamp.nanos));
        let left = stamp.nanos.wrapping_sub(first_left).cast_signed();
        let wanted = due.wrapping_sub(first_due).cast_signed();
        self.errors
            .saturating_record(left.wrapping_sub(wanted).unsigned_abs());
    }

    pub(crate) fn departures(&self) -> Departures {
        let quantile = |q| Duration::from_nanos(self.errors.value_at_quantile(q));
        Departures {
            stamped: self.errors.len(),
            median: quantile(0.5),
            p99: quantile(0.99),
            max: Duration::from_nanos(self.errors.max()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_the_distance_to_the_first() {
        let mut watch = Watch::new(0);
        for due in [100, 1_100, 2_100, 3_100] {
            watch.taken(due);
        }
        // Another clock; the second is 300 ns late, the third 200 ns early, the fourth has no stamp.
        for (number, nanos) in [(0, 9_000_000), (1, 9_001_300), (2, 9_001_800), (7, 1)] {
            watch.stamped(SendStamp { number, nanos });
        }
        let departures = watch.departures();
        assert_eq!(departures.stamped, 3);
        let within = |found: Duration, nanos: u64| {
            found.as_nanos().abs_diff(nanos.into()) <= u128::from(nanos) / 64
        };
        assert!(within(departures.median, 200), "{departures:?}");
        assert!(within(departures.max, 300), "{departures:?}");
    }
}
