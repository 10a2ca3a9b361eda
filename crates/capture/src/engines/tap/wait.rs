//! Waits for packets: spin, nap, sleep.

use std::hint;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use ringtap_sys::poll::{self, Interest};

use super::TapSource;
use super::any::Any;
use crate::devices::Flags;
use crate::engines::pace::Pace;
use crate::{Error, Result};

/// The maximum time to look for packets before a nap or a sleep, if looking has paid off before.
const SPIN_MAX: Duration = Duration::from_micros(50);
const SPIN_MIN: Duration = Duration::from_micros(1);
/// The shortest nap: a shorter sleep costs more than looking for the packets.
const NAP_MIN: Duration = Duration::from_micros(200);
/// The number of deliveries that a nap gathers at the present rate.
const NAP_DELIVERIES: u32 = 16;
/// The maximum part of the timeout for a nap.
const NAP_SHARE: u32 = 16;
/// If a delivery gathers in less time than this, the reader naps without a doorbell, so that programs need
/// not count for it.
const FAST: Duration = Duration::from_micros(100);
/// The part of a ring that may fill up while the reader naps.
const RING_SHARE: u64 = 4;
/// How often a reader that never sleeps checks the interfaces for changes.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The number of looks at the rings before the clock is read.
const LOOKS: u32 = 32;
/// How long programs may still run if the kernel has no barrier.
pub(super) const GRACE_WITHOUT_BARRIER: Duration = Duration::from_millis(50);
/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    Ready,
    TimedOut,
    Woken,
}

/// The experience of the last waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitHistory {
    spin: Duration,
    /// Whether programs have another processor while the reader looks.
    may_spin: bool,
    /// Nothing came during the last timeout.
    idle: bool,
    /// In bytes of records.
    pace: Pace,
}

impl WaitHistory {
    pub(super) fn new(rings: usize) -> Self {
        Self {
            spin: SPIN_MIN,
            may_spin: rings > 1,
            idle: false,
            pace: Pace::new(),
        }
    }

    /// Returns the length of the first nap of a wait for `wanted` bytes, when `written` bytes were written so
    /// far into rings of `ring` bytes.
    fn nap(
        &mut self,
        now: Instant,
        written: u64,
        wanted: u64,
        ring: u64,
        timeout: Duration,
    ) -> Nap {
        let (passed, gathered) = self.pace.step(now, written);
        nap(passed, gathered, wanted, ring, timeout)
    }
}

/// The start of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nap {
    /// No nap: packets are rare.
    None,
    /// Sleep, whatever comes.
    Blind(Duration),
    /// Sleep until this many bytes are there, or for this time.
    Armed(Duration, u64),
}

/// Returns the nap for packets at the present rate: `gathered` bytes in the time `passed`. It lasts for
/// several deliveries, limited by a part of the timeout and by the room in the rings.
fn nap(passed: Duration, gathered: u64, wanted: u64, ring: u64, timeout: Duration) -> Nap {
    let nanos = u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
    let time_for = |bytes: u64| {
        let nanos = u128::from(nanos) * u128::from(bytes) / u128::from(gathered.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    };
    let (delivery, room) = (time_for(wanted), ring / RING_SHARE);
    let longest = (timeout / NAP_SHARE).max(NAP_MIN).min(timeout);
    if gathered < wanted || delivery > longest / 2 {
        return Nap::None;
    }
    let wished = (delivery * NAP_DELIVERIES).max(NAP_MIN).min(longest);
    if delivery < FAST {
        Nap::Blind(wished.min(time_for(room)))
    } else {
        Nap::Armed(wished, room.max(wanted))
    }
}

/// The interface as the capture knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Up,
    /// It is down, and this was reported. It may come up again.
    Down,
}

impl TapSource {
    /// Waits until enough for a delivery is there, at most for the timeout.
    #[cold]
    pub(super) fn wait(&mut self) -> Result<Waited> {
        if self.any.is_some() || self.drops.is_some() {
            self.look_at_rest(LOOK_EVERY)?;
        }
        self.ask_for_chain()?;
        self.look_at_programs()?;
        self.look_at_sight()?;
        self.look_at_thieves()?;
        let mut begun = Instant::now();
        let wanted = self.wanted();
        if let Some(limit) = self.idle_wait() {
            // The timeout starts with the first packet.
            let waited = self.sleep(1, begun + limit)?;
            if waited != Waited::Ready {
                return Ok(waited);
            }
            begun = Instant::now();
        }
        let deadline = begun + self.options.timeout;
        if let Some(duration) = self.options.busy_poll
            && self.spin(wanted, duration)
        {
            return Ok(Waited::Ready);
        }
        if self.options.immediate && self.history.may_spin {
            let spin = self.history.spin;
            if self.spin(wanted, spin) {
                self.history.spin = (spin * 2).min(SPIN_MAX);
                return Ok(Waited::Ready);
            }
            self.history.spin = (spin / 2).max(SPIN_MIN);
        }
        if !self.options.immediate && self.nap(begun, wanted)? == Waited::Woken {
            return Ok(Waited::Woken);
        }
        if self.reader.available() >= wanted {
            return Ok(Waited::Ready);
        }
        let waited = self.sleep(wanted, deadline)?;
        self.history.idle = waited == Waited::TimedOut && self.reader.available() == 0;
        Ok(waited)
    }

    /// Returns how long to wait for a packet if none came during the last timeout, and the user need not know
    /// of each.
    fn idle_wait(&self) -> Option<Duration> {
        let idle = self.history.idle && self.reader.available() == 0;
        self.options.wait.filter(|_| idle)
    }

