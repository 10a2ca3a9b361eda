//! Opens output files safely: no other user can choose which file is overwritten, or who can read
//! it.
//!
//! [`open`] creates a file with exactly the permissions that were asked for, or opens an existing
//! file without changing it. This module writes no data.
//!
//! Some directories are sticky and writable for others, such as `/tmp`. There, [`open`] follows no
//! symbolic link and rejects files of other users, except those of the directory's owner, and files
//! with several hard links. This does not depend on `fs.protected_symlinks` and its relatives
//! (proc(5)).
//!
//! In other directories symbolic links are followed one by one, and each directory on the way is
//! checked. So a link from a safe directory into a sticky one is no way around the rule. On the way
//! to the file's directory, links in sticky directories are followed if they belong to the user or
//! to the owner of the directory.

mod pending;

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

pub use pending::{Output, Undo};

/// Links that are followed at most, as the kernel has it (path_resolution(7)).
const LINKS: u32 = 40;
/// The number of attempts if files come and go between two calls.
const ATTEMPTS: u32 = 16;

/// The users who may read and write a file that is created. An existing file keeps its permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The owner only: mode 0600.
    #[default]
    Owner,
    /// The owner, and a group may read: mode 0640.
    Group(Group),
    /// Mode 0666 without the bits of the umask.
    Umask,
}

impl Access {
    /// Returns the mode of a folder for such files.
    #[must_use]
    pub const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group(_) => 0o750,
            Self::Umask => 0o777,
        }
    }
}

/// A group of the system, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    gid: u32,
}

/// The error for a group that the system does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such group: {0:?}")]
pub struct NoSuchGroup(String);

/// The reason why a file that exists is rejected; the inner error of what [`open`] returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A symbolic link in a sticky directory, where any user can create one.
    #[error("is a symbolic link in a directory that others can write to, and is not followed")]
    Link,
    /// A symbolic link of another user in a sticky directory, on the way to the file.
    #[error(
        "its folder is reached by a symbolic link of another user (uid {owner}) in a directory that others \
         can write to"
    )]
    ForeignLink {
        /// The user who owns the link.
        owner: u32,
    },
    /// A file of another user in a sticky directory.
    #[error("belongs to another user (uid {owner}) in a directory that others can write to")]
    Foreign {
        /// The user who owns it.
        owner: u32,
    },
    /// A file in a sticky directory with more than one hard link.
    #[error("has another name (a hard link), and is in a directory that others can write to")]
    Linked,
}

/// An open output that has not been changed yet.
#[derive(Debug)]
pub struct UnwrittenFile {
    /// The file.
    pub file: File,
    /// The new file's entry; `None` if the file existed before.
    pub made: Option<Entry>,
}

/// The entry of a file in a directory.
#[derive(Debug)]
pub struct Entry {
    directory: File,
    name: CString,
}

impl Entry {
    /// Removes the entry, and with it the file if it has no other name.
    ///
    /// # Errors
    /// The same as unlinkat(2).
    pub fn remove(&self) -> io::Result<()> {
        let directory = self.directory.as_raw_fd();
        // SAFETY: the name is terminated and outlives the call.
        checked(unsafe { libc::unlinkat(directory, self.name.as_ptr(), 0) }).map(drop)
    }
}

impl Group {
    /// Looks up a group by its name (`getgrnam_r(3)`), or else takes the text as a number.
    ///
    /// # Errors
    /// [`NoSuchGroup`] if the text is neither.
    pub fn by_name(name: &str) -> Result<Self, NoSuchGroup> {
        let missing = || NoSuchGroup(name.to_owned());
        let c_name = CString::new(name).map_err(|_| missing())?;
        let number = || name.parse().ok();
        let gid = group_number(&c_name).or_else(number);
        // The largest number stands for "no group" (chown(2)).
        gid.filter(|gid| *gid != u32::MAX)
            .map(|gid| Self { gid })
            .ok_or_else(missing)
    }

    /// Returns the group's number.
    #[must_use]
    pub fn gid(self) -> u32 {
        self.gid
    }
}

/// The largest buffer for one entry of the group database, in bytes.
const GROUP_MAX: usize = 1 << 20;

