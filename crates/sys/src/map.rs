//! A file's bytes, mapped for reading while no process can change them.
//!
//! A read lease protects the mapping, so its bytes can be used like any others. The kernel grants a
//! lease if no process has the file open for writing. A process that opens the file for writing, or
//! truncates it, then waits until the lease is given back. Leases exist only for files of the
//! process's own user (or with `CAP_LEASE`), and only on file systems that support them.
//!
//! Source: mmap(2), fcntl(2) "Leases", cachestat(2).

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

use crate::pages::Pages;
use crate::{Error, Result};

/// Bytes between two checks: whether they are in memory, and whether a process waits for the file.
const STEP: usize = 1 << 20;
/// Passed bytes after which their pages are unmapped.
const LET_GO: usize = 4 << 20;
const PAGE: usize = 4096;
/// `F_SETSIG` of fcntl(2), from `asm-generic/fcntl.h`.
const F_SETSIG: libc::c_int = 10;

/// `cachestat`, the same number on all architectures but Alpha.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat` of `linux/mman.h`; the unit is pages.
#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The bytes of a file, mapped for reading.
#[derive(Debug)]
pub struct FileMap {
    pages: Pages,
    /// The end of the bytes that are known to be in memory.
    present: usize,
    /// The beginning of the bytes whose pages are still mapped.
    held: usize,
    /// Holds the lease.
    file: File,
}

impl FileMap {
    /// Maps a whole regular file that is open for reading only.
    ///
    /// # Errors
    /// The file is empty (`EINVAL`), or the kernel grants no lease (`EAGAIN`, `EACCES`, `EINVAL`).
    pub fn new(file: File) -> Result<Self> {
        take_lease(&file)?;
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        let len = usize::try_from(len).unwrap_or(0);
        let pages = Pages::map(
            Some(file.as_fd()),
            0,
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
        );
        let pages = pages.inspect_err(|_| give_back(&file));
        Ok(Self {
            pages: pages.map_err(|source| Error::new("mmap", "", source))?,
            present: 0,
            held: 0,
            file,
        })
    }

    /// Returns whether no process waits to change the file. Such a process waits until this is
    /// dropped, but at most 45 s (`/proc/sys/fs/lease-break-time`).
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        // SAFETY: the call takes integers.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) == libc::F_RDLCK }
    }

    /// Returns all bytes of the file.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this length and lives as long as `self`. While the lease is held,
        // no process can write to the file or truncate it. Unmapped pages come back when they are
        // read. The kernel ends a lease by itself 45 s after another process has asked for the
        // file. `reach` checks this before each step, so the file can only change under a process
        // that stands still for that long between two steps.
        unsafe { std::slice::from_raw_parts(self.pages.start.as_ptr(), self.pages.len) }
    }

    /// Makes the bytes up to `end` ready for access: bytes that are not in memory are read.
    ///
    /// # Errors
    /// A process waits to change the file (`EAGAIN`); bytes cannot be read (`EFAULT`, `EHWPOISON`);
    /// or bytes are not in memory and the kernel is older than Linux 5.14 (`EINVAL`). Use read(2)
    /// then, which may give the reason.
    pub fn reach(&mut self, end: usize) -> Result<()> {
        let end = end.min(self.pages.len);
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
        let length = STEP.min(self.pages.len - self.present);
        if !self.is_cached(length) {
            // SAFETY: the range begins at a page and lies within the mapping, whose last page may
            // be partial. The pages are mapped as if each were read. This changes no byte, and
            // fails where an access would raise a signal.
            let result = unsafe {
                let from = self.pages.start.as_ptr().add(self.present);
                libc::madvise(from.cast(), length, libc::MADV_POPULATE_READ)
            };
            Error::check(result, "madvise(MADV_POPULATE_READ)", "")?;
        }
        self.present += length;
        Ok(())
    }

    /// Returns whether the next `length` bytes are in memory. The call (Linux 6.5) counts whole
    /// folios; [`libc::MADV_POPULATE_READ`] goes page by page.
    fn is_cached(&self, length: usize) -> bool {
        let range = [self.present as u64, length as u64];
        let mut found = CacheStat::default();
        // SAFETY: the call reads two numbers from `range` and writes the numbers of `found`. Both
        // are laid out as the kernel's structures and outlive the call.
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

    /// Declares the bytes before `end` as read: their pages need not stay mapped.
    pub fn pass(&mut self, end: usize) {
        let end = end.min(self.pages.len) / PAGE * PAGE;
        if end.saturating_sub(self.held) < LET_GO {
            return;
        }
        // SAFETY: whole pages within the mapping. This advice to a file mapping changes no byte:
        // the kernel maps a page again on its next access.
        unsafe {
            let from = self.pages.start.as_ptr().add(self.held);
            libc::madvise(from.cast(), end - self.held, libc::MADV_DONTNEED);
        }
        self.held = end;
    }

    /// Returns the file that was mapped.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        give_back(&self.file);
    }
}

/// Takes a read lease on a file, unless the descriptor has one already: a helper process with more
/// privileges may have taken it ([`crate::helper`]). The lease ends at the latest when all copies of
/// the descriptor are closed.
///
/// # Errors
/// The same as [`FileMap::new`].
pub fn take_lease(file: &File) -> Result<()> {
    let fd = file.as_raw_fd();
    // If another process waits for the lease, the kernel sends this process a signal, which would
    // end it. SIGURG is ignored by default.
    // SAFETY: the call takes integers.
    let set = unsafe { libc::fcntl(fd, F_SETSIG, libc::SIGURG) };
    Error::check(set, "fcntl(F_SETSIG)", "")?;
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

/// Gives back a lease of [`take_lease`], so that other processes no longer wait for the file.
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
