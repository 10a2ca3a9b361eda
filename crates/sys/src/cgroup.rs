//! The hierarchy of control groups, version 2.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::calls::owned;
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
    // SAFETY: the name is read up to its closing zero, and lives until the call returns, which makes a
    // descriptor.
    let context = unsafe {
        let answer = libc::syscall(libc::SYS_fsopen, NAME.as_ptr(), 0);
        owned(answer, "fsopen", "cgroup2")
    }?;
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
    Error::check(made, "fsconfig(FSCONFIG_CMD_CREATE)", "cgroup2")?;
    // SAFETY: the call takes three numbers, touches no memory, and makes a descriptor.
    unsafe {
        let mount = libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 0, 0);
        owned(mount, "fsmount", "cgroup2")
    }
}
