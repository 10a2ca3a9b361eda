//! A file's bytes, mapped for reading while nobody can change them.
//!
//! What it is: a mapping that its owner may look at as at any other bytes. What makes them so is a read
//! lease: the kernel grants it for a file that nobody has open for writing, and lets whoever opens the
//! file for writing, or cuts it, wait until the lease is given back. What it is not: a way to read any
//! file; the lease is for files of the process's own user (or with `CAP_LEASE`), in file systems that know
//! leases.
//!
//! Source: mmap(2), fcntl(2) "Leases", cachestat(2).

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use crate::{Error, Result};

/// Bytes between two questions: whether they are in memory, and whether somebody waits for the file.
const STEP: usize = 1 << 20;
/// Bytes after which the mapping lets go of what was passed.
const LET_GO: usize = 4 << 20;
const PAGE: usize = 4096;
/// `F_SETSIG` of fcntl(2), from `asm-generic/fcntl.h`.
const F_SETSIG: libc::c_int = 10;

/// `cachestat`, the same number on all machines but Alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat` of `linux/mman.h`: pages.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The bytes of a file.
#[derive(Debug)]
pub struct FileMap {
    start: NonNull<u8>,
    len: usize,
    /// Up to where bytes are in memory.
    present: usize,
    /// Where what was not let go of begins.
    held: usize,
    /// Holds the lease.
    file: File,
}

// SAFETY: the mapping is the process's, not the thread's, and nobody writes to it.
unsafe impl Send for FileMap {}

impl FileMap {
    /// Maps a whole regular file that is open for reading only.
    ///
    /// # Errors
    /// A file that is empty (`EINVAL`), or of which no lease is to be had (`EAGAIN`, `EACCES`, `EINVAL`).
    pub fn new(file: File) -> Result<Self> {
        take_lease(&file)?;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        let len = usize::try_from(len).unwrap_or(0);
        // SAFETY: a new mapping, for reading, at a place that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        let mapped = NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED);
        let Some(start) = mapped else {
            let error = Error::last("mmap", "");
            give_back(&file);
            return Err(error);
        };
        Ok(Self {
            start,
            len,
            present: 0,
            held: 0,
            file,
        })
    }

    /// Whether nobody waits to change the file; who does waits until this is dropped, for 45 s at most
    /// (`/proc/sys/fs/lease-break-time`).
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        // SAFETY: the call takes integers.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
    }

    /// All bytes of the file.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is so long and lives as long as `self`. While the lease is held nobody can
        // write to the file or cut it; its pages come back when they are looked at after they were let go.
        // The kernel ends a lease on its own 45 s after somebody has asked for the file: `reach` finds out
        // before each step, and only a process that stands still for so long in between looks at a file
        // that others may have changed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Makes the bytes up to `end` ready to be looked at: those which are not in memory are read.
    ///
    /// # Errors
    /// Somebody who waits to change the file (`EAGAIN`), bytes that cannot be read (`EFAULT`,
    /// `EHWPOISON`), bytes that are not in memory before Linux 5.14 (`EINVAL`): the file is then to be read
    /// by read(2), which may say why.
    pub fn reach(&mut self, end: usize) -> Result<()> {
        let end = end.min(self.len);
        while self.present < end {
            self.have_more()?;
        }
        Ok(())
    }

    fn have_more(&mut self) -> Result<()> {
        if !self.is_undisturbed() {
            let source = std::io::Error::from_raw_os_error(libc::EAGAIN);
            return Err(Error::new("fcntl(F_GETLEASE)", "", source));
        }
        let length = STEP.min(self.len - self.present);
        if !self.is_cached(length) {
            // SAFETY: from a page's first byte on, within the mapping (whose last page may be a part). The
            // pages are mapped as if each were read, which changes no byte, and fails where a look at them
            // would end the process by a signal.
            let result = unsafe {
                let from = self.start.as_ptr().add(self.present);
                libc::madvise(from.cast(), length, libc::MADV_POPULATE_READ)
            };
            if result != 0 {
                return Err(Error::last("madvise(MADV_POPULATE_READ)", ""));
            }
        }
        self.present += length;
        Ok(())
    }

    /// Whether the next `length` bytes are in memory, by a call that counts them by the kernel's units,
    /// as large as these are: [`libc::MADV_POPULATE_READ`] goes page by page. Not before Linux 6.5.
    fn is_cached(&self, length: usize) -> bool {
        let range = [self.present as u64, length as u64];
        let mut found = CacheStat::default();
        // SAFETY: the call reads two numbers from `range` and writes the numbers of `found`, which are laid
        // out as the kernel's structures; both outlive it.
        let result = unsafe {
            libc::syscall(
                SYS_CACHESTAT,
                self.file.as_raw_fd(),
                range.as_ptr(),
                &raw mut found,
                0,
            )
        };
        result == 0 && found.cache >= length.div_ceil(PAGE) as u64
    }

    /// Says that what lies before `end` is not looked at again soon: its pages need not stay mapped.
    pub fn pass(&mut self, end: usize) {
        let end = end.min(self.len) / PAGE * PAGE;
        if end.saturating_sub(self.held) < LET_GO {
            return;
        }
        // SAFETY: whole pages within the mapping. This advice to a mapping of a file changes no byte: the
        // kernel maps a page again when it is looked at.
        unsafe {
            let from = self.start.as_ptr().add(self.held);
            libc::madvise(from.cast(), end - self.held, libc::MADV_DONTNEED);
        }
        self.held = end;
    }

    /// The file, as it was given.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody can look at it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        give_back(&self.file);
    }
}

