//! Collects packets to send them together.

use ringtap_packet::Timestamp;

/// Packets with their sending times, in bounded memory.
///
/// ```
/// use ringtap_packet::Timestamp;
/// use ringtap_send::SendQueue;
///
/// let mut queue = SendQueue::with_capacity(4096);
/// queue.append(Timestamp::new(0, 0), &[0xff; 60])?;
/// queue.append(Timestamp::new(0, 500_000), &[0xff; 60])?;
/// assert_eq!((queue.len(), queue.bytes()), (2, 120));
/// # Ok::<(), ringtap_send::QueueFull>(())
/// ```
#[derive(Clone, Debug)]
pub struct SendQueue {
    records: Vec<u8>,
    capacity: usize,
    packets: u64,
    bytes: u64,
}

/// A packet for which a queue has no room. The queue is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a packet of {len} bytes does not fit into the {free} bytes that are free in the queue")]
pub struct QueueFull {
    /// Bytes of the packet.
    pub len: usize,
    /// The free bytes. Each packet takes [`RECORD_BYTES`] beside its own.
    pub free: usize,
}

/// The bytes of a packet in a queue beside its own: time and length.
pub const RECORD_BYTES: usize = 16;

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// The time, if the timing needs it: only differences between packets matter.
    pub timestamp: Timestamp,
    /// The frame, starting with its link-layer header.
    pub data: &'a [u8],
}

impl SendQueue {
    /// Returns a queue for this many bytes, including [`RECORD_BYTES`] per packet. Memory is allocated as
    /// packets are appended.
    #[must_use]
    pub const fn with_capacity(bytes: usize) -> Self {
        Self {
            records: Vec::new(),
            capacity: bytes,
            packets: 0,
            bytes: 0,
        }
    }

    /// Appends a packet.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn append(&mut self, timestamp: Timestamp, data: &[u8]) -> Result<(), QueueFull> {
        let free = self.capacity - self.records.len();
        let full = QueueFull {
            len: data.len(),
            free,
        };
        let len = u32::try_from(data.len()).map_err(|_| full)?;
        if data.len().saturating_add(RECORD_BYTES) > free {
            return Err(full);
        }
        self.records.extend(timestamp.secs().to_ne_bytes());
        self.records.extend(timestamp.subsec_nanos().to_ne_bytes());
        self.records.extend(len.to_ne_bytes());
        self.records.extend_from_slice(data);
        self.packets += 1;
        self.bytes += u64::from(len);
        Ok(())
    }

    /// Returns the number of packets.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.packets
    }

    /// Returns whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Returns the bytes of its packets.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns its maximum size in bytes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Removes all packets and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
        (self.packets, self.bytes) = (0, 0);
    }

    /// Returns the packets in the order in which they were appended.
    #[must_use]
    pub fn packets(&self) -> Queued<'_> {
        Queued {
            records: &self.records,
        }
    }
}

impl<'a> IntoIterator for &'a SendQueue {
    type Item = Outgoing<'a>;
    type IntoIter = Queued<'a>;

    fn into_iter(self) -> Queued<'a> {
        self.packets()
    }
}

/// The packets of a [`SendQueue`].
#[derive(Clone, Debug)]
pub struct Queued<'a> {
    records: &'a [u8],
}

impl<'a> Iterator for Queued<'a> {
    type Item = Outgoing<'a>;

    #[inline]
    fn next(&mut self) -> Option<Outgoing<'a>> {
        let (secs, rest) = self.records.split_first_chunk()?;
        let (nanos, rest) = rest.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let len = usize::try_from(u32::from_ne_bytes(*len)).ok()?;
        let (data, rest) = rest.split_at_checked(len)?;
        self.records = rest;
        let timestamp = Timestamp::new(i64::from_ne_bytes(*secs), u32::from_ne_bytes(*nanos));
        Some(Outgoing { timestamp, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_was_given() {
        let mut queue = SendQueue::with_capacity(1 << 16);
        for size in [0_u8, 1, 60, 255] {
            let data = vec![size; size.into()];
            queue
                .append(Timestamp::new(size.into(), 7), &data)
                .expect("there is room");
        }
        let sizes: Vec<_> = queue
            .packets()
            .map(|packet| (packet.timestamp, packet.data.to_vec()))
            .collect();
        let expected = [0_u8, 1, 60, 255];
        let expected =
            expected.map(|size| (Timestamp::new(size.into(), 7), vec![size; size.into()]));
        assert_eq!(sizes, expected);
        assert_eq!((queue.len(), queue.bytes()), (4, 316));
        queue.clear();
        assert!(queue.is_empty() && queue.packets().next().is_none());
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut queue = SendQueue::with_capacity(100);
        let now = Timestamp::default();
        queue.append(now, &[1; 60]).expect("76 bytes");
        let full = queue.append(now, &[2; 60]).expect_err("24 bytes are left");
        assert_eq!(full, QueueFull { len: 60, free: 24 });
        queue.append(now, &[3; 8]).expect("exactly 24 bytes");
        assert_eq!(queue.append(now, &[]).expect_err("nothing is left").free, 0);
        assert_eq!((queue.len(), queue.bytes()), (2, 68));
    }
}
