//! Texts across the boundary: strings of C, messages in its buffers, static names.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::io::Write;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::thread::LocalKey;

/// `PCAP_ERRBUF_SIZE`.
pub(crate) const ERRBUF_SIZE: usize = 256;

/// A string of C: null, or bytes up to a zero that do not change during the call.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct CText<'a>(Option<NonNull<c_char>>, PhantomData<&'a CStr>);

impl<'a> CText<'a> {
    /// Wraps a Rust string.
    pub(crate) fn of(text: &'a CStr) -> Self {
        Self(NonNull::new(text.as_ptr().cast_mut()), PhantomData)
    }

    /// Returns the string; `None` for null.
    pub(crate) fn get(self) -> Option<&'a CStr> {
        // SAFETY: the type's contract with C: a pointer that is not null points to a string that
        // outlives the call.
        self.0.map(|text| unsafe { CStr::from_ptr(text.as_ptr()) })
    }

    /// Returns its bytes; empty for null.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.get().map_or(&[], CStr::to_bytes)
    }

    /// Returns the string if it is UTF-8.
    pub(crate) fn str(self) -> Option<&'a str> {
        self.get().and_then(|text| text.to_str().ok())
    }
}

/// C's buffer of `PCAP_ERRBUF_SIZE` bytes for a message, or null.
pub(crate) type ErrBuf<'a> = Option<&'a mut [MaybeUninit<u8>; ERRBUF_SIZE]>;

/// Writes a message into the buffer, cut to its size.
pub(crate) fn say(errbuf: ErrBuf<'_>, message: impl fmt::Display) {
    if let Some(errbuf) = errbuf {
        let mut text = [0; ERRBUF_SIZE];
        print(&mut text, message);
        errbuf.copy_from_slice(&text.map(MaybeUninit::new));
    }
}

/// Prints a message into `buffer`, whose last byte stays zero.
pub(crate) fn print(buffer: &mut [u8], message: impl fmt::Display) {
    buffer.fill(0);
    let Some((_, mut room)) = buffer.split_last_mut() else {
        return;
    };
    // The rest of a longer message is dropped.
    let _ = write!(room, "{message}");
}

/// Prints a message into a thread's buffer, and returns its address.
pub(crate) fn in_buffer<const N: usize>(
    buffer: &'static LocalKey<RefCell<[u8; N]>>,
    message: impl fmt::Display,
) -> *mut c_char {
    buffer.with_borrow_mut(|buffer| {
        print(buffer, message);
        buffer.as_mut_ptr().cast()
    })
}

/// Returns the value of a result; writes the message of an error into C's buffer.
pub(crate) fn told<T>(result: Result<T, impl fmt::Display>, errbuf: ErrBuf<'_>) -> Option<T> {
    result.map_err(|message| say(errbuf, message)).ok()
}

/// Returns a copy for C, to be freed by `free`; null if there is no memory.
pub(crate) fn duplicate(text: &[u8]) -> *mut c_char {
    let text = CString::new(text.split(|byte| *byte == 0).next().unwrap_or_default());
    let Ok(text) = text else {
        return ptr::null_mut();
    };
    // SAFETY: the argument is a string that outlives the call.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// Returns the address of a name; null for `None`.
pub(crate) fn address(name: Option<&'static CStr>) -> *const c_char {
    name.map_or(ptr::null(), CStr::as_ptr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_and_end_with_zero() {
        let mut buffer = [MaybeUninit::new(7); ERRBUF_SIZE];
        say(Some(&mut buffer), "x".repeat(400));
        // SAFETY: `say` has written all of it.
        let bytes = buffer.map(|byte| unsafe { byte.assume_init() });
        assert_eq!(bytes[..255], [b'x'; 255]);
        assert_eq!(bytes[255], 0);
        say(None, "nowhere");
        let mut small = *b"????";
        print(&mut small, "ab");
        assert_eq!(&small, b"ab\0\0");
    }
}