/// Takes a lease for reading on a file, unless the descriptor has one: a helper process may have taken it
/// where this process has no right to ([`crate::helper`]). It ends when all copies of the descriptor are
/// closed, at the latest.
///
/// # Errors
/// As [`FileMap::new`].
pub fn take_lease(file: &File) -> Result<()> {
    let fd = file.as_raw_fd();
    // Whoever waits for the lease makes the kernel send a signal, which would end the process unless
    // it is one that nobody has to do with.
    // SAFETY: the call takes integers.
    if unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) } < 0 {
        return Err(Error::last("fcntl(F_SETSIG)", ""));
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) } < 0 {
        let error = Error::last("fcntl(F_SETLEASE)", "");
        // SAFETY: as above.
        let has_one = unsafe { libc::fcntl(fd, libc::F_GETLEASE) == libc::F_RDLCK };
        if error.errno() != Some(libc::EACCES) || !has_one {
            return Err(error);
        }
    }
    Ok(())
}

/// Gives a lease back that [`take_lease`] has taken, so that nobody waits for the file any more.
pub fn give_back(file: &File) {
    // SAFETY: the call takes integers.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_UNLCK) };
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write as _;

    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("temporary file");
        std::fs::write(file.path(), bytes).expect("written");
        let path = file.into_temp_path();
        let file = File::open(&path).expect("opened");
        tempfile::NamedTempFile::from_parts(file, path)
    }

    fn map(file: &tempfile::NamedTempFile) -> Result<FileMap> {
        FileMap::new(file.as_file().try_clone().expect("a descriptor"))
    }

    #[test]
    fn bytes_are_those_of_the_file_also_where_they_were_let_go_of() {
        let bytes: Vec<u8> = (0..9_000_001_u32)
            .map(|number| number.to_le_bytes()[1])
            .collect();
        let file = file(&bytes);
        let mut map = map(&file).expect("a lease");
        for end in (0..bytes.len() + 100_000).step_by(100_000) {
            map.pass(end);
            map.reach(end + 100_000).expect("readable");
        }
        map.reach(usize::MAX).expect("readable");
        assert!(map.held > 2 * LET_GO - PAGE);
        assert!(map.bytes() == bytes);
        assert!(map.is_undisturbed());
    }

    #[test]
    fn a_file_that_somebody_writes_is_not_mapped() {
        let file = file(b"whatever");
        let writer = OpenOptions::new()
            .write(true)
            .open(file.path())
            .expect("opened");
        let error = map(&file).expect_err("no lease");
        assert_eq!(error.errno(), Some(libc::EAGAIN), "{error}");
        drop(writer);
        assert!(map(&file).is_ok());
    }

    #[test]
    fn who_would_write_waits_until_the_mapping_is_gone() {
        let file = file(b"before");
        let mut map = map(&file).expect("a lease");
        let path = file.path().to_owned();
        let writer = std::thread::spawn(move || {
            let mut file = OpenOptions::new().write(true).truncate(true).open(path)?;
            file.write_all(b"behind")
        });
        while map.is_undisturbed() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let error = map.reach(6).expect_err("somebody waits");
        assert_eq!(error.errno(), Some(libc::EAGAIN), "{error}");
        assert_eq!(map.bytes(), b"before");
        drop(map);
        writer.join().expect("no panic").expect("written");
        assert_eq!(std::fs::read(file.path()).expect("read"), b"behind");
    }

    #[test]
    fn an_empty_file_has_nothing_to_map() {
        assert!(map(&file(b"")).is_err());
    }
}
