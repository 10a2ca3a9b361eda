//! The packet in the layout that generated code reads.

use std::marker::PhantomData;
use std::mem::offset_of;

/// A borrowed packet in the layout that generated code reads: 16 bytes, address first.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PacketRef<'a> {
    data: *const u8,
    caplen: u32,
    len: u32,
    bytes: PhantomData<&'a [u8]>,
}

// SAFETY: a `PacketRef` is a `&[u8]` in parts, and gives the same access; `&[u8]` is `Send` and
// `Sync`.
unsafe impl Send for PacketRef<'_> {}
// SAFETY: as above.
unsafe impl Sync for PacketRef<'_> {}

impl<'a> PacketRef<'a> {
    /// Distance between two packets of a batch, in bytes.
    pub(crate) const SIZE: i64 = 16;
    pub(crate) const DATA: i32 = 0;
    pub(crate) const CAPLEN: i32 = 8;
    pub(crate) const LEN: i32 = 12;

    /// Creates a packet of `len` bytes on the wire; `data` holds its captured bytes.
    ///
    /// Packet lengths have 32 bits; the bytes of a longer slice beyond that are ignored.
    #[inline]
    #[must_use]
    pub fn new(data: &'a [u8], len: u32) -> Self {
        let caplen = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Self {
            data: data.as_ptr(),
            caplen,
            len,
            bytes: PhantomData,
        }
    }

    /// Returns the captured length in bytes.
    #[must_use]
    pub fn caplen(&self) -> u32 {
        self.caplen
    }

    /// Returns the length on the wire in bytes.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "the wire length, not that of a container"
    )]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns the address of the first captured byte.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.data
    }
}

// Generated code reads the fields at these offsets.
const _: () = {
    assert!(size_of::<PacketRef<'_>>() == 16);
    assert!(offset_of!(PacketRef<'_>, data) == 0);
    assert!(offset_of!(PacketRef<'_>, caplen) == 8);
    assert!(offset_of!(PacketRef<'_>, len) == 12);
};
