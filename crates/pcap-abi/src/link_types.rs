//! Link types with libpcap's numbers (`DLT_*`), names and descriptions, which programs print and
//! parse.

use std::ffi::{CStr, c_char, c_int};

use ringtap_packet::LinkType;

use crate::boundary::export;
use crate::text::{self, CText};
use crate::types::code;

/// Names of types in earlier versions.
static FORMER: &[(c_int, &CStr)] = &[(209, c"IPMB_LINUX")];

/// Returns the name and description of a type.
fn row(value: c_int) -> Option<(&'static CStr, &'static CStr)> {
    let value = u32::try_from(value).ok()?;
    let link_type = LinkType::from_dlt(value)?;
    // Programs do not know numbers of files that differ from libpcap's.
    link_type
        .of_libpcap()
        .filter(|_| link_type.to_dlt() == value)
}

/// Returns the type's name, such as `EN10MB`.
pub(crate) fn name(value: c_int) -> Option<&'static CStr> {
    row(value).map(|row| row.0)
}

thread_local! {
    /// Space for `DLT ` and a number.
    static NUMBER: std::cell::RefCell<[u8; 16]> = const { std::cell::RefCell::new([0; 16]) };
}

export! {
    /// Returns the number of the link type with this name, in upper or lower case; -1 if there is
    /// none.
    fn pcap_datalink_name_to_val(name: CText<'_>) -> c_int {
        let name = name.bytes();
        let rows = LinkType::known().filter_map(|known| {
            Some((known.to_dlt().cast_signed(), known.of_libpcap()?.0))
        });
        let found = rows
            .chain(FORMER.iter().copied())
            .find(|(_, known)| known.to_bytes().eq_ignore_ascii_case(name));
        found.map_or(code::ERROR, |(value, _)| value)
    } else code::ERROR;

    /// Returns the name of a link type, or null.
    fn pcap_datalink_val_to_name(value: c_int) -> *const c_char {
        text::address(name(value))
    } else std::ptr::null();

    /// Returns the description of a link type, or null.
    fn pcap_datalink_val_to_description(value: c_int) -> *const c_char {
        text::address(row(value).map(|row| row.1))
    } else std::ptr::null();

    /// Returns the description of a link type, or `DLT n` if it is unknown.
    fn pcap_datalink_val_to_description_or_dlt(value: c_int) -> *const c_char {
        match row(value) {
            Some(row) => row.1.as_ptr(),
            None => text::in_buffer(&NUMBER, format_args!("DLT {value}")),
        }
    } else std::ptr::null();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of a name, through the exported function.
    fn number(name: &CStr) -> c_int {
        pcap_datalink_name_to_val(CText::of(name))
    }

    #[test]
    fn types_of_libpcap_1_11_have_names() {
        for (value, known) in [
            (2, c"EN3MB"),
            (3, c"AX25"),
            (4, c"PRONET"),
            (5, c"CHAOS"),
            (32, c"REDBACK_SMARTEDGE"),
            (147, c"USER0"),
            (162, c"USER15"),
            (209, c"I2C_LINUX"),
            (290, c"ETW"),
            (291, c"NETANALYZER_NG"),
            (292, c"ZBOSS_NCP"),
            (293, c"USB_2_0_LOW_SPEED"),
            (294, c"USB_2_0_FULL_SPEED"),
            (295, c"USB_2_0_HIGH_SPEED"),
            (296, c"AUERSWALD_LOG"),
            (297, c"ZWAVE_TAP"),
            (298, c"SILABS_DEBUG_CHANNEL"),
            (299, c"FIRA_UCI"),
            (300, c"MDB"),
            (301, c"DECT_NR"),
            (302, c"EDK2_MM"),
            (303, c"DEBUG_ONLY"),
            (304, c"DECT_NR_TAP"),
        ] {
            assert_eq!(name(value), Some(known));
            assert_eq!(number(known), value, "{known:?}");
            let described = pcap_datalink_val_to_description(value);
            assert!(!described.is_null(), "{known:?}");
        }
        assert_eq!(name(305), None);
        assert_eq!(number(c"ipmb_linux"), 209);
    }

    #[test]
    fn numbers_and_names() {
        assert_eq!(name(1), Some(c"EN10MB"));
        assert_eq!(name(-1), None);
        // SAFETY: the function returns only strings.
        let text =
            |value| unsafe { CStr::from_ptr(pcap_datalink_val_to_description_or_dlt(value)) };
        assert_eq!(text(12), c"Raw IP");
        assert_eq!(text(i32::MIN), c"DLT -2147483648");
    }
}
