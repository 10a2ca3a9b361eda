//! Blocks signals in new threads, and finds signals that the process ignores.

/// Runs `start` while all signals are blocked in the calling thread. Threads that `start` creates
/// keep them blocked, so signal handlers run in the other threads of the process.
pub fn blocked<T>(start: impl FnOnce() -> T) -> T {
    let _restored = Restored::block();
    start()
}

/// Returns whether the process ignores a signal; `nohup`, for example, starts programs with SIGHUP
/// ignored.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid action, which the call overwrites.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null pointer changes nothing; the action is writable.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Restores the thread's earlier signal mask when dropped.
struct Restored(libc::sigset_t);

impl Restored {
    fn block() -> Self {
        // SAFETY: all-zero bytes are a valid set, to be overwritten.
        let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: both sets are writable. Neither call fails with such arguments.
        unsafe {
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        }
        Self(before)
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        // SAFETY: the set is the one that the thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether SIGUSR1 is unblocked in the calling thread.
    fn takes_signals() -> bool {
        // SAFETY: all-zero bytes are a valid set, which the call overwrites.
        let mut now: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: the set is writable; a null pointer changes nothing.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &raw mut now);
            libc::sigismember(&raw const now, libc::SIGUSR1) == 0
        }
    }

    #[test]
    fn what_is_ignored_is_told() {
        // Rust's runtime ignores SIGPIPE; no process can ignore SIGKILL.
        assert!(is_ignored(libc::SIGPIPE));
        assert!(!is_ignored(libc::SIGKILL));
        assert!(!is_ignored(-1));
    }

    #[test]
    fn a_thread_started_so_takes_none_and_its_parent_does_again() {
        let before = takes_signals();
        let thread = blocked(|| std::thread::spawn(takes_signals));
        assert!(!thread.join().unwrap());
        assert_eq!(takes_signals(), before);
    }
}
