//! Requires consent before it sends much on an interface of the host's own connections.

use std::collections::VecDeque;

use ringtap_capture::Timestamp;
use ringtap_send::{Sender, Timing};

use super::Failure;

/// The rate in packets per second that needs no consent.
pub(super) const LIMIT: u64 = 1_000;
const SECOND: i128 = 1_000_000_000;
/// The bits of the smallest frame.
const SMALLEST: f64 = 60.0 * 8.0;

/// Watches recorded times, since their rate shows only while they are read.
#[derive(Debug)]
pub(crate) struct Guard {
    watched: Option<Watched>,
}

#[derive(Debug)]
struct Watched {
    device: String,
    hazard: String,
    multiplier: f64,
    /// The times of the last packets, as many as a second may have.
    last: VecDeque<i128>,
}

impl Guard {
    /// Requires consent if the rate is known and too high.
    ///
    /// # Errors
    /// There is no consent.
    pub(crate) fn new(sender: &Sender, timing: Timing, consents: bool) -> Result<Self, Failure> {
        let hazard = if consents { None } else { sender.hazard()? };
        let Some(hazard) = hazard else {
            return Ok(Self { watched: None });
        };
        let too_fast = match timing {
            Timing::TopSpeed => true,
            Timing::Packets { per_second } => exceeds(per_second),
            Timing::Bits { per_second } => exceeds(per_second / SMALLEST),
            Timing::Recorded { .. } => false,
        };
        let device = sender.device().to_owned();
        if too_fast {
            return Err(consent(device, hazard));
        }
        let watched = match timing {
            Timing::Recorded { multiplier } => Some(Watched {
                device,
                hazard,
                multiplier,
                last: VecDeque::new(),
            }),
            _ => None,
        };
        Ok(Self { watched })
    }

    /// Checks that a packet of this time may be sent.
    ///
    /// # Errors
    /// It exceeds the packets of a second.
    pub(crate) fn check(&mut self, time: Timestamp) -> Result<(), Failure> {
        let Some(watched) = &mut self.watched else {
            return Ok(());
        };
        let now = watched.scaled(time);
        watched.last.push_back(now);
        if watched.last.len() as u64 <= LIMIT {
            return Ok(());
        }
        match watched.last.pop_front() {
            Some(first) if now - first < SECOND => {
                Err(consent(watched.device.clone(), watched.hazard.clone()))
            }
            _ => Ok(()),
        }
    }
}

impl Watched {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a microsecond more or less does not matter"
    )]
    fn scaled(&self, time: Timestamp) -> i128 {
        (time.as_nanos() as f64 / self.multiplier) as i128
    }
}

fn exceeds(per_second: f64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a small constant")]
    let limit = LIMIT as f64;
    per_second > limit
}

fn consent(device: String, hazard: String) -> Failure {
    Failure::Consent {
        device,
        hazard,
        limit: LIMIT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_rate_is_watched() {
        let watch = |gap: i64, multiplier| {
            let mut guard = Guard {
                watched: Some(Watched {
                    device: "eth0".to_owned(),
                    hazard: "it carries the default route".to_owned(),
                    multiplier,
                    last: VecDeque::new(),
                }),
            };
            let begin = 1_700_000_000_000_000_000;
            let times = (0..3_000).map(|at| Timestamp::from_nanos(begin + at * gap));
            times
                .map(|time| guard.check(time))
                .position(|result| result.is_err())
        };
        assert_eq!(watch(1_100_000, 1.0), None);
        assert_eq!(watch(1_100_000, 2.0), Some(1_000));
        assert_eq!(watch(900_000, 1.0), Some(1_000));
        assert_eq!(watch(900_000, 0.5), None);
        assert_eq!(watch(0, 1.0), Some(1_000));
    }
}
