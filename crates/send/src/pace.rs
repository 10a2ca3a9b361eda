//! Computes when packets are sent: an absolute schedule, and how it is kept.
//!
//! All times here are nanoseconds since the run started. Each packet has a due time that does not depend on
//! when earlier packets were sent. Two rules ensure that no more is sent in any 10 ms than requested:
//!
//! - A sender that is late by more than the tolerance does not catch up: the rest of the schedule moves by
//!   the lateness, which is counted ([`Lateness::moved`]).
//! - Within the tolerance it catches up, but a packet waits until 10 ms have passed since the sending of the
//!   last packet that was due 10 ms or more before it ([`Guard`]).
//!
//! Gaps are kept nevertheless: after a wait that ended late, later packets are equally late. This lag shrinks
//! by half a thousandth of the elapsed time, at most two ([`Lag`]). An immediate catch-up after one late
//! packet would make two gaps wrong, and two more 10 ms later.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use ringtap_packet::Timestamp;

use crate::{Outgoing, SendError, Timing};

const SECOND: f64 = 1e9;
/// The window in which no more is sent than requested.
const WINDOW: u64 = 10_000_000;
/// The part of a lateness that the guard ignores: 0.2 % of the window.
const SLACK: u64 = 20_000;
/// The lateness that a steady rate may catch up: 0.2 % of the window.
const STEADY_TOLERANCE: u64 = 20_000;
/// The lateness that recorded gaps may catch up: packets recorded together leave one after the other.
const RECORDED_TOLERANCE: u64 = 1_000_000;
/// How late a wait may end without delaying later packets.
const PUNCTUAL: u64 = 2_000;
/// The time in which one nanosecond of a lag is caught up: for a short lag, so that gaps stay correct, and
/// for the part beyond [`SHORT_LAG`], so that the rate does too.
const SLEW: u64 = 2_000;
const FAST_SLEW: u64 = 500;
const SHORT_LAG: u64 = 100_000;
/// A longer lag is not caught up.
const LONGEST_LAG: u64 = 1_000_000;
/// The maximum number of entries of the guard; further ones are merged.
const REMEMBERED: usize = 1 << 16;
/// The largest lateness that is recorded: a minute.
const LATEST: u64 = 60_000_000_000;

/// The due times of consecutive packets.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    timing: Timing,
    /// Packets or bytes so far, for rates.
    done: u64,
    /// The due time of the last packet.
    last: u64,
    /// The first packet's time since the last restart, and the time to add for earlier parts.
    base: Option<(Timestamp, u64)>,
    /// Packets with an earlier recorded time than the previous one.
    pub(crate) backwards: u64,
}

impl Schedule {
    /// Checks the timing's values.
    pub(crate) fn new(timing: Timing) -> Result<Self, SendError> {
        let (what, value) = match timing {
            Timing::TopSpeed => ("top speed", 1.0),
            Timing::Recorded { multiplier } => ("the multiplier", multiplier),
            Timing::Packets { per_second } => ("the rate in packets per second", per_second),
            Timing::Bits { per_second } => ("the rate in bits per second", per_second),
        };
        if !value.is_finite() || !(1e-6..=1e15).contains(&value) {
            return Err(SendError::Value {
                what,
                expected: "a number from 0.000001 to 1e15",
                found: value.to_string(),
            });
        }
        Ok(Self {
            timing,
            done: 0,
            last: 0,
            base: None,
            backwards: 0,
        })
    }

    pub(crate) fn is_timed(&self) -> bool {
        !matches!(self.timing, Timing::TopSpeed)
    }

    fn tolerance(&self) -> u64 {
        match self.timing {
            Timing::Recorded { .. } | Timing::TopSpeed => RECORDED_TOLERANCE,
            Timing::Packets { .. } | Timing::Bits { .. } => STEADY_TOLERANCE,
        }
    }

    /// Takes the next packet's recorded time as the last one's due time: a file starts again.
    pub(crate) fn restart(&mut self) {
        self.base = None;
    }

    /// Returns when the next packet is due.
    #[inline]
    pub(crate) fn due(&mut self, packet: &Outgoing<'_>) -> u64 {
        let due = match self.timing {
            Timing::TopSpeed => 0,
            Timing::Recorded { multiplier } => self.recorded(packet.timestamp, multiplier),
            Timing::Packets { per_second } => at_rate(self.count(1), per_second),
            Timing::Bits { per_second } => {
                at_rate(self.count(8 * packet.data.len() as u64), per_second)
            }
        };
        self.last = self.last.max(due);
        self.last
    }

