//! A timer that does not drift (timerfd_create(2)): the n-th tick comes n intervals after the
//! start, even if earlier ticks were noticed late.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::calls::owned;
use crate::{Error, Result};

/// A timer whose ticks are waited for with [`crate::poll`].
#[derive(Debug)]
pub struct Ticker(OwnedFd);

impl Ticker {
    /// Creates a timer that ticks every `interval` of the monotonic clock; the first tick comes
    /// after one interval.
    ///
    /// # Errors
    /// The process has no file descriptor left; or the interval is zero or too long for the kernel
    /// (`EINVAL`).
    pub fn every(interval: Duration) -> Result<Self> {
        let (call, context) = ("timerfd_settime", format!("every {interval:?}"));
        let invalid = || {
            let source = std::io::Error::from_raw_os_error(libc::EINVAL);
            Error::new(call, &context, source)
        };
        let period = libc::timespec {
            tv_sec: i64::try_from(interval.as_secs()).map_err(|_| invalid())?,
            tv_nsec: interval.subsec_nanos().into(),
        };
        if interval.is_zero() {
            return Err(invalid());
        }
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes no pointer, and makes a descriptor.
        let fd = unsafe {
            let answer = libc::timerfd_create(libc::CLOCK_MONOTONIC, flags);
            owned(answer, "timerfd_create", "")
        }?;
        let setting = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the setting outlives the call, and no old one is asked for.
        let set = unsafe {
            libc::timerfd_settime(fd.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut())
        };
        Error::check(set, call, &context)?;
        Ok(Self(fd))
    }

    /// Returns the number of ticks since the last call, 0 if there was none.
    #[must_use]
    pub fn take(&self) -> u64 {
        let mut count = [0_u8; 8];
        // SAFETY: `count` is writable for its 8 bytes; the descriptor does not block.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        match read {
            8 => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

impl AsFd for Ticker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Interest, wait};

    #[test]
    fn ticks_that_nobody_took_are_counted() {
        let ticker = Ticker::every(Duration::from_millis(2)).expect("a timer");
        assert_eq!(
            Ticker::every(Duration::ZERO).expect_err("zero").errno(),
            Some(libc::EINVAL)
        );
        std::thread::sleep(Duration::from_millis(20));
        let first = ticker.take();
        assert!(first >= 10, "{first}");
        let mut more = 0;
        while more < 3 {
            let limit = Some(Duration::from_secs(60));
            let [ready] = wait([Interest::read(ticker.as_fd())], limit).expect("polled");
            assert!(ready.readable);
            more += ticker.take();
        }
    }
}
