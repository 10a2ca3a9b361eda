//! Privileges given up for good: capabilities, identity, the right to regain either.
//!
//! What it is: what a capture calls after its sockets are open. What it is not: it opens and keeps
//! nothing; whatever needs a right later must name the capability to keep.
//!
//! Capabilities belong to threads, and a new thread inherits those of its maker. Therefore
//! [`relinquish`] refuses a process that has threads already, instead of leaving some of them
//! privileged: drop first, start threads then.
//!
//! Source: capabilities(7), credentials(7), prctl(2), `Documentation/userspace-api/no_new_privs`.

use std::ffi::{CStr, CString};
use std::fmt;
use std::fs;
use std::io;
use std::ops::BitOr;

use crate::Error;

/// A capability by its number (`include/uapi/linux/capability.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability(u8);

impl Capability {
    /// Pass over file permissions.
    pub const DAC_OVERRIDE: Self = Self(1);
    /// Change group identities.
    pub const SETGID: Self = Self(6);
    /// Change user identities.
    pub const SETUID: Self = Self(7);
    /// Take capabilities out of the bounding set.
    pub const SETPCAP: Self = Self(8);
    /// Configure interfaces, promiscuous mode, XDP and tcx programs.
    pub const NET_ADMIN: Self = Self(12);
    /// Open packet sockets.
    pub const NET_RAW: Self = Self(13);
    /// Lock memory beyond the limit.
    pub const IPC_LOCK: Self = Self(14);
    /// Enter and make namespaces, mount, and much else.
    pub const SYS_ADMIN: Self = Self(21);
    /// Real-time priority.
    pub const SYS_NICE: Self = Self(23);
    /// Read kernel addresses and trace by BPF (Linux ≥ 5.8).
    pub const PERFMON: Self = Self(38);
    /// Load BPF programs (Linux ≥ 5.8).
    pub const BPF: Self = Self(39);

    /// The name as the manual has it, such as `CAP_NET_RAW`; `CAP_41` for one that this list lacks.
    #[must_use]
    pub fn name(self) -> String {
        let known = match self {
            Self::DAC_OVERRIDE => "DAC_OVERRIDE",
            Self::SETGID => "SETGID",
            Self::SETUID => "SETUID",
            Self::SETPCAP => "SETPCAP",
            Self::NET_ADMIN => "NET_ADMIN",
            Self::NET_RAW => "NET_RAW",
            Self::IPC_LOCK => "IPC_LOCK",
            Self::SYS_ADMIN => "SYS_ADMIN",
            Self::SYS_NICE => "SYS_NICE",
            Self::PERFMON => "PERFMON",
            Self::BPF => "BPF",
            Self(number) => return format!("CAP_{number}"),
        };
        format!("CAP_{known}")
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(&self.name())
    }
}

/// A set of capabilities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySet(u64);

impl CapabilitySet {
    /// The set of none.
    pub const EMPTY: Self = Self(0);

    /// Whether the set holds a capability.
    #[must_use]
    pub fn contains(self, capability: Capability) -> bool {
        self.0 >> capability.0 & 1 != 0
    }

    /// Whether the set holds none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<&[Capability]> for CapabilitySet {
    fn from(list: &[Capability]) -> Self {
        list.iter()
            .fold(Self::EMPTY, |set, capability| set | Self(1 << capability.0))
    }
}

impl BitOr for CapabilitySet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What a thread may do: its effective, permitted and inheritable sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What the kernel's checks look at.
    pub effective: CapabilitySet,
    /// What the thread may make effective.
    pub permitted: CapabilitySet,
    /// What may pass through the start of a program.
    pub inheritable: CapabilitySet,
}

/// Why privileges could not be given up. The process must then end: it may hold part of them.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// A system call failed.
    #[error(transparent)]
    Call(#[from] Error),
    /// The system has no such user.
    #[error("there is no user {name:?}")]
    NoSuchUser {
        /// The name that was looked for.
        name: String,
    },
    /// Other threads would keep their privileges.
    #[error("privileges must be dropped before threads start: there are {0}")]
    Threads(usize),
    /// The kernel reported success, and yet the thread can still do it.
    #[error("privileges were not dropped for good: {0}")]
    Retained(Retained),
}

