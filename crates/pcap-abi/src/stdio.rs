//! C's streams, which libpcap's interface uses.

use std::ffi::{CStr, c_int, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;

use libc::FILE;

use crate::messages;

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn fwrite_unlocked(data: *const c_void, size: usize, count: usize, stream: *mut FILE) -> usize;
}

/// The most bytes of a line that are kept.
const LINE_MAX: usize = 4096;

/// A stream that stays open as long as this value is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Stream(NonNull<FILE>);

// SAFETY: all threads may use C's streams; each call locks them.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// The beginning of glibc's `struct _IO_FILE`, which is compiled into programs
/// (bits/types/struct_FILE.h; the inline functions of bits/stdio.h use it): bytes read but not yet
/// taken, and the room for bytes to write.
#[repr(C)]
struct Buffered {
    flags: c_int,
    read_next: *const u8,
    read_end: *const u8,
    read_base: *const u8,
    write_base: *const u8,
    write_next: *mut u8,
    write_end: *mut u8,
}

/// The flag of [`Buffered::flags`] for an error (`_IO_ERR_SEEN`, in the same header).
const FAILED: c_int = 0x20;

/// Prints to the standard output, after the program's own output.
pub(crate) fn print(text: &str) {
    // SAFETY: the stream exists for the life of the process, the text for its length.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stdout) };
}

/// Prints to the standard error output.
pub(crate) fn print_error(text: &str) {
    // SAFETY: as in `print`.
    unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stderr) };
}

impl Stream {
    /// Wraps a stream of C: null, or open.
    pub(crate) fn of(stream: *mut FILE) -> Option<Self> {
        NonNull::new(stream).map(Self)
    }

    /// Returns the standard input.
    pub(crate) fn input() -> Option<Self> {
        // SAFETY: the variable is set before `main`, and never changes.
        Self::of(unsafe { stdin })
    }

    /// Returns the standard output.
    pub(crate) fn output() -> Option<Self> {
        // SAFETY: as above.
        Self::of(unsafe { stdout })
    }

