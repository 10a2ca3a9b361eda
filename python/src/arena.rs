//! Packets that were taken over from a source: their bytes in one piece, and a line for each packet.

use arrow_buffer::Buffer;
use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};

/// A packet's line: everything but its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) timestamp: Timestamp,
    /// The length on the wire, in bytes.
    pub(crate) len: u32,
    pub(crate) interface: u32,
    pub(crate) flags: PacketFlags,
    pub(crate) link_type: LinkType,
    /// The end of its bytes in the arena.
    end: usize,
}

/// Packets, from oldest to newest. It does not change once it is made, and packets in Python refer to it.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    bytes: Buffer,
    lines: Vec<Line>,
}

/// An arena that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    bytes: Vec<u8>,
    lines: Vec<Line>,
}

impl Filling {
    /// Appends a copy of a packet.
    pub(crate) fn push(&mut self, packet: &Packet<'_>, link_type: LinkType) {
        self.bytes.extend_from_slice(packet.data);
        self.lines.push(Line {
            timestamp: packet.timestamp,
            len: packet.len,
            interface: packet.interface,
            flags: packet.flags,
            link_type,
            end: self.bytes.len(),
        });
    }

    /// Returns the number of packets.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the number of captured bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn finish(self) -> Arena {
        Arena {
            bytes: Buffer::from_vec(self.bytes),
            lines: self.lines,
        }
    }
}

impl Arena {
    /// Returns the number of packets.
    pub(crate) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(crate) fn line(&self, at: usize) -> &Line {
        &self.lines[at]
    }

    /// Returns the captured bytes of a packet.
    pub(crate) fn data(&self, at: usize) -> &[u8] {
        &self.bytes[self.start(at)..self.lines[at].end]
    }

    /// Returns where the bytes of a packet begin; with the number of packets, where all bytes end.
    pub(crate) fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.lines[before].end)
    }

    /// Returns all bytes, without a copy.
    pub(crate) fn buffer(&self) -> Buffer {
        self.bytes.clone()
    }

    /// Returns a packet as the other crates take it.
    pub(crate) fn packet(&self, at: usize) -> Packet<'_> {
        let line = self.line(at);
        Packet {
            timestamp: line.timestamp,
            len: line.len,
            interface: line.interface,
            flags: line.flags,
            data: self.data(at),
            process: None,
        }
    }
}
