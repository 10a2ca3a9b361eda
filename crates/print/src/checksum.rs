//! Checksums, verified if the whole datagram was captured.

use ringtap_packet::checksum::Sum;

use super::context::Network;
use super::line::Address;

/// Returns the sum over the pseudo header and `data`; its checksum is 0 if the one inside `data` is
/// correct.
pub(crate) fn with_pseudo_header(net: &Network, protocol: u8, data: &[u8]) -> Sum {
    let [source, destination] = [&net.source, &net.destination].map(|address| match address {
        Address::V4(octets) => &octets[..],
        Address::V6(octets) => octets,
    });
    Sum::of_pseudo_header(source, destination, protocol, data.len()).with(data)
}

/// Returns the sum over `data` alone.
pub(crate) fn plain(data: &[u8]) -> Sum {
    Sum::new().with(data)
}
