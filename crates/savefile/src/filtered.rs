//! Packets that matched a filter, in the memory into which they were read.

use std::fmt;

use crate::encoding::Encoding;
use crate::run::{PacketRun, Packets};
use crate::{Options, Packet};

/// A packet filter. A reader applies it as soon as it has read the bytes, on whichever of its
/// threads has read them.
pub trait PacketFilter: Send + Sync {
    /// Appends `true` to `wanted` for each packet to accept, `false` for others, in order. Packets
    /// without a value are rejected.
    fn choose(&self, packets: Records<'_>, wanted: &mut Vec<bool>);
}

/// The packets of a validated stretch, found by the offsets of their records. Unlike the packets of
/// a [`PacketRun`], each can be read without the one before.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    starts: std::slice::Iter<'a, usize>,
    encoding: Encoding<'a>,
}

impl<'a> Records<'a> {
    pub(crate) fn new(bytes: &'a [u8], starts: &'a [usize], encoding: Encoding<'a>) -> Self {
        Self {
            bytes,
            starts: starts.iter(),
            encoding,
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        let start = *self.starts.next()?;
        Packets::of(self.bytes.get(start..)?, self.encoding).next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.starts.size_hint()
    }
}

/// Consecutive records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) packets: usize,
}

/// The packets that the reader's [`PacketFilter`] accepted from consecutive ones; may be empty.
///
/// Small records were moved together, so that most lie in few pieces.
#[derive(Clone, Copy)]
pub struct Filtered<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) ranges: &'a [Range],
    pub(crate) offset: u64,
    pub(crate) read: usize,
    pub(crate) max_caplen: u32,
    pub(crate) encoding: Encoding<'a>,
}

impl<'a> Filtered<'a> {
    /// Returns the accepted packets, as runs in the file's order. A run's offset is that of its
    /// first packet; the others were at higher offsets in the file than in the run.
    pub fn runs(&self) -> impl Iterator<Item = PacketRun<'a>> + use<'a> {
        let all = *self;
        all.ranges.iter().map(move |range| PacketRun {
            bytes: all.bytes.get(range.start..range.end).unwrap_or(&[]),
            offset: all.offset + range.start as u64,
            packets: range.packets,
            max_caplen: all.max_caplen,
            captured: None,
            encoding: all.encoding,
        })
    }

    /// Returns the accepted packets in the file's order.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> FilteredPackets<'a> {
        FilteredPackets {
            run: Packets::of(&[], self.encoding),
            filtered: *self,
        }
    }

    /// Returns the accepted packets with the options of their blocks; pcap records have no options.
    pub fn packets_with_options(
        &self,
    ) -> impl Iterator<Item = (Packet<'a>, Options<'a>)> + use<'a> {
        self.runs().flat_map(|run| run.packets_with_options())
    }

    /// Returns the number of accepted packets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.packets).sum()
    }

    /// Returns whether no packet was accepted.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the number of packets that the filter was applied to.
    #[inline]
    #[must_use]
    pub fn read(&self) -> usize {
        self.read
    }
}

impl fmt::Debug for Filtered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered")
            .field("offset", &self.offset)
            .field("packets", &self.len())
            .field("read", &self.read)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

/// Iterator over the packets of a [`Filtered`].
#[derive(Clone, Debug)]
pub struct FilteredPackets<'a> {
    /// The rest of a range.
    run: Packets<'a>,
    /// The later ranges.
    filtered: Filtered<'a>,
}

impl<'a> Iterator for FilteredPackets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        loop {
            if let Some(packet) = self.run.next() {
                return Some(packet);
            }
            let (range, rest) = self.filtered.ranges.split_first()?;
            let bytes = self.filtered.bytes.get(range.start..range.end)?;
            self.run = Packets::of(bytes, self.filtered.encoding);
            self.filtered.ranges = rest;
        }
    }
}
