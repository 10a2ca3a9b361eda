//! The settings of a handle before it is activated.

use std::ffi::{CString, c_int};

use crate::types::PRECISION_MICRO;

/// The settings of a handle before its activation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The device as given.
    pub(crate) device: CString,
    pub(crate) snaplen: c_int,
    pub(crate) promiscuous: bool,
    pub(crate) monitor: bool,
    /// The timeout, in milliseconds.
    pub(crate) timeout: c_int,
    /// The size of the buffer, in bytes; 0 for the default.
    pub(crate) buffer: c_int,
    pub(crate) immediate: bool,
    /// `PCAP_TSTAMP_*`; `None` if it was not set.
    pub(crate) timestamp: Option<c_int>,
    pub(crate) precision: c_int,
    /// `ETH_P_*`; 0 for all protocols.
    pub(crate) protocol: c_int,
    /// Bytes that must wait before a delivery; `None` for the default (`pcap_setmintocopy`).
    pub(crate) min_to_copy: Option<u32>,
    /// Whether reading ends with the timeout.
    pub(crate) returns_on_timeout: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            device: CString::default(),
            snaplen: 0,
            promiscuous: false,
            monitor: false,
            timeout: 0,
            buffer: 0,
            immediate: false,
            timestamp: None,
            precision: PRECISION_MICRO,
            protocol: 0,
            min_to_copy: None,
            returns_on_timeout: false,
        }
    }
}
