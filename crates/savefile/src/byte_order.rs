//! The byte order of a file or section, with loads and stores in it.

/// Defines the loads and the stores of numbers of these lengths.
macro_rules! numbers {
    ($($number:ident, $length:literal, $name:literal, $of:ident, $at:ident;)*) => {$(
        #[doc = concat!("Returns the value of ", $name, " bytes.")]
        #[inline]
        #[must_use]
        pub const fn $number(self, bytes: [u8; $length]) -> $number {
            match self {
                Self::Little => $number::from_le_bytes(bytes),
                Self::Big => $number::from_be_bytes(bytes),
            }
        }

        #[doc = concat!("Returns the ", $name, " bytes of `value`.")]
        #[inline]
        #[must_use]
        pub const fn $of(self, value: $number) -> [u8; $length] {
            match self {
                Self::Little => value.to_le_bytes(),
                Self::Big => value.to_be_bytes(),
            }
        }

        #[doc = concat!("Returns the ", $name, " bytes at `at` as a number, if the slice holds them.")]
        #[inline]
        pub(crate) fn $at(self, bytes: &[u8], at: usize) -> Option<$number> {
            Some(self.$number(*bytes.get(at..)?.first_chunk()?))
        }
    )*};
}

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

    numbers! {
        u16, 2, "two", of_u16, u16_at;
        u32, 4, "four", of_u32, u32_at;
        u64, 8, "eight", of_u64, u64_at;
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
