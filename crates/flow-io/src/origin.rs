//! The exporter of a record that was not metered here.

use std::net::SocketAddr;

/// The exporter that sent a record.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// Its address.
    pub exporter: SocketAddr,
    /// Observation domain, source id or engine id.
    pub domain: u32,
    /// One packet in so many was metered, as far as the exporter has told.
    pub sampling: u32,
}
