//! The traffic of a host over time: bytes in steps of 10 s for 5 minutes, and of 12 minutes for 6 hours.

use std::collections::VecDeque;

use crate::api::{Line, Series};
use crate::top::Window;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// Bytes of a step: sent, and received.
type Step = [u64; 2];

/// Steps of one length, the oldest first; those without traffic at the end are left out.
#[derive(Clone, Debug)]
struct Ring<const SECONDS: u64, const STEPS: usize> {
    /// The number of the first step since 1970.
    first: u64,
    steps: VecDeque<Step>,
}

/// Both rings of a host. They grow while the host has traffic.
#[derive(Clone, Debug)]
pub(crate) struct HostSteps {
    minutes: Ring<10, 30>,
    hours: Ring<720, 30>,
}

impl HostSteps {
    pub(crate) fn new() -> Self {
        Self {
            minutes: Ring::new(),
            hours: Ring::new(),
        }
    }

    /// Adds bytes: sent, and received.
    pub(crate) fn add(&mut self, time_ns: u64, traffic: Step) {
        self.minutes.add(time_ns, traffic);
        self.hours.add(time_ns, traffic);
    }

    /// Returns the steps of a window that ends now. All that is longer than 6 hours is one of 6 hours.
    pub(crate) fn series(&self, window: Window, now_ns: u64) -> Series {
        match window {
            Window::Minutes => self.minutes.series(now_ns),
            Window::Hours | Window::All => self.hours.series(now_ns),
        }
    }
}

impl<const SECONDS: u64, const STEPS: usize> Ring<SECONDS, STEPS> {
    const STEP_NS: u64 = SECONDS * SECOND;

    const fn new() -> Self {
        Self {
            first: 0,
            steps: VecDeque::new(),
        }
    }

    fn add(&mut self, time_ns: u64, traffic: Step) {
        let number = time_ns / Self::STEP_NS;
        let next = self.first + self.steps.len() as u64;
        if self.steps.is_empty() || number >= next + STEPS as u64 {
            self.steps.clear();
            self.first = number;
        }
        let Some(at) = number.checked_sub(self.first) else {
            // Packets from before the host was listed.
            return;
        };
        // Old steps make room first, so that the ring never takes more memory than its steps.
        let excess = (at + 1).saturating_sub(STEPS as u64);
        for _ in 0..excess.min(self.steps.len() as u64) {
            self.steps.pop_front();
        }
        self.first += excess;
        let at = at - excess;
        while self.steps.len() as u64 <= at {
            self.steps.push_back(Step::default());
        }
        if let Some(step) = usize::try_from(at)
            .ok()
            .and_then(|at| self.steps.get_mut(at))
        {
            for (sum, more) in step.iter_mut().zip(traffic) {
                *sum = sum.saturating_add(more);
            }
        }
    }

    fn series(&self, now_ns: u64) -> Series {
        let end = now_ns / Self::STEP_NS + 1;
        let begin = end.saturating_sub(STEPS as u64).max(self.first).min(end);
        let step = |number: u64| {
            let at = number.checked_sub(self.first)?;
            self.steps.get(usize::try_from(at).ok()?)
        };
        let line = |name: &str, way: usize| {
            let of = |number| step(number).map_or(0, |step| step[way]);
            let bytes: Vec<_> = (begin..end).map(|number| Some(of(number))).collect();
            Line {
                name: name.to_owned(),
                packets: vec![None; bytes.len()],
                bytes,
            }
        };
        let ms = |number: u64| number.saturating_mul(Self::STEP_NS / MILLISECOND);
        Series {
            step_ms: ms(1),
            from_ms: ms(begin),
            to_ms: ms(end),
            series: vec![line("sent", 0), line("received", 1)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_last_minutes_and_hours() {
        let mut steps = HostSteps::new();
        let begin = 1_700_006_400 * SECOND;
        for second in 0..7 * 3600 {
            steps.add(begin + second * SECOND, [100, 1000]);
        }
        let now = begin + (7 * 3600 - 1) * SECOND;
        let sums = |window| {
            let series = steps.series(window, now);
            let sum = |line: &Line| line.bytes.iter().flatten().sum::<u64>();
            let lines = &series.series;
            (
                series.step_ms,
                lines[0].bytes.len(),
                sum(&lines[0]),
                sum(&lines[1]),
            )
        };
        assert_eq!(sums(Window::Minutes), (10_000, 30, 30_000, 300_000));
        assert_eq!(
            sums(Window::Hours),
            (720_000, 30, 30 * 72_000, 30 * 720_000)
        );
        // Packets from long ago, and from a later day.
        steps.add(begin, [1, 0]);
        steps.add(now + 86_400 * SECOND, [7, 0]);
        let later = steps.series(Window::Minutes, now + 86_400 * SECOND);
        assert_eq!(later.series[0].bytes, [Some(7)]);
        let silent = steps.series(Window::Minutes, now + 87_400 * SECOND);
        assert!(silent.series[0].bytes.iter().all(|bytes| *bytes == Some(0)));
    }

    #[test]
    fn a_ring_takes_the_memory_of_its_steps() {
        let mut ring = Ring::<10, 30>::new();
        for (step, first) in [(100, 100), (120, 100), (145, 116), (170, 141), (229, 229)] {
            ring.add(step * Ring::<10, 30>::STEP_NS, [step, 0]);
            assert_eq!(ring.first, first);
            assert_eq!(ring.steps.back(), Some(&[step, 0]));
            assert!(ring.steps.len() <= 30);
            assert!(ring.steps.capacity() <= 32);
        }
    }
}
