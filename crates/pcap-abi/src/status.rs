//! Status codes as texts, the library's version, and settings of the whole process.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::boundary::export;
use crate::text::{ErrBuf, in_buffer, say};
use crate::types::code;

/// The result of [`pcap_lib_version`]: programs look for libpcap's number in it.
const VERSION: &CStr = c"libpcap version 1.10.3 (ringtap 0.1.0, with TPACKET_V3)";

/// `pcap_version`: the number alone.
#[unsafe(no_mangle)]
pub(crate) static pcap_version: [u8; 7] = *b"1.10.3\0";

/// The text of each code.
const TEXTS: [(c_int, &CStr); 16] = [
    (1, c"Generic warning"),
    (2, c"That device doesn't support promiscuous mode"),
    (
        3,
        c"That type of time stamp is not supported by that device",
    ),
    (-1, c"Generic error"),
    (-2, c"Loop terminated by pcap_breakloop"),
    (-3, c"The pcap_t has not been activated"),
    (
        -4,
        c"The setting can't be changed after the pcap_t is activated",
    ),
    (-5, c"No such device exists"),
    (-6, c"That device doesn't support monitor mode"),
    (-7, c"That operation is supported only in monitor mode"),
    (
        -8,
        c"You don't have permission to perform this capture on that device",
    ),
    (-9, c"That device is not up"),
    (
        -10,
        c"That device doesn't support setting the time stamp type",
    ),
    (
        -11,
        c"You don't have permission to capture in promiscuous mode on that device",
    ),
    (
        -12,
        c"That device doesn't support that time stamp precision",
    ),
    (-13, c"Packet capture is not supported on that device"),
];

/// Returns the text of a code, if it is known.
pub(crate) fn text_of(status: c_int) -> Option<&'static CStr> {
    TEXTS
        .iter()
        .find(|(known, _)| *known == status)
        .map(|(_, text)| *text)
}

thread_local! {
    static BUFFER: RefCell<[u8; 256]> = const { RefCell::new([0; 256]) };
}

/// Returns the system's text for an error number, as `strerror` does.
pub(crate) fn os_text(errno: c_int) -> String {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is writable for its length; the POSIX form leaves a string in it.
    unsafe { libc::strerror_r(errno, buffer.as_mut_ptr().cast(), buffer.len()) };
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    text.to_string_lossy().into_owned()
}

/// `PCAP_CHAR_ENC_LOCAL` or `PCAP_CHAR_ENC_UTF_8`, if it was chosen.
static ENCODING: AtomicU32 = AtomicU32::new(NOT_CHOSEN);
const NOT_CHOSEN: u32 = u32::MAX;
const UTF_8: u32 = 1;

export! {
    /// Returns the text of a function's status code.
    fn pcap_statustostr(status: c_int) -> *const c_char {
        match text_of(status) {
            Some(text) => text.as_ptr(),
            None => in_buffer(&BUFFER, format_args!("Unknown error: {status}")),
        }
    } else std::ptr::null();

    /// Returns the system's text for an error number.
    fn pcap_strerror(errno: c_int) -> *const c_char {
        in_buffer(&BUFFER, os_text(errno)).cast_const()
    } else std::ptr::null();

    /// Returns the library's name and version.
    fn pcap_lib_version() -> *const c_char {
        VERSION.as_ptr()
    } else std::ptr::null();

    /// Chooses the encoding of texts. On Linux both are the same bytes, so only a second, different
    /// choice is an error.
    fn pcap_init(options: c_uint, errbuf: ErrBuf<'_>) -> c_int {
        if options > UTF_8 {
            say(errbuf, "Unknown options specified");
            return code::ERROR;
        }
        let chosen = ENCODING.compare_exchange(
            NOT_CHOSEN,
            options,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match chosen {
            Err(before) if before != options => {
                say(errbuf, "Multiple pcap_init calls with different character encodings");
                code::ERROR
            }
            _ => 0,
        }
    } else code::ERROR;
}

/// Returns whether the process called [`pcap_init`]; deprecated functions fail after that.
pub(crate) fn is_initialised() -> bool {
    ENCODING.load(Ordering::Acquire) != NOT_CHOSEN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(address: *const c_char) -> String {
        // SAFETY: the functions return only strings.
        unsafe { CStr::from_ptr(address) }
            .to_string_lossy()
            .into_owned()
    }

    #[test]
    fn codes_have_texts() {
        assert_eq!(text(pcap_statustostr(-9)), "That device is not up");
        assert_eq!(text(pcap_statustostr(0)), "Unknown error: 0");
        assert_eq!(
            text(pcap_strerror(libc::ENOENT)),
            "No such file or directory"
        );
        assert_eq!(text(pcap_strerror(9999)), "Unknown error 9999");
        assert!(text(pcap_lib_version()).starts_with("libpcap version 1.10"));
    }
}
