//! Waiting for file descriptors.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::calls::owned;
use crate::{Error, Result};

/// A file descriptor and the event to wait for.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    fd: BorrowedFd<'a>,
    events: libc::c_short,
}

impl<'a> Interest<'a> {
    /// Makes [`wait`] wait until the descriptor is readable.
    #[must_use]
    pub const fn read(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            events: libc::POLLIN,
        }
    }

    /// Makes [`wait`] wait until a file of the kernel has changed, such as `/proc/self/mountinfo` after a mount
    /// (proc_pid_mountinfo(5)); [`Readiness::failed`] reports it. The file counts as unchanged from then on.
    #[must_use]
    pub const fn change(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            events: libc::POLLPRI,
        }
    }

    /// Makes [`wait`] wait until the descriptor is writable.
    #[must_use]
    pub const fn write(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            events: libc::POLLOUT,
        }
    }
}

/// The state of a descriptor after waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Data can be read.
    pub readable: bool,
    /// Data can be written.
    pub writable: bool,
    /// An error is pending, or the other side has closed.
    pub failed: bool,
}

/// The flag that opens a FIFO without waiting for the other side (`O_NONBLOCK`, fifo(7)).
pub const NON_BLOCKING: libc::c_int = libc::O_NONBLOCK;

/// Makes a file that was opened with [`NON_BLOCKING`] block again (`F_SETFL`, fcntl(2)).
///
/// # Errors
/// A seccomp filter rejects the call.
pub fn make_blocking(file: &File) -> std::io::Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: the calls take numbers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(fd, libc::F_SETFL, flags & !libc::O_NONBLOCK) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

/// Waits until a descriptor is ready, the timeout has passed (`None` waits without limit), or a
/// signal arrives. In the last two cases no descriptor is ready.
///
/// # Errors
///
/// `ppoll` fails if the kernel has no memory for it.
pub fn wait<const N: usize>(
    interests: [Interest<'_>; N],
    timeout: Option<Duration>,
) -> Result<[Readiness; N]> {
    let mut fds = interests.map(|interest| libc::pollfd {
        fd: interest.fd.as_raw_fd(),
        events: interest.events,
        revents: 0,
    });
    let limit = timeout.map(|limit| libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `fds` is an array of N initialised entries and `limit` null or a time, all of which
    // outlive the call; the signal mask stays as it is.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr(), N as libc::nfds_t, limit, ptr::null()) };
    if ready < 0 {
        let error = Error::last("ppoll", "");
        if error.errno() != Some(libc::EINTR) {
            return Err(error);
        }
        return Ok([Readiness::default(); N]);
    }
    Ok(fds.map(|fd| Readiness {
        readable: fd.revents & libc::POLLIN != 0,
        writable: fd.revents & libc::POLLOUT != 0,
        failed: fd.revents & (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) != 0,
    }))
}

/// A set of descriptors to read from, whose number is known only at run time.
#[derive(Debug, Default)]
pub struct ReadSet {
    fds: Vec<libc::pollfd>,
}

impl ReadSet {
    /// Waits until one of the descriptors is readable, the timeout has passed, or a signal arrives.
    /// Allocates only if there are more descriptors than in any call before.
    ///
    /// # Errors
    ///
    /// The same as [`wait`].
    pub fn wait<'a>(
        &mut self,
        fds: impl Iterator<Item = BorrowedFd<'a>>,
        timeout: Duration,
    ) -> Result<bool> {
        self.wait_by_number(fds.map(|fd| fd.as_raw_fd()), timeout)
    }

    /// Waits for descriptors by their numbers, as event loops have them. A number that is not an
    /// open descriptor counts as readable.
    ///
    /// # Errors
    ///
    /// The same as [`wait`].
    pub fn wait_by_number(
        &mut self,
        fds: impl Iterator<Item = RawFd>,
        timeout: Duration,
    ) -> Result<bool> {
        self.fds.clear();
        self.fds.extend(fds.map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        }));
        let millis = timeout.as_nanos().div_ceil(1_000_000);
        let millis = libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX);
        let count = self.fds.len() as libc::nfds_t;
        // SAFETY: the vector holds `count` initialised entries, and outlives the call, which only looks
        // at descriptors.
        let ready = unsafe { libc::poll(self.fds.as_mut_ptr(), count, millis) };
        if ready < 0 {
            let error = Error::last("poll", "");
            if error.errno() != Some(libc::EINTR) {
                return Err(error);
            }
        }
        Ok(ready > 0)
    }
}

/// Several descriptors as one: poll(2) finds it readable when any of them is (epoll(7)).
#[derive(Debug)]
pub struct PollGroup {
    fd: OwnedFd,
}

impl PollGroup {
    /// Creates a group of descriptors. A descriptor that is closed leaves the group.
    ///
    /// # Errors
    ///
    /// The process has no descriptor left, or one of the descriptors cannot be polled.
    pub fn new<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>) -> Result<Self> {
        let flags = libc::EPOLL_CLOEXEC;
        // SAFETY: no pointers are passed, and the call makes a descriptor.
        let group = unsafe { owned(libc::epoll_create1(flags), "epoll_create1", "") }?;
        for fd in fds {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN.cast_unsigned(),
                u64: 0,
            };
            let (group, fd) = (group.as_raw_fd(), fd.as_raw_fd());
            // SAFETY: `event` is readable and outlives the call.
            let added = unsafe { libc::epoll_ctl(group, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
            Error::check(added, "epoll_ctl", "")?;
        }
        Ok(Self { fd: group })
    }
}

impl AsFd for PollGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