/// What was kept against expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Retained {
    /// User or group identities other than those wanted.
    #[error("the identities are not those of the user")]
    Identity,
    /// The former identity can be taken again.
    #[error("root can be regained")]
    Root,
    /// Capabilities beyond those to keep.
    #[error("capabilities remain")]
    Capabilities,
}

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: String,
    /// User number.
    pub uid: u32,
    /// Number of the primary group.
    pub gid: u32,
}

/// Largest buffer offered for one entry of the user database, in bytes.
const PASSWD_MAX: usize = 1 << 20;

impl User {
    /// Looks a user up by name (`getpwnam_r(3)`, so that LDAP and the like are asked as well).
    ///
    /// # Errors
    /// There is no such user, or the database cannot be read.
    pub fn by_name(name: &str) -> Result<Self, PrivilegeError> {
        let missing = || PrivilegeError::NoSuchUser {
            name: name.to_owned(),
        };
        let c_name = CString::new(name).map_err(|_| missing())?;
        let mut buffer: Vec<libc::c_char> = vec![0; 1024];
        loop {
            // SAFETY: passwd holds integers and pointers, for which zero is valid.
            let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
            let mut found = std::ptr::null_mut();
            // SAFETY: the name is terminated, the pointers describe locals, the length is that of
            // the buffer; all outlive the call.
            let error = unsafe {
                libc::getpwnam_r(
                    c_name.as_ptr(),
                    &raw mut entry,
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    &raw mut found,
                )
            };
            match error {
                libc::ERANGE if buffer.len() < PASSWD_MAX => buffer.resize(buffer.len() * 2, 0),
                // What the manual lists for "not found" besides success.
                0 | libc::ENOENT | libc::ESRCH if found.is_null() => return Err(missing()),
                0 => {
                    return Ok(Self {
                        name: name.to_owned(),
                        uid: entry.pw_uid,
                        gid: entry.pw_gid,
                    });
                }
                errno => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(Error::new("getpwnam_r", name, source).into());
                }
            }
        }
    }
}

/// Whether the calling thread has a capability in effect. Meant for messages: what decides is the
/// answer of the call that needs it.
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

const CAP_VERSION_3: u32 = 0x2008_0522;

/// The capabilities of the calling thread (`capget(2)`).
///
/// # Errors
/// The call is filtered.
pub fn capabilities() -> crate::Result<Capabilities> {
    let mut header = CapHeader {
        version: CAP_VERSION_3,
        pid: 0,
    };
    let mut data = [CapData::default(); 2];
    // SAFETY: version 3 reads one header and writes two data structures; both are locals of that
    // layout and outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, data.as_mut_ptr()) };
    if result != 0 {
        return Err(Error::last("capget", ""));
    }
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
    match result {
        0 => Ok(()),
        _ => Err(Error::last("capset", "")),
    }
}

fn low_half(bits: u64) -> u32 {
    u32::try_from(bits & u64::from(u32::MAX)).expect("masked to 32 bits")
}

