//! The state of a live capture.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use ringtap_capture::{CaptureOptions, Companion, Stats};
use ringtap_send::Sender;

/// `DLT_LINUX_SLL`, `DLT_LINUX_SLL2`.
pub(crate) const COOKED_V1: c_int = 113;
pub(crate) const COOKED_V2: c_int = 276;

/// The state of a live capture.
pub(crate) struct Live {
    /// The supported link types.
    pub(crate) link_types: Vec<c_int>,
    /// Size of the buffer, in bytes.
    pub(crate) buffer: c_int,
    pub(crate) descriptor: c_int,
    /// The descriptor for select(2), or -1.
    pub(crate) selectable: AtomicI32,
    /// Whether the descriptor may be readable for other reasons than packets.
    pub(crate) is_readable_for_others: bool,
    /// The longest time to wait for that descriptor.
    pub(crate) select_timeout: Option<libc::timeval>,
    /// Whether reading ends with the timeout, as in WinPcap; otherwise it waits for packets, as in
    /// libpcap on Linux.
    pub(crate) returns_on_timeout: bool,
    /// Whether there is no timeout: reading never ends without a packet.
    pub(crate) has_no_timeout: bool,
    /// The name as given, which may have the prefix of an engine.
    pub(crate) device: String,
    pub(crate) companion: Option<Arc<dyn Companion>>,
    /// Sends packets if the engine cannot.
    pub(crate) sender: Mutex<Option<Sender>>,
    /// The counters at the last request.
    pub(crate) last: Mutex<Stats>,
    pub(crate) options: Mutex<CaptureOptions>,
    /// The engine's name.
    pub(crate) engine: &'static str,
}

impl Live {
    /// Returns the descriptor for select(2), or -1 if there is none or it was not requested.
    pub(crate) fn selectable(&self) -> c_int {
        self.selectable.load(Ordering::Acquire)
    }
}

/// Returns the interface's name without the prefix of an engine.
pub(crate) fn plain_name(device: &str) -> &str {
    let mut engines = ringtap_capture::ENGINES.iter();
    match device.split_once(':') {
        Some((engine, name)) if engines.any(|known| known.name == engine) => name,
        _ => device,
    }
}
