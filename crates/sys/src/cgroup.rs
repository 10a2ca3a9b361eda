//! The hierarchy of control groups, version 2.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use crate::{Error, Result};

/// Where the hierarchy is mounted: beside those of version 1, or alone.
pub const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// A file that every group has but the folder of other hierarchies has not.
pub const SIGN: &str = "cgroup.controllers";
/// `FSCONFIG_CMD_CREATE` of fsconfig(2).
const CREATE: libc::c_uint = 6;

/// Opens the root group. Where the hierarchy is not visible, as under `ip netns exec`, which mounts another /sys, a
/// mount of its own is made that nobody else sees and that goes with the descriptor. That needs
/// `CAP_SYS_ADMIN`.
///
/// # Errors
/// The hierarchy is not mounted, and cannot be.
pub fn open_root() -> Result<OwnedFd> {
    for mount in MOUNTS {
        if Path::new(mount).join(SIGN).exists() {
            let file = File::open(mount).map_err(|error| Error::new("open", mount, error))?;
            return Ok(file.into());
        }
    }
    own_mount()
}

fn own_mount() -> Result<OwnedFd> {
    const NAME: &CStr = c"cgroup2";
    // SAFETY: the name is read up to its closing zero, and lives until the call returns.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, NAME.as_ptr(), 0) };
    let context = owned(context).ok_or_else(|| Error::last("fsopen", "cgroup2"))?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes neither a key nor a value.
    let made = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            CREATE,
            none,
            none,
            0,
        )
    };
    if made != 0 {
        return Err(Error::last("fsconfig(FSCONFIG_CMD_CREATE)", "cgroup2"));
    }
    // SAFETY: the call takes three numbers and touches no memory.
    let mount = unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 0, 0) };
    owned(mount).ok_or_else(|| Error::last("fsmount", "cgroup2"))
}

/// Returns the new fd that a system call returned.
fn owned(answer: libc::c_long) -> Option<OwnedFd> {
    let fd = i32::try_from(answer).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel returned a new fd, so nothing else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
