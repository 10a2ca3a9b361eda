//! Waiting for packets: spin, nap, sleep.

use std::hint;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringtap_sys::poll::{self, Interest};

use super::TapSource;
use crate::{Error, Result};

/// How long to look for packets at most before a nap or a sleep, where looking has paid off before.
const SPIN_MAX: Duration = Duration::from_micros(50);
const SPIN_MIN: Duration = Duration::from_micros(1);
/// How long a nap is. Packets that come faster than a delivery's worth in this time never find a
/// reader that waits for the doorbell.
const NAP: Duration = Duration::from_micros(200);
/// How often an interface that sends nothing is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks at the rings before the clock is read.
const LOOKS: u32 = 32;
/// How long programs may still run where the kernel has no barrier.
pub(super) const GRACE_WITHOUT_BARRIER: Duration = Duration::from_millis(50);
/// `IFF_UP` (netdevice(7)).
const UP: u32 = 1;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Ready,
    TimedOut,
    Woken,
}

/// What the last waits have taught.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    spin: Duration,
    /// Packets come so fast that a nap is enough.
    naps: bool,
    /// There is another processor for programs while the reader looks.
    may_spin: bool,
}

impl Pace {
    pub(super) fn new(rings: usize) -> Self {
        Self {
            spin: SPIN_MIN,
            naps: false,
            may_spin: rings > 1,
        }
    }
}

/// The interface as the capture knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    /// It is down, which was reported. It may come up again.
    Down,
}

impl TapSource {
    /// Waits until a delivery's worth is there, for the time-out at most.
    #[cold]
    pub(super) fn wait(&mut self) -> Result<Waited> {
        let begun = Instant::now();
        let deadline = begun + self.options.timeout;
        let wanted = self.wanted();
        if let Some(duration) = self.options.busy_poll
            && self.spin(wanted, duration)
        {
            return Ok(Waited::Ready);
        }
        if self.options.immediate && self.pace.may_spin {
            let spin = self.pace.spin;
            if self.spin(wanted, spin) {
                self.pace.spin = (spin * 2).min(SPIN_MAX);
                return Ok(Waited::Ready);
            }
            self.pace.spin = (spin / 2).max(SPIN_MIN);
        }
        if self.pace.naps {
            let nap = NAP.min(self.options.timeout);
            let [wake, clock] = poll::wait(
                [
                    Interest::read(self.waker.as_fd()),
                    Interest::read(self.clock.as_fd()),
                ],
                Some(nap),
            )?;
            if clock.readable {
                self.follow_clock()?;
            }
            if wake.readable && self.waker.take() {
                return Ok(Waited::Woken);
            }
            if self.reader.available() >= wanted {
                return Ok(Waited::Ready);
            }
        }
        let waited = self.sleep(wanted, deadline)?;
        let was_short = begun.elapsed() < NAP * 2;
        self.pace.naps = !self.options.immediate && waited == Waited::Ready && was_short;
        Ok(waited)
    }

    /// Looks at the rings without sleeping.
    fn spin(&self, wanted: u64, duration: Duration) -> bool {
        let end = Instant::now() + duration;
        while Instant::now() < end && !self.waker.is_pending() {
            for _ in 0..LOOKS {
                if self.reader.available() >= wanted {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }

    /// Asks for the doorbell and sleeps.
    fn sleep(&mut self, wanted: u64, deadline: Instant) -> Result<Waited> {
        loop {
            if !self.control.arm(wanted, || self.reader.available()) {
                return Ok(Waited::Ready);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let interests = [
                Interest::read(self.doorbell.as_fd()),
                Interest::read(self.waker.as_fd()),
                Interest::read(self.clock.as_fd()),
            ];
            let polled = poll::wait(interests, Some(left.min(LOOK_EVERY)));
            self.control.disarm();
            let [bell, wake, clock] = polled?;
            if bell.readable {
                self.doorbell.silence();
            }
            if clock.readable {
                self.follow_clock()?;
            }
            if wake.readable && self.waker.take() {
                return Ok(Waited::Woken);
            }
            if self.reader.available() >= wanted {
                return Ok(Waited::Ready);
            }
            let is_over = Instant::now() >= deadline;
            if !bell.readable && self.looked.elapsed() >= LOOK_EVERY {
                self.looked = Instant::now();
                self.look_at_interface()?;
            }
            if is_over {
                return Ok(Waited::TimedOut);
            }
        }
    }

    /// Reports an interface that is gone or down, once everything before is handed out.
    fn look_at_interface(&mut self) -> Result<()> {
        if self.reader.available() > 0 {
            return Ok(());
        }
        let links = self.netlink.links().map_err(|source| Error::Interface {
            device: self.device.clone(),
            source,
        })?;
        let device = || self.device.clone();
        let Some(link) = links.iter().find(|link| link.index == self.bound.index) else {
            return Err(Error::InterfaceGone { device: device() });
        };
        match (link.flags & UP != 0, self.state) {
            (true, _) => self.state = State::Up,
            (false, State::Down) => {}
            (false, State::Up) => {
                self.state = State::Down;
                return Err(Error::InterfaceDown { device: device() });
            }
        }
        Ok(())
    }
}
