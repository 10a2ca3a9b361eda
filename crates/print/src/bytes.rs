//! Reads fields from captured bytes: every access is checked, and a failing one returns an error.

/// The captured bytes end before the field.
///
/// The error is passed up to the layer that prints the note `[|protocol]`. It is empty, because the
/// line knows the name of the layer (see [`super::line::Line::protocol`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncated;

/// The result of a decoder, or of a read.
pub(crate) type Result<T = (), E = Truncated> = std::result::Result<T, E>;

/// Checked access in network byte order.
pub(crate) trait Bytes {
    /// Returns one byte.
    fn u8_at(&self, at: usize) -> Result<u8>;
    /// Returns `N` bytes as an array.
    fn array_at<const N: usize>(&self, at: usize) -> Result<[u8; N]>;
    /// Returns `len` bytes from `at`.
    fn part(&self, at: usize, len: usize) -> Result<&[u8]>;
    /// Returns everything from `at` on; empty past the end.
    fn rest(&self, at: usize) -> &[u8];
    /// Returns at most `len` bytes from the start.
    fn up_to(&self, len: usize) -> &[u8];

    /// Returns a 16-bit number.
    fn u16_at(&self, at: usize) -> Result<u16> {
        self.array_at(at).map(u16::from_be_bytes)
    }

    /// Returns a 24-bit number.
    fn u24_at(&self, at: usize) -> Result<u32> {
        let [a, b, c] = self.array_at(at)?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    /// Returns a 32-bit number.
    fn u32_at(&self, at: usize) -> Result<u32> {
        self.array_at(at).map(u32::from_be_bytes)
    }

    /// Returns a 48-bit number.
    fn u48_at(&self, at: usize) -> Result<u64> {
        let [a, b, c, d, e, f] = self.array_at(at)?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Returns a 64-bit number.
    fn u64_at(&self, at: usize) -> Result<u64> {
        self.array_at(at).map(u64::from_be_bytes)
    }
}

impl Bytes for [u8] {
    #[inline]
    fn u8_at(&self, at: usize) -> Result<u8> {
        self.get(at).copied().ok_or(Truncated)
    }

    #[inline]
    fn array_at<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        self.get(at..)
            .and_then(<[u8]>::first_chunk)
            .copied()
            .ok_or(Truncated)
    }

    #[inline]
    fn part(&self, at: usize, len: usize) -> Result<&[u8]> {
        let end = at.checked_add(len).ok_or(Truncated)?;
        self.get(at..end).ok_or(Truncated)
    }

    #[inline]
    fn rest(&self, at: usize) -> &[u8] {
        self.get(at..).unwrap_or_default()
    }

    #[inline]
    fn up_to(&self, len: usize) -> &[u8] {
        self.get(..len).unwrap_or(self)
    }
}
