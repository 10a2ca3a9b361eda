//! The limit on locked memory, against which kernels before 5.11 count maps and programs.
//!
//! Newer kernels count them against the control group, and their EPERM has another reason. So the
//! limit is raised only after a rejection, and stays raised only if that helped.

use std::io;
use std::sync::{Mutex, PoisonError};

/// Several threads must not undo each other's change of the limit.
static TURN: Mutex<()> = Mutex::new(());

/// Retries a request without a limit on locked memory. Returns `None` if the limit cannot be raised
/// (`CAP_SYS_RESOURCE`).
pub(super) fn with_all<T>(mut request: impl FnMut() -> io::Result<T>) -> Option<io::Result<T>> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let before = limit()?;
    if before.rlim_cur == libc::RLIM_INFINITY {
        // Another thread may have raised it since the request was rejected.
        return Some(request());
    }
    set(libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    })?;
    let answer = request();
    if answer.is_err() {
        // Lowering a limit needs no privilege.
        set(before)?;
    }
    Some(answer)
}

fn limit() -> Option<libc::rlimit> {
    let mut found = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `found` is writable for a `struct rlimit`.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut found) };
    (result == 0).then_some(found)
}

fn set(limit: libc::rlimit) -> Option<()> {
    // SAFETY: `limit` is readable as a `struct rlimit`.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) };
    (result == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_not_the_reason_stays() {
        let before = limit().expect("a process has limits").rlim_cur;
        let refused = || Err::<(), _>(io::Error::from_raw_os_error(libc::EPERM));
        if let Some(answer) = with_all(refused) {
            assert!(answer.is_err());
        }
        assert_eq!(limit().expect("a process has limits").rlim_cur, before);
    }
}
