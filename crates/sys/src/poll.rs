//! Waiting for file descriptors.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use crate::{Error, Result};

/// A descriptor and what is awaited of it.
#[derive(Clone, Copy, Debug)]
pub struct Interest<'a> {
    fd: BorrowedFd<'a>,
    events: libc::c_short,
}

impl<'a> Interest<'a> {
    /// Something to read.
    #[must_use]
    pub const fn read(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            events: libc::POLLIN,
        }
    }

    /// Room to write.
    #[must_use]
    pub const fn write(fd: BorrowedFd<'a>) -> Self {
        Self {
            fd,
            events: libc::POLLOUT,
        }
    }
}

/// What became of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// There is something to read.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// An error is pending, or the other side is gone.
    pub failed: bool,
}

/// Waits until one of the descriptors is ready, `timeout` has passed (rounded up to milliseconds;
/// none waits for ever) or a signal came; in the last two cases nothing is ready.
///
/// # Errors
///
/// `poll` fails where the kernel has no memory for it.
pub fn wait<const N: usize>(
    interests: [Interest<'_>; N],
    timeout: Option<Duration>,
) -> Result<[Readiness; N]> {
    let mut fds = interests.map(|interest| libc::pollfd {
        fd: interest.fd.as_raw_fd(),
        events: interest.events,
        revents: 0,
    });
    let timeout = timeout.map_or(-1, |limit| {
        let millis = limit.as_nanos().div_ceil(1_000_000);
        libc::c_int::try_from(millis).unwrap_or(libc::c_int::MAX)
    });
    // SAFETY: `fds` is an array of N initialised entries, which outlives the call.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), N as libc::nfds_t, timeout) };
    if ready < 0 {
        let error = Error::last("poll", "");
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