    /// Adds to the sent amount, and returns the previous amount.
    fn count(&mut self, amount: u64) -> u64 {
        let before = self.done;
        self.done = before.saturating_add(amount);
        before
    }

    fn recorded(&mut self, time: Timestamp, multiplier: f64) -> u64 {
        let (base, offset) = *self.base.get_or_insert((time, self.last));
        let nanos = time.as_nanos() - base.as_nanos();
        let due = offset.saturating_add(scaled(nanos, multiplier));
        self.backwards += u64::from(due < self.last);
        due
    }
}

/// Returns when the amount is reached at a rate per second.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "exact up to 2^53 packets or bits; casts of floats saturate"
)]
pub(crate) fn at_rate(amount: u64, per_second: f64) -> u64 {
    (amount as f64 * (SECOND / per_second)) as u64
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "exact up to 2^53 ns, 104 days; casts of floats saturate, below zero to 0"
)]
fn scaled(nanos: i128, multiplier: f64) -> u64 {
    if multiplier.to_bits() == 1.0_f64.to_bits() {
        return u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
    }
    (nanos as f64 / multiplier) as u64
}

/// Compares the sent packets with the due times.
#[derive(Debug)]
pub(crate) struct Pacer {
    tolerance: u64,
    /// How far the schedule has moved.
    shift: u64,
    lag: Lag,
    guard: Guard,
    late: Histogram<u64>,
    latest: u64,
    total: u128,
}

impl Pacer {
    /// Returns the state of a schedule. The back-end's own tolerance counts if it is larger.
    pub(crate) fn new(schedule: &Schedule, tolerance: Duration) -> Self {
        let tolerance = u64::try_from(tolerance.as_nanos()).unwrap_or(u64::MAX);
        Self {
            tolerance: schedule.tolerance().max(tolerance),
            shift: 0,
            lag: Lag::default(),
            guard: Guard::default(),
            late: empty_histogram(),
            latest: 0,
            total: 0,
        }
    }

    /// Returns when a packet of this due time may be sent.
    #[inline]
    pub(crate) fn not_before(&mut self, due: u64) -> u64 {
        self.planned(due).max(self.guard.not_before(due))
    }

    /// Records that the wait for the packet of this due time ended late.
    #[inline]
    pub(crate) fn waited(&mut self, due: u64, late: u64) {
        if self.lag.at(due).saturating_add(late) > LONGEST_LAG {
            // The whole schedule moves when the packet is accepted.
            self.lag = Lag::default();
        } else if late > PUNCTUAL {
            self.lag.fall_behind(due, late);
        }
    }

    /// Returns when a packet of this due time should be sent.
    #[inline]
    fn planned(&self, due: u64) -> u64 {
        due.saturating_add(self.shift)
            .saturating_add(self.lag.at(due))
    }

    /// Records that a packet with this due time joins the batch that is sent now.
    #[inline]
    pub(crate) fn take(&mut self, due: u64, now: u64) {
        let late = now.saturating_sub(due.saturating_add(self.shift));
        self.late.saturating_record(late);
        self.latest = self.latest.max(late);
        self.total += u128::from(late);
        if late > self.tolerance.saturating_add(self.lag.at(due)) {
            self.lag = Lag::default();
            self.shift += late;
        }
    }

    /// Returns the due time after all moves of the schedule.
    pub(crate) fn scheduled(&self, due: u64) -> u64 {
        due.saturating_add(self.shift)
    }

    /// Records that a batch is sent now, whose first packet was due then.
    #[inline]
    pub(crate) fn sent(&mut self, first_due: u64, now: u64) {
        // Less the slack, or the lateness would recur every 10 ms for ever.
        let scheduled = self.scheduled(first_due);
        let time = scheduled.max(now.saturating_sub(SLACK));
        self.guard.sent(first_due, time);
    }

    pub(crate) fn lateness(&self) -> Lateness {
        let packets = self.late.len();
        let mean = self.total.checked_div(packets.into()).unwrap_or(0);
        let quantile = |q| Duration::from_nanos(self.late.value_at_quantile(q).min(self.latest));
        Lateness {
            packets,
            mean: Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX)),
            median: quantile(0.5),
            p99: quantile(0.99),
            max: Duration::from_nanos(self.latest),
            moved: Duration::from_nanos(self.shift),
        }
    }
}

