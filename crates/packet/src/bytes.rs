//! Reads numbers at an offset of a packet; every access is checked.

/// Returns the byte at `at`; `None` beyond the end.
#[inline]
#[must_use]
pub fn byte(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

/// Returns the 2 bytes from `at`, in network byte order; `None` beyond the end.
#[inline]
#[must_use]
pub fn be16(data: &[u8], at: usize) -> Option<u16> {
    chunk(data, at).map(u16::from_be_bytes)
}

/// Returns the 4 bytes from `at`, in network byte order; `None` beyond the end.
#[inline]
#[must_use]
pub fn be32(data: &[u8], at: usize) -> Option<u32> {
    chunk(data, at).map(u32::from_be_bytes)
}

/// Returns the 2 bytes from `at`, the least significant first; `None` beyond the end.
#[inline]
#[must_use]
pub fn le16(data: &[u8], at: usize) -> Option<u16> {
    chunk(data, at).map(u16::from_le_bytes)
}

/// Returns the 4 bytes from `at`, the least significant first; `None` beyond the end.
#[inline]
#[must_use]
pub fn le32(data: &[u8], at: usize) -> Option<u32> {
    chunk(data, at).map(u32::from_le_bytes)
}

/// Returns `N` bytes from `at`; `None` beyond the end.
#[inline]
#[must_use]
pub fn chunk<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk().copied()
}
