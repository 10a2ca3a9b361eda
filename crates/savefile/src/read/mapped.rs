//! A file that is mapped instead of read.

use std::fmt;
use std::fs::File;
use std::io;

/// The bytes of a regular file, which do not change while this value exists.
pub trait Mapped: Send {
    /// Returns all bytes of the file.
    fn bytes(&self) -> &[u8];

    /// Notes that bytes before `passed` were processed, and that those before `end` are next.
    /// Returns whether the mapping may be kept; if not, it is dropped at once, and the file is read
    /// from there on.
    fn advance(&mut self, passed: usize, end: usize) -> bool;

    /// Returns the mapped file.
    fn file(&self) -> &File;
}

/// A function that maps a file, if possible.
#[derive(Clone, Copy)]
pub struct MapFile(pub fn(File) -> io::Result<Box<dyn Mapped>>);

impl fmt::Debug for MapFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MapFile")
    }
}

impl PartialEq for MapFile {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for MapFile {}
