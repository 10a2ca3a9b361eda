//! The state of the interface while the capture runs.

use std::time::{Duration, Instant};

use ringtap_sys::errno::ENETDOWN;
use ringtap_sys::packet::Ring;

use crate::{Error, Result};

/// The time beyond the ring's timeout for delivering packets from before the interface went down, and for a
/// removal that follows it.
const GRACE: Duration = Duration::from_millis(50);
/// How often an interface that is down is checked, since its removal raises no event.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The interface as the capture knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is up.
    Up,
    /// It went down. The ring may still hold packets, and the interface may turn out to be removed.
    Failing {
        /// When that is decided.
        until: Instant,
    },
    /// It is down, and this was reported. It may come up again.
    Down,
    /// It was removed.
    Gone,
}

impl State {
    /// Handles an error of waiting for the ring.
    pub(super) fn failed(&mut self, ring: &Ring, retire_timeout: Duration) -> Result<()> {
        if ring.take_error()? == Some(ENETDOWN) && *self != Self::Gone {
            *self = Self::Failing {
                until: Instant::now() + retire_timeout + GRACE,
            };
        }
        Ok(())
    }

    /// Notes that packets arrived.
    #[inline]
    pub(super) fn delivered(&mut self) {
        if *self == Self::Down {
            *self = Self::Up;
        }
    }

    /// Returns how long a wait may last.
    pub(super) fn bound(self, timeout: Duration) -> Duration {
        match self {
            Self::Up => timeout,
            Self::Failing { until } => timeout.min(until.saturating_duration_since(Instant::now())),
            Self::Down | Self::Gone => timeout.min(LOOK_EVERY),
        }
    }

    /// Reports what is decided by now. Call it when a wait ended without packets.
    pub(super) fn settle(&mut self, ring: &Ring) -> Result<()> {
        let device = || ring.device().to_owned();
        match *self {
            Self::Up => Ok(()),
            Self::Failing { until } if Instant::now() < until => Ok(()),
            Self::Failing { .. } if !ring.is_interface_gone()? => {
                *self = Self::Down;
                Err(Error::InterfaceDown { device: device() })
            }
            Self::Down if !ring.is_interface_gone()? => Ok(()),
            Self::Failing { .. } | Self::Down | Self::Gone => {
                *self = Self::Gone;
                Err(Error::InterfaceGone { device: device() })
            }
        }
    }
}
