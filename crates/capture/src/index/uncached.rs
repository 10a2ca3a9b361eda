//! Reads a file past the page cache.
//!
//! A file that was written past the cache is read back the same way: through the cache, the kernel would find
//! and fill a page for each 4096 bytes, which costs more than all work on the packets, and it would evict what
//! other programs use.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use ringtap_sys::disk::{self, ALIGNMENT};

/// Bytes that are read at once. 256 KiB keep the disk waiting a third of the time; 2 MiB are hardly faster.
const AT_ONCE: usize = 1 << 20;

/// A file that is read from its beginning, in large aligned pieces.
pub(super) struct UncachedFile {
    file: File,
    /// Memory with an aligned part of [`AT_ONCE`] bytes.
    memory: Vec<u8>,
    /// The begin and end of the bytes that were read but not taken.
    left: (usize, usize),
    /// The offset of the next piece.
    next: u64,
    is_direct: bool,
}

impl UncachedFile {
    /// Takes a file, whose reads bypass the page cache while this value exists. A file system that cannot do
    /// that is read through the cache.
    pub(super) fn new(file: File) -> Self {
        let is_direct = !disk::is_in_memory(&file) && disk::set_direct(&file, true).is_ok();
        Self {
            file,
            memory: vec![0; AT_ONCE + ALIGNMENT],
            left: (0, 0),
            next: 0,
            is_direct,
        }
    }

    /// Reads the next piece. Returns the number of its bytes, 0 at the end of the file.
    fn fill(&mut self) -> io::Result<usize> {
        let start = self.memory.as_ptr().align_offset(ALIGNMENT);
        loop {
            let piece = self.memory.get_mut(start..).unwrap_or_default();
            let len = piece.len().min(AT_ONCE);
            match self.file.read_at(&mut piece[..len], self.next) {
                Ok(count) => {
                    self.left = (start, start + count);
                    self.next += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file system does not support this, or not at this offset.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.is_direct => {
                    disk::set_direct(&self.file, false).map_err(io::Error::other)?;
                    self.is_direct = false;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for UncachedFile {
    /// Later reads of the same opened file use the cache again.
    fn drop(&mut self) {
        if self.is_direct {
            // It was switched on a moment ago; if it stays on, a later read fails, and tells why.
            let _ = disk::set_direct(&self.file, false);
        }
    }
}

impl Read for UncachedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left.0 == self.left.1 && self.fill()? == 0 {
            return Ok(0);
        }
        let (begin, end) = self.left;
        let count = into.len().min(end - begin);
        let piece = self.memory.get(begin..begin + count).unwrap_or_default();
        into[..count].copy_from_slice(piece);
        self.left.0 += count;
        Ok(count)
    }
}
