//! A run: a validated stretch of consecutive packet records, delivered in place.
//!
//! Every record was checked once, when the run was made; iterating over it neither fails nor
//! copies. The records are consecutive as in the file, so a writer with the same encoding copies
//! the whole stretch at once.

use std::fmt;

use crate::encoding::{Encoding, PcapngEncoding};
use crate::pcap::{PcapRecords, UsualRecords};
use crate::pcapng::{BlockPackets, InterfaceTable, Options};
use crate::{ByteOrder, Packet, Visitor};

/// A validated stretch of consecutive packet records of one file or ring.
#[derive(Clone, Copy)]
pub struct PacketRun<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) packets: usize,
    pub(crate) max_caplen: u32,
    /// Captured bytes of all packets, if known without a walk.
    pub(crate) captured: Option<u64>,
    pub(crate) encoding: Encoding<'a>,
}

/// The totals of a stretch of packet blocks; see [`PacketRun::from_ring`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTotals {
    /// Number of packets.
    pub packets: usize,
    /// Captured bytes of all packets together.
    pub captured: u64,
    /// An upper bound of the captured bytes of each packet.
    pub max_caplen: u32,
}

impl<'a> PacketRun<'a> {
    /// Returns the longest run of complete, valid packet blocks at the start of `bytes`, as a ring
    /// holds them. It ends before the first block that has another type, is incomplete, or is
    /// damaged. `offset` is that of `bytes` in their stream.
    #[must_use]
    pub fn from_epbs(
        bytes: &'a [u8],
        byte_order: ByteOrder,
        interfaces: &'a InterfaceTable,
        offset: u64,
    ) -> Self {
        let walk = crate::pcapng::walk(bytes, byte_order, interfaces, usize::MAX, None);
        Self {
            bytes: &bytes[..walk.used],
            offset,
            packets: walk.packets,
            max_caplen: walk.max_caplen,
            captured: None,
            encoding: Encoding::Pcapng(PcapngEncoding {
                byte_order,
                interfaces,
            }),
        }
    }

    /// Returns a run without walking over it: `bytes` must be complete packet blocks of those
    /// interfaces, and `totals` must count them and their captured bytes. None of this is checked;
    /// if it is wrong, packets are missing and counts are wrong, but nothing worse happens.
    #[must_use]
    pub fn from_ring(
        bytes: &'a [u8],
        byte_order: ByteOrder,
        interfaces: &'a InterfaceTable,
        offset: u64,
        totals: RunTotals,
    ) -> Self {
        Self {
            bytes,
            offset,
            packets: totals.packets,
            max_caplen: totals.max_caplen,
            captured: Some(totals.captured),
            encoding: Encoding::Pcapng(PcapngEncoding {
                byte_order,
                interfaces,
            }),
        }
    }

