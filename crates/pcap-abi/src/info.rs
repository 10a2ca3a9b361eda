//! Functions that report a handle's properties.

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

use libc::FILE;
use ringtap_savefile::ByteOrder;

use crate::boundary::export;
use crate::handle::{Kind, Opened, Pcap};
use crate::text::CText;
use crate::types::code;
use crate::{link_types, memory, stdio};

impl Pcap {
    /// Returns the supported link types; empty if there is no choice.
    fn link_types(&self) -> &[c_int] {
        self.live().map_or(&[], |live| &live.link_types)
    }

    /// Gives C a list to be freed by `free`; returns its length.
    pub(crate) fn hand_list(&self, items: &[c_int], to: &mut *mut c_int) -> c_int {
        let Some(array) = memory::array(items) else {
            return self.fail("malloc: Cannot allocate memory");
        };
        *to = array;
        c_int::try_from(items.len()).unwrap_or(0)
    }
}

/// Returns a property of the handle; if it is not activated, an error code without a message.
fn quietly(handle: Option<&Pcap>, tell: impl FnOnce(&Pcap, &Opened) -> c_int) -> c_int {
    handle.map_or(code::ERROR, |handle| {
        let opened = handle.opened.get();
        opened.map_or(code::NOT_ACTIVATED, |opened| tell(handle, opened))
    })
}

fn list_link_types(handle: &Pcap, list: &mut *mut c_int) -> c_int {
    let known = handle.link_types();
    let only = [handle.dlt()];
    handle.hand_list(if known.is_empty() { &only } else { known }, list)
}

fn set_link_type(handle: &Pcap, wanted: c_int) -> c_int {
    let known = handle.link_types();
    let is_known = if known.is_empty() {
        handle.opened.get().is_some() && handle.dlt() == wanted
    } else {
        known.contains(&wanted)
    };
    if !is_known {
        return handle.fail(match link_types::name(wanted) {
            Some(name) => format!(
                "{} is not one of the DLTs supported by this device",
                name.to_string_lossy()
            ),
            None => format!("DLT {wanted} is not one of the DLTs supported by this device"),
        });
    }
    if let Err(message) = crate::live::change_link_type(handle, wanted) {
        return handle.fail(message);
    }
    handle.link_type.store(wanted, Ordering::Release);
    0
}

export! {
    /// Returns the number of the link type.
    fn pcap_datalink(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |handle, _| handle.dlt())
    } else code::ERROR;

    /// Returns the upper bits of a file's link type.
    fn pcap_datalink_ext(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |_, opened| opened.link_type_bits)
    } else code::ERROR;

    /// Lists the supported link types; `pcap_free_datalinks` frees the list.
    fn pcap_list_datalinks(handle: Option<&Pcap>, list: Option<&mut *mut c_int>) -> c_int {
        let Some(list) = list else { return code::ERROR };
        quietly(handle, |handle, _| list_link_types(handle, list))
    } else code::ERROR;

    /// Frees a list of `pcap_list_datalinks`.
    fn pcap_free_datalinks(list: *mut c_int) {
        memory::free(list);
    } else ();

    /// Sets the link type.
    fn pcap_set_datalink(handle: Option<&Pcap>, wanted: c_int) -> c_int {
        handle.map_or(code::ERROR, |handle| set_link_type(handle, wanted))
    } else code::ERROR;

    /// Returns the snapshot length.
    fn pcap_snapshot(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |_, opened| opened.snapshot)
    } else code::ERROR;

    /// Returns whether a file has the other byte order.
    fn pcap_is_swapped(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |handle, _| {
            handle.file().map_or(0, |file| c_int::from(file.byte_order != ByteOrder::NATIVE))
        })
    } else code::ERROR;

    /// Returns the major version of a file's format.
    fn pcap_major_version(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |handle, _| handle.file().map_or(0, |file| file.version.0))
    } else code::ERROR;

    /// Returns the minor version of a file's format.
    fn pcap_minor_version(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |handle, _| handle.file().map_or(0, |file| file.version.1))
    } else code::ERROR;

    /// Returns the bytes of the buffer that packets are delivered from.
    fn pcap_bufsize(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |_, opened| match &opened.kind {
            Kind::Dead => 0,
            Kind::Offline(_) => opened.snapshot,
            Kind::Live(live) => live.buffer,
        })
    } else code::ERROR;

    /// Returns a file's stream; null for a live capture.
    fn pcap_file(handle: Option<&Pcap>) -> *mut FILE {
        let Some(file) = handle.and_then(Pcap::file) else { return std::ptr::null_mut() };
        let mut guard = handle.and_then(Pcap::try_reading);
        if let (Some(follow), Some(Some(reading))) = (&file.follow, guard.as_deref_mut()) {
            follow.begin(reading);
        }
        file.stream.as_ptr()
    } else std::ptr::null_mut();

    /// Returns a live capture's descriptor, otherwise -1.
    fn pcap_fileno(handle: Option<&Pcap>) -> c_int {
        match handle.and_then(Pcap::kind) {
            Some(Kind::Live(live)) => live.descriptor,
            Some(Kind::Dead) => 0,
            _ => -1,
        }
    } else -1;

    /// Returns a descriptor that is readable when there are packets, otherwise -1.
    fn pcap_get_selectable_fd(handle: Option<&Pcap>) -> c_int {
        handle.map_or(-1, |handle| match handle.kind() {
            Some(Kind::Live(live)) => crate::live::make_selectable(handle, live),
            Some(Kind::Offline(file)) => file.stream.number(),
            Some(Kind::Dead) => 0,
            None => -1,
        })
    } else -1;

    /// Returns the timeout for select(2) after which the program must read even if the descriptor is not
    /// readable; null if none is required.
    fn pcap_get_required_select_timeout(handle: Option<&Pcap>) -> *const libc::timeval {
        match handle.and_then(Pcap::live) {
            Some(live) if live.selectable() < 0 => live.select_timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            _ => std::ptr::null(),
        }
    } else std::ptr::null();

    /// Returns the last message.
    fn pcap_geterr(handle: Option<&Pcap>) -> *mut c_char {
        handle.map_or(std::ptr::null_mut(), Pcap::message)
    } else std::ptr::null_mut();

    /// Prints the last message, after a prefix and a colon.
    fn pcap_perror(handle: Option<&Pcap>, prefix: CText<'_>) {
        if let Some(handle) = handle {
            let prefix = String::from_utf8_lossy(prefix.bytes());
            stdio::print_error(&format!("{prefix}: {}\n", handle.text()));
        }
    } else ();
}
