//! Sets of options (`pcap_alloc_option` and its family), added in libpcap 1.11.
//!
//! No function of libpcap 1.11 takes such a set yet; programs that create one can only read back
//! its options.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use crate::boundary::export;
use crate::text::CText;
use crate::types::code;

/// `enum pcap_option_name`.
mod name {
    use std::ffi::c_uint;

    pub(super) const TSTAMP_PRECISION: c_uint = 1;
    pub(super) const IO_READ_PLUGIN: c_uint = 2;
    pub(super) const IO_WRITE_PLUGIN: c_uint = 3;
}

/// The result for an option of another type.
const OTHER_TYPE: c_int = -2;

/// `pcap_options`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    tstamp_precision: c_int,
    read_plugin: Option<CString>,
    write_plugin: Option<CString>,
}

/// A reference to an option's value.
enum OptionSlot<'a> {
    Number(&'a mut c_int),
    Text(&'a mut Option<CString>),
}

impl Options {
    fn place(&mut self, option: u32) -> Option<OptionSlot<'_>> {
        match option {
            name::TSTAMP_PRECISION => Some(OptionSlot::Number(&mut self.tstamp_precision)),
            name::IO_READ_PLUGIN => Some(OptionSlot::Text(&mut self.read_plugin)),
            name::IO_WRITE_PLUGIN => Some(OptionSlot::Text(&mut self.write_plugin)),
            _ => None,
        }
    }
}

/// Returns an option's value in a set of C.
fn place(options: Option<&mut Options>, option: u32) -> Option<OptionSlot<'_>> {
    options.and_then(|options| options.place(option))
}

export! {
    /// Creates an empty set of options; `pcap_free_option` frees it.
    fn pcap_alloc_option() -> *mut Options {
        Box::into_raw(Box::default())
    } else ptr::null_mut();

    /// Frees a set of options; does nothing for null.
    fn pcap_free_option(options: *mut Options) {
        if !options.is_null() {
            // SAFETY: C's contract: `pcap_alloc_option` made it, and it is freed once.
            drop(unsafe { Box::from_raw(options) });
        }
    } else ();

    /// Sets a text option to a copy of `value`. Returns 0, -1 if the option does not exist, or -2
    /// if it is a number.
    fn pcap_set_option_string(
        options: Option<&mut Options>, option: u32, value: CText<'_>,
    ) -> c_int {
        match place(options, option) {
            Some(OptionSlot::Text(text)) => {
                *text = value.get().map(ToOwned::to_owned);
                0
            }
            Some(OptionSlot::Number(_)) => OTHER_TYPE,
            None => code::ERROR,
        }
    } else code::ERROR;

    /// Sets a number option. Returns 0, -1 if the option does not exist, or -2 if it is a text.
    fn pcap_set_option_int(options: Option<&mut Options>, option: u32, value: c_int) -> c_int {
        match place(options, option) {
            Some(OptionSlot::Number(number)) => {
                *number = value;
                0
            }
            Some(OptionSlot::Text(_)) => OTHER_TYPE,
            None => code::ERROR,
        }
    } else code::ERROR;

    /// Returns a text option, valid until it is set again; otherwise null.
    fn pcap_get_option_string(options: Option<&mut Options>, option: u32) -> *const c_char {
        match place(options, option) {
            Some(OptionSlot::Text(Some(text))) => text.as_ptr(),
            _ => ptr::null(),
        }
    } else ptr::null();

    /// Returns a number option; 0 for any other.
    fn pcap_get_option_int(options: Option<&mut Options>, option: u32) -> c_int {
        match place(options, option) {
            Some(OptionSlot::Number(number)) => *number,
            _ => 0,
        }
    } else 0;
}
