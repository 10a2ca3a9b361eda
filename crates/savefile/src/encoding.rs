//! The encoding of packet records, the result of a walk over them, and the visitor of their packets.

use crate::pcapng::InterfaceTable;
use crate::{ByteOrder, Packet};

/// How the records of a [`crate::PacketRun`] are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding<'a> {
    /// pcap packet records.
    Pcap(PcapEncoding),
    /// pcapng packet blocks: enhanced, simple and obsolete ones.
    Pcapng(PcapngEncoding<'a>),
}

/// How a pcap file's packet records are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapEncoding {
    /// Byte order of the record headers.
    pub byte_order: ByteOrder,
    /// Whether the fraction of a second is in nanoseconds, else in microseconds.
    pub nanos: bool,
    /// Whether the record headers have the 8 bytes more of the "modified" format (magic
    /// 0xa1b2cd34).
    pub extended: bool,
    /// Order of the two length fields.
    pub lengths: LengthOrder,
    /// Bytes of a record's data that belong to the packet at most; more is skipped, as libpcap
    /// does.
    pub snaplen: u32,
}

/// Order of captured and original length in a pcap packet record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthOrder {
    /// Captured length first: version 2.4.
    CapturedFirst,
    /// Original length first: versions before 2.3, and 543.0 of DG/UX.
    OriginalFirst,
    /// The smaller one is the captured length: version 2.3, which was written both ways.
    SmallerIsCaptured,
}

/// How a pcapng section's packet blocks are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapngEncoding<'a> {
    /// The section's byte order.
    pub byte_order: ByteOrder,
    pub(crate) interfaces: &'a InterfaceTable,
}

impl PcapngEncoding<'_> {
    /// Returns the index, counted over all sections, of the blocks' interface 0.
    #[must_use]
    pub fn first_interface(&self) -> u32 {
        self.interfaces.first()
    }
}

/// Result of a walk over packet records, which checks each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk<S> {
    /// Bytes of the valid, whole records at the start.
    pub(crate) used: usize,
    pub(crate) packets: usize,
    /// The largest captured length among them.
    pub(crate) max_caplen: u32,
    /// Why it ended.
    pub(crate) stop: S,
}

impl<S> Walk<S> {
    /// Returns the same walk, with its stop converted by `map`.
    pub(crate) fn map_stop<T>(self, map: impl FnOnce(S) -> T) -> Walk<T> {
        Walk {
            used: self.used,
            packets: self.packets,
            max_caplen: self.max_caplen,
            stop: map(self.stop),
        }
    }
}

/// A visitor that takes packets one by one.
///
/// Not a closure, since only a function can be made a part of each loop that calls it.
pub trait Visitor {
    /// Takes the next packet.
    fn packet(&mut self, packet: &Packet<'_>);
}
