//! Internet checksums (RFC 1071), verified where the whole datagram was captured.

use etherparse::checksum::Sum16BitWords;

use super::context::Network;
use super::line::Address;

/// The sum over the pseudo header (RFC 9293 section 3.1, RFC 8200 section 8.1) and `data`, as a
/// field in network order would have to hold it; 0 when a checksum inside `data` is right.
pub(crate) fn with_pseudo_header(net: &Network, protocol: u8, data: &[u8]) -> u16 {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut sum = Sum16BitWords::new();
    for address in [net.source, net.destination] {
        sum = match address {
            Address::V4(octets) => sum.add_4bytes(octets),
            Address::V6(octets) => sum.add_16bytes(octets),
        };
    }
    let sum = sum
        .add_2bytes([0, protocol])
        .add_4bytes(length.to_be_bytes())
        .add_slice(data);
    u16::from_be(sum.ones_complement())
}

/// The sum over `data` alone.
pub(crate) fn plain(data: &[u8]) -> u16 {
    u16::from_be(Sum16BitWords::new().add_slice(data).ones_complement())
}

/// The value that would have been right, from the field as it stands and the `sum` over everything
/// including it.
pub(crate) fn should_be(field: u16, sum: u16) -> u16 {
    // ~sum is the sum of all words; without the field it is ~sum - field in one's complement.
    let total = u32::from(!sum) + u32::from(!field);
    let folded = (total & 0xffff) + (total >> 16);
    let right = !u16::try_from(folded & 0xffff).unwrap_or_default();
    if right == 0xffff && field != 0xffff {
        0
    } else {
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_header_sums_to_zero_and_a_wrong_one_names_the_right_value() {
        let mut header = [
            0x45, 0, 0, 0x3c, 0x1c, 0x46, 0x40, 0, 0x40, 6, 0xb1, 0xe6, 0xac, 0x10, 0x0a, 0x63,
            0xac, 0x10, 0x0a, 0x0c,
        ];
        assert_eq!(plain(&header), 0);
        header[10..12].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(should_be(0x1234, plain(&header)), 0xb1e6);
    }
}
