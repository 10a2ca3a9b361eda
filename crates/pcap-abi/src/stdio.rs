//! C's streams, which libpcap's interface is made of.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::NonNull;

use libc::FILE;

unsafe extern "C" {
    static stdin: *mut FILE;
    static stdout: *mut FILE;
    static stderr: *mut FILE;
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn fwrite_unlocked(data: *const c_void, size: usize, count: usize, stream: *mut FILE) -> usize;
}

/// Bytes of a line that are kept.
const LINE_MAX: usize = 4096;

/// A stream that is open for as long as this value is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Stream(NonNull<FILE>);

// SAFETY: C's streams may be used by all threads; each call locks them.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// The beginning of glibc's `struct _IO_FILE`, which programs are compiled against
/// (bits/types/struct_FILE.h; bits/stdio.h puts characters so): what was read and not yet taken, and
/// the room for what is written.
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

/// The flag of [`Buffered::flags`] that an error sets (`_IO_ERR_SEEN`, in the same header).
const FAILED: c_int = 0x20;

/// Prints to the standard output, after what the program has printed.
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
    /// What C hands in: null, or an open stream.
    pub(crate) fn of(stream: *mut FILE) -> Option<Self> {
        NonNull::new(stream).map(Self)
    }

    /// The standard input.
    pub(crate) fn input() -> Option<Self> {
        // SAFETY: the variable is set before `main`, and not changed.
        Self::of(unsafe { stdin })
    }

    /// The standard output.
    pub(crate) fn output() -> Option<Self> {
        // SAFETY: as above.
        Self::of(unsafe { stdout })
    }

    /// Opens a file as fopen(3) does.
    pub(crate) fn open(path: &std::ffi::CStr, mode: &std::ffi::CStr) -> io::Result<Self> {
        // SAFETY: both are strings.
        Self::of(unsafe { libc::fopen(path.as_ptr(), mode.as_ptr()) })
            .ok_or_else(io::Error::last_os_error)
    }

    pub(crate) fn as_ptr(self) -> *mut FILE {
        self.0.as_ptr()
    }

    /// The descriptor's number.
    pub(crate) fn number(self) -> RawFd {
        // SAFETY: the stream is open.
        unsafe { libc::fileno(self.as_ptr()) }
    }

    /// A descriptor of the same open file.
    pub(crate) fn duplicate(self) -> io::Result<File> {
        let number = self.number();
        if number < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the stream is open, and its descriptor with it.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        fd.try_clone_to_owned().map(File::from)
    }

    /// Where the stream stands; nothing where it can't tell, as of a pipe.
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

    /// Goes to a place in the file; a stream that cannot stays where it is.
    pub(crate) fn seek(self, position: u64) {
        if let Ok(position) = libc::off_t::try_from(position) {
            // SAFETY: the stream is open.
            unsafe { libc::fseeko(self.as_ptr(), position, libc::SEEK_SET) };
        }
    }

    /// Goes to the end of the file.
    pub(crate) fn seek_end(self) -> io::Result<()> {
        // SAFETY: the stream is open.
        match unsafe { libc::fseeko(self.as_ptr(), 0, libc::SEEK_END) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reads as fread(3) does: waits until all is there, or the file ends.
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

    /// Reads a line, with its end; nothing at the file's end.
    pub(crate) fn line(self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        loop {
            // SAFETY: the stream is open.
            let byte = unsafe { libc::fgetc(self.as_ptr()) };
            let Ok(byte) = u8::try_from(byte) else {
                return (!line.is_empty()).then_some(line);
            };
            // What is longer is no line of text.
            if line.len() < LINE_MAX {
                line.push(byte);
            }
            if byte == b'\n' {
                return Some(line);
            }
        }
    }

    /// Writes two pieces, nothing between them; nothing after an error.
    pub(crate) fn write(self, first: &[u8], second: &[u8]) -> bool {
        let stream = self.as_ptr();
        // SAFETY: the stream is open, both pieces are readable for their lengths; the lock is given
        // back.
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

    /// Writes two pieces, as [`Stream::write`], where the stream's buffer has room for them; else false,
    /// and nothing is written.
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

    /// Whether an error came, as ferror(3) tells.
    ///
    /// # Safety
    ///
    /// The thread has locked the stream.
    #[inline]
    unsafe fn has_failed(self) -> bool {
        let buffered: *const Buffered = self.as_ptr().cast();
        // SAFETY: glibc's streams begin so.
        unsafe { (*buffered).flags & FAILED != 0 }
    }

    /// Puts both into the stream's buffer, where there is room for them.
    ///
    /// # Safety
    ///
    /// The thread has locked the stream.
    #[inline]
    unsafe fn put(self, first: &[u8], second: &[u8]) -> bool {
        let buffered: *mut Buffered = self.as_ptr().cast();
        // SAFETY: glibc's streams begin so, and nobody else uses this one. Between both pointers is
        // the buffer's free part; there is none before the first write, of a stream without a
        // buffer, and of one that is flushed at the end of each line.
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

    /// Writes out what is pending.
    pub(crate) fn flush(self) -> bool {
        // SAFETY: the stream is open.
        unsafe { libc::fflush(self.as_ptr()) == 0 }
    }

    /// Gives the stream a buffer of that size, which [`Stream::close`] is to be told of.
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
    /// Nobody uses it, or a copy of this value, afterwards.
    pub(crate) unsafe fn close(self) -> bool {
        // SAFETY: the stream is open, and by the caller's promise not used any more.
        unsafe { libc::fclose(self.as_ptr()) == 0 }
    }

    /// Bytes that were read of the file and not yet taken.
    fn buffered(self) -> usize {
        let buffered: *const Buffered = self.as_ptr().cast();
        // SAFETY: glibc's streams begin so; both pointers are of one buffer, or null.
        let (next, end) = unsafe { ((*buffered).read_next, (*buffered).read_end) };
        (end as usize).saturating_sub(next as usize)
    }
}

/// Reads a stream without waiting for more than there is.
pub(crate) struct StreamReader(pub(crate) Stream);

impl Read for StreamReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self(stream) = *self;
        let buffered = stream.buffered().min(buffer.len());
        if buffered > 0 {
            return stream.read(&mut buffer[..buffered]);
        }
        // What has no descriptor (fmemopen(3), fopencookie(3)) is read through the stream alone: a byte
        // has it fill its buffer.
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