    /// Lets packets gather if they come fast, for at most one nap.
    fn nap(&mut self, now: Instant, wanted: u64) -> Result<Waited> {
        let ring = self.reader.current().geometry().size();
        let (written, timeout) = (self.reader.written(), self.options.timeout);
        match self.history.nap(now, written, wanted, ring, timeout) {
            Nap::None => Ok(Waited::TimedOut),
            Nap::Armed(nap, room) => self.sleep(room, now + nap),
            Nap::Blind(nap) => {
                let interests = [
                    Interest::read(self.waker.as_fd()),
                    Interest::read(self.clock.as_fd()),
                ];
                let [wake, clock] = poll::wait(interests, Some(nap))?;
                if clock.readable {
                    self.follow_clock()?;
                }
                if wake.readable && self.waker.take() {
                    return Ok(Waited::Woken);
                }
                Ok(Waited::TimedOut)
            }
        }
    }

    /// Checks the rings without sleeping.
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

    /// Requests the doorbell and sleeps.
    fn sleep(&mut self, wanted: u64, deadline: Instant) -> Result<Waited> {
        loop {
            self.look_at_links()?;
            if !self.control.arm(wanted, || self.reader.available()) {
                return Ok(Waited::Ready);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let interests = [
                Interest::read(self.doorbell.as_fd()),
                Interest::read(self.waker.as_fd()),
                Interest::read(self.clock.as_fd()),
                Interest::read(self.changes()),
            ];
            let polled = poll::wait(interests, Some(left));
            self.control.disarm();
            let [bell, wake, clock, links] = polled?;
            if bell.readable {
                self.doorbell.silence();
            }
            if clock.readable {
                self.follow_clock()?;
            }
            if links.readable {
                self.take_changes();
            }
            if wake.readable && self.waker.take() {
                return Ok(Waited::Woken);
            }
            if self.reader.available() >= wanted {
                return Ok(Waited::Ready);
            }
            let is_over = Instant::now() >= deadline;
            if is_over {
                return Ok(Waited::TimedOut);
            }
        }
    }

    /// Checks clock and interfaces for changes; for a reader that does not sleep, at most once per `every`.
    pub(super) fn look_at_rest(&mut self, every: Duration) -> Result<()> {
        if self.looked.elapsed() < every {
            return Ok(());
        }
        self.looked = Instant::now();
        self.follow_clock()?;
        self.take_changes();
        self.look_at_links()
    }

    /// Returns what becomes readable when interfaces change: of all network namespaces, the news of another process.
    pub(super) fn changes(&self) -> BorrowedFd<'_> {
        let news = self.any.as_ref().and_then(Any::news);
        news.unwrap_or_else(|| self.watch.as_fd())
    }

    fn take_changes(&mut self) {
        self.changed |= self.is_everywhere() || self.watch.take();
    }

    /// Examines the interfaces if any has changed. With one interface, its packets are delivered before its
    /// end is reported.
    fn look_at_links(&mut self) -> Result<()> {
        if self.any.is_some() {
            if std::mem::take(&mut self.changed) {
                match self.is_everywhere() {
                    true => self.take_reports()?,
                    false => self.follow_links()?,
                }
            }
            return self.report_uncovered();
        }
        if self.drops.is_some() {
            if std::mem::take(&mut self.changed) {
                self.name_links();
            }
            return Ok(());
        }
        if !self.changed || self.reader.available() > 0 {
            return Ok(());
        }
        self.changed = false;
        let looked = self.look_at_interface();
        // A removed interface is reported each time.
        self.changed = matches!(looked, Err(Error::InterfaceGone { .. }));
        looked
    }

    /// Reports an interface that was removed or is down.
    fn look_at_interface(&mut self) -> Result<()> {
        let links = self
            .netlink
            .links()
            .map_err(Error::interface(&self.device))?;
        let device = || self.device.clone();
        let Some(link) = links.iter().find(|link| link.index == self.bound.index) else {
            return Err(Error::InterfaceGone { device: device() });
        };
        match (Flags(link.flags).is_up(), self.state) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);
    const DELIVERY: u64 = 16 << 10;
    const RING: u64 = 8 << 20;

    /// Returns the nap if this many bytes came in a millisecond.
    fn at(per_milli: u64, ring: u64, timeout: Duration) -> Nap {
        nap(10 * MILLI, 10 * per_milli, DELIVERY, ring, timeout)
    }

    #[test]
    fn packets_that_come_seldom_are_waited_for_by_the_bell() {
        assert_eq!(at(1000, RING, 100 * MILLI), Nap::None);
        assert_eq!(
            nap(MILLI, DELIVERY - 1, DELIVERY, RING, 100 * MILLI),
            Nap::None
        );
        assert_eq!(nap(MILLI, 0, DELIVERY, RING, 100 * MILLI), Nap::None);
        // A short timeout leaves no time to gather.
        assert_eq!(at(20_000, RING, MILLI), Nap::None);
    }

    #[test]
    fn naps_gather_deliveries_within_a_part_of_the_time_out() {
        let armed = |duration, room| Nap::Armed(duration, room);
        let room = RING / RING_SHARE;
        assert_eq!(
            at(16 << 10, RING, 100 * MILLI),
            armed(100 * MILLI / 16, room)
        );
        assert_eq!(at(16 << 10, RING, 1000 * MILLI), armed(16 * MILLI, room));
        assert_eq!(at(16 << 14, RING, 100 * MILLI), Nap::Blind(MILLI));
    }

    #[test]
    fn naps_end_before_the_ring_is_full() {
        let small = 64 << 10;
        // 16 KiB come in a 64th of a millisecond: a quarter of the ring.
        assert_eq!(at(16 << 16, small, 100 * MILLI), Nap::Blind(MILLI / 64));
        assert!(matches!(
            at(16 << 12, small, 100 * MILLI),
            Nap::Armed(_, DELIVERY)
        ));
    }
}
