//! Live captures as handles.

use std::ffi::c_int;

use crate::handle::Pcap;
use crate::settings::Settings;

/// What is known of a live capture.
pub(crate) struct Live {
    /// The link types to choose from.
    pub(crate) link_types: Vec<c_int>,
    /// Bytes of the buffer.
    pub(crate) buffer: c_int,
    pub(crate) descriptor: c_int,
    /// The descriptor for select(2), or -1.
    pub(crate) selectable: c_int,
    /// How long to wait for that one at most.
    pub(crate) select_timeout: Option<libc::timeval>,
    /// Whether reading waits until packets come, however long.
    pub(crate) waits_forever: bool,
}

/// The types of timestamps that a device has.
pub(crate) fn timestamp_types(_: &Settings) -> Vec<c_int> {
    vec![0]
}

/// Whether a device has a monitor mode that can be asked for.
pub(crate) fn can_set_monitor(_: &Pcap) -> c_int {
    0
}

/// Has the capture deliver packets of another link type of its list.
pub(crate) fn change_link_type(_: &Pcap, _: c_int) -> Result<(), String> {
    Ok(())
}
