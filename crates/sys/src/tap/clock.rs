//! The wall clock as programs can tell it: the kernel's clock that they may read, and what to add.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{Error, Result};

const NANOS: i64 = 1_000_000_000;
/// How often the distance of two clocks is measured; the measurement with the least time between
/// its two readings counts.
const MEASUREMENTS: usize = 16;

/// Tells when the wall clock was set, and how far it is from the clocks that programs can read.
#[derive(Debug)]
pub struct Clock {
    timer: OwnedFd,
}

impl Clock {
    /// Begins to watch the wall clock (`timerfd_create(2)`, `TFD_TIMER_CANCEL_ON_SET`).
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn watch() -> Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes no pointer; the result is checked before use.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, flags) };
        if fd < 0 {
            return Err(Error::last("timerfd_create", ""));
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        let timer = unsafe { OwnedFd::from_raw_fd(fd) };
        let clock = Self { timer };
        clock.arm()?;
        Ok(clock)
    }

    /// A timer that never ends but when the clock is set.
    fn arm(&self) -> Result<()> {
        let never = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: libc::time_t::MAX,
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
        if result < 0 {
            return Err(Error::last("timerfd_settime", ""));
        }
        Ok(())
    }

    /// Takes note that the clock was set; true where it was.
    ///
    /// # Errors
    /// The timer cannot be set again.
    pub fn take_change(&self) -> Result<bool> {
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

    /// What to add to international atomic time (`CLOCK_TAI`) for the wall clock, in nanoseconds
    /// modulo 2^64: whole seconds.
    #[must_use]
    pub fn from_tai() -> u64 {
        let distance = distance(libc::CLOCK_TAI);
        let seconds = (distance + NANOS / 2).div_euclid(NANOS);
        (seconds * NANOS).cast_unsigned()
    }

    /// What to add to the monotonic clock for the wall clock, in nanoseconds modulo 2^64.
    #[must_use]
    pub fn from_monotonic() -> u64 {
        distance(libc::CLOCK_MONOTONIC).cast_unsigned()
    }
}

impl AsFd for Clock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Nanoseconds from a clock to the wall clock.
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
    // SAFETY: `time` is writable; the clocks asked for always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * NANOS + time.tv_nsec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_lead_to_the_wall_clock() {
        let wall = nanos(libc::CLOCK_REALTIME);
        let tai = nanos(libc::CLOCK_TAI).wrapping_add(Clock::from_tai().cast_signed());
        let monotonic =
            nanos(libc::CLOCK_MONOTONIC).wrapping_add(Clock::from_monotonic().cast_signed());
        assert!((tai - wall).abs() < NANOS, "{tai} {wall}");
        assert!((monotonic - wall).abs() < NANOS, "{monotonic} {wall}");
        assert_eq!(Clock::from_tai().cast_signed() % NANOS, 0);
    }

    #[test]
    fn a_clock_that_nobody_sets_has_no_change() {
        assert!(!Clock::watch().unwrap().take_change().unwrap());
    }
}
