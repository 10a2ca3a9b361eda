//! Sets of options (`pcap_alloc_option` and its family), which libpcap 1.11 brought.
//!
//! No function of libpcap 1.11 takes such a set yet; the programs that make one get out what they put
//! in.

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

/// What a function returns for an option of another type.
const OTHER_TYPE: c_int = -2;

/// `pcap_options`.
#[derive(Debug, Default)]
pub(crate) struct Options {
    tstamp_precision: c_int,
    read_plugin: Option<CString>,
    write_plugin: Option<CString>,
}

/// The place of an option.
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

/// The place of an option of a set that C hands in.
fn place(options: Option<&mut Options>, option: u32) -> Option<OptionSlot<'_>> {
    options.and_then(|options| options.place(option))
}

export! {
    /// An empty set of options, which `pcap_free_option` frees.
    fn pcap_alloc_option() -> *mut Options {
        Box::into_raw(Box::default())
    } else ptr::null_mut();

    /// Frees a set of options; null is none.
    fn pcap_free_option(options: *mut Options) {
        if !options.is_null() {
            // SAFETY: C's contract: `pcap_alloc_option` made it, and it is handed back once.
            drop(unsafe { Box::from_raw(options) });
        }
    } else ();

    /// Sets an option that is a text, of which a copy is kept: 0, -1 for one that does not exist, -2 for
    /// one that is a number.
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

    /// Sets an option that is a number: 0, -1 for one that does not exist, -2 for one that is a text.
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

    /// An option that is a text, as long as it stays set; else null.
    fn pcap_get_option_string(options: Option<&mut Options>, option: u32) -> *const c_char {
        match place(options, option) {
            Some(OptionSlot::Text(Some(text))) => text.as_ptr(),
            _ => ptr::null(),
        }
    } else ptr::null();

    /// An option that is a number; 0 for every other.
    fn pcap_get_option_int(options: Option<&mut Options>, option: u32) -> c_int {
        match place(options, option) {
            Some(OptionSlot::Number(number)) => *number,
            _ => 0,
        }
    } else 0;
}
