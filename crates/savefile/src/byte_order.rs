//! The byte order of a file or section, with loads and stores in it.

/// The byte order in which a pcap file or a pcapng section was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The byte order of this machine; libpcap writes it.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    /// Returns the value of two bytes.
    #[inline]
    #[must_use]
    pub const fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    /// Returns the value of four bytes.
    #[inline]
    #[must_use]
    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Returns the value of eight bytes.
    #[inline]
    #[must_use]
    pub const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Returns the two bytes of `value`.
    #[inline]
    #[must_use]
    pub const fn of_u16(self, value: u16) -> [u8; 2] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns the four bytes of `value`.
    #[inline]
    #[must_use]
    pub const fn of_u32(self, value: u32) -> [u8; 4] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns the eight bytes of `value`.
    #[inline]
    #[must_use]
    pub const fn of_u64(self, value: u64) -> [u8; 8] {
        match self {
            Self::Little => value.to_le_bytes(),
            Self::Big => value.to_be_bytes(),
        }
    }

    /// Returns the two bytes at `at` as a number, if the slice holds them.
    #[inline]
    pub(crate) fn u16_at(self, bytes: &[u8], at: usize) -> Option<u16> {
        Some(self.u16(*bytes.get(at..)?.first_chunk()?))
    }

    /// Returns the four bytes at `at` as a number, if the slice holds them.
    #[inline]
    pub(crate) fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        Some(self.u32(*bytes.get(at..)?.first_chunk()?))
    }

    /// Returns the eight bytes at `at` as a number, if the slice holds them.
    #[inline]
    pub(crate) fn u64_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        Some(self.u64(*bytes.get(at..)?.first_chunk()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_what_it_stored() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            assert_eq!(order.u16(order.of_u16(0x1234)), 0x1234);
            assert_eq!(order.u32(order.of_u32(0x1234_5678)), 0x1234_5678);
            assert_eq!(
                order.u64(order.of_u64(0x0123_4567_89ab_cdef)),
                0x0123_4567_89ab_cdef
            );
        }
        assert_eq!(ByteOrder::Big.of_u32(1), [0, 0, 0, 1]);
        assert_eq!(ByteOrder::Little.u16_at(&[9, 1, 0], 1), Some(1));
        assert_eq!(ByteOrder::Little.u32_at(&[1, 0, 0], 0), None);
        assert_eq!(ByteOrder::Little.u64_at(&[0; 8], 1), None);
    }
}
