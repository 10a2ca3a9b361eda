//! A file that is looked at where the kernel keeps it, instead of being read.

use std::fmt;
use std::fs::File;
use std::io;

/// The bytes of a regular file, which stay as they are as long as this is kept.
pub trait Mapped: Send {
    /// All of them.
    fn bytes(&self) -> &[u8];

    /// Bytes before `passed` were looked at, those before `end` are looked at next. Whether the mapping may
    /// be kept: where it may not, it is let go of at once, and the file read from there on.
    fn advance(&mut self, passed: usize, end: usize) -> bool;

    /// The file that is mapped.
    fn file(&self) -> &File;
}

/// What maps a file, if it can.
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
