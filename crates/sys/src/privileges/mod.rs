//! Drops privileges for good: capabilities, identity, and the means to regain them.
//!
//! A capture calls this after it has opened its sockets. This module opens nothing: if a later step
//! needs a right, the caller must name the capability to keep.
//!
//! Capabilities belong to threads, and a new thread inherits those of its creator. Therefore
//! [`relinquish`] fails if the process has other threads, which would stay privileged: drop
//! privileges first, then start threads. If no thread holds a privilege, other threads are allowed,
//! such as those of an emulator or a sanitizer.
//!
//! Source: capabilities(7), credentials(7), prctl(2), `Documentation/userspace-api/no_new_privs`.

mod capability;
mod held;
mod user;

use std::ffi::CString;
use std::fs;
use std::time::{Duration, Instant};

use crate::Error;
pub use capability::{Capability, CapabilitySet};
pub use held::Held;
pub use user::{
    Obstacle, UNPRIVILEGED, User, effective_user, is_elevated, is_root, is_set_user_id, obstacle,
};

/// The effective, permitted and inheritable capabilities of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Capabilities that the kernel checks.
    pub effective: CapabilitySet,
    /// Capabilities that the thread may make effective.
    pub permitted: CapabilitySet,
    /// Capabilities that a started program can inherit.
    pub inheritable: CapabilitySet,
}

/// The reason why privileges could not be dropped. The process must then end: it may hold some of
/// them.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// A system call failed.
    #[error(transparent)]
    Call(#[from] Error),
    /// The system has no such user.
    #[error("no such user: {name:?}")]
    NoSuchUser {
        /// The name that was looked for.
        name: String,
    },
    /// Other threads would keep their privileges.
    #[error("privileges must be dropped before threads start: there are {0} threads")]
    Threads(usize),
    /// The kernel reported success, but the thread still has a privilege.
    #[error("privileges were not dropped for good: {0}")]
    Retained(Retained),
}

/// The privilege that was not dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Retained {
    /// User or group identities other than the user's.
    #[error("the identities are not those of the user")]
    Identity,
    /// The former identity can be regained.
    #[error("root can be regained")]
    Root,
    /// Capabilities beyond those to keep.
    #[error("capabilities remain")]
    Capabilities,
}

/// Returns whether the calling thread has a capability in effect. Use it for messages only: the
/// call that needs the capability decides.
#[must_use]
pub fn has_capability(capability: Capability) -> bool {
    capabilities().is_ok_and(|sets| sets.effective.contains(capability))
}

/// `struct __user_cap_header_struct`: version and thread (0 is the calling one).
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

/// `struct __user_cap_data_struct`; two of them hold 64 bits, low half first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The longest time that a busy kernel may list a thread that has ended.
const JOINED_IS_GONE: Duration = Duration::from_millis(500);

const CAP_VERSION_3: u32 = 0x2008_0522;

/// Returns the capabilities of the calling thread (`capget(2)`).
///
/// # Errors
/// A seccomp filter rejects the call.
pub fn capabilities() -> crate::Result<Capabilities> {
    let mut header = CapHeader {
        version: CAP_VERSION_3,
        pid: 0,
    };
    let mut data = [CapData::default(); 2];
    // SAFETY: version 3 reads one header and writes two data structures; both are locals of that
    // layout and outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    Error::check(result, "capget", "")?;
    let join = |half: fn(&CapData) -> u32| {
        CapabilitySet(u64::from(half(&data[0])) | u64::from(half(&data[1])) << 32)
    };
    Ok(Capabilities {
        effective: join(|data| data.effective),
        permitted: join(|data| data.permitted),
        inheritable: join(|data| data.inheritable),
    })
}

fn set_capabilities(sets: Capabilities) -> crate::Result<()> {
    let header = CapHeader {
        version: CAP_VERSION_3,
        pid: 0,
    };
    let half = |shift: u32| CapData {
        effective: low_half(sets.effective.0 >> shift),
        permitted: low_half(sets.permitted.0 >> shift),
        inheritable: low_half(sets.inheritable.0 >> shift),
    };
    let data = [half(0), half(32)];
    // SAFETY: version 3 reads one header and two data structures; both are locals of that layout
    // and outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    Error::check(result, "capset", "")
}

