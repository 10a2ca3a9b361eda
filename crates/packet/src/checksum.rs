//! Checksums: the Internet's (RFC 1071), computed and adjusted, and the CRC32c of SCTP.

use std::ops::Not;

/// A sum of 16-bit words in one's complement, before it is made into a checksum.
///
/// ```
/// use ringtap_packet::checksum::Sum;
///
/// let (source, destination) = ([10, 0, 0, 1], [10, 0, 0, 2]);
/// let datagram = [0x13, 0x88, 0x13, 0x89, 0, 9, 0, 0, 0x41];
/// let sum = Sum::of_pseudo_header(&source, &destination, 17, datagram.len());
/// assert_eq!(sum.with(&datagram).checksum(), 0x83c8);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// Returns the sum over no bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self(0)
    }

    /// Returns the sum over the pseudo header of TCP, UDP and ICMPv6 (RFC 9293, section 3.1; RFC
    /// 8200, section 8.1): both addresses, the protocol, and the length of header and payload in
    /// bytes.
    #[must_use]
    pub fn of_pseudo_header(
        source: &[u8],
        destination: &[u8],
        protocol: u8,
        length: usize,
    ) -> Self {
        let addresses = Self::new().with(source).with(destination);
        Self(addresses.0 + u64::from(protocol) + (length as u64 & 0xffff_ffff))
    }

    /// Adds bytes. An odd number of them is padded with a zero, so it must be the last call.
    #[inline]
    #[must_use]
    pub fn with(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<2>();
        let whole: u64 = words
            .iter()
            .map(|&word| u64::from(u16::from_be_bytes(word)))
            .sum();
        let rest = rest.first().map_or(0, |&byte| u64::from(byte) << 8);
        Self(self.0 + whole + rest)
    }

    /// Returns the checksum as a field in network order holds it; 0 if the bytes included a correct
    /// checksum.
    #[inline]
    #[must_use]
    pub fn checksum(self) -> u16 {
        self.folded().not()
    }

    /// Returns the checksum of UDP, where zero means that there is none (RFC 768).
    #[must_use]
    pub fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Returns the correct checksum if the sum covers a field with the value `field`.
    #[must_use]
    pub fn corrected(self, field: u16) -> u16 {
        let without = Self(u64::from(self.folded()) + u64::from(!field));
        match without.checksum() {
            0xffff if field != 0xffff => 0,
            right => right,
        }
    }

    #[inline]
    fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(sum).unwrap_or(u16::MAX)
    }
}

/// Returns the checksum of bytes, such as an IPv4 header or an ICMP message; 0 if they contain the
/// correct one.
#[must_use]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().with(bytes).checksum()
}

/// Returns the checksum after a change of a field that it covers (RFC 1624, equation 3). A correct
/// one stays correct, a wrong one stays equally wrong, and the rest of the packet is not needed.
/// `old` and `new` must have the same even length and an even offset in the covered bytes.
#[must_use]
pub fn adjust(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    let (words, _) = old.as_chunks::<2>();
    let removed: u64 = words
        .iter()
        .map(|&word| u64::from(!u16::from_be_bytes(word)))
        .sum();
    Sum(u64::from(!checksum) + removed).with(new).checksum()
}

/// CRC32c, the checksum of SCTP (RFC 9260, appendix A).
pub mod crc32c {
    /// The polynomial with reflected bits.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    /// The remainder of each byte.
    const TABLE: [u32; 256] = {
        let mut table = [0; 256];
        let mut index = 0;
        let mut first: u32 = 0;
        while index < table.len() {
            let (mut crc, mut bit) = (first, 0);
            while bit < 8 {
                crc = (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            table[index] = crc;
            index += 1;
            first += 1;
        }
        table
    };

    /// Continues a checksum over bytes.
    fn over(crc: u32, bytes: impl Iterator<Item = u8>) -> u32 {
        bytes.fold(crc, |crc, byte| {
            let [low, ..] = crc.to_le_bytes();
            (crc >> 8) ^ TABLE[usize::from(low ^ byte)]
        })
    }

    /// Returns the checksum of bytes.
    #[must_use]
    pub fn of(bytes: impl Iterator<Item = u8>) -> u32 {
        !over(u32::MAX, bytes)
    }

    /// Returns the change (exclusive or) of the checksum of `len` bytes if those from `at` on
    /// change: the remainder is linear.
    #[must_use]
    pub fn difference(len: usize, at: usize, old: &[u8], new: &[u8]) -> u32 {
        let changed = old.iter().zip(new).map(|(old, new)| old ^ new);
        let behind = len.saturating_sub(at + old.len());
        over(0, changed.chain(std::iter::repeat_n(0, behind)))
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
        assert_eq!(of(&header), 0);
        header[10..12].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(Sum::new().with(&header).corrected(0x1234), 0xb1e6);
    }

    #[test]
    fn an_adjusted_checksum_is_that_of_the_whole() {
        let mut bytes: Vec<u8> = (0..41).map(|at| at * 5).collect();
        for new in [[0, 0, 0, 0], [0xff; 4], [1, 2, 3, 4]] {
            let before = of(&bytes);
            let old: [u8; 4] = bytes[8..12].try_into().expect("4 bytes");
            bytes[8..12].copy_from_slice(&new);
            assert_eq!(adjust(before, &old, &new), of(&bytes));
        }
    }

    #[test]
    fn large_sums_are_folded() {
        assert_eq!(of(&vec![0xff; 1 << 20]), 0);
        assert_eq!(of(&[]), 0xffff);
        assert_eq!(of(&[1]), !0x0100);
    }

    #[test]
    fn the_check_of_the_catalogue() {
        // The check value over the digits 1 to 9.
        assert_eq!(crc32c::of(b"123456789".iter().copied()), 0xe306_9283);
    }

    #[test]
    fn differences_are_those_of_the_whole() {
        let old = *b"123456789";
        let new = *b"12ab56789";
        let both = crc32c::of(old.into_iter()) ^ crc32c::of(new.into_iter());
        assert_eq!(crc32c::difference(9, 2, &old[2..4], &new[2..4]), both);
    }
}
