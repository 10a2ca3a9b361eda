//! Evaluates a run, by the numbers and times in its packets.

use hdrhistogram::Histogram;
use ringtap_send::Marked;
use serde_json::json;

use crate::notice::{counted, counted_as};

/// The number of recent packet numbers that are remembered.
const WINDOW: u64 = 1 << 16;
/// The largest latency that is recorded: a minute, in nanoseconds.
const LONGEST: u64 = 60_000_000_000;
/// The maximum number of runs that are distinguished.
const MOST_RUNS: usize = 64;

/// All runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    runs: Vec<RunTally>,
    /// Packets of further runs.
    pub(super) beyond: u64,
}

/// One run.
#[derive(Debug)]
pub(super) struct RunTally {
    run: u16,
    received: u64,
    bytes: u64,
    first: u64,
    /// The highest number seen, plus one.
    next: u64,
    /// The number of different packets.
    unique: u64,
    duplicates: u64,
    /// Packets with a lower number than an earlier one (RFC 4737, section 3).
    reordered: u64,
    /// Packets so late that duplicates cannot be detected. They count as different ones.
    far_behind: u64,
    /// Bits by number modulo the window.
    seen: Box<[u64]>,
    latency: Histogram<u64>,
    /// Packets from a clock that is ahead of this one.
    ahead: u64,
}

impl Tally {
    /// Counts a packet that came at this time (nanoseconds since the epoch).
    #[inline]
    pub(super) fn count(&mut self, mark: Marked, arrived: i128, bytes: u32) {
        let at = match self.runs.iter().position(|run| run.run == mark.run) {
            Some(at) => at,
            None if self.runs.len() == MOST_RUNS => {
                self.beyond += 1;
                return;
            }
            None => {
                self.runs.push(RunTally::new(mark));
                self.runs.len() - 1
            }
        };
        self.runs[at].count(mark, arrived, bytes);
    }

    /// Returns the packets of all runs.
    pub(super) fn received(&self) -> u64 {
        self.runs.iter().map(|run| run.received).sum()
    }

    pub(super) fn runs(&self) -> &[RunTally] {
        &self.runs
    }
}

impl RunTally {
    fn new(mark: Marked) -> Self {
        // The bounds are valid; otherwise the histogram would grow.
        let latency = Histogram::new_with_bounds(1, LONGEST, 3);
        let words = usize::try_from(WINDOW / 64).unwrap_or(1);
        Self {
            run: mark.run,
            received: 0,
            bytes: 0,
            first: mark.number,
            next: mark.number,
            unique: 0,
            duplicates: 0,
            reordered: 0,
            far_behind: 0,
            seen: vec![0; words].into_boxed_slice(),
            latency: latency.unwrap_or_else(|_| unreachable!("1 to a minute, three digits")),
            ahead: 0,
        }
    }

    fn count(&mut self, mark: Marked, arrived: i128, bytes: u32) {
        self.received += 1;
        self.bytes += u64::from(bytes);
        match u64::try_from(arrived - i128::from(mark.nanos)) {
            Ok(latency) => self.latency.saturating_record(latency),
            Err(_) => self.ahead += 1,
        }
        self.first = self.first.min(mark.number);
        let is_new = if mark.number >= self.next {
            self.advance(mark.number);
            true
        } else if self.next - mark.number > WINDOW {
            self.reordered += 1;
            self.far_behind += 1;
            true
        } else {
            self.reordered += 1;
            !self.is_seen(mark.number)
        };
        if is_new {
            self.unique += 1;
            let (word, bit) = place(mark.number);
            if self.next - mark.number <= WINDOW {
                self.seen[word] |= bit;
            }
        } else {
            // A duplicate, not reordered.
            self.reordered -= 1;
            self.duplicates += 1;
        }
    }

    /// Sets the highest number. The numbers that it skips have not been seen.
    fn advance(&mut self, number: u64) {
        if number - self.next >= WINDOW {
            self.seen.fill(0);
        } else {
            for skipped in self.next..=number {
                let (word, bit) = place(skipped);
                self.seen[word] &= !bit;
            }
        }
        self.next = number + 1;
    }

    fn is_seen(&self, number: u64) -> bool {
        let (word, bit) = place(number);
        self.seen[word] & bit != 0
    }

    /// Returns how many numbers between the first and the highest did not come.
    fn lost(&self) -> u64 {
        (self.next - self.first).saturating_sub(self.unique)
    }

