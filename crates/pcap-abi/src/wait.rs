//! Waits for packets, at a point where the thread may be cancelled.

use std::ffi::c_int;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use crate::handle_registry::HandleId;

/// The progress of a function that waits. It has no destructor.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    /// Packets delivered.
    pub(crate) delivered: c_int,
    /// The end of the timeout, once it has begun.
    pub(crate) deadline: Option<Instant>,
    /// Whether the last wait reached that time.
    pub(crate) is_over: bool,
    /// The handle whose packets are waited for.
    pub(crate) handle: Option<HandleId>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            delivered: 0,
            deadline: None,
            is_over: false,
            handle: None,
        }
    }

    /// Returns whether the handle was closed during a wait.
    pub(crate) fn is_gone(&self) -> bool {
        self.handle.is_some_and(|handle| !handle.is_open())
    }
}

/// The next step of a function that may wait.
#[derive(Clone, Copy)]
pub(crate) enum Step<T> {
    /// The function has ended.
    Done(T),
    Wait(Wait),
}

/// The conditions that end a wait.
#[derive(Clone, Copy)]
pub(crate) struct Wait {
    /// The descriptors for packets and for the waker; still open, unless C has closed the handle in the
    /// meantime.
    pub(crate) descriptors: [RawFd; 2],
    /// The longest wait; `None` for no limit.
    pub(crate) limit: Option<Duration>,
}

// Unlike the declaration in the crate `libc`, this one allows the stack to be unwound.
unsafe extern "C-unwind" {
    fn ppoll(
        fds: *mut libc::pollfd,
        count: libc::nfds_t,
        limit: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> c_int;
}

/// Returns whether a descriptor is readable now.
pub(crate) fn is_readable(descriptor: RawFd) -> bool {
    let mut fd = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one initialised entry, which outlives the call.
    unsafe { libc::poll(&raw mut fd, 1, 0) > 0 }
}

/// Waits for packets. A cancelled thread ends here.
pub(crate) fn sleep(wait: Wait, progress: &mut Progress) {
    let mut fds = wait.descriptors.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    let left = progress
        .deadline
        .map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let limit = match (wait.limit, left) {
        (Some(limit), Some(left)) => Some(limit.min(left)),
        (limit, left) => limit.or(left),
    };
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: limit.subsec_nanos().into(),
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array has two initialised entries, the limit is null or a time; all outlive the
    // call. The result is not needed: packets are looked for next.
    unsafe { ppoll(fds.as_mut_ptr(), 2, limit, std::ptr::null()) };
    progress.is_over = progress
        .deadline
        .is_some_and(|deadline| Instant::now() >= deadline);
}