fn low_half(bits: u64) -> u32 {
    u32::try_from(bits & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// Drops all capabilities except those in `keep`. If a user is given, also takes on that account's
/// groups, group and user, each as real, effective and saved ID, as `tcpdump -Z` does.
///
/// Kept capabilities stay permitted and effective. All others leave the bounding and ambient sets.
/// `PR_SET_NO_NEW_PRIVS` prevents started programs from gaining any, so set-user-ID programs lose
/// their effect. A process without `CAP_SETPCAP` cannot clear the bounding set;
/// `PR_SET_NO_NEW_PRIVS` makes it ineffective.
///
/// Call it before threads start, because privileges belong to threads.
///
/// # Errors
/// See [`PrivilegeError`]; the process must then end.
pub fn relinquish(user: Option<&User>, keep: &[Capability]) -> Result<(), PrivilegeError> {
    require_no_privileged_thread(user)?;
    let keep = CapabilitySet::from(keep);
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")?;
    clear_bounding_set(keep)?;
    if let Some(user) = user {
        // Otherwise the kernel clears the permitted set when the process stops being root.
        prctl(libc::PR_SET_KEEPCAPS, 1, "prctl(PR_SET_KEEPCAPS)")?;
        change_identity(user)?;
        prctl(libc::PR_SET_KEEPCAPS, 0, "prctl(PR_SET_KEEPCAPS)")?;
    }
    let clear_all = libc::PR_CAP_AMBIENT_CLEAR_ALL.cast_unsigned().into();
    prctl(
        libc::PR_CAP_AMBIENT,
        clear_all,
        "prctl(PR_CAP_AMBIENT_CLEAR_ALL)",
    )?;
    let held = capabilities()?;
    let kept = CapabilitySet(held.permitted.0 & keep.0);
    set_capabilities(Capabilities {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet(held.inheritable.0 & keep.0),
    })?;
    verify(user, keep)
}

/// Becomes another user for good, as `tcpdump -Z` does. No capability is left unless the user is
/// root.
///
/// # Errors
/// There is no such user, or as [`relinquish`].
pub fn become_user(name: &str) -> Result<User, PrivilegeError> {
    let user = User::by_name(name)?;
    relinquish(Some(&user), &[])?;
    Ok(user)
}

/// Returns the number of threads of the process.
fn threads() -> crate::Result<usize> {
    let tasks = "/proc/self/task";
    let entries = fs::read_dir(tasks).map_err(|e| Error::new("opendir", tasks, e))?;
    Ok(entries.count())
}

/// Returns the number of threads without those that were joined: the kernel still lists a thread
/// for a moment after it was joined.
pub(crate) fn threads_left() -> crate::Result<usize> {
    let begun = Instant::now();
    loop {
        let count = threads()?;
        if count == 1 || begun.elapsed() > JOINED_IS_GONE {
            return Ok(count);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn require_no_privileged_thread(user: Option<&User>) -> Result<(), PrivilegeError> {
    if threads()? == 1 {
        return Ok(());
    }
    let is_bare = |held: &Held| {
        let as_wanted = user.is_none_or(|user| held.users == [user.uid; 4]);
        held.permitted.is_empty() && as_wanted
    };
    match Held::by_all_threads() {
        Ok(all) if all.iter().all(is_bare) => return Ok(()),
        _ => {}
    }
    match threads_left()? {
        1 => Ok(()),
        threads => Err(PrivilegeError::Threads(threads)),
    }
}

fn prctl(option: libc::c_int, argument: libc::c_ulong, call: &'static str) -> crate::Result<()> {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: the options used here take numbers only.
    let result = unsafe { libc::prctl(option, argument, UNUSED, UNUSED, UNUSED) };
    Error::check(result, call, "")
}

fn clear_bounding_set(keep: CapabilitySet) -> crate::Result<()> {
    for number in 0..64_u8 {
        if keep.contains(Capability(number)) {
            continue;
        }
        let call = "prctl(PR_CAPBSET_DROP)";
        match prctl(libc::PR_CAPBSET_DROP, number.into(), call) {
            // This kernel's last capability has been passed.
            Err(error) if error.errno() == Some(libc::EINVAL) => break,
            // CAP_SETPCAP is missing: PR_SET_NO_NEW_PRIVS has the same effect, see relinquish.
            Err(error) if error.errno() == Some(libc::EPERM) => break,
            result => result?,
        }
    }
    Ok(())
}

fn change_identity(user: &User) -> Result<(), PrivilegeError> {
    let c_name = CString::new(user.name.as_str()).map_err(|_| PrivilegeError::NoSuchUser {
        name: user.name.clone(),
    })?;
    // SAFETY: the name is terminated and outlives the call.
    let result = unsafe { libc::initgroups(c_name.as_ptr(), user.gid) };
    Error::check(result, "initgroups", &user.name)?;
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::setresgid(user.gid, user.gid, user.gid) };
    Error::check(result, "setresgid", &user.name)?;
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::setresuid(user.uid, user.uid, user.uid) };
    Error::check(result, "setresuid", &user.name)?;
    Ok(())
}

/// Checks the thread's present privileges, and tries to regain root. Return values are not enough.
fn verify(user: Option<&User>, keep: CapabilitySet) -> Result<(), PrivilegeError> {
    let held = capabilities()?;
    let any = held.effective | held.permitted | held.inheritable;
    if any.0 & !keep.0 != 0 {
        return Err(PrivilegeError::Retained(Retained::Capabilities));
    }
    let Some(user) = user else {
        return Ok(());
    };
    if identities()? != ([user.uid; 3], [user.gid; 3]) {
        return Err(PrivilegeError::Retained(Retained::Identity));
    }
    const UNCHANGED: u32 = u32::MAX;
    // SAFETY: the call takes numbers only.
    if user.uid != 0 && unsafe { libc::setresuid(UNCHANGED, 0, UNCHANGED) } == 0 {
        return Err(PrivilegeError::Retained(Retained::Root));
    }
    Ok(())
}

/// Returns real, effective and saved user IDs and group IDs.
fn identities() -> crate::Result<([u32; 3], [u32; 3])> {
    let (mut u, mut g) = ([0; 3], [0; 3]);
    let [real, effective, saved] = &mut u;
    // SAFETY: the three pointers describe locals that outlive the call.
    let result = unsafe { libc::getresuid(real, effective, saved) };
    Error::check(result, "getresuid", "")?;
    let [real, effective, saved] = &mut g;
    // SAFETY: as above.
    let result = unsafe { libc::getresgid(real, effective, saved) };
    Error::check(result, "getresgid", "")?;
    Ok((u, g))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_high_and_low_capabilities() {
        let set = CapabilitySet::from(&[Capability::BPF, Capability::NET_RAW][..]);
        assert!(set.contains(Capability::BPF) && set.contains(Capability::NET_RAW));
        assert!(!set.contains(Capability::NET_ADMIN) && !set.is_empty());
        assert_eq!(Capability::NET_RAW.to_string(), "CAP_NET_RAW");
    }

    #[test]
    fn threads_make_it_refuse() {
        // On a new thread, because the main thread may run the tests.
        let held = Held::by_all_threads().expect("/proc is mounted");
        let thread = std::thread::spawn(|| relinquish(None, &[]));
        let result = thread.join().expect("no panic");
        if held.iter().all(|held| held.permitted.is_empty()) {
            return result.expect("there is nothing to give up");
        }
        let error = result.expect_err("there are threads");
        assert!(
            matches!(error, PrivilegeError::Threads(n) if n > 1),
            "{error}"
        );
    }
}
