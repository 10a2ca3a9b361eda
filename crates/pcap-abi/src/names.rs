//! Types of timestamps: numbers, names, descriptions.

use std::ffi::{CStr, c_char, c_int};

use crate::boundary::export;
use crate::text::{self, CText};
use crate::types::code;

/// The name and description of each type, by number.
static TYPES: [(&CStr, &CStr); 6] = [
    (c"host", c"Host"),
    (c"host_lowprec", c"Host, low precision"),
    (c"host_hiprec", c"Host, high precision"),
    (c"adapter", c"Adapter"),
    (c"adapter_unsynced", c"Adapter, not synced with system time"),
    (
        c"host_hiprec_unsynced",
        c"Host, high precision, not synced with system time",
    ),
];

fn row(value: c_int) -> Option<&'static (&'static CStr, &'static CStr)> {
    usize::try_from(value)
        .ok()
        .and_then(|index| TYPES.get(index))
}

export! {
    /// Returns the number of the type with this name, in upper or lower case; -1 if there is none.
    fn pcap_tstamp_type_name_to_val(name: CText<'_>) -> c_int {
        let name = name.bytes();
        let found = TYPES.iter().position(|row| row.0.to_bytes().eq_ignore_ascii_case(name));
        found.and_then(|index| c_int::try_from(index).ok()).unwrap_or(code::ERROR)
    } else code::ERROR;

    /// Returns the name of a type, or null.
    fn pcap_tstamp_type_val_to_name(value: c_int) -> *const c_char {
        text::address(row(value).map(|row| row.0))
    } else std::ptr::null();

    /// Returns the description of a type, or null.
    fn pcap_tstamp_type_val_to_description(value: c_int) -> *const c_char {
        text::address(row(value).map(|row| row.1))
    } else std::ptr::null();
}
