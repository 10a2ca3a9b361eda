//! Long gaps between recorded packets: they are reported, and shortened on request.

use std::time::Duration;

use ringtap_capture::Timestamp;
use ringtap_send::Timing;

use crate::notice::{invalid_times, notice};

/// A wait longer than this is reported before it begins.
const LONG: Duration = Duration::from_secs(60);
/// The number of gaps that are reported one by one.
const REPORTED: u64 = 10;
const SECOND: i128 = 1_000_000_000;

/// Watches the times of packets that are sent by their times.
#[derive(Debug)]
pub(super) struct Gaps {
    /// `None` if packets are not sent by their times.
    multiplier: Option<f64>,
    most: Option<Duration>,
    /// The recorded time of the last packet, in nanoseconds.
    last: Option<i128>,
    packets: u64,
    /// The number of packets whose recorded time has a fraction of a second or more.
    invalid: u64,
    long: u64,
    /// The recorded time that was left out since the file's beginning.
    shift: i128,
    pub(super) shortened: Shortened,
}

/// The gaps that were shortened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub(super) gaps: u64,
    pub(super) time: Duration,
}

/// The decision on a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gap {
    Usual,
    /// The wait.
    Long(Duration),
    /// The original wait.
    Shortened(Duration),
}

impl Gaps {
    /// Limits waits to `most`, if given.
    pub(super) fn new(timing: Timing, most: Option<Duration>) -> Self {
        Self {
            multiplier: match timing {
                Timing::Recorded { multiplier } => Some(multiplier),
                _ => None,
            },
            most,
            last: None,
            packets: 0,
            invalid: 0,
            long: 0,
            shift: 0,
            shortened: Shortened::default(),
        }
    }

    /// Marks the next packet as the first of a file.
    pub(super) fn restart(&mut self) {
        self.last = None;
        self.shift = 0;
    }

    /// Reports how many packets were sent by an invalid time, if any.
    pub(super) fn report_invalid(&self) {
        invalid_times(self.invalid);
    }

    /// Returns the time at which a packet is sent.
    #[inline]
    pub(super) fn time(&mut self, recorded: Timestamp) -> Timestamp {
        let Some(multiplier) = self.multiplier else {
            return recorded;
        };
        self.packets += 1;
        self.invalid += u64::from(!recorded.is_valid());
        let now = recorded.as_nanos();
        // If times go back, the wait begins at the latest time.
        let last = self.last.map_or(now, |last| last.max(now));
        let gap = now - self.last.replace(last).unwrap_or(now);
        if gap > SECOND / 1_000 {
            self.judge_and_tell(gap, multiplier);
        }
        if self.shift == 0 {
            return recorded;
        }
        let nanos = now - self.shift;
        let secs = i64::try_from(nanos.div_euclid(SECOND)).unwrap_or(i64::MIN);
        let rest = u32::try_from(nanos.rem_euclid(SECOND)).unwrap_or(0);
        Timestamp::new(secs, rest)
    }

    #[cold]
    fn judge_and_tell(&mut self, gap: i128, multiplier: f64) {
        let before = self.packets - 1;
        let (wait, what) = match self.judge(gap, multiplier) {
            Gap::Long(wait) => (wait, "waited for; --max-gap shortens gaps".to_owned()),
            Gap::Shortened(wait) if wait > LONG => {
                let most = describe(self.most.unwrap_or_default());
                (wait, format!("shortened to {most}"))
            }
            Gap::Usual | Gap::Shortened(_) => return,
        };
        self.long += 1;
        if self.long <= REPORTED {
            let wait = describe(wait);
            notice(format_args!(
                "after packet {before} there is a gap of {wait}, which is {what}"
            ));
        }
        if self.long == REPORTED {
            notice("further gaps are not reported");
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a microsecond more or less of a long time does not matter"
    )]
    fn judge(&mut self, gap: i128, multiplier: f64) -> Gap {
        let seconds = gap as f64 / SECOND as f64 / multiplier;
        let wait = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        match self.most {
            Some(most) if wait > most => {
                let kept = (most.as_secs_f64() * multiplier * SECOND as f64) as i128;
                self.shift += gap - kept;
                self.shortened.gaps += 1;
                let left_out = self.shortened.time.saturating_add(wait - most);
                self.shortened.time = left_out;
                Gap::Shortened(wait)
            }
            _ if wait > LONG => Gap::Long(wait),
            _ => Gap::Usual,
        }
    }
}

/// Returns a time in a readable unit.
pub(super) fn describe(time: Duration) -> String {
    const MINUTE: f64 = 60.0;
    const HOUR: f64 = 60.0 * MINUTE;
    const DAY: f64 = 24.0 * HOUR;
    const YEAR: f64 = 365.25 * DAY;
    let seconds = time.as_secs_f64();
    match seconds {
        ..MINUTE => format!("{time:.3?}"),
        ..HOUR => format!("{:.1} minutes", seconds / MINUTE),
        ..DAY => format!("{:.1} hours", seconds / HOUR),
        ..YEAR => format!("{:.1} days", seconds / DAY),
        _ => format!("{:.1} years", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: Timing = Timing::Recorded { multiplier: 1.0 };

    fn times(gaps: &mut Gaps, recorded: &[i64]) -> Vec<i64> {
        let sent = recorded
            .iter()
            .map(|&secs| gaps.time(Timestamp::new(secs, 5)));
        sent.map(|time| {
            assert_eq!(time.subsec_nanos(), 5);
            time.secs()
        })
        .collect()
    }

    #[test]
    fn gaps_are_shortened_and_the_rest_stays() {
        let mut gaps = Gaps::new(RECORDED, Some(Duration::from_secs(10)));
        let year = 31_557_600;
        let recorded = [0, 3, 13, year, year + 1, 3 * year, 3 * year + 2];
        assert_eq!(times(&mut gaps, &recorded), [0, 3, 13, 23, 24, 34, 36]);
        assert_eq!(gaps.shortened.gaps, 2);
        let left_out = Duration::from_secs(3 * 31_557_600 - 13 - 1 - 20);
        assert_eq!(gaps.shortened.time, left_out);
        assert_eq!(gaps.long, 2);
        gaps.restart();
        assert_eq!(times(&mut gaps, &[0, 5]), [0, 5]);
    }

    #[test]
    fn packets_from_before_make_no_gap() {
        let mut gaps = Gaps::new(RECORDED, Some(Duration::from_secs(10)));
        assert_eq!(times(&mut gaps, &[1_000, 0, 1_001]), [1_000, 0, 1_001]);
        assert_eq!(gaps.shortened, Shortened::default());
    }

    #[test]
    fn long_gaps_are_told_whatever_the_speed() {
        let fast = Timing::Recorded { multiplier: 100.0 };
        for (timing, expected) in [(RECORDED, 1), (fast, 0), (Timing::TopSpeed, 0)] {
            let mut gaps = Gaps::new(timing, None);
            assert_eq!(times(&mut gaps, &[0, 61, 100]), [0, 61, 100]);
            assert_eq!(gaps.long, expected, "{timing:?}");
        }
        let mut gaps = Gaps::new(fast, Some(Duration::from_secs(1)));
        assert_eq!(times(&mut gaps, &[0, 250, 300]), [0, 100, 150]);
    }

    #[test]
    fn times_have_the_unit_that_people_choose() {
        let described = |secs| describe(Duration::from_secs(secs));
        assert_eq!(described(5), "5.000s");
        assert_eq!(described(90), "1.5 minutes");
        assert_eq!(described(100_000_000), "3.2 years");
        assert_eq!(describe(Duration::from_millis(500)), "500.000ms");
    }
}
