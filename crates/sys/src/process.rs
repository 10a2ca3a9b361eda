//! The limit on open files; other processes: a handle that cannot be mistaken for a later process with the same number, and copies of
//! their file descriptors.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use std::time::Duration;

use crate::Result;
use crate::calls::{get_option, owned};

/// Raises the limit on open files to the most that the process may have (`RLIMIT_NOFILE`). It works without, with fewer
/// files, so errors are ignored.
pub fn raise_open_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is writable for a `struct rlimit`.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is readable as a `struct rlimit`.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// Returns the processor time that this process has used so far (`CLOCK_PROCESS_CPUTIME_ID`).
#[must_use]
pub fn processor_time() -> Duration {
    // SAFETY: timespec holds integers, for which zero is valid.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: `time` is writable for a `struct timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A process, held by an fd (pidfd_open(2), Linux 5.3).
#[derive(Debug)]
pub struct ProcessHandle {
    fd: OwnedFd,
    pid: u32,
}

impl ProcessHandle {
    /// Opens the process with this number.
    ///
    /// # Errors
    /// `ESRCH` if there is no such process, `ENOSYS` on older kernels.
    pub fn open(pid: u32) -> Result<Self> {
        let id = libc::pid_t::try_from(pid).unwrap_or(libc::pid_t::MAX);
        // SAFETY: the call takes two numbers, touches no memory, and makes a descriptor.
        let fd = unsafe {
            let answer = libc::syscall(libc::SYS_pidfd_open, id, 0);
            owned(answer, "pidfd_open", format!("process {pid}"))
        };
        Ok(Self { fd: fd?, pid })
    }

    /// Returns a copy of the process's file descriptor with this number (pidfd_getfd(2), Linux 5.6). Needs
    /// the rights of ptrace(2) on the process.
    ///
    /// # Errors
    /// `EBADF` if the process has no such descriptor, `EPERM` without the rights.
    pub fn take_fd(&self, number: i32) -> Result<OwnedFd> {
        // SAFETY: the call takes three numbers, touches no memory, and makes a descriptor.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_getfd, self.fd.as_raw_fd(), number, 0);
            let what = format!("descriptor {number} of process {}", self.pid);
            owned(fd, "pidfd_getfd", what)
        }
    }
}

/// Returns whether the descriptor is a socket that may send packets over an interface: not one of the families
/// `AF_UNIX` and `AF_NETLINK`.
#[must_use]
pub fn sends_packets(socket: BorrowedFd<'_>) -> bool {
    let mut family = 0_i32;
    let told = get_option(&socket, libc::SOL_SOCKET, libc::SO_DOMAIN, &mut family);
    told.is_ok() && family != libc::AF_UNIX && family != libc::AF_NETLINK
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;

    use super::*;

    #[test]
    fn takes_its_own_descriptor() {
        let handle = ProcessHandle::open(std::process::id()).expect("this process");
        let file = File::open("/proc/self/stat").expect("readable");
        let copy = handle.take_fd(file.as_raw_fd()).expect("own descriptor");
        let mut text = String::new();
        File::from(copy)
            .read_to_string(&mut text)
            .expect("readable");
        assert!(text.contains(&std::process::id().to_string()));
    }

    #[test]
    fn an_unknown_process_has_no_handle() {
        assert!(ProcessHandle::open(u32::MAX >> 2).is_err());
    }
}