    /// Opens a file as fopen(3) does; `name` is the path in the message of an error.
    pub(crate) fn open(path: &CStr, mode: &CStr, name: &str) -> Result<Self, String> {
        // SAFETY: both are strings.
        let stream = Self::of(unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) });
        stream.ok_or_else(|| messages::of_path(name, &io::Error::last_os_error()))
    }

    pub(crate) fn as_ptr(self) -> *mut FILE {
        self.0.as_ptr()
    }

    /// Returns the descriptor's number.
    pub(crate) fn number(self) -> RawFd {
        // SAFETY: the stream is open.
        unsafe { libc::fileno(self.as_ptr()) }
    }

    /// Opens the stream's file again.
    pub(crate) fn reopen(self) -> Option<File> {
        File::open(format!("/proc/self/fd/{}", self.number())).ok()
    }

    /// Returns another descriptor of the same open file.
    pub(crate) fn duplicate(self) -> io::Result<File> {
        let number = self.number();
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the stream is open, and its descriptor with it.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        fd.try_clone_to_owned().map(File::from)
    }

    /// Returns the stream's position; `None` if it has none, as with a pipe.
    pub(crate) fn position(self) -> Option<u64> {
        // SAFETY: the stream is open.
        let position = unsafe { libc::ftello(self.as_ptr()) };
        u64::try_from(position).ok()
    }

    /// Goes to the beginning of the file.
    pub(crate) fn rewind(self) {
        // SAFETY: the stream is open.
        unsafe { libc::rewind(self.as_ptr()) };
    }

    /// Moves to an offset in the file; a stream that cannot seek stays where it is.
    pub(crate) fn seek(self, position: u64) {
        if let Ok(position) = libc::off_t::try_from(position) {
            // SAFETY: the stream is open.
            unsafe { libc::fseeko(self.as_ptr(), position, libc::SEEK_SET) };
        }
    }

    /// Moves to the end of the file.
    pub(crate) fn seek_end(self) -> io::Result<()> {
        // SAFETY: the stream is open.
        match unsafe { libc::fseeko(self.as_ptr(), 0, libc::SEEK_END) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads as fread(3): waits until the buffer is full, or the file ends.
    pub(crate) fn read(self, buffer: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the buffer is writable for its length, the stream is open.
        let count =
            unsafe { libc::fread(buffer.as_mut_ptr().cast(), 1, buffer.len(), self.as_ptr()) };
        // SAFETY: the stream is open.
        if count < buffer.len() && unsafe { libc::ferror(self.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(count)
    }

    /// Reads a line, with its end; returns `None` at the end of the file.
    pub(crate) fn line(self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            // SAFETY: the stream is open.
            let byte = unsafe { libc::fgetc(self.as_ptr()) };
            let Ok(byte) = u8::try_from(byte) else {
                return (!line.is_empty()).then_some(line);
            };
            // The rest of a longer line is dropped.
            if line.len() < LINE_MAX {
                line.push(byte);
            }
            if byte == b'\n' {
                return Some(line);
            }
        }
    }

    /// Writes two pieces without anything between them; writes nothing after an error.
    pub(crate) fn write(self, first: &[u8], second: &[u8]) -> bool {
        let stream = self.as_ptr();
        // SAFETY: the stream is open, both pieces are readable for their lengths; the lock is
        // released.
        unsafe {
            flockfile(stream);
            let whole = !self.has_failed()
                && (self.put(first, second)
                    || fwrite_unlocked(first.as_ptr().cast(), first.len(), 1, stream) == 1
                        && (second.is_empty()
                            || fwrite_unlocked(second.as_ptr().cast(), second.len(), 1, stream)
                                == 1));
            funlockfile(stream);
            whole
        }
    }

    /// Writes two pieces, as [`Stream::write`], if the stream's buffer has room for them. Otherwise
    /// writes nothing and returns false.
    #[inline]
    pub(crate) fn try_write(self, first: &[u8], second: &[u8]) -> bool {
        // SAFETY: as in `write`.
        unsafe {
            flockfile(self.as_ptr());
            let done = !self.has_failed() && self.put(first, second);
            funlockfile(self.as_ptr());
            done
        }
    }

    /// Returns whether an error occurred, as ferror(3) does.
    ///
    /// # Safety
    ///
    /// The thread has locked the stream.
    #[inline]
    unsafe fn has_failed(self) -> bool {
        let buffered: *const Buffered = self.as_ptr().cast();
        // SAFETY: glibc's streams begin like this.
        unsafe { (*buffered).flags & FAILED != 0 }
    }

    /// Puts both pieces into the stream's buffer, if there is room.
    ///
    /// # Safety
    ///
    /// The thread has locked the stream.
    #[inline]
    unsafe fn put(self, first: &[u8], second: &[u8]) -> bool {
        let buffered: *mut Buffered = self.as_ptr().cast();
        // SAFETY: glibc's streams begin like this, and the lock keeps other threads away. The
        // buffer's free part is between both pointers. There is none before the first write, and in
        // a stream that has no buffer or is flushed at the end of each line.
        unsafe {
            let room =
                ((*buffered).write_end as usize).saturating_sub((*buffered).write_next as usize);
            if first.len() + second.len() > room {
                return false;
            }
            let next = (*buffered).write_next;
            std::ptr::copy_nonoverlapping(first.as_ptr(), next, first.len());
            std::ptr::copy_nonoverlapping(second.as_ptr(), next.add(first.len()), second.len());
            (*buffered).write_next = next.add(first.len() + second.len());
        }
        true
    }

    /// Writes buffered bytes to the file.
    pub(crate) fn flush(self) -> bool {
        // SAFETY: the stream is open.
        unsafe { libc::fflush(self.as_ptr()) == 0 }
    }

    /// Gives the stream a buffer of this size; the caller frees it after [`Stream::close`].
    pub(crate) fn set_buffer(self, bytes: usize) -> *mut c_void {
        // SAFETY: takes no pointer.
        let buffer = unsafe { libc::malloc(bytes) };
        if !buffer.is_null() {
            // SAFETY: the stream is open and was not used yet; the buffer stays until it is closed.
            unsafe { libc::setvbuf(self.as_ptr(), buffer.cast(), libc::_IOFBF, bytes) };
        }
        buffer
    }

    /// Closes the stream.
    ///
    /// # Safety
    ///
    /// Neither this value nor a copy of it is used afterwards.
    pub(crate) unsafe fn close(self) -> bool {
        // SAFETY: the stream is open, and by the caller's promise not used any more.
        unsafe { libc::fclose(self.as_ptr()) == 0 }
    }

    /// Returns the number of bytes that were read from the file and not yet taken.
    fn buffered(self) -> usize {
        let buffered: *const Buffered = self.as_ptr().cast();
        // SAFETY: glibc's streams begin like this; both pointers belong to one buffer, or are null.
        let (next, end) = unsafe { ((*buffered).read_next, (*buffered).read_end) };
        (end as usize).saturating_sub(next as usize)
    }
}

/// Reads a stream; returns as soon as any bytes are available.
pub(crate) struct StreamReader(pub(crate) Stream);

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self(stream) = *self;
        let buffered = stream.buffered().min(buffer.len());
        if buffered > 0 {
            return stream.read(&mut buffer[..buffered]);
        }
        // A stream without a descriptor (fmemopen(3), fopencookie(3)) is read only by stdio:
        // reading one byte fills its buffer.
        if stream.number() < 0 {
            let one = buffer.len().min(1);
            return stream.read(&mut buffer[..one]);
        }
        // SAFETY: the buffer is writable for its length.
        let count =
            unsafe { libc::read(stream.number(), buffer.as_mut_ptr().cast(), buffer.len()) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }
}
