//! The state of an open capture file.

use std::ffi::c_int;

use ringtap_savefile::ByteOrder;

use crate::follow::Follow;
use crate::stdio::Stream;

/// The state of an open capture file.
pub(crate) struct Offline {
    /// Closed with the handle, except for the standard input.
    pub(crate) stream: Stream,
    pub(crate) byte_order: ByteOrder,
    /// Major and minor version of the format.
    pub(crate) version: (c_int, c_int),
    /// Keeps stream and reader at the same position.
    pub(crate) follow: Option<Follow>,
}
