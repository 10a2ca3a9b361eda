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

const NO_DEAD_NONBLOCKING: &str =
    "A pcap_open_dead pcap_t does not have a non-blocking mode setting";

impl Opened {
    pub(crate) fn can_set_monitor(&self, handle: &Pcap) -> c_int {
        match self.kind {
            Kind::Dead => handle.fail("Rfmon mode doesn't apply on a pcap_open_dead pcap_t"),
            // The same results as libpcap's for files and for running captures.
            Kind::Offline(_) => 0,
            Kind::Live(_) => code::ACTIVATED,
        }
    }

    /// Returns the message if non-blocking mode cannot be set.
    pub(crate) fn never_nonblocking(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Dead => Some(NO_DEAD_NONBLOCKING),
            Kind::Offline(_) => Some("Savefiles cannot be put into non-blocking mode"),
            Kind::Live(_) => None,
        }
    }

    /// Returns the message if the handle has no non-blocking mode to report.
    pub(crate) fn dead_nonblocking(&self) -> Option<&'static str> {
        matches!(self.kind, Kind::Dead).then_some(NO_DEAD_NONBLOCKING)
    }

    /// Returns the supported link types; empty if there is no choice.
    fn link_types(&self) -> &[c_int] {
        match &self.kind {
            Kind::Live(live) => &live.link_types,
            _ => &[],
        }
    }
}

/// Returns a property of the handle; if it is not activated, an error code without a message.
fn quietly(handle: Option<&Pcap>, tell: impl FnOnce(&Pcap, &Opened) -> c_int) -> c_int {
    let Some(handle) = handle else {
        return code::ERROR;
    };
    match handle.activated_quietly() {
        Ok(opened) => tell(handle, opened),
        Err(code) => code,
    }
}

fn list_link_types(handle: &Pcap, opened: &Opened, list: &mut *mut c_int) -> c_int {
    let known = opened.link_types();
    let only = [handle.dlt()];
    let known = if known.is_empty() { &only[..] } else { known };
    match memory::array(known) {
        Some(array) => {
            *list = array;
            c_int::try_from(known.len()).unwrap_or(0)
        }
        None => handle.fail("malloc: Cannot allocate memory"),
    }
}

fn set_link_type(handle: &Pcap, wanted: c_int) -> c_int {
    let opened = handle.opened.get();
    let known = opened.map_or(&[][..], Opened::link_types);
    let is_known = if known.is_empty() {
        opened.is_some() && handle.dlt() == wanted
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
        quietly(handle, |handle, opened| list_link_types(handle, opened, list))
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
        quietly(handle, |_, opened| match &opened.kind {
            Kind::Offline(file) => c_int::from(file.byte_order != ByteOrder::NATIVE),
            _ => 0,
        })
    } else code::ERROR;

    /// Returns the major version of a file's format.
    fn pcap_major_version(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |_, opened| match &opened.kind {
            Kind::Offline(file) => file.version.0,
            _ => 0,
        })
    } else code::ERROR;

    /// Returns the minor version of a file's format.
    fn pcap_minor_version(handle: Option<&Pcap>) -> c_int {
        quietly(handle, |_, opened| match &opened.kind {
            Kind::Offline(file) => file.version.1,
            _ => 0,
        })
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
        match handle.and_then(|handle| handle.opened.get()) {
            Some(Opened { kind: Kind::Offline(file), .. }) => {
                let mut guard = handle.and_then(Pcap::try_reading);
                if let (Some(follow), Some(Some(reading))) = (&file.follow, guard.as_deref_mut()) {
                    follow.begin(reading);
                }
                file.stream.as_ptr()
            }
            _ => std::ptr::null_mut(),
        }
    } else std::ptr::null_mut();

    /// Returns a live capture's descriptor, otherwise -1.
    fn pcap_fileno(handle: Option<&Pcap>) -> c_int {
        match handle.and_then(|handle| handle.opened.get()) {
            Some(Opened { kind: Kind::Live(live), .. }) => live.descriptor,
            Some(Opened { kind: Kind::Dead, .. }) => 0,
            _ => -1,
        }
    } else -1;

    /// Returns a descriptor that is readable when there are packets, otherwise -1.
    fn pcap_get_selectable_fd(handle: Option<&Pcap>) -> c_int {
        match handle.and_then(|handle| handle.opened.get()) {
            Some(Opened { kind: Kind::Live(live), .. }) => match handle {
                Some(handle) => crate::live::make_selectable(handle, live),
                None => -1,
            },
            Some(Opened { kind: Kind::Offline(file), .. }) => file.stream.number(),
            Some(Opened { kind: Kind::Dead, .. }) => 0,
            None => -1,
        }
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
