//! Where a record comes from that was not metered here.

use std::net::SocketAddr;

/// Who sent a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) exporter: SocketAddr,
    /// Observation domain, source id or engine id.
    pub(crate) domain: u32,
    /// One packet in so many was metered, as far as the exporter has told.
    pub(crate) sampling: u32,
}
