//! The wall clock for programs: a kernel clock that they may read, and the offset to add.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::calls::owned;
use crate::eventfd::Waker;
use crate::{Error, Result};

const NANOS: i64 = 1_000_000_000;
/// How often the distance of two clocks is measured. The measurement with the shortest time between
/// its two readings counts.
const MEASUREMENTS: usize = 16;

/// The wall clock that captures use: the system's, or a stand-in for tests that set the clock,
/// which would disturb the whole machine.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Option<Arc<StandIn>>);

#[derive(Debug)]
struct StandIn {
    /// Nanoseconds that it is ahead of the system's clock.
    ahead: AtomicI64,
    set: Waker,
}

impl WallClock {
    /// Creates a stand-in that shows the system's time until it is set.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn stand_in() -> Result<Self> {
        Ok(Self(Some(Arc::new(StandIn {
            ahead: AtomicI64::new(0),
            set: Waker::new()?,
        }))))
    }

    /// Sets a stand-in that far ahead of the system's clock, as `clock_settime(2)` sets the
    /// system's.
    pub fn set_ahead(&self, nanos: i64) {
        if let Some(stand_in) = &self.0 {
            stand_in.ahead.store(nanos, Ordering::Release);
            stand_in.set.wake();
        }
    }

    /// Returns the offset from international atomic time (`CLOCK_TAI`) to this clock: whole
    /// seconds, in nanoseconds modulo 2^64.
    #[must_use]
    pub fn from_tai(&self) -> u64 {
        let distance = distance(libc::CLOCK_TAI) + self.ahead();
        let seconds = (distance + NANOS / 2).div_euclid(NANOS);
        (seconds * NANOS).cast_unsigned()
    }

    fn ahead(&self) -> i64 {
        let ahead = |stand_in: &Arc<StandIn>| stand_in.ahead.load(Ordering::Acquire);
        self.0.as_ref().map_or(0, ahead)
    }
}

/// Notices when the wall clock is set, and measures its distance from the clocks that programs can
/// read.
#[derive(Debug)]
pub struct Clock {
    timer: OwnedFd,
    wall: WallClock,
}

impl Clock {
    /// Starts watching the wall clock (`timerfd_create(2)`, `TFD_TIMER_CANCEL_ON_SET`).
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn watch(wall: &WallClock) -> Result<Self> {
        let wall = wall.clone();
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes no pointer, and makes a descriptor.
        let timer = unsafe {
            let answer = libc::timerfd_create(libc::CLOCK_REALTIME, flags);
            owned(answer, "timerfd_create", "")
        }?;
        let clock = Self { timer, wall };
        clock.arm()?;
        Ok(clock)
    }

    /// Starts a timer that never expires; setting the clock cancels it.
    fn arm(&self) -> Result<()> {
        let never = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: i64::MAX,
                tv_nsec: 0,
            },
        };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        // SAFETY: `never` is readable; no old value is asked for.
        let result = unsafe {
            libc::timerfd_settime(
                self.timer.as_raw_fd(),
                flags,
                &raw const never,
                std::ptr::null_mut(),
            )
        };
        Error::check(result, "timerfd_settime", "")
    }

    /// Returns whether the clock was set since the last call.
    ///
    /// # Errors
    /// The timer cannot be started again.
    pub fn take_change(&self) -> Result<bool> {
        if let Some(stand_in) = &self.wall.0 {
            return Ok(stand_in.set.take());
        }
        let mut count = [0_u8; 8];
        // SAFETY: `count` is writable for its 8 bytes; the descriptor does not block.
        let read = unsafe {
            libc::read(
                self.timer.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
        let changed = read < 0 && Error::last("read", "").errno() == Some(libc::ECANCELED);
        if changed {
            self.arm()?;
        }
        Ok(changed)
    }

    /// Returns the offset from international atomic time (`CLOCK_TAI`) to the wall clock: whole
    /// seconds, in nanoseconds modulo 2^64.
    #[must_use]
    pub fn from_tai(&self) -> u64 {
        self.wall.from_tai()
    }

    /// Returns the offset from the monotonic clock to the wall clock, in nanoseconds modulo 2^64.
    #[must_use]
    pub fn from_monotonic(&self) -> u64 {
        let distance = distance(libc::CLOCK_MONOTONIC) + self.wall.ahead();
        distance.cast_unsigned()
    }
}

impl AsFd for Clock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.wall.0 {
            Some(stand_in) => stand_in.set.as_fd(),
            None => self.timer.as_fd(),
        }
    }
}

/// Returns the nanoseconds from a clock to the wall clock.
fn distance(clock: libc::clockid_t) -> i64 {
    let measure = || {
        let before = nanos(clock);
        let wall = nanos(libc::CLOCK_REALTIME);
        let after = nanos(clock);
        (after - before, wall - (before + (after - before) / 2))
    };
    let best = (0..MEASUREMENTS)
        .map(|_| measure())
        .min_by_key(|(took, _)| *took);
    best.map_or(0, |(_, distance)| distance)
}

fn nanos(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is writable; these clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * NANOS + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lead_to_the_wall_clock() {
        let clock = Clock::watch(&WallClock::default()).unwrap();
        let wall = nanos(libc::CLOCK_REALTIME);
        let tai = nanos(libc::CLOCK_TAI).wrapping_add(clock.from_tai().cast_signed());
        let monotonic =
            nanos(libc::CLOCK_MONOTONIC).wrapping_add(clock.from_monotonic().cast_signed());
        assert!((tai - wall).abs() < NANOS, "{tai} {wall}");
        assert!((monotonic - wall).abs() < NANOS, "{monotonic} {wall}");
        assert_eq!(clock.from_tai().cast_signed() % NANOS, 0);
    }

    #[test]
    fn a_clock_that_nobody_sets_has_no_change() {
        let clock = Clock::watch(&WallClock::default()).unwrap();
        assert!(!clock.take_change().unwrap());
    }

    #[test]
    fn a_stand_in_is_set() {
        let wall = WallClock::stand_in().unwrap();
        let clock = Clock::watch(&wall).unwrap();
        let before = clock.from_tai().cast_signed();
        assert!(!clock.take_change().unwrap());
        wall.set_ahead(5 * NANOS);
        assert!(clock.take_change().unwrap());
        assert!(!clock.take_change().unwrap());
        assert_eq!(clock.from_tai().cast_signed(), before + 5 * NANOS);
    }
}
