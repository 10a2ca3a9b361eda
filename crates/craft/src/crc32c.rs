//! CRC32c, which SCTP has for a checksum (RFC 9260, appendix A).

/// Reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What each byte does.
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

/// Goes on over bytes.
fn over(crc: u32, bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(crc, |crc, byte| {
        let [low, ..] = crc.to_le_bytes();
        (crc >> 8) ^ TABLE[usize::from(low ^ byte)]
    })
}

/// The checksum of bytes.
pub(crate) fn of(bytes: impl Iterator<Item = u8>) -> u32 {
    !over(u32::MAX, bytes)
}

/// What the checksum of `len` bytes changes by (exclusive or) when those from `at` on change: the
/// remainder is linear.
pub(crate) fn difference(len: usize, at: usize, old: &[u8], new: &[u8]) -> u32 {
    let changed = old.iter().zip(new).map(|(old, new)| old ^ new);
    let behind = len.saturating_sub(at + old.len());
    over(0, changed.chain(std::iter::repeat_n(0, behind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_of_the_catalogue() {
        // Of the digits 1 to 9.
        assert_eq!(of(b"123456789".iter().copied()), 0xe306_9283);
    }

    #[test]
    fn differences_are_those_of_the_whole() {
        let old = *b"123456789";
        let new = *b"12ab56789";
        let both = of(old.into_iter()) ^ of(new.into_iter());
        assert_eq!(difference(9, 2, &old[2..4], &new[2..4]), both);
    }
}
