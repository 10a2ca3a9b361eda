//! Selects packets of a source: time range, sampling, count, snaplen. The filter was applied earlier, in the
//! kernel or by the source.

use std::time::Duration;

use ringtap_capture::{Packet, Stats, Timestamp};

use super::summary::Summary;

/// The decision on one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Take,
    Skip,
}

/// The state of the selection. There is one per output; it gets every packet in order.
#[derive(Clone, Debug)]
pub(crate) struct Selector {
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    sample: u32,
    until_sample: u32,
    left: u64,
    snaplen: usize,
    taken: u64,
    taken_bytes: u64,
    sampled_out: u64,
    /// When the end was requested.
    end: Option<Timestamp>,
    /// The number of packets that were captured after that.
    late: u64,
}

/// The criteria of a selection. The default takes all packets unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Selection {
    /// The first time that is taken.
    pub(crate) from: Option<Timestamp>,
    /// The first time that is no longer taken.
    pub(crate) to: Option<Timestamp>,
    /// Keep one of this many packets.
    pub(crate) sample: Option<u32>,
    /// Stop after this many packets.
    pub(crate) count: Option<u64>,
    /// Cut packets to this many bytes.
    pub(crate) snaplen: Option<u32>,
}

impl Selector {
    pub(crate) fn new(selection: &Selection) -> Self {
        Self {
            from: selection.from,
            to: selection.to,
            sample: selection.sample.unwrap_or(1),
            until_sample: 0,
            left: selection.count.unwrap_or(u64::MAX),
            snaplen: selection.snaplen.map_or(usize::MAX, |n| n as usize),
            taken: 0,
            taken_bytes: 0,
            sampled_out: 0,
            end: None,
            late: 0,
        }
    }

    /// Stops taking packets that were captured at `now` or later.
    pub(crate) fn end_at(&mut self, now: Timestamp) {
        self.end = Some(now);
        self.to = Some(self.to.map_or(now, |to| to.min(now)));
    }

    /// Returns whether every packet is taken unchanged, so that whole runs may be passed on unseen.
    pub(crate) fn takes_all(&self) -> bool {
        self.from.is_none()
            && self.to.is_none()
            && self.sample == 1
            && self.left == u64::MAX
            && self.snaplen == usize::MAX
    }

    /// Counts `packets` packets with `bytes` captured bytes that were passed on unchecked.
    pub(crate) fn passed(&mut self, packets: u64, bytes: u64) {
        self.taken += packets;
        self.taken_bytes += bytes;
    }

    /// Subtracts packets that were counted as taken but found no place.
    pub(crate) fn take_back(&mut self, packets: u64, bytes: u64) {
        self.taken -= packets;
        self.taken_bytes -= bytes;
    }

    /// Decides on one packet and cuts it to the snaplen.
    #[inline]
    pub(crate) fn judge(&mut self, packet: &mut Packet<'_>) -> Verdict {
        if self.end.is_some_and(|end| packet.timestamp >= end) {
            self.left = 0;
            self.late += 1;
        }
        if self.left == 0
            || self.from.is_some_and(|from| packet.timestamp < from)
            || self.to.is_some_and(|to| packet.timestamp >= to)
        {
            return Verdict::Skip;
        }
        if self.sample > 1 && !self.in_sample() {
            return Verdict::Skip;
        }
        if let Some(cut) = packet.data.get(..self.snaplen) {
            packet.data = cut;
        }
        if self.left != u64::MAX {
            self.left -= 1;
        }
        self.passed(1, packet.data.len() as u64);
        Verdict::Take
    }

    fn in_sample(&mut self) -> bool {
        if self.until_sample == 0 {
            self.until_sample = self.sample - 1;
            return true;
        }
        self.until_sample -= 1;
        self.sampled_out += 1;
        false
    }

    /// Returns whether the count is reached, or the end of the run has passed.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Returns the number of packets taken.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the packets that were captured after the end was requested. `None` if it was not.
    pub(crate) fn late(&self) -> Option<u64> {
        self.end.map(|_| self.late)
    }

    /// Returns the counters of a run in which this selected the packets.
    pub(crate) fn summary(&self, engine: &'static str, elapsed: Duration, stats: Stats) -> Summary {
        Summary {
            engine,
            elapsed,
            captured: self.taken,
            bytes: self.taken_bytes,
            sampled_out: self.sampled_out,
            stats,
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap_capture::PacketFlags;

    use super::*;

    fn judge_all(selection: &Selection, times: &[i64]) -> (Vec<i64>, Selector) {
        let mut selector = Selector::new(selection);
        let mut taken = Vec::new();
        for &secs in times {
            let mut packet = Packet {
                timestamp: Timestamp::new(secs, 0),
                len: 100,
                interface: 0,
                flags: PacketFlags::default(),
                data: &[0; 60],
                process: None,
            };
            if selector.judge(&mut packet) == Verdict::Take {
                assert!(packet.data.len() <= selection.snaplen.unwrap_or(60) as usize);
                taken.push(secs);
            }
        }
        (taken, selector)
    }

    #[test]
    fn the_range_includes_its_beginning_and_not_its_end() {
        let selection = Selection {
            from: Some(Timestamp::new(2, 0)),
            to: Some(Timestamp::new(4, 0)),
            ..Selection::default()
        };
        assert_eq!(judge_all(&selection, &[1, 2, 3, 4, 5]).0, [2, 3]);
    }

    #[test]
    fn sampling_keeps_the_first_of_each_n_and_counts_the_rest() {
        let selection = Selection {
            sample: Some(3),
            ..Selection::default()
        };
        let (taken, selector) = judge_all(&selection, &[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(taken, [1, 4, 7]);
        assert_eq!((selector.taken, selector.sampled_out), (3, 4));
    }

    #[test]
    fn the_count_ends_the_selection() {
        let selection = Selection {
            count: Some(2),
            snaplen: Some(20),
            ..Selection::default()
        };
        let (taken, selector) = judge_all(&selection, &[1, 2, 3]);
        assert_eq!(taken, [1, 2]);
        assert!(selector.is_done());
        assert_eq!(selector.taken_bytes, 40);
    }

    #[test]
    fn only_the_default_takes_all() {
        assert!(Selector::new(&Selection::default()).takes_all());
        let cut = Selection {
            snaplen: Some(96),
            ..Selection::default()
        };
        assert!(!Selector::new(&cut).takes_all());
    }
}
