//! Files on a disk: writes that bypass the page cache, and space reserved in advance.
//!
//! These functions add what the standard library's files lack. They write no data.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::{Error, Result};

/// The alignment of memory, offset and length for writes that bypass the page cache, in bytes. No
/// block device that can hold a Linux file system asks for more.
pub const ALIGNMENT: usize = 4096;

/// Makes `options` open files for writes that bypass the page cache (`O_DIRECT`, open(2)). On file
/// systems that do not support this, opening fails with `EINVAL`.
pub fn direct(options: &mut std::fs::OpenOptions) -> &mut std::fs::OpenOptions {
    options.custom_flags(libc::O_DIRECT)
}

/// Switches writes that bypass the page cache on or off (`F_SETFL`, fcntl(2)).
///
/// # Errors
/// `EINVAL` if the file system does not support them.
pub fn set_direct(file: &File, on: bool) -> Result<()> {
    let fd = file.as_raw_fd();
    // SAFETY: takes no pointer.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    Error::check(flags, "fcntl(F_GETFL)", "")?;
    let flags = if on {
        flags | libc::O_DIRECT
    } else {
        flags & !libc::O_DIRECT
    };
    // SAFETY: takes no pointer.
    let result = unsafe { libc::fcntl(fd, libc::F_SETFL, flags) };
    Error::check(result, "fcntl(F_SETFL)", "O_DIRECT")
}

/// Returns whether a file is kept in memory only (`tmpfs`, `ramfs`; fstatfs(2)). If the file system
/// cannot be found out, returns false.
#[must_use]
pub fn is_in_memory(file: &File) -> bool {
    /// `TMPFS_MAGIC` and `RAMFS_MAGIC` of `linux/magic.h`.
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    system_of(file).is_some_and(|kind| IN_MEMORY.contains(&kind))
}

/// Returns the number of the file system that a file is in (`linux/magic.h`; fstatfs(2)).
pub(crate) fn system_of(file: &File) -> Option<u64> {
    // SAFETY: the structure holds integers only, for which zero is valid.
    let mut system: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `system` is writable for its own size, and outlives the call.
    let result = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut system) };
    // The type's width and sign differ between architectures; the numbers have 32 bits.
    u64::try_from(system.f_type).ok().filter(|_| result == 0)
}

/// Reserves disk space for `bytes` bytes at `offset` without changing the file's size
/// (`FALLOC_FL_KEEP_SIZE`, fallocate(2)). Truncating the file frees unused space.
///
/// # Errors
/// `EOPNOTSUPP` if the file system does not support it, `ENOSPC` if there is not enough space.
pub fn reserve(file: &File, offset: u64, bytes: u64) -> Result<()> {
    allocate(file, libc::FALLOC_FL_KEEP_SIZE, (offset, bytes))
}

/// Frees the disk space of a range of a file, which then reads as zeros (`FALLOC_FL_PUNCH_HOLE`,
/// fallocate(2)). The size stays.
///
/// # Errors
/// `EOPNOTSUPP` if the file system does not support it.
pub fn punch_hole(file: &File, offset: u64, bytes: u64) -> Result<()> {
    allocate(
        file,
        libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
        (offset, bytes),
    )
}

fn allocate(file: &File, mode: libc::c_int, (offset, bytes): (u64, u64)) -> Result<()> {
    let too_far = || Error::new("fallocate", "", std::io::ErrorKind::InvalidInput.into());
    let offset = libc::off_t::try_from(offset).map_err(|_| too_far())?;
    let bytes = libc::off_t::try_from(bytes).map_err(|_| too_far())?;
    // SAFETY: takes no pointer.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset, bytes) };
    Error::check(result, "fallocate", "")
}

/// Locks a file against other opened files of it (flock(2)): alone, or with others that lock it the same
/// way. The lock ends when the file is closed. Returns false if another one has it.
///
/// # Errors
/// The file system has no locks.
pub fn try_lock(file: &File, alone: bool) -> Result<bool> {
    let kind = if alone { libc::LOCK_EX } else { libc::LOCK_SH };
    match flock(file, kind | libc::LOCK_NB) {
        Err(error) if error.source.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
        outcome => outcome.map(|()| true),
    }
}

/// Ends the lock of a file (flock(2)).
///
/// # Errors
/// The file system has no locks.
pub fn unlock(file: &File) -> Result<()> {
    flock(file, libc::LOCK_UN)
}

