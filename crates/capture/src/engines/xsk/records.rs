//! Converts packets of a socket to the common form.

use std::time::{SystemTime, UNIX_EPOCH};

use ringtap_packet::{Packet, PacketFlags, Timestamp};
use ringtap_sys::xsk::Batch;

use super::program::{MARK, METADATA_BYTES};

/// A batch of a socket, with the values for its packets' stamps.
#[derive(Debug)]
pub(crate) struct SocketRecords<'a> {
    batch: Batch<'a>,
    /// The difference from the program's clock to the wall clock, in nanoseconds.
    offset: u64,
    /// When the batch was read, for packets without a stamp; by the wall clock, in nanoseconds.
    taken: i64,
    /// The snapshot length.
    snaplen: usize,
}

/// The packets of [`SocketRecords`].
#[derive(Clone, Debug)]
pub(crate) struct SocketPackets<'a> {
    records: &'a SocketRecords<'a>,
    next: u32,
}

impl<'a> SocketRecords<'a> {
    /// Returns the packets of a batch. `whole` means that a filter in user space must see the whole packet,
    /// and cuts it then.
    pub(super) fn new(batch: Batch<'a>, offset: u64, snaplen: u32, whole: bool) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let taken = now.unwrap_or_default().as_nanos();
        Self {
            batch,
            offset,
            taken: i64::try_from(taken).unwrap_or(i64::MAX),
            snaplen: if whole { usize::MAX } else { snaplen as usize },
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    pub(crate) fn packets(&self) -> SocketPackets<'_> {
        SocketPackets {
            records: self,
            next: 0,
        }
    }
}

impl<'a> Iterator for SocketPackets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        let records = self.records;
        if self.next as usize >= records.len() {
            return None;
        }
        let packet = records.batch.packet(self.next);
        self.next += 1;
        let nanos = match stamp(packet.headroom) {
            Some(nanos) => nanos.wrapping_add(records.offset).cast_signed(),
            None => records.taken,
        };
        Some(Packet {
            timestamp: Timestamp::from_nanos(nanos),
            len: u32::try_from(packet.data.len()).unwrap_or(u32::MAX),
            interface: 0,
            flags: PacketFlags::INBOUND,
            data: &packet.data[..packet.data.len().min(records.snaplen)],
            process: None,
        })
    }
}

/// Returns the data before the packet: the program's mark, then the time.
#[inline]
fn stamp(headroom: &[u8]) -> Option<u64> {
    let metadata = headroom.last_chunk::<METADATA_BYTES>()?;
    let (mark, time) = metadata.split_at(8);
    let is_ours = mark == MARK.to_ne_bytes();
    let time = u64::from_ne_bytes(time.try_into().ok()?);
    is_ours.then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_known_by_their_mark() {
        let with = [&[9; 240][..], &MARK.to_ne_bytes(), &77_u64.to_ne_bytes()].concat();
        assert_eq!(stamp(&with), Some(77));
        assert_eq!(stamp(&with[..255]), None);
        assert_eq!(stamp(&[0; 256]), None);
        assert_eq!(stamp(&[]), None);
    }
}