    /// Returns the packets in the run's order.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> Packets<'a> {
        Packets::of(self.bytes, self.encoding)
    }

    /// Hands each packet to a visitor, without its flags, for which the options of each block would have to
    /// be read. The encoding is looked at once, and each step becomes a part of the loop: the fastest way for
    /// a visitor that does little with each packet.
    #[inline]
    pub fn drain(&self, visitor: &mut impl Visitor) {
        match self.encoding {
            Encoding::Pcap(encoding) => match UsualRecords::new(self.bytes, encoding) {
                Some(records) => records.for_each(|packet| visitor.packet(&packet)),
                None => self.packets().for_each(|packet| visitor.packet(&packet)),
            },
            Encoding::Pcapng(encoding) => {
                let mut blocks = BlockPackets::new(self.bytes, encoding);
                while let Some(packet) = blocks.next_without_flags() {
                    visitor.packet(&packet);
                }
            }
        }
    }

    /// Returns the packets with the options of their blocks; pcap records have no options.
    pub fn packets_with_options(
        &self,
    ) -> impl Iterator<Item = (Packet<'a>, Options<'a>)> + use<'a> {
        let mut packets = self.packets();
        std::iter::from_fn(move || match &mut packets.0 {
            Inner::Pcap(records) => records.next().map(|packet| (packet, Options::none())),
            Inner::Pcapng(blocks) => blocks.next_with_options(),
        })
    }

    /// Splits the run. The first part is as long as possible with at most `bytes` bytes, but has at
    /// least one record. This walks over the records of that part.
    #[must_use]
    pub fn split(&self, bytes: u64) -> (PacketRun<'a>, PacketRun<'a>) {
        let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.bytes.len() <= limit {
            return (*self, self.part(self.bytes.len(), self.bytes.len(), 0));
        }
        let (mut end, mut packets) = (0, 0);
        while let Some(record) = self.record_len(end)
            && (packets == 0 || end + record <= limit)
        {
            end += record;
            packets += 1;
        }
        if packets == 0 {
            end = self.bytes.len();
            packets = self.packets;
        }
        let rest = self.packets.saturating_sub(packets);
        (
            self.part(0, end, packets.min(self.packets)),
            self.part(end, self.bytes.len(), rest),
        )
    }

    fn part(&self, start: usize, end: usize, packets: usize) -> PacketRun<'a> {
        let whole = (start, end) == (0, self.bytes.len());
        PacketRun {
            bytes: self.bytes.get(start..end).unwrap_or_default(),
            offset: self.offset + start as u64,
            packets,
            captured: self.captured.filter(|_| whole),
            ..*self
        }
    }

    /// Returns the bytes of the record at `at`; `None` at the end.
    fn record_len(&self, at: usize) -> Option<usize> {
        let rest = self.bytes.get(at..)?;
        let len = match self.encoding {
            Encoding::Pcap(encoding) => encoding.record_len(rest)?,
            Encoding::Pcapng(encoding) => encoding.byte_order.u32_at(rest, 4)? as usize,
        };
        (len > 0 && len <= rest.len()).then_some(len)
    }

    /// Returns the encoding of the records.
    #[inline]
    #[must_use]
    pub fn encoding(&self) -> Encoding<'a> {
        self.encoding
    }

    /// Returns the records as they are in the file.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the offset of the first record, in bytes from the start of the uncompressed stream.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of packets.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Returns whether there is no packet; a run of a [`crate::Reader`] has at least one.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Returns the captured bytes of all packets together, without their headers.
    #[must_use]
    pub fn captured_bytes(&self) -> u64 {
        if let Some(captured) = self.captured {
            return captured;
        }
        match self.encoding {
            Encoding::Pcap(encoding) if self.max_caplen <= encoding.snaplen => {
                (self.bytes.len() - self.packets * encoding.header_len()) as u64
            }
            _ => self.packets().map(|packet| packet.data.len() as u64).sum(),
        }
    }

    /// Returns an upper bound of the captured bytes of each packet.
    #[inline]
    #[must_use]
    pub fn max_caplen(&self) -> u32 {
        self.max_caplen
    }
}

impl fmt::Debug for PacketRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacketRun")
            .field("offset", &self.offset)
            .field("bytes", &self.bytes.len())
            .field("packets", &self.packets)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &PacketRun<'a> {
    type Item = Packet<'a>;
    type IntoIter = Packets<'a>;

    fn into_iter(self) -> Packets<'a> {
        self.packets()
    }
}

/// Iterator over the packets of a [`PacketRun`].
#[derive(Clone, Debug)]
pub struct Packets<'a>(Inner<'a>);

#[derive(Clone, Debug)]
enum Inner<'a> {
    Pcap(PcapRecords<'a>),
    Pcapng(BlockPackets<'a>),
}

impl<'a> Packets<'a> {
    /// Returns the packets of validated records.
    #[inline]
    pub(crate) fn of(bytes: &'a [u8], encoding: Encoding<'a>) -> Self {
        match encoding {
            Encoding::Pcap(encoding) => Self(Inner::Pcap(PcapRecords::new(bytes, encoding))),
            Encoding::Pcapng(encoding) => Self(Inner::Pcapng(BlockPackets::new(bytes, encoding))),
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        match &mut self.0 {
            Inner::Pcap(records) => records.next(),
            Inner::Pcapng(blocks) => blocks.next(),
        }
    }

    /// Folds as [`Iterator::fold`], but tests the encoding only once.
    #[inline]
    fn fold<B, F: FnMut(B, Packet<'a>) -> B>(self, init: B, f: F) -> B {
        match self.0 {
            Inner::Pcap(records) => records.fold(init, f),
            Inner::Pcapng(blocks) => blocks.fold(init, f),
        }
    }
}
