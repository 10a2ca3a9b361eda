//! An index's entry for one stretch.

use super::set::Keys;
use super::{Fields, put_time};
use crate::Timestamp;

/// A stretch of consecutive packet records, with a summary of its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset of the first record, in bytes from the start of the uncompressed capture.
    pub offset: u64,
    /// Length of the records, in bytes.
    pub len: u64,
    /// Number of packets.
    pub packets: u64,
    /// The earliest time of a packet.
    pub first: Timestamp,
    /// The latest time of a packet.
    pub last: Timestamp,
    /// The place in a compressed file, at or before the stretch, where reading can begin.
    pub seek: Option<SeekPoint>,
    /// The addresses and ports in the packets.
    pub keys: Keys,
}

/// A place where reading a compressed file can begin: the beginning of a member or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekPoint {
    /// Its offset in the compressed file, in bytes.
    pub compressed: u64,
    /// The offset of its first byte in the uncompressed stream.
    pub uncompressed: u64,
}

impl SeekPoint {
    /// The beginning of a file.
    pub(crate) const START: Self = Self {
        compressed: 0,
        uncompressed: 0,
    };
}

impl Entry {
    /// Returns the end of the stretch; `None` if no file can be that long.
    pub(super) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }

    pub(super) fn put(&self, to: &mut Vec<u8>) {
        for number in [self.offset, self.len, self.packets] {
            to.extend(number.to_le_bytes());
        }
        put_time(to, self.first);
        put_time(to, self.last);
        let seek = self.seek.map(|seek| [seek.compressed, seek.uncompressed]);
        for number in seek.unwrap_or([u64::MAX; 2]) {
            to.extend(number.to_le_bytes());
        }
        self.keys.put(to);
    }

    /// Decodes an entry; returns `None` if the format is wrong.
    pub(super) fn take(body: &[u8]) -> Option<Self> {
        let mut fields = Fields(body);
        let entry = Self {
            offset: fields.u64()?,
            len: fields.u64()?,
            packets: fields.u64()?,
            first: fields.time()?,
            last: fields.time()?,
            seek: match [fields.u64()?, fields.u64()?] {
                [u64::MAX, u64::MAX] => None,
                [compressed, uncompressed] => Some(SeekPoint {
                    compressed,
                    uncompressed,
                }),
            },
            keys: Keys::take(&mut fields)?,
        };
        fields.0.is_empty().then_some(entry)
    }
}