    fn quantile(&self, quantile: f64) -> u64 {
        self.latency.value_at_quantile(quantile)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let latency = (!self.latency.is_empty()).then(|| {
            json!({
                "min_ns": self.latency.min(),
                "mean_ns": self.latency.mean(),
                "p50_ns": self.quantile(0.5),
                "p90_ns": self.quantile(0.9),
                "p99_ns": self.quantile(0.99),
                "p999_ns": self.quantile(0.999),
                "p9999_ns": self.quantile(0.9999),
                "max_ns": self.latency.max(),
            })
        });
        json!({
            "run": self.run,
            "received": self.received,
            "bytes": self.bytes,
            "first": self.first,
            "last": self.next - 1,
            "lost": self.lost(),
            "duplicates": self.duplicates,
            "reordered": self.reordered,
            "far_behind": self.far_behind,
            "ahead_of_clock": self.ahead,
            "latency": latency,
        })
    }

    pub(super) fn text(&self) -> String {
        let (last, lost) = (self.next - 1, self.lost());
        #[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
        let percent = lost as f64 * 100.0 / (self.next - self.first) as f64;
        let mut text = format!(
            "run {}: {}, {}; numbers {} to {last}: {lost} lost ({percent:.4} %), {} duplicates, \
             {} reordered\n",
            self.run,
            counted(self.received, "packet"),
            counted(self.bytes, "byte"),
            self.first,
            self.duplicates,
            self.reordered
        );
        if self.far_behind > 0 {
            let what = "packets that arrived too late to be checked for duplicates";
            text.push_str(&counted_as(self.far_behind, what));
            text.push('\n');
        }
        if !self.latency.is_empty() {
            let micros = |nanos: u64| std::time::Duration::from_nanos(nanos);
            text.push_str(&format!(
                "latency: least {:.1?}, 50 % {:.1?}, 90 % {:.1?}, 99 % {:.1?}, 99.9 % {:.1?}, 99.99 % {:.1?}, \
                 most {:.1?}\n",
                micros(self.latency.min()),
                micros(self.quantile(0.5)),
                micros(self.quantile(0.9)),
                micros(self.quantile(0.99)),
                micros(self.quantile(0.999)),
                micros(self.quantile(0.9999)),
                micros(self.latency.max()),
            ));
        }
        if self.ahead > 0 {
            let what = "packets from a clock that is ahead of this one";
            text.push_str(&counted_as(self.ahead, what));
            text.push('\n');
        }
        text
    }
}

/// Returns the position of a number's bit.
fn place(number: u64) -> (usize, u64) {
    let word = usize::try_from(number % WINDOW / 64).unwrap_or_default();
    (word, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(numbers: impl IntoIterator<Item = u64>) -> serde_json::Value {
        let mut tally = Tally::default();
        for number in numbers {
            let mark = Marked {
                run: 3,
                number,
                nanos: 1_000,
            };
            tally.count(mark, 1_000 + 500, 60);
        }
        tally.runs()[0].json()
    }

    fn counts(value: &serde_json::Value) -> [u64; 4] {
        ["received", "lost", "duplicates", "reordered"].map(|key| value[key].as_u64().expect(key))
    }

    #[test]
    fn losses_doubles_and_overtaking_are_told_apart() {
        assert_eq!(counts(&tally(0..10)), [10, 0, 0, 0]);
        assert_eq!(counts(&tally([5, 6, 9])), [3, 2, 0, 0]);
        assert_eq!(counts(&tally([0, 2, 1, 3])), [4, 0, 0, 1]);
        assert_eq!(counts(&tally([0, 1, 1, 2, 0])), [5, 0, 2, 0]);
        assert_eq!(counts(&tally([3, 1, 2, 1])), [4, 0, 1, 2]);
        assert_eq!(counts(&tally([0, 100_000])), [2, 99_999, 0, 0]);
        // After a whole window, old bits are meaningless.
        let later = [0, 1, WINDOW + 5, WINDOW + 1, WINDOW + 1, 10];
        assert_eq!(counts(&tally(later)), [6, WINDOW + 6 - 5, 1, 2]);
        assert_eq!(
            counts(&tally([0, WINDOW * 3, 5])),
            [3, WINDOW * 3 - 2, 0, 1]
        );
    }

    #[test]
    fn latencies_and_clocks() {
        let mut tally = Tally::default();
        for (number, arrived) in [(0, 1_000), (1, 3_000), (2, -5)] {
            let mark = Marked {
                run: 0,
                number,
                nanos: 500,
            };
            tally.count(mark, arrived, 60);
        }
        let value = tally.runs()[0].json();
        assert_eq!(value["ahead_of_clock"], 1);
        assert_eq!(value["latency"]["min_ns"], 500);
        assert!(value["latency"]["max_ns"].as_u64().expect("a number") >= 2_500);
        assert!(tally.runs()[0].text().contains("latency: least 500"));
    }

    #[test]
    fn many_runs_take_bounded_memory() {
        let mut tally = Tally::default();
        for run in 0..1_000 {
            let mark = Marked {
                run,
                number: 0,
                nanos: 0,
            };
            tally.count(mark, 0, 60);
        }
        assert_eq!((tally.runs().len(), tally.beyond), (64, 936));
    }
}