fn flock(file: &File, operation: libc::c_int) -> Result<()> {
    // SAFETY: takes no pointer.
    let result = unsafe { libc::flock(file.as_raw_fd(), operation) };
    Error::check(result, "flock", "")
}

/// Exchanges what two paths name, in one step (`RENAME_EXCHANGE`, renameat2(2)).
///
/// # Errors
/// `EINVAL` if the file system cannot; else the same as rename(2).
pub fn exchange(one: &Path, other: &Path) -> Result<()> {
    let context = || format!("{} and {}", one.display(), other.display());
    let named = |path: &Path| {
        let name = CString::new(path.as_os_str().as_bytes());
        name.map_err(|error| Error::new("renameat2", context(), error.into()))
    };
    let (from, to) = (named(one)?, named(other)?);
    // SAFETY: both names end in a zero byte, and outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            from.as_ptr(),
            libc::AT_FDCWD,
            to.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    Error::check(result, "renameat2", context())
}

/// Returns the bytes that users without privileges may still write to the file system of an open file or
/// folder (fstatvfs(3)).
///
/// # Errors
/// The file system does not say.
pub fn free(file: &File) -> Result<u64> {
    // SAFETY: the structure holds integers only, for which zero is valid.
    let mut system: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `system` is writable for its own size, and outlives the call.
    let result = unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut system) };
    Error::check(result, "fstatvfs", "")?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::FromRawFd as _;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn files_in_memory_are_known() {
        // SAFETY: a name that ends in a zero byte; no other pointer.
        let fd = unsafe { libc::memfd_create(c"ringtap-kind".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the call has just made this descriptor, so nothing else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        assert!(is_in_memory(&file));
        assert!(!is_in_memory(
            &File::open("/proc/self/stat").expect("opened")
        ));
    }

    #[test]
    fn folders_are_exchanged_with_their_files() {
        let place = tempfile::tempdir().expect("a folder");
        let [one, other] = ["one", "other"].map(|name| place.path().join(name));
        for folder in [&one, &other] {
            std::fs::create_dir(folder).expect("made");
        }
        std::fs::write(one.join("file"), "of one").expect("written");
        exchange(&one, &other).expect("exchanged");
        assert!(other.join("file").exists() && !one.join("file").exists());
        assert!(exchange(&one, &place.path().join("none")).is_err());
    }

    #[test]
    fn a_lock_excludes_other_files_and_ends_with_its_own() {
        let path = std::env::temp_dir().join(format!("ringtap-lock-{}", std::process::id()));
        let [one, two, three] = [(); 3].map(|()| File::create(&path).expect("a file"));
        assert!(try_lock(&one, true).expect("locks"));
        assert!(!try_lock(&two, true).expect("locks") && !try_lock(&two, false).expect("locks"));
        drop(one);
        assert!(try_lock(&two, false).expect("locks") && try_lock(&three, false).expect("locks"));
        assert!(free(&two).expect("a file system") > 0);
        std::fs::remove_file(&path).expect("removed");
    }

    #[test]
    fn a_hole_takes_no_room_and_reads_as_zeros() {
        use std::os::unix::fs::FileExt as _;
        let file = tempfile::tempfile().expect("a temporary file");
        file.write_all_at(&[7; 1 << 16], 0).expect("written");
        file.sync_all().expect("on the disk");
        let before = file.metadata().expect("metadata");
        // A file system without support reports an error; this is no failure.
        if punch_hole(&file, 4096, 1 << 15).is_ok() {
            let after = file.metadata().expect("metadata");
            assert!(after.len() == before.len() && after.blocks() < before.blocks());
            let mut bytes = [1; 2];
            file.read_exact_at(&mut bytes, 4095).expect("read");
            assert_eq!(bytes, [7, 0]);
        }
    }

    #[test]
    fn reserved_room_is_no_size_and_is_given_back() {
        let path = std::env::temp_dir().join(format!("ringtap-reserve-{}", std::process::id()));
        let file = File::create(&path).expect("a temporary file");
        // A file system without support reports an error; this is no failure.
        if reserve(&file, 0, 1 << 20).is_ok() {
            let before = file.metadata().expect("metadata");
            assert_eq!(before.len(), 0);
            assert!(before.blocks() >= 2048, "{} blocks", before.blocks());
            file.set_len(0).expect("truncated");
            assert_eq!(file.metadata().expect("metadata").blocks(), 0);
        }
        std::fs::remove_file(&path).expect("removed");
    }
}