/// Gives up all capabilities but those in `keep`, and, where a user is named, root's identity as
/// `tcpdump -Z` does: groups, group and user of that account, in all three forms of each.
///
/// Whatever is kept stays permitted and effective. The bounding and ambient sets are cleared of the
/// rest, and `PR_SET_NO_NEW_PRIVS` keeps programs that are started from gaining any (set-user-ID
/// programs lose their effect). A process without `CAP_SETPCAP` cannot clear the bounding set;
/// `PR_SET_NO_NEW_PRIVS` makes it ineffective.
///
/// Call it before threads start, for a privilege belongs to a thread.
///
/// # Errors
/// See [`PrivilegeError`]; the process must then end.
pub fn relinquish(user: Option<&User>, keep: &[Capability]) -> Result<(), PrivilegeError> {
    require_single_thread()?;
    let keep = CapabilitySet::from(keep);
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1, "prctl(PR_SET_NO_NEW_PRIVS)")?;
    clear_bounding_set(keep)?;
    if let Some(user) = user {
        // Without this the kernel clears the permitted set when root's identity goes.
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

/// Becomes a user for good, as `tcpdump -Z` does, without any capability left where the user is
/// not root.
///
/// # Errors
/// There is no such user, or see [`relinquish`].
pub fn become_user(name: &str) -> Result<User, PrivilegeError> {
    let user = User::by_name(name)?;
    relinquish(Some(&user), &[])?;
    Ok(user)
}

fn require_single_thread() -> Result<(), PrivilegeError> {
    let tasks = "/proc/self/task";
    match fs::read_dir(tasks)
        .map_err(|e| Error::new("opendir", tasks, e))?
        .count()
    {
        1 => Ok(()),
        threads => Err(PrivilegeError::Threads(threads)),
    }
}

fn prctl(option: libc::c_int, argument: libc::c_ulong, call: &'static str) -> crate::Result<()> {
    const UNUSED: libc::c_ulong = 0;
    // SAFETY: the options used here take numbers only.
    match unsafe { libc::prctl(option, argument, UNUSED, UNUSED, UNUSED) } {
        0 => Ok(()),
        _ => Err(Error::last(call, "")),
    }
}

fn clear_bounding_set(keep: CapabilitySet) -> crate::Result<()> {
    for number in 0..64_u8 {
        if keep.contains(Capability(number)) {
            continue;
        }
        let call = "prctl(PR_CAPBSET_DROP)";
        match prctl(libc::PR_CAPBSET_DROP, number.into(), call) {
            // Beyond the last capability of this kernel.
            Err(error) if error.errno() == Some(libc::EINVAL) => break,
            // Without CAP_SETPCAP: PR_SET_NO_NEW_PRIVS does the work, see relinquish.
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
    initgroups(&c_name, user)?;
    // SAFETY: the call takes numbers only.
    if unsafe { libc::setresgid(user.gid, user.gid, user.gid) } != 0 {
        return Err(Error::last("setresgid", &user.name).into());
    }
    // SAFETY: the call takes numbers only.
    if unsafe { libc::setresuid(user.uid, user.uid, user.uid) } != 0 {
        return Err(Error::last("setresuid", &user.name).into());
    }
    Ok(())
}

fn initgroups(c_name: &CStr, user: &User) -> crate::Result<()> {
    // SAFETY: the name is terminated and outlives the call.
    match unsafe { libc::initgroups(c_name.as_ptr(), user.gid) } {
        0 => Ok(()),
        _ => Err(Error::last("initgroups", &user.name)),
    }
}

/// Trusts no return value: looks at what the thread is now, and tries to go back.
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

/// Real, effective and saved user and group numbers.
fn identities() -> crate::Result<([u32; 3], [u32; 3])> {
    let (mut u, mut g) = ([0; 3], [0; 3]);
    let [real, effective, saved] = &mut u;
    // SAFETY: the three pointers describe locals that outlive the call.
    if unsafe { libc::getresuid(real, effective, saved) } != 0 {
        return Err(Error::last("getresuid", ""));
    }
    let [real, effective, saved] = &mut g;
    // SAFETY: as above.
    if unsafe { libc::getresgid(real, effective, saved) } != 0 {
        return Err(Error::last("getresgid", ""));
    }
    Ok((u, g))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name() {
        let root = User::by_name("root").expect("every system has root");
        assert_eq!((root.uid, root.gid), (0, 0));
        for name in ["no-such-user-here", "", "ro\0ot"] {
            let error = User::by_name(name).expect_err("nobody has this name");
            assert!(
                matches!(error, PrivilegeError::NoSuchUser { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn sets_hold_high_and_low_capabilities() {
        let set = CapabilitySet::from(&[Capability::BPF, Capability::NET_RAW][..]);
        assert!(set.contains(Capability::BPF) && set.contains(Capability::NET_RAW));
        assert!(!set.contains(Capability::NET_ADMIN) && !set.is_empty());
        assert_eq!(Capability::NET_RAW.to_string(), "CAP_NET_RAW");
    }

    #[test]
    fn own_capabilities_are_those_of_proc() {
        let status = fs::read_to_string("/proc/thread-self/status").expect("/proc is mounted");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("CapEff:"))
            .expect("CapEff");
        let bits = u64::from_str_radix(line.trim(), 16).expect("a hexadecimal number");
        assert_eq!(capabilities().expect("own").effective.0, bits);
    }

    #[test]
    fn threads_make_it_refuse() {
        // On a thread of its own, for the main thread may run the tests.
        let thread = std::thread::spawn(|| relinquish(None, &[]));
        let error = thread
            .join()
            .expect("no panic")
            .expect_err("there are threads");
        assert!(
            matches!(error, PrivilegeError::Threads(n) if n > 1),
            "{error}"
        );
    }
}
