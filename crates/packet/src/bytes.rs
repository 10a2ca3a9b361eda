//! Numbers at a place in a packet, where the packet has that place.

/// The byte at `at`.
#[inline]
#[must_use]
pub fn byte(data: &[u8], at: usize) -> Option<u8> {
    data.get(at).copied()
}

/// The 2 bytes from `at`, in network byte order.
#[inline]
#[must_use]
pub fn be16(data: &[u8], at: usize) -> Option<u16> {
    chunk(data, at).map(u16::from_be_bytes)
}

/// The 4 bytes from `at`, in network byte order.
#[inline]
#[must_use]
pub fn be32(data: &[u8], at: usize) -> Option<u32> {
    chunk(data, at).map(u32::from_be_bytes)
}

/// The 2 bytes from `at`, the least significant first.
#[inline]
#[must_use]
pub fn le16(data: &[u8], at: usize) -> Option<u16> {
    chunk(data, at).map(u16::from_le_bytes)
}

/// The 4 bytes from `at`, the least significant first.
#[inline]
#[must_use]
pub fn le32(data: &[u8], at: usize) -> Option<u32> {
    chunk(data, at).map(u32::from_le_bytes)
}

/// The bytes from `at`, as many as asked for.
#[inline]
#[must_use]
pub fn chunk<const N: usize>(data: &[u8], at: usize) -> Option<[u8; N]> {
    data.get(at..)?.first_chunk().copied()
}