pub(crate) fn empty_histogram() -> Histogram<u64> {
    // Two digits up to a minute. The bounds are valid; otherwise the histogram would grow.
    Histogram::new_with_bounds(1, LATEST, 2).unwrap_or_else(|_| {
        Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are allowed"))
    })
}

/// How late packets were sent, measured when they were passed to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Packets that had a due time.
    pub packets: u64,
    /// Mean.
    pub mean: Duration,
    /// Median.
    pub median: Duration,
    /// 99 of 100 packets were not later than this.
    pub p99: Duration,
    /// The maximum.
    pub max: Duration,
    /// The total move of the schedule: lost time that was not caught up, because that would have exceeded the
    /// requested rate.
    pub moved: Duration,
}

/// How far packets are behind the schedule so that the gaps between them are correct.
#[derive(Debug, Default)]
struct Lag {
    nanos: u64,
    /// From this due time on, it shrinks by one in [`FAST_SLEW`], then in [`SLEW`].
    from: u64,
}

impl Lag {
    #[inline]
    fn at(&self, due: u64) -> u64 {
        let elapsed = due.saturating_sub(self.from);
        let long = self.nanos.saturating_sub(SHORT_LAG);
        match elapsed.checked_sub(long * FAST_SLEW) {
            None => self.nanos - elapsed / FAST_SLEW,
            Some(rest) => (self.nanos - long).saturating_sub(rest / SLEW),
        }
    }

    fn fall_behind(&mut self, due: u64, late: u64) {
        self.nanos = self.at(due).saturating_add(late);
        self.from = due;
    }
}

/// The packets sent in the last 10 ms of the schedule.
#[derive(Debug, Default)]
struct Guard {
    /// Due time of a batch's first packet, and when it was sent.
    batches: VecDeque<(u64, u64)>,
    /// When the last batch was sent that was due 10 ms before the present packet.
    left: Option<u64>,
}

impl Guard {
    #[inline]
    fn not_before(&mut self, due: u64) -> u64 {
        while let Some(&(first_due, sent)) = self.batches.front() {
            if first_due.saturating_add(WINDOW) > due {
                break;
            }
            self.left = Some(sent);
            self.batches.pop_front();
        }
        self.left.map_or(0, |sent| sent + WINDOW)
    }

