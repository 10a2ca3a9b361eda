//! The file at the end of the queue: large aligned writes past the page cache if the file system supports
//! them, space reserved ahead, the exact size at the end.
//!
//! A write past the page cache costs the processor almost nothing, and no dirty pages pile up for which the
//! kernel would stop the writer later. `docs/explanation/writing.md` has the measurements.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use ringtap_sys::disk::{self, ALIGNMENT};

use super::CHUNK;
use crate::host::Host;

/// The maximum step in which space is reserved, in bytes.
const STEP: u64 = 64 << 20;

/// The size, in bytes, below which files go through the page cache: for small files, waiting for the disk and
/// releasing space costs more than the data.
const SMALL: u64 = 1 << 20;

/// A file that grows.
pub(super) struct Disk {
    file: File,
    path: PathBuf,
    host: Arc<dyn Host>,
    /// The offset up to which the host allows the file to grow.
    admitted: u64,
    way: Way,
    /// The offset up to which space is reserved. `None` if the file system does not support it.
    reserved: Option<u64>,
    /// The step in which it is reserved.
    step: u64,
    /// Bytes that the file has taken, also from another writer.
    pub(super) size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Cached,
    /// In sequence: a pipe, a terminal, a device.
    Stream,
}

impl Disk {
    /// Takes an empty file that will have about `size` bytes. A file that is not regular takes bytes only in
    /// sequence. `step` is the step in which space is reserved.
    pub(super) fn new(
        (file, regular): (File, bool),
        path: PathBuf,
        host: &Arc<dyn Host>,
        (size, step): (u64, Option<u64>),
    ) -> Self {
        // A file in memory is part of the cache, and there is nothing to reserve.
        let plain = size < SMALL || disk::is_in_memory(&file);
        let way = match regular {
            true if !plain && disk::set_direct(&file, true).is_ok() => Way::Direct,
            true => Way::Cached,
            false => Way::Stream,
        };
        Self {
            file,
            path,
            host: Arc::clone(host),
            admitted: 0,
            way,
            reserved: (regular && !plain).then_some(0),
            step: step.unwrap_or_else(|| size.saturating_add(CHUNK as u64).min(STEP)),
            size: 0,
        }
    }

    /// Writes bytes at offset `at`, a multiple of the alignment or the end of a stream. The last bytes that
    /// are not a multiple are written only if the file must be exact now. Returns the number of bytes that
    /// are not needed again.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8], exact: bool) -> io::Result<usize> {
        if self.way == Way::Stream {
            // Bytes before the end were written when they were first offered.
            let known = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
            self.stream(bytes.get(known..).unwrap_or_default())?;
            return Ok(bytes.len() - bytes.len() % ALIGNMENT);
        }
        self.admit(at + bytes.len() as u64)?;
        self.reserve(at + bytes.len() as u64);
        let whole = bytes.len() - bytes.len() % ALIGNMENT;
        let (blocks, rest) = bytes.split_at(whole);
        self.write_at(at, blocks)?;
        if exact && !rest.is_empty() {
            self.write_rest(at + whole as u64, rest)?;
        }
        Ok(whole)
    }

    /// Releases reserved space that was not used, and closes the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> io::Result<()> {
        match self.reserved.take() {
            Some(reserved) if reserved > self.size => self.file.set_len(self.size),
            _ => Ok(()),
        }
    }

    fn stream(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.size += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_at(&mut self, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
        let mut most = bytes.len();
        while !bytes.is_empty() {
            let now = &bytes[..most.min(bytes.len())];
            match self.file.write_at(now, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                // Past the page cache, a write without enough space writes nothing at all, although part of
                // it may have space.
                Err(error) if is_full(&error) && now.len() > ALIGNMENT => {
                    most = (now.len() / 2).next_multiple_of(ALIGNMENT);
                }
                Ok(count) => {
                    at += count as u64;
                    self.size = self.size.max(at);
                    bytes = &bytes[count..];
                    if !count.is_multiple_of(ALIGNMENT) && !bytes.is_empty() {
                        self.take_cache()?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Some file systems accept the flag but not such a write.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    if self.way == Way::Cached {
                        return Err(error);
                    }
                    self.take_cache()?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_cache(&mut self) -> io::Result<()> {
        if self.way == Way::Direct {
            disk::set_direct(&self.file, false).map_err(io::Error::other)?;
            self.way = Way::Cached;
        }
        Ok(())
    }

    /// Writes the end of the file through the cache, so that its size is always exact.
    fn write_rest(&mut self, at: u64, rest: &[u8]) -> io::Result<()> {
        let direct = self.way == Way::Direct;
        self.take_cache()?;
        self.write_at(at, rest)?;
        if direct && disk::set_direct(&self.file, true).is_ok() {
            self.way = Way::Direct;
        }
        Ok(())
    }

    /// Asks the host for the space, in the steps in which it is reserved.
    fn admit(&mut self, end: u64) -> io::Result<()> {
        while self.admitted < end {
            let next = self.admitted.saturating_add(self.step);
            self.host.admit(&self.path, next)?;
            self.admitted = next;
        }
        Ok(())
    }

    /// Has everything that was written on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        match self.way {
            Way::Stream => Ok(()),
            Way::Direct | Way::Cached => self.file.sync_data(),
        }
    }

    fn reserve(&mut self, end: u64) {
        while let Some(reserved) = self.reserved.filter(|&reserved| reserved < end) {
            let done = disk::reserve(&self.file, reserved, self.step);
            self.reserved = done.is_ok().then_some(reserved + self.step);
            if done.is_err() {
                // When space ran out, ext4 reserved all there was, but others need space too. If the release
                // fails, the existing data is still written.
                let _ = self.file.set_len(self.size);
            }
        }
    }
}

/// Returns whether there is no space, on the disk or in the user's quota.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

impl Drop for Disk {
    /// Closes the file, also after a failed write.
    fn drop(&mut self) {
        // That error was reported then.
        let _ = self.give_back();
    }
}
