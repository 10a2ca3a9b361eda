//! Users of the system: accounts that a process can become, and obstacles to that.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;

use super::{Capability, PrivilegeError, has_capability};
use crate::Error;

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User ID.
    pub uid: u32,
    /// ID of the primary group.
    pub gid: u32,
}

/// The largest buffer for one entry of the user database, in bytes.
const PASSWD_MAX: usize = 1 << 20;

/// The accounts that a root process becomes by default: the first that exists.
pub const UNPRIVILEGED: [&str; 2] = ["ringtap", "nobody"];

impl User {
    /// Looks up a user by name (`getpwnam_r(3)`, which also asks LDAP and the like).
    ///
    /// # Errors
    /// There is no such user, or the database cannot be read.
    pub fn by_name(name: &str) -> Result<Self, PrivilegeError> {
        let missing = || PrivilegeError::NoSuchUser {
            name: name.to_owned(),
        };
        let c_name = CString::new(name).map_err(|_| missing())?;
        let found = look_up("getpwnam_r", name, |entry, buffer, found| {
            // SAFETY: the name is terminated, the pointers are those of `look_up`, the length is that
            // of the buffer; all outlive the call.
            unsafe {
                libc::getpwnam_r(
                    c_name.as_ptr(),
                    entry,
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    found,
                )
            }
        });
        found?.ok_or_else(missing)
    }

    /// Looks up a user by number (`getpwuid_r(3)`).
    ///
    /// # Errors
    /// There is no such user, or the database cannot be read.
    pub fn by_uid(uid: u32) -> Result<Self, PrivilegeError> {
        let name = uid.to_string();
        let found = look_up("getpwuid_r", &name, |entry, buffer, found| {
            // SAFETY: the pointers are those of `look_up`, the length is that of the buffer; all
            // outlive the call.
            unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
        });
        found?.ok_or(PrivilegeError::NoSuchUser { name })
    }

    /// Returns the account that a process running as root should become: the first of
    /// [`UNPRIVILEGED`] that exists. Returns `None` if the process does not run as root, or if no
    /// such account exists.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn instead_of_root() -> Result<Option<Self>, PrivilegeError> {
        if !is_root() {
            return Ok(None);
        }
        for name in UNPRIVILEGED {
            match Self::by_name(name) {
                Err(PrivilegeError::NoSuchUser { .. }) => {}
                found => return found.map(Some),
            }
        }
        Ok(None)
    }
}

/// Returns the effective user ID of the process.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// Returns whether the effective user of the process is root.
#[must_use]
pub fn is_root() -> bool {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns whether the process has the identity of its program's file instead of its starter's (the
/// set-user-ID and set-group-ID bits).
#[must_use]
pub fn is_set_user_id() -> bool {
    // SAFETY: the calls take nothing and cannot fail.
    unsafe { libc::geteuid() != libc::getuid() || libc::getegid() != libc::getgid() }
}

/// Returns whether the program's file gave the process privileges that its starter lacks: an identity
/// or capabilities (`AT_SECURE` of getauxval(3)).
#[must_use]
pub fn is_elevated() -> bool {
    // SAFETY: the call takes a number and cannot fail.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

type Entry = libc::passwd;

/// Queries the user database with a buffer that grows until the entry fits.
fn look_up(
    call: &'static str,
    name: &str,
    ask: impl Fn(&mut Entry, &mut [libc::c_char], &mut *mut Entry) -> libc::c_int,
) -> Result<Option<User>, PrivilegeError> {
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: passwd holds integers and pointers, for which zero is valid.
        let mut entry: Entry = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        match ask(&mut entry, &mut buffer, &mut found) {
            libc::ERANGE if buffer.len() < PASSWD_MAX => buffer.resize(buffer.len() * 2, 0),
            // Results that the manual lists for "not found" besides success.
            0 | libc::ENOENT | libc::ESRCH if found.is_null() => return Ok(None),
            0 => {
                // SAFETY: the call has succeeded and found an entry, whose name is a terminated
                // string in the buffer.
                let name = unsafe { CStr::from_ptr(entry.pw_name) };
                return Ok(Some(User {
                    name: name.to_string_lossy().into_owned(),
                    uid: entry.pw_uid,
                    gid: entry.pw_gid,
                }));
            }
            errno => {
                let source = io::Error::from_raw_os_error(errno);
                return Err(Error::new(call, name, source).into());
            }
        }
    }
}

/// The reason why a process cannot become a user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The process lacks the capability, as in some containers.
    #[error("the process lacks {0}")]
    Capability(Capability),
    /// The user namespace does not map this ID.
    #[error("the user namespace has no user {name} ({id})")]
    NotMapped {
        /// The user.
        name: String,
        /// The number of the user or the group.
        id: u32,
    },
    /// This user namespace forbids changes of groups.
    #[error("the user namespace does not allow groups to change")]
    Groups,
}

/// Returns the reason why the process cannot become the user, if it can be known in advance.
#[must_use]
pub fn obstacle(user: &User) -> Option<Obstacle> {
    for capability in [Capability::SETUID, Capability::SETGID] {
        if !has_capability(capability) {
            return Some(Obstacle::Capability(capability));
        }
    }
    for (map, id) in [("uid_map", user.uid), ("gid_map", user.gid)] {
        let text = fs::read_to_string(format!("/proc/self/{map}"));
        if text.is_ok_and(|text| !is_mapped(&text, id)) {
            let name = user.name.clone();
            return Some(Obstacle::NotMapped { name, id });
        }
    }
    let groups = fs::read_to_string("/proc/self/setgroups");
    groups
        .is_ok_and(|text| text.trim() == "deny")
        .then_some(Obstacle::Groups)
}

/// Returns whether a map of user_namespaces(7) holds an ID. A line holds: first, first outside,
/// count.
fn is_mapped(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = User::by_name("root").expect("every system has root");
        assert_eq!((root.uid, root.gid), (0, 0));
        assert_eq!(User::by_uid(0).expect("root"), root);
        for name in ["no-such-user-here", "", "ro\0ot"] {
            let error = User::by_name(name).expect_err("nobody has this name");
            assert!(
                matches!(error, PrivilegeError::NoSuchUser { .. }),
                "{error}"
            );
        }
        assert!(User::by_uid(0x7fff_fff0).is_err());
    }

    #[test]
    fn maps_of_user_namespaces_are_read() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(whole, 0) && is_mapped(whole, 65534));
        let one = "         0       1000          1\n";
        assert!(is_mapped(one, 0) && !is_mapped(one, 65534));
        let two = "0 1000 1\n1 100000 65535\n";
        assert!(is_mapped(two, 65535) && !is_mapped(two, 65536));
        assert!(!is_mapped("", 0) && !is_mapped("x y z", 0));
    }
}
