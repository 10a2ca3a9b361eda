//! The keys with most traffic, over windows of time that end now: slices of a minute and of an hour, and
//! everything.

use std::collections::VecDeque;

use crate::heavy::{Family, Heavy, HeavyKey, Row, Sum};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// Whole slices that a window of 5 minutes, or 6 hours, has beside the present one.
const SLICES: usize = 5;

/// A window of time that ends now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Window {
    /// The last 5 minutes: 5 whole minutes and the present one.
    #[default]
    Minutes,
    /// The last 6 hours: 5 whole hours and the present one.
    Hours,
    /// Everything since the start.
    All,
}

impl Window {
    /// Returns the window of so many seconds, `300` or `21600`, or of `all`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "300" => Some(Self::Minutes),
            "21600" => Some(Self::Hours),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

/// Sums of one kind of key.
#[derive(Debug)]
pub(crate) struct Tops<K> {
    family: Family,
    /// The counts of the present minute.
    now: Heavy<K>,
    minutes: VecDeque<Heavy<K>>,
    /// The counts of the present hour, without the present minute.
    hour: Heavy<K>,
    hours: VecDeque<Heavy<K>>,
    /// Before the present hour.
    before: Heavy<K>,
    /// When the present minute began; 0: nothing came so far.
    minute_ns: u64,
    first_ns: u64,
}

impl<K: HeavyKey> Tops<K> {
    pub(crate) fn new(keys: usize) -> Self {
        let family = Family::new(keys);
        let empty = || Heavy::new(family);
        Self {
            family,
            now: empty(),
            minutes: VecDeque::with_capacity(SLICES + 1),
            hour: empty(),
            hours: VecDeque::with_capacity(SLICES + 1),
            before: empty(),
            minute_ns: 0,
            first_ns: 0,
        }
    }

    pub(crate) fn add(&mut self, key: K, sum: &Sum) {
        self.now.add(key, sum);
    }

    /// Lets time go on to there. Whole slices move on.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let minute_ns = now_ns / MINUTE * MINUTE;
        if self.minute_ns == 0 {
            self.minute_ns = minute_ns;
            self.first_ns = minute_ns;
            return;
        }
        while self.minute_ns < minute_ns {
            let gone = (minute_ns - self.minute_ns) / MINUTE;
            self.end_minute();
            if gone > 720 && self.minutes.iter().all(|one| one.rows().next().is_none()) {
                // Nothing is left to be moved on but empty slices.
                let hour = std::mem::replace(&mut self.hour, Heavy::new(self.family));
                self.before.merge(&hour);
                self.minute_ns = minute_ns;
                self.hours.clear();
            }
        }
    }

    fn end_minute(&mut self) {
        let mut minute = std::mem::replace(&mut self.now, Heavy::new(self.family));
        minute.settle();
        self.hour.merge(&minute);
        self.minutes.push_back(minute);
        if self.minutes.len() > SLICES {
            self.minutes.pop_front();
        }
        self.minute_ns += MINUTE;
        if self.minute_ns.is_multiple_of(HOUR) {
            let hour = std::mem::replace(&mut self.hour, Heavy::new(self.family));
            self.before.merge(&hour);
            self.hours.push_back(hour);
            if self.hours.len() > SLICES {
                self.hours.pop_front();
            }
        }
    }

    /// Returns the sums of a window, and when it begins.
    pub(crate) fn window(&self, window: Window) -> (Heavy<K>, u64) {
        let mut sums = self.now.clone();
        sums.settle();
        let from_ns = match window {
            Window::Minutes => {
                self.minutes.iter().for_each(|minute| sums.merge(minute));
                self.minute_ns
                    .saturating_sub(self.minutes.len() as u64 * MINUTE)
            }
            Window::Hours => {
                sums.merge(&self.hour);
                self.hours.iter().for_each(|hour| sums.merge(hour));
                let begun = self.minute_ns / HOUR * HOUR;
                begun.saturating_sub(self.hours.len() as u64 * HOUR)
            }
            Window::All => {
                sums.merge(&self.hour);
                sums.merge(&self.before);
                self.first_ns
            }
        };
        (sums, from_ns.max(self.first_ns))
    }

    /// Returns the rows with most by `measure`, and when the window begins.
    pub(crate) fn top(
        &self,
        window: Window,
        count: usize,
        measure: impl Fn(&Sum) -> u64,
    ) -> (Vec<Row<K>>, u64) {
        let (sums, from_ns) = self.window(window);
        (sums.top(count, measure), from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: u64) -> Sum {
        Sum {
            bytes,
            packets: 1,
            ..Sum::default()
        }
    }

    #[test]
    fn windows_end_now_and_forget_what_is_older() {
        let mut tops: Tops<u16> = Tops::new(64);
        let begin = 1_700_000_000 * SECOND / HOUR * HOUR;
        let bytes = |tops: &Tops<u16>, window| {
            let (rows, from) = tops.top(window, 9, |sum| sum.bytes);
            (rows.iter().map(|row| row.sum.bytes).sum::<u64>(), from)
        };
        for minute in 0..600 {
            tops.advance(begin + minute * MINUTE);
            tops.add(7, &one(1));
        }
        let now = begin + 599 * MINUTE;
        assert_eq!(bytes(&tops, Window::Minutes), (6, now - 5 * MINUTE));
        let hours = begin + 4 * HOUR;
        assert_eq!(bytes(&tops, Window::Hours), (360, hours));
        assert_eq!(bytes(&tops, Window::All), (600, begin));
        tops.advance(begin + 900 * HOUR);
        assert_eq!(bytes(&tops, Window::Hours).0, 0);
        assert_eq!(bytes(&tops, Window::All), (600, begin));
    }
}
