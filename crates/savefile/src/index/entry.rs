//! What an index says of one stretch.

use super::set::Keys;
use super::{Fields, put_time};
use crate::Timestamp;

/// A stretch of packet records that lie behind one another, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the first record begins: bytes from the start of the uncompressed capture.
    pub offset: u64,
    /// Bytes of the records.
    pub len: u64,
    /// Number of packets.
    pub packets: u64,
    /// The earliest time of a packet.
    pub first: Timestamp,
    /// The latest.
    pub last: Timestamp,
    /// Where reading a compressed file can begin, at or before the stretch.
    pub seek: Option<SeekPoint>,
    /// Addresses and ports.
    pub keys: Keys,
}

/// Where a compressed file can be read from: the beginning of a member or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeekPoint {
    /// Its place in the compressed file, in bytes.
    pub compressed: u64,
    /// The place in the uncompressed stream that it begins with, in bytes.
    pub uncompressed: u64,
}

impl SeekPoint {
    /// The beginning of every file.
    pub(crate) const START: Self = Self {
        compressed: 0,
        uncompressed: 0,
    };
}

impl Entry {
    /// Behind the last byte; `None` where no file is as long.
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

    /// None where it has not this form.
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