fn group_number(name: &CStr) -> Option<u32> {
    let mut buffer: Vec<libc::c_char> = vec![0; 1024];
    loop {
        // SAFETY: group holds integers and pointers, for which zero is valid.
        let mut entry: libc::group = unsafe { mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: the name is terminated, the pointers describe locals, the length is that of the
        // buffer; all outlive the call.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                &raw mut entry,
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        match error {
            libc::ERANGE if buffer.len() < GROUP_MAX => buffer.resize(buffer.len() * 2, 0),
            0 if !found.is_null() => return Some(entry.gr_gid),
            _ => return None,
        }
    }
}

/// Opens an output for writing, and also for reading if `readable` is set. A new file gets the
/// permissions of `access`; an existing file keeps its permissions and its contents.
///
/// # Errors
/// The same as open(2), with [`NO_READER`] for a FIFO without a reader; a [`Refusal`] as the inner error; or
/// the file cannot be given to the group, and then no file is left behind.
pub fn open(path: &Path, access: Access, readable: bool) -> io::Result<UnwrittenFile> {
    let mut place = DirectoryEntry::of(None, path.as_os_str())?;
    for _ in 0..LINKS {
        match place.open(access, readable)? {
            Found::File(opened) => return Ok(opened),
            Found::Link(target) => place = DirectoryEntry::of(Some(&place.directory), &target)?,
        }
    }
    Err(io::Error::from_raw_os_error(libc::ELOOP))
}

/// A name in a directory; the file need not exist.
struct DirectoryEntry {
    directory: File,
    metadata: Metadata,
    name: CString,
}

/// The flag that makes opening a symbolic link fail (`O_NOFOLLOW`).
pub const NO_FOLLOW: i32 = libc::O_NOFOLLOW;
/// The flag of open(2) that only finds a file: a device does nothing, and nothing can be read.
pub const FIND_ONLY: i32 = libc::O_PATH;

/// The error number for opening a FIFO for writing that has no reader (`ENXIO`).
pub const NO_READER: i32 = libc::ENXIO;

enum Found {
    File(UnwrittenFile),
    /// A symbolic link to follow.
    Link(OsString),
}

impl DirectoryEntry {
    /// Finds the directory of a path that begins at `base`, or at the working directory.
    fn of(base: Option<&File>, path: &OsStr) -> io::Result<Self> {
        let bytes = path.as_bytes();
        let (directory, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&bytes[..=slash], &bytes[slash + 1..]),
            None => (&b""[..], bytes),
        };
        if matches!(name, b"" | b"." | b"..") {
            let empty = path.is_empty();
            let errno = if empty { libc::ENOENT } else { libc::EISDIR };
            return Err(io::Error::from_raw_os_error(errno));
        }
        let directory = walk(base, directory)?;
        Ok(Self {
            metadata: directory.metadata()?,
            directory,
            name: CString::new(name)?,
        })
    }

    fn open(&self, access: Access, readable: bool) -> io::Result<Found> {
        let flags = libc::O_CLOEXEC | libc::O_NOCTTY;
        let flags = flags
            | if readable {
                libc::O_RDWR
            } else {
                libc::O_WRONLY
            };
        for _ in 0..ATTEMPTS {
            let make = flags | libc::O_CREAT | libc::O_EXCL;
            match self.open_with(make, mode(access)) {
                Ok(file) => return self.made(file, access).map(Found::File),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            // The links of procfs lead to files without a name, such as pipes.
            let follow = if self.is_in_proc() {
                0
            } else {
                libc::O_NOFOLLOW
            };
            if self.is_shared() {
                self.look()?;
            }
            // A FIFO without a reader is rejected; the call does not wait for one.
            match self.open_with(flags | follow | libc::O_NONBLOCK, 0) {
                Ok(file) => {
                    crate::poll::make_blocking(&file)?;
                    return self.found(file).map(Found::File);
                }
                Err(error) if error.raw_os_error() == Some(libc::ELOOP) && follow != 0 => {
                    if self.is_shared() {
                        return Err(refused(Refusal::Link));
                    }
                    match self.link() {
                        Ok(target) => return Ok(Found::Link(target)),
                        Err(error) if has_gone(&error) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) if has_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from_raw_os_error(libc::EBUSY))
    }

    fn open_with(&self, flags: libc::c_int, mode: libc::mode_t) -> io::Result<File> {
        open_at(self.directory.as_raw_fd(), &self.name, flags, mode)
    }

    /// Gives a new file its group and returns it.
    fn made(&self, file: File, access: Access) -> io::Result<UnwrittenFile> {
        let entry = Entry {
            directory: self.directory.try_clone()?,
            name: self.name.clone(),
        };
        if let Access::Group(group) = access {
            // The mode comes after the group, so that only this group can read the file.
            let given = fchown(&file, None, Some(group.gid))
                .and_then(|()| file.set_permissions(Permissions::from_mode(0o640)));
            if let Err(error) = given {
                // If the directory is no longer writable, an empty file is left behind.
                let _ = entry.remove();
                let text = format!("it cannot be given to the group {}: {error}", group.gid);
                return Err(io::Error::new(error.kind(), text));
            }
        }
        Ok(UnwrittenFile {
            file,
            made: Some(entry),
        })
    }

    /// Checks a file of a shared directory before it is opened: opening a FIFO of another user
    /// would wait for its reader.
    fn look(&self) -> io::Result<()> {
        match self.open_with(libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0) {
            Ok(file) => self.check(&file.metadata()?),
            // Opening it reports the error.
            Err(_) => Ok(()),
        }
    }

    /// Returns an existing file if it passes [`Self::check`].
    fn found(&self, file: File) -> io::Result<UnwrittenFile> {
        self.check(&file.metadata()?)?;
        Ok(UnwrittenFile { file, made: None })
    }

    /// Checks whether an existing file may be used.
    fn check(&self, metadata: &Metadata) -> io::Result<()> {
        let kind = metadata.file_type();
        if self.is_shared() && (kind.is_file() || kind.is_fifo()) {
            let owner = metadata.uid();
            if owner != own_user() && owner != self.metadata.uid() {
                return Err(refused(Refusal::Foreign { owner }));
            }
            if kind.is_file() && metadata.nlink() > 1 {
                return Err(refused(Refusal::Linked));
            }
        }
        Ok(())
    }

    fn is_shared(&self) -> bool {
        is_shared(&self.metadata)
    }

    fn is_in_proc(&self) -> bool {
        is_in_proc(&self.directory)
    }

    fn link(&self) -> io::Result<OsString> {
        target_of(&self.directory, &self.name)
    }
}

/// The flags for opening directories on the way to a file.
const ON_THE_WAY: libc::c_int = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// Opens the directory at a path that begins at `base`, or at the working directory. This function
/// follows symbolic links itself, because the kernel's `fs.protected_symlinks` may be off.
fn walk(base: Option<&File>, path: &[u8]) -> io::Result<File> {
    let mut current = match base {
        Some(base) => base.try_clone()?,
        None => open_at(libc::AT_FDCWD, c".", ON_THE_WAY, 0)?,
    };
    let mut links = 0;
    let mut names = Vec::new();
    push(&mut names, &mut current, path)?;
    while let Some(name) = names.pop() {
        let opened = open_at(current.as_raw_fd(), &name, ON_THE_WAY | libc::O_NOFOLLOW, 0);
        match opened {
            Ok(directory) => current = directory,
            Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => {
                // The links of procfs lead to directories without a name.
                if is_in_proc(&current) {
                    current = open_at(current.as_raw_fd(), &name, ON_THE_WAY, 0)?;
                    continue;
                }
                links += 1;
                if links > LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
                let target = followed(&current, &name)?;
                push(&mut names, &mut current, target.as_bytes())?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(current)
}

/// Adds the parts of a path to the names that are still to be looked up, the first one last. An
/// absolute path restarts at the root.
fn push(names: &mut Vec<CString>, current: &mut File, path: &[u8]) -> io::Result<()> {
    if path.first() == Some(&b'/') {
        *current = open_at(libc::AT_FDCWD, c"/", ON_THE_WAY, 0)?;
    }
    let parts = path.rsplit(|byte| *byte == b'/');
    for part in parts.filter(|part| !part.is_empty()) {
        names.push(CString::new(part)?);
    }
    Ok(())
}

/// Returns the target of a symbolic link if it may be followed on the way to a file.
fn followed(directory: &File, name: &CStr) -> io::Result<OsString> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let link = open_at(directory.as_raw_fd(), name, flags, 0)?;
    let metadata = link.metadata()?;
    if !metadata.file_type().is_symlink() {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    let (shared, owner) = (directory.metadata()?, metadata.uid());
    if is_shared(&shared) && owner != own_user() && owner != shared.uid() {
        return Err(refused(Refusal::ForeignLink { owner }));
    }
    // The target of the link that was checked, even if another link has replaced it.
    target_of(&link, c"")
}

/// Returns whether a directory is sticky and writable for others than its owner.
fn is_shared(directory: &Metadata) -> bool {
    let mode = directory.mode();
    mode & libc::S_ISVTX != 0 && mode & (libc::S_IWGRP | libc::S_IWOTH) != 0
}

/// Returns whether a directory belongs to procfs.
fn is_in_proc(directory: &File) -> bool {
    /// `PROC_SUPER_MAGIC` of `linux/magic.h`.
    const PROC: u64 = 0x9fa0;
    crate::disk::system_of(directory) == Some(PROC)
}

/// Returns the target of a symbolic link in a directory; with an empty name, `directory` is the
/// link.
fn target_of(directory: &File, name: &CStr) -> io::Result<OsString> {
    let mut target = vec![0_u8; libc::PATH_MAX.unsigned_abs() as usize];
    // SAFETY: the name is terminated, the buffer is writable for its length; both outlive the call.
    let length = unsafe {
        libc::readlinkat(
            directory.as_raw_fd(),
            name.as_ptr(),
            target.as_mut_ptr().cast(),
            target.len(),
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    target.truncate(length);
    Ok(OsString::from_vec(target))
}

/// Returns the user who opens files.
fn own_user() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

fn mode(access: Access) -> libc::mode_t {
    match access {
        Access::Owner | Access::Group(_) => 0o600,
        Access::Umask => 0o666,
    }
}

/// Returns whether the entry was removed or replaced since it was looked up.
fn has_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL))
}

fn refused(refusal: Refusal) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, refusal)
}

fn open_at(
    directory: RawFd,
    path: &CStr,
    flags: libc::c_int,
    mode: libc::mode_t,
) -> io::Result<File> {
    loop {
        // SAFETY: the path is terminated and outlives the call; the mode is an integer.
        let opened = unsafe { libc::openat(directory, path.as_ptr(), flags, mode) };
        match checked(opened) {
            // SAFETY: the call has just returned this fd, so nothing else owns it.
            Ok(fd) => return Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) })),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    match result {
        failed if failed < 0 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

#[cfg(test)]
mod tests;
