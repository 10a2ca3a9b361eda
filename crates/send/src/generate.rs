//! Generates traffic: frames of a template at generated times.

use std::time::Duration;

use crate::pace::at_rate;
use crate::{Progress, Report, Result, SendError, Sender, Template, Timing};

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// As fast as they are accepted.
    TopSpeed,
    /// Evenly, at this rate.
    Constant {
        /// Packets per second.
        per_second: f64,
    },
    /// At random, independently of each other, at this rate on average.
    Poisson {
        /// Packets per second.
        per_second: f64,
        /// The seed. The same seed gives the same times.
        seed: u64,
    },
    /// In bursts, at this rate on average.
    Burst {
        /// Packets per second.
        per_second: f64,
        /// The number of packets in a burst.
        packets: u32,
    },
}

/// The amount of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// At most this many packets.
    pub count: Option<u64>,
    /// This long. At a rate, it includes the packets that are due within this time. A schedule that was
    /// delayed ends at the same time, with fewer packets.
    pub duration: Option<Duration>,
}

/// The due times of consecutive packets, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Times {
    arrivals: Arrivals,
    random: fastrand::Rng,
    /// For Poisson: the last time.
    last: f64,
}

impl Times {
    pub(crate) fn new(arrivals: Arrivals) -> Self {
        let seed = match arrivals {
            Arrivals::Poisson { seed, .. } => seed,
            _ => 0,
        };
        Self {
            arrivals,
            random: fastrand::Rng::with_seed(seed),
            last: 0.0,
        }
    }

    /// Returns the due time of a packet. Numbers must be in order.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "exact up to 2^53 nanoseconds; casts of floats saturate"
    )]
    pub(crate) fn due(&mut self, number: u64) -> u64 {
        match self.arrivals {
            Arrivals::TopSpeed => 0,
            Arrivals::Constant { per_second } => at_rate(number, per_second),
            Arrivals::Burst {
                per_second,
                packets,
            } => {
                let packets = u64::from(packets.max(1));
                at_rate(number / packets * packets, per_second)
            }
            Arrivals::Poisson { per_second, .. } => {
                let due = self.last as u64;
                // Gaps are exponentially distributed; 1 - f64() is never 0.
                self.last -= (1.0 - self.random.f64()).ln() * (1e9 / per_second);
                due
            }
        }
    }
}

impl Arrivals {
    /// Returns the timing with the matching rules on lateness.
    pub(crate) fn timing(self) -> Timing {
        match self {
            Self::TopSpeed => Timing::TopSpeed,
            Self::Constant { per_second } => Timing::Packets { per_second },
            Self::Poisson { .. } | Self::Burst { .. } => Timing::Recorded { multiplier: 1.0 },
        }
    }

    /// Returns the average rate in packets per second. `None` at top speed.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        match self {
            Self::TopSpeed => None,
            Self::Constant { per_second }
            | Self::Poisson { per_second, .. }
            | Self::Burst { per_second, .. } => Some(per_second),
        }
    }
}

impl Sender {
    /// Prepares to generate from this template. Afterwards the caller can give up privileges that the next
    /// call of [`Sender::generate`] does not need ([`Sender::required_capabilities`]).
    ///
    /// # Errors
    /// The back-end does not support this template.
    pub fn prepare(&mut self, template: &Template) -> Result<()> {
        self.back_end.prepare(template)?;
        self.is_prepared = true;
        Ok(())
    }

    /// Generates traffic. If [`Sender::prepare`] was called just before, its template is used. `each` is
    /// called regularly with the progress.
    ///
    /// # Errors
    /// An invalid rate; the back-end does not support this template.
    pub fn generate(
        &mut self,
        template: &Template,
        arrivals: Arrivals,
        generation: &Generation,
        mut each: impl FnMut(&Progress),
    ) -> Result<Report> {
        if let Some(per_second) = arrivals.rate() {
            // This checks the value.
            crate::pace::Schedule::new(Timing::Packets { per_second })?;
        }
        if let Arrivals::Burst { packets: 0, .. } = arrivals {
            return Err(SendError::Value {
                what: "the length of bursts",
                expected: "at least 1 packet",
                found: "0".to_owned(),
            });
        }
        if !std::mem::take(&mut self.is_prepared) {
            self.back_end.prepare(template)?;
        }
        let mut run = self.begin(arrivals.timing())?;
        // The report has the reason why a run ended.
        let _ = run.generate(template, &mut Times::new(arrivals), generation, &mut each);
        Ok(run.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dues(arrivals: Arrivals, count: u64) -> Vec<u64> {
        let mut times = Times::new(arrivals);
        (0..count).map(|number| times.due(number)).collect()
    }

    #[test]
    fn constant_and_burst_are_exact() {
        let per_second = 1e6;
        assert_eq!(
            dues(Arrivals::Constant { per_second }, 4),
            [0, 1_000, 2_000, 3_000]
        );
        let burst = Arrivals::Burst {
            per_second,
            packets: 3,
        };
        assert_eq!(dues(burst, 7), [0, 0, 0, 3_000, 3_000, 3_000, 6_000]);
    }

    #[test]
    fn poisson_has_its_mean_and_its_spread() {
        let poisson = |seed| Arrivals::Poisson {
            per_second: 1e6,
            seed,
        };
        let times = dues(poisson(7), 100_001);
        assert_eq!(times, dues(poisson(7), 100_001));
        assert_ne!(times, dues(poisson(8), 100_001));
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / 1e5;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / 1e5;
        // The standard deviation of exponential gaps is their mean.
        assert!((mean - 1_000.0).abs() < 15.0, "{mean}");
        assert!((square.sqrt() - 1_000.0).abs() < 30.0, "{square}");
    }
}
