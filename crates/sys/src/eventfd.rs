//! A wake-up for a waiting thread, given by another thread or a signal handler.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Result;
use crate::calls::owned;

/// A latched wake-up: if it is given before the wait begins, it ends that wait at once.
///
/// It has two parts: a flag, which a polling reader tests without a system call, and an eventfd,
/// which ends a `poll`. The writer sets the flag before it writes to the eventfd. The reader
/// empties the eventfd before it tests the flag. So if the reader misses the flag, the write to the
/// eventfd is still to come and ends the next `poll`.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pending: AtomicBool,
    event: OwnedFd,
}

impl Waker {
    /// Creates a wake-up that is not pending.
    ///
    /// # Errors
    ///
    /// `eventfd` fails if the process or the system has no file descriptor left.
    pub fn new() -> Result<Self> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        // SAFETY: takes no pointer, and makes a descriptor.
        let event = unsafe { owned(libc::eventfd(0, flags), "eventfd", "") }?;
        Ok(Self(Arc::new(Inner {
            pending: AtomicBool::new(false),
            event,
        })))
    }

    /// Ends the reader's wait, the present one or the next. Two calls before the reader looks count
    /// as one.
    ///
    /// May be called in a signal handler: it makes one `write`, takes no lock, does not allocate and
    /// leaves `errno` as it was.
    pub fn wake(&self) {
        self.0.pending.store(true, Ordering::Release);
        let one = 1_u64.to_ne_bytes();
        // SAFETY: errno is the calling thread's own; the pointer is valid for the thread's life.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: `one` is readable for its 8 bytes. The only failure is a full counter, which
        // means that a wake-up is pending already.
        unsafe { libc::write(self.0.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
    }

    /// Returns whether a wake-up is pending, without a system call.
    #[inline]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.0.pending.load(Ordering::Relaxed)
    }

    /// Takes the pending wake-up and returns whether there was one.
    pub fn take(&self) -> bool {
        let mut count = [0_u8; 8];
        // SAFETY: `count` is writable for its 8 bytes; the descriptor does not block, and finding
        // nothing in it is no error.
        unsafe {
            libc::read(
                self.0.event.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
        self.0.pending.swap(false, Ordering::AcqRel)
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Interest, wait};
    use std::io;
    use std::time::Duration;

    fn readable(waker: &Waker, timeout: Duration) -> bool {
        wait([Interest::read(waker.as_fd())], Some(timeout)).unwrap()[0].readable
    }

    #[test]
    fn a_wake_before_the_wait_is_kept() {
        let waker = Waker::new().unwrap();
        assert!(!waker.is_pending());
        assert!(!readable(&waker, Duration::ZERO));
        waker.wake();
        waker.wake();
        assert!(waker.is_pending());
        assert!(readable(&waker, Duration::from_secs(10)));
        assert!(waker.take());
        assert!(!waker.take());
        assert!(!readable(&waker, Duration::ZERO));
    }

    #[test]
    fn another_thread_ends_a_wait() {
        let waker = Waker::new().unwrap();
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        assert!(readable(&waker, Duration::from_secs(60)));
        thread.join().unwrap();
        assert!(waker.take());
    }

    #[test]
    fn errno_survives() {
        let waker = Waker::new().unwrap();
        // SAFETY: errno is this thread's own.
        unsafe { *libc::__errno_location() = 77 };
        waker.wake();
        assert_eq!(io::Error::last_os_error().raw_os_error(), Some(77));
    }
}
