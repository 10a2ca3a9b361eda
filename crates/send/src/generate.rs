//! Generated traffic: frames of a template at times that are made up too.

use std::time::Duration;

use crate::{Progress, Report, Result, SendError, Sender, Template, Timing};

/// When packets are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// As fast as they are taken.
    TopSpeed,
    /// Evenly, so many a second.
    Constant {
        /// The rate.
        per_second: f64,
    },
    /// At random, independently of each other, so many a second in the mean.
    Poisson {
        /// The rate.
        per_second: f64,
        /// The same seed gives the same times.
        seed: u64,
    },
    /// So many together each time, and so many a second in the mean.
    Burst {
        /// The rate.
        per_second: f64,
        /// Packets of a burst.
        packets: u32,
    },
}

/// How much is generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// So many packets at most.
    pub count: Option<u64>,
    /// So long; at a rate the packets that are due within this time. A schedule that had to be moved
    /// ends no later, with fewer packets.
    pub duration: Option<Duration>,
}

/// Due times of packet after packet, in nanoseconds.
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

    /// The due time of a packet; numbers are asked for in their order.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "exact up to 2^53 packets and nanoseconds; casts of floats saturate"
    )]
    pub(crate) fn due(&mut self, number: u64) -> u64 {
        match self.arrivals {
            Arrivals::TopSpeed => 0,
            Arrivals::Constant { per_second } => (number as f64 * (1e9 / per_second)) as u64,
            Arrivals::Burst {
                per_second,
                packets,
            } => {
                let packets = u64::from(packets.max(1));
                ((number / packets * packets) as f64 * (1e9 / per_second)) as u64
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
    /// The timing whose rules on lateness fit.
    pub(crate) fn timing(self) -> Timing {
        match self {
            Self::TopSpeed => Timing::TopSpeed,
            Self::Constant { per_second } => Timing::Packets { per_second },
            Self::Poisson { .. } | Self::Burst { .. } => Timing::Recorded { multiplier: 1.0 },
        }
    }

    /// Packets per second in the mean; nothing at top speed.
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
    /// Makes ready to generate from this template, so that rights that the next call of
    /// [`Sender::generate`] needs no more ([`Sender::required_capabilities`]) can be given up before.
    ///
    /// # Errors
    /// The back-end cannot make frames of this template.
    pub fn prepare(&mut self, template: &Template) -> Result<()> {
        self.back_end.prepare(template)?;
        self.is_prepared = true;
        Ok(())
    }

    /// Generates traffic, of the template that was last prepared where [`Sender::prepare`] was
    /// called just before. `each` is called from time to time with what was sent so far.
    ///
    /// # Errors
    /// A rate that cannot be; the back-end cannot make frames of this template.
    pub fn generate(
        &mut self,
        template: &Template,
        arrivals: Arrivals,
        generation: &Generation,
        mut each: impl FnMut(&Progress),
    ) -> Result<Report> {
        if let Some(per_second) = arrivals.rate() {
            // Checks the value.
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
        // What ends the run is in the report.
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
