//! The file at the end of the queue: large aligned writes past the page cache where the file system
//! takes them, room reserved ahead, the exact size at the end.
//!
//! Past the page cache, a write costs the processor next to nothing and nothing piles up that the
//! kernel would have the writer wait for later; see `docs/explanation/writing.md` for what was measured.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use ringtap_sys::disk::{self, ALIGNMENT};

use super::CHUNK;

/// Room is reserved in steps of so many bytes at most.
const STEP: u64 = 64 << 20;

/// Files of less, in bytes, go through the page cache as they are: to wait for the disk and to give
/// back room for each costs more than their bytes.
const SMALL: u64 = 1 << 20;

/// A file that grows.
pub(super) struct Disk {
    file: File,
    way: Way,
    /// Up to where room is reserved; nothing where the file system can't.
    reserved: Option<u64>,
    /// Steps in which it is reserved.
    step: u64,
    /// Bytes that the file has taken.
    size: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Cached,
    /// One after the other: a pipe, a terminal, a device.
    Stream,
}

impl Disk {
    /// A file that is empty, of about `size` bytes in the end; one that is not regular takes bytes in
    /// their order only.
    pub(super) fn new(file: File, regular: bool, size: u64) -> Self {
        // A file in memory is part of the cache, and where its room comes from has nothing to reserve.
        let plain = size < SMALL || disk::is_in_memory(&file);
        let way = match regular {
            true if !plain && disk::set_direct(&file, true).is_ok() => Way::Direct,
            true => Way::Cached,
            false => Way::Stream,
        };
        Self {
            file,
            way,
            reserved: (regular && !plain).then_some(0),
            step: size.saturating_add(CHUNK as u64).min(STEP),
            size: 0,
        }
    }

    /// Writes bytes that belong at `at`, a multiple of the alignment or the end of what a stream has
    /// taken; the last bytes that are no multiple only if the file shall be exact now. Gives the
    /// number of bytes that will not be asked for again.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8], exact: bool) -> io::Result<usize> {
        if self.way == Way::Stream {
            // Bytes before the end were written when they were offered first.
            let known = usize::try_from(self.size.saturating_sub(at)).unwrap_or(usize::MAX);
            self.stream(bytes.get(known..).unwrap_or_default())?;
            return Ok(bytes.len() - bytes.len() % ALIGNMENT);
        }
        self.reserve(at + bytes.len() as u64);
        let whole = bytes.len() - bytes.len() % ALIGNMENT;
        let (blocks, rest) = bytes.split_at(whole);
        self.write_at(at, blocks)?;
        if exact && !rest.is_empty() {
            self.write_rest(at + whole as u64, rest)?;
        }
        Ok(whole)
    }

    /// Someone else has written up to there.
    pub(super) fn has_taken(&mut self, end: u64) {
        self.size = self.size.max(end);
    }

    /// Gives back what was reserved and not used, and closes the file.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> io::Result<()> {
        match self.reserved.take() {
            Some(reserved) if reserved > self.size => self.file.set_len(self.size),
            _ => Ok(()),
        }
    }

    /// Bytes that the file has taken.
    pub(super) fn size(&self) -> u64 {
        self.size
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
                // Past the page cache, a write that there is no room for takes nothing at all; part of
                // it may have room.
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
                // Some file systems take the flag and no such write.
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

    /// Writes the end of the file through the cache, so that its size is exact at any time.
    fn write_rest(&mut self, at: u64, rest: &[u8]) -> io::Result<()> {
        let direct = self.way == Way::Direct;
        self.take_cache()?;
        self.write_at(at, rest)?;
        if direct && disk::set_direct(&self.file, true).is_ok() {
            self.way = Way::Direct;
        }
        Ok(())
    }

    fn reserve(&mut self, end: u64) {
        while let Some(reserved) = self.reserved.filter(|&reserved| reserved < end) {
            let done = disk::reserve(&self.file, reserved, self.step);
            self.reserved = done.is_ok().then_some(reserved + self.step);
            if done.is_err() {
                // Where there was too little room, ext4 has given all there was; others need it, too.
                // If that fails, what is there is written all the same.
                let _ = self.file.set_len(self.size);
            }
        }
    }
}

/// Whether there is no room, on the disk or for the user.
fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

impl Drop for Disk {
    /// Also where writing has failed.
    fn drop(&mut self) {
        // That is what was told then.
        let _ = self.give_back();
    }
}
