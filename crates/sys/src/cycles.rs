//! The processor's time counter, and the resources that a thread has used.
//!
//! The counter ticks at a constant rate and is read by one instruction. It does not count the
//! cycles of the core: modern counters have one rate at every core frequency.

use std::fs;
use std::time::{Duration, Instant};

use crate::{Error, Result};

/// Reads the counter. On architectures without a known counter, returns nanoseconds of the
/// monotonic clock.
#[must_use]
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: Linux lets programs read the virtual counter; the instruction touches no memory.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack));
        }
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        monotonic()
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn monotonic() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer describes `time`, which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// The rate of the counter that [`ticks`] reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Ticks per nanosecond.
    pub per_nanosecond: f64,
    /// Whether the counter keeps its rate in all states of the processor (`constant_tsc` and
    /// `nonstop_tsc` of /proc/cpuinfo); `None` if unknown.
    pub is_constant: Option<bool>,
}

impl Rate {
    /// Measures the rate against the monotonic clock during `time`; 20 ms give an accuracy of about
    /// 1 in 10,000.
    #[must_use]
    pub fn measure(time: Duration) -> Self {
        let (begin, first) = (Instant::now(), ticks());
        std::thread::sleep(time);
        let (last, elapsed) = (ticks(), begin.elapsed());
        #[expect(
            clippy::cast_precision_loss,
            reason = "far below 2^53 in any such time"
        )]
        let per_nanosecond = last.wrapping_sub(first) as f64 / elapsed.as_nanos().max(1) as f64;
        Self {
            per_nanosecond,
            is_constant: constant(),
        }
    }
}

fn constant() -> Option<bool> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    let has = |name| flags.split_whitespace().any(|flag| flag == name);
    Some(has("constant_tsc") && has("nonstop_tsc"))
}

/// The resources used by a thread, or by child processes that have ended (`getrusage(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a processor in user space.
    pub user: Duration,
    /// Time on a processor in the kernel.
    pub system: Duration,
    /// Voluntary context switches, made to wait; each is followed by a wake-up.
    pub waits: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
}

impl Usage {
    /// Returns the usage of the calling thread.
    ///
    /// # Errors
    /// `getrusage` fails, which does not happen with these arguments.
    pub fn of_this_thread() -> Result<Self> {
        Self::of(libc::RUSAGE_THREAD)
    }

    /// Returns the usage of this process's children that have ended and were waited for, and of
    /// their descendants.
    ///
    /// # Errors
    /// `getrusage` fails, which does not happen with these arguments.
    pub fn of_children() -> Result<Self> {
        Self::of(libc::RUSAGE_CHILDREN)
    }

    fn of(whose: i32) -> Result<Self> {
        // SAFETY: all zeros are a valid value of this structure of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer describes `usage`, which outlives the call.
        let result = unsafe { libc::getrusage(whose, &raw mut usage) };
        Error::check(result, "getrusage", "")?;
        let time = |time: libc::timeval| {
            let micros = u64::try_from(time.tv_usec).unwrap_or_default();
            Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default())
                + Duration::from_micros(micros)
        };
        Ok(Self {
            user: time(usage.ru_utime),
            system: time(usage.ru_stime),
            waits: u64::try_from(usage.ru_nvcsw).unwrap_or_default(),
            preemptions: u64::try_from(usage.ru_nivcsw).unwrap_or_default(),
        })
    }

    /// Returns the usage since an earlier reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            waits: self.waits.saturating_sub(earlier.waits),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
        }
    }
}

/// Returns the kernel's ID of the calling thread.
#[must_use]
pub fn thread_id() -> u32 {
    // SAFETY: the call takes nothing and touches no memory of ours.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// Returns the processor time that a thread of this process has used, in user and kernel mode. The
/// clock is built as `pthread_getcpuclockid(3)` does it (linux/posix-timers.h).
///
/// # Errors
/// The thread has ended.
pub fn thread_time(thread: u32) -> Result<Duration> {
    /// `CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED`.
    const OF_A_THREAD: i32 = 4 | 2;
    let clock = (!thread.cast_signed() << 3) | OF_A_THREAD;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer describes `time`, which outlives the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    Error::check(result, "clock_gettime", "a thread's clock")?;
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Ok(Duration::new(seconds, nanos))
}

/// Returns the clock ticks per second, the unit of `/proc/stat` (`sysconf(_SC_CLK_TCK)`).
#[must_use]
pub fn clock_ticks() -> u64 {
    // SAFETY: `sysconf` takes any name and touches no memory of ours.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) })
        .unwrap_or(100)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_runs_at_its_rate() {
        let rate = Rate::measure(Duration::from_millis(5));
        assert!(rate.per_nanosecond > 0.0001, "{rate:?}");
        let first = ticks();
        std::thread::sleep(Duration::from_millis(2));
        assert!(ticks() > first);
    }

    #[test]
    fn a_thread_that_works_takes_time() {
        let before = thread_time(thread_id()).expect("the own thread");
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        let after = thread_time(thread_id()).expect("the own thread");
        assert!(after > before, "{before:?} {after:?}");
        let other = std::thread::spawn(thread_id).join().expect("joined");
        // The kernel removes a thread a little after it has reported its end.
        while thread_time(other).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "it has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_sleep_is_a_wait() {
        let before = Usage::of_this_thread().expect("own usage");
        std::thread::sleep(Duration::from_millis(1));
        let used = Usage::of_this_thread().expect("own usage").since(before);
        assert!(used.waits >= 1, "{used:?}");
        assert_ne!(thread_id(), 0);
    }
}