    #[inline]
    fn sent(&mut self, first_due: u64, now: u64) {
        let is_full = self.batches.len() >= REMEMBERED;
        match self.batches.back_mut() {
            Some(last) if is_full => last.1 = now,
            _ => self.batches.push_back((first_due, now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(timing: Timing, packets: &[(i64, usize)]) -> Vec<u64> {
        let mut schedule = Schedule::new(timing).expect("valid");
        let data = [0; 1500];
        let due = |&(micros, len): &(i64, usize)| {
            schedule.due(&Outgoing {
                timestamp: Timestamp::from_nanos(micros * 1000),
                data: &data[..len],
            })
        };
        packets.iter().map(due).collect()
    }

    #[test]
    fn due_times_follow_the_timing() {
        let packets = [(5, 100), (15, 100), (10, 1000), (35, 60)];
        let recorded = Timing::Recorded { multiplier: 1.0 };
        // A step back does not delay the schedule.
        assert_eq!(dues(recorded, &packets), [0, 10_000, 10_000, 30_000]);
        let twice = Timing::Recorded { multiplier: 2.0 };
        assert_eq!(dues(twice, &packets), [0, 5_000, 5_000, 15_000]);
        let rate = Timing::Packets { per_second: 1e4 };
        assert_eq!(dues(rate, &packets), [0, 100_000, 200_000, 300_000]);
        let bits = Timing::Bits { per_second: 8e6 };
        assert_eq!(dues(bits, &packets), [0, 100_000, 200_000, 1_200_000]);
    }

    #[test]
    fn a_file_that_begins_again_goes_on_from_the_last_due_time() {
        let mut schedule = Schedule::new(Timing::Recorded { multiplier: 1.0 }).expect("valid");
        let at = |nanos| Outgoing {
            timestamp: Timestamp::from_nanos(nanos),
            data: &[],
        };
        assert_eq!(schedule.due(&at(1_000)), 0);
        assert_eq!(schedule.due(&at(4_000)), 3_000);
        schedule.restart();
        assert_eq!(schedule.due(&at(1_000)), 3_000);
        assert_eq!(schedule.due(&at(4_000)), 6_000);
    }

    #[test]
    fn hostile_times_and_rates_are_harmless() {
        let far = [(0, 1), (i64::MAX / 1000, 1), (i64::MIN / 1000, 1)];
        for multiplier in [1e-6, 1.0, 1e15] {
            dues(Timing::Recorded { multiplier }, &far);
        }
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9] {
            let timing = Timing::Packets { per_second: value };
            assert!(Schedule::new(timing).is_err(), "{value}");
        }
    }

    /// Runs a schedule on a simulated clock that sometimes stands still. Returns when packets left.
    fn simulate(timing: Timing, dues: &[u64], stalls: &[(usize, u64)]) -> (Vec<u64>, Lateness) {
        let mut pacer = Pacer::new(&Schedule::new(timing).expect("valid"), Duration::ZERO);
        let (mut now, mut left) = (0, Vec::new());
        for (index, &due) in dues.iter().enumerate() {
            let time = pacer.not_before(due);
            let is_waited_for = time > now;
            let stall = stalls.iter().filter(|s| s.0 == index).map(|s| s.1);
            now = now.max(time) + stall.sum::<u64>();
            if is_waited_for {
                pacer.waited(due, now - time);
            }
            pacer.take(due, now);
            pacer.sent(due, now);
            left.push(now);
            now += 1_000;
        }
        (left, pacer.lateness())
    }

    fn most_in_window(times: &[u64]) -> usize {
        assert!(times.is_sorted());
        let before = |end: u64| times.partition_point(|&time| time < end);
        let in_window = |&begin: &u64| before(begin + WINDOW) - before(begin);
        times.iter().map(in_window).max().unwrap_or(0)
    }

    #[test]
    fn never_faster_than_asked_over_any_10_ms() {
        // 10,000 packets per second: 100 in 10 ms, and one more if both ends of the window meet one. Stalls
        // are shorter and longer than the tolerances and the window.
        let dues: Vec<u64> = (0..2_000).map(|at| at * 100_000).collect();
        let stalls = [
            (50, 15_000),
            (300, 900_000),
            (700, 5_000_000),
            (900, 40_000_000),
        ];
        for timing in [
            Timing::Packets { per_second: 1e4 },
            Timing::Recorded { multiplier: 1.0 },
        ] {
            let (left, lateness) = simulate(timing, &dues, &stalls);
            assert!(most_in_window(&left) <= 101, "{}", most_in_window(&left));
            assert!(left.iter().zip(&dues).all(|(left, due)| left >= due));
            assert!(lateness.moved >= Duration::from_millis(45), "{lateness:?}");
            assert!(lateness.moved < Duration::from_millis(47), "{lateness:?}");
            assert_eq!(lateness.packets, 2_000);
            assert_eq!(lateness.max, Duration::from_millis(40));
        }
    }

    #[test]
    fn a_late_packet_makes_one_gap_wrong_and_is_made_up_for() {
        let dues: Vec<u64> = (0..20_000).map(|at| at * 100_000).collect();
        for timing in [
            Timing::Packets { per_second: 1e4 },
            Timing::Recorded { multiplier: 1.0 },
        ] {
            let (left, lateness) = simulate(timing, &dues, &[(100, 60_000), (5_000, 15_000)]);
            let (longer, _) = simulate(timing, &dues, &[(100, 600_000)]);
            assert!(most_in_window(&longer) <= 101);
            assert_eq!(longer.last(), dues.last());
            let gaps = left.windows(2).map(|pair| pair[1] - pair[0]);
            let wrong = gaps.filter(|gap| gap.abs_diff(100_000) > 50).count();
            assert_eq!(wrong, 2);
            assert!(most_in_window(&left) <= 101, "{}", most_in_window(&left));
            assert_eq!(left.last(), dues.last());
            assert_eq!(lateness.moved, Duration::ZERO);
            assert_eq!(lateness.max, Duration::from_micros(60));
        }
    }

    #[test]
    fn without_stalls_nothing_is_late_and_the_rate_is_exact() {
        let dues: Vec<u64> = (0..5_000).map(|at| at * 10_000).collect();
        let timing = Timing::Packets { per_second: 1e5 };
        let (left, lateness) = simulate(timing, &dues, &[]);
        assert_eq!(left, dues);
        assert_eq!(lateness.moved, Duration::ZERO);
        assert_eq!(lateness.max, Duration::ZERO);
    }
}
