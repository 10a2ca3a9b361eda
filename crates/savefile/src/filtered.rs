//! Packets that a filter has chosen, where they were read.

use std::fmt;

use crate::run::{Encoding, PacketRun, Packets};
use crate::{Options, Packet};

/// Chooses packets. A reader applies it where and when the bytes are at hand: on whichever of its
/// threads has just read them.
pub trait PacketFilter: Send + Sync {
    /// Appends for each of the packets, in their order, whether it is wanted; what it says nothing
    /// of is not.
    fn choose(&self, packets: Records<'_>, wanted: &mut Vec<bool>);
}

/// The packets of a validated stretch, found by where their records begin: unlike those of a
/// [`PacketRun`], each can be looked at without the one before.
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

/// Records that lie behind one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) packets: usize,
}

/// The packets that the reader's [`PacketFilter`] chose from consecutive ones; maybe none.
///
/// Records that are small were moved together, so that most lie in few pieces.
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
    /// The chosen packets, as runs in the file's order. The offset of each is that of its first
    /// packet; others were further behind in the file than they are in the run.
    pub fn runs(&self) -> impl Iterator<Item = PacketRun<'a>> + use<'a> {
        let Self {
            bytes,
            offset,
            max_caplen,
            encoding,
            ..
        } = *self;
        self.ranges.iter().map(move |range| PacketRun {
            bytes: bytes.get(range.start..range.end).unwrap_or(&[]),
            offset: offset + range.start as u64,
            packets: range.packets,
            max_caplen,
            captured: None,
            encoding,
        })
    }

    /// The chosen packets in the file's order.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> FilteredPackets<'a> {
        FilteredPackets {
            run: Packets::of(&[], self.encoding),
            filtered: *self,
        }
    }

    /// The chosen packets with the options of their blocks, which pcap records do not have.
    pub fn packets_with_options(
        &self,
    ) -> impl Iterator<Item = (Packet<'a>, Options<'a>)> + use<'a> {
        self.runs().flat_map(|run| run.packets_with_options())
    }

    /// Number of packets that were chosen.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.packets).sum()
    }

    /// Whether none was chosen.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of packets that were chosen from.
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
    /// What is left of a range.
    run: Packets<'a>,
    /// The ranges behind it.
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
