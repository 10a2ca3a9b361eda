//! Copies of packets whose block had to be returned before the program asked for them.

use std::ops::Range;

use ringtap_capture::{Packet, PacketFlags, Timestamp};

/// Copied packets, in order.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    packets: Vec<Copied>,
    /// Index of the first packet that was not delivered yet.
    next: usize,
}

#[derive(Debug)]
struct Copied {
    timestamp: Timestamp,
    len: u32,
    interface: u32,
    flags: PacketFlags,
    data: Range<usize>,
}

impl Backlog {
    /// Returns whether all packets were delivered.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.next >= self.packets.len()
    }

    /// Adds a packet.
    pub(crate) fn push(&mut self, packet: &Packet<'_>) {
        if self.is_empty() {
            self.bytes.clear();
            self.packets.clear();
            self.next = 0;
        }
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(packet.data);
        self.packets.push(Copied {
            timestamp: packet.timestamp,
            len: packet.len,
            interface: packet.interface,
            flags: packet.flags,
            data: begin..self.bytes.len(),
        });
    }

    /// Returns the next packet that `wanted` accepts. Its bytes stay until another packet is added.
    pub(crate) fn find(
        &mut self,
        mut wanted: impl FnMut(&Packet<'_>) -> bool,
    ) -> Option<Packet<'_>> {
        while self.next < self.packets.len() {
            let at = self.next;
            self.next += 1;
            if wanted(&self.at(at)) {
                return Some(self.at(at));
            }
        }
        None
    }

    /// Drops all packets.
    pub(crate) fn clear(&mut self) {
        self.next = self.packets.len();
    }

    /// Drops the undelivered packets that `wanted` rejects.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&Packet<'_>) -> bool) {
        let kept: Vec<bool> = (self.next..self.packets.len())
            .map(|at| wanted(&self.at(at)))
            .collect();
        self.packets.drain(..self.next);
        self.next = 0;
        let mut kept = kept.into_iter();
        self.packets.retain(|_| kept.next().unwrap_or(true));
    }

    fn at(&self, at: usize) -> Packet<'_> {
        let copied = &self.packets[at];
        Packet {
            timestamp: copied.timestamp,
            len: copied.len,
            interface: copied.interface,
            flags: copied.flags,
            data: &self.bytes[copied.data.clone()],
            process: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(data: &[u8]) -> Packet<'_> {
        Packet {
            timestamp: Timestamp::new(1, 2),
            len: 9,
            interface: 0,
            flags: PacketFlags::INBOUND,
            data,
            process: None,
        }
    }

    #[test]
    fn packets_come_back_in_order_those_that_are_wanted() {
        let mut backlog = Backlog::default();
        for data in [&b"one"[..], b"two", b"three", b"four"] {
            backlog.push(&packet(data));
        }
        assert_eq!(backlog.find(|_| true), Some(packet(b"one")));
        backlog.retain(|packet| packet.data != b"three");
        assert_eq!(
            backlog.find(|packet| packet.data != b"two"),
            Some(packet(b"four"))
        );
        assert!(backlog.is_empty());
        assert_eq!(backlog.find(|_| true), None);
        backlog.push(&packet(b"five"));
        assert_eq!(backlog.find(|_| true), Some(packet(b"five")));
    }
}
