//! Waist 2: a block of packets, borrowed from the ring or the file that holds them.

use ringtap_packet::{Packet, PacketFlags, Timestamp};
use ringtap_savefile::{self as savefile, Filtered, FilteredPackets, Options, PacketRun, Visitor};
use ringtap_sys::packet::{Frame, Frames, RingBlock};

use crate::engines::{SocketPackets, SocketRecords, TapRecords};
use crate::filter::FilterTable;

/// Packets that are borrowed in place. Dropping the block returns the memory to its source.
#[derive(Debug)]
pub struct Block<'a> {
    origin: Origin<'a>,
    /// Filters that must still be applied.
    filter: Option<&'a FilterTable>,
}

/// The memory that holds the packets of a block.
#[derive(Debug)]
pub(crate) enum Origin<'a> {
    Ring(RingBlock<'a>),
    /// Packets of a file.
    Run(PacketRun<'a>),
    /// Packets of a file that were already filtered.
    Filtered(Filtered<'a>),
    Tap(TapRecords<'a>),
    /// Packets of an AF_XDP socket.
    Socket(SocketRecords<'a>),
}

impl<'a> Block<'a> {
    /// Returns a block to which `filter` must still be applied.
    pub(crate) fn new(origin: Origin<'a>, filter: Option<&'a FilterTable>) -> Self {
        Self { origin, filter }
    }

    /// Returns the packets in order, without those that the filter rejects. It may be called more than once;
    /// a filter that the kernel does not apply runs each time.
    #[inline]
    #[must_use]
    pub fn packets(&self) -> Packets<'_> {
        let records = match &self.origin {
            Origin::Ring(block) => Records::Ring(block.frames()),
            Origin::Run(run) => Records::Run(run.packets()),
            Origin::Filtered(filtered) => Records::Filtered(filtered.packets()),
            Origin::Tap(records) => Records::Run(records.run().packets()),
            Origin::Socket(records) => Records::Socket(records.packets()),
        };
        Packets {
            records,
            filter: self.filter,
        }
    }

    /// Returns the packets as [`Block::packets`], with the options of their pcapng blocks. Only packets of
    /// pcapng files have options.
    pub fn packets_with_options(&self) -> impl Iterator<Item = (Packet<'_>, Options<'_>)> {
        let (mut frames, mut sockets, mut run, mut filtered) = (None, None, None, None);
        match &self.origin {
            Origin::Ring(block) => frames = Some(block.frames().map(packet_of)),
            Origin::Socket(records) => sockets = Some(records.packets()),
            Origin::Run(records) => run = Some(records.packets_with_options()),
            Origin::Tap(records) => run = Some(records.run().packets_with_options()),
            Origin::Filtered(records) => filtered = Some(records.packets_with_options()),
        }
        let bare = frames.into_iter().flatten();
        let bare = bare.chain(sockets.into_iter().flatten());
        let bare = bare.map(|packet| (packet, Options::none()));
        let records = run.into_iter().flatten();
        let all = bare.chain(records).chain(filtered.into_iter().flatten());
        all.filter_map(|(packet, options)| match self.filter {
            None => Some((packet, options)),
            Some(filter) => filter.apply(packet).map(|packet| (packet, options)),
        })
    }

    /// Returns the packets in the form of a file, as contiguous pieces that belong to the block. `None` if
    /// the ring has another form, or if a filter must still be applied.
    #[must_use]
    pub fn runs(&self) -> Option<impl Iterator<Item = PacketRun<'_>>> {
        let (run, filtered) = match (&self.origin, self.filter) {
            (Origin::Run(run), None) => (Some(*run), None),
            (Origin::Tap(records), None) => (Some(records.run()), None),
            (Origin::Filtered(filtered), None) => (None, Some(filtered.runs())),
            _ => return None,
        };
        Some(run.into_iter().chain(filtered.into_iter().flatten()))
    }

    /// Passes each packet to a visitor, without its flags. It is like [`Block::packets`], but faster if the
    /// visitor does little with each.
    pub fn drain(&self, visitor: &mut impl Visitor) {
        let Some(runs) = self.runs() else {
            return self.packets().for_each(|packet| visitor.packet(&packet));
        };
        for run in runs {
            run.drain(visitor);
        }
    }

    /// Leaves the packets from `position` on with the source, as its next block. `position` is that of an
    /// iterator over this block.
    ///
    /// # Errors
    ///
    /// The block itself, if the source does not support it. Only the engine `packet` does.
    pub fn keep(self, position: Option<u32>) -> Result<(), Self> {
        match (self.origin, position) {
            (Origin::Ring(block), Some(position)) => {
                block.keep_from(position);
                Ok(())
            }
            (origin, _) => Err(Self {
                origin,
                filter: self.filter,
            }),
        }
    }

    /// Returns the number of packets in the block, including those that a filter in user space may still
    /// reject: an upper bound for [`Block::packets`].
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.origin {
            Origin::Ring(block) => block.len() as usize,
            Origin::Run(run) => run.len(),
            Origin::Filtered(filtered) => filtered.len(),
            Origin::Tap(records) => records.len(),
            Origin::Socket(records) => records.len(),
        }
    }

    /// Returns whether the block has no packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> IntoIterator for &'a Block<'_> {
    type Item = Packet<'a>;
    type IntoIter = Packets<'a>;

    fn into_iter(self) -> Packets<'a> {
        self.packets()
    }
}

/// The packets of a [`Block`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    records: Records<'a>,
    filter: Option<&'a FilterTable>,
}

#[derive(Clone, Debug)]
enum Records<'a> {
    Ring(Frames<'a>),
    Run(savefile::Packets<'a>),
    Filtered(FilteredPackets<'a>),
    Socket(SocketPackets<'a>),
}

impl Packets<'_> {
    /// Returns the iterator's position, for [`Block::keep`]. `None` if its block cannot be kept.
    #[must_use]
    pub fn position(&self) -> Option<u32> {
        match &self.records {
            Records::Ring(frames) => Some(frames.position()),
            _ => None,
        }
    }

    /// Returns whether every packet of the block was examined. It may be false if a filter rejects all
    /// remaining packets.
    #[inline]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        match &self.records {
            Records::Ring(frames) => frames.is_spent(),
            Records::Run(packets) => packets.clone().next().is_none(),
            Records::Filtered(packets) => packets.clone().next().is_none(),
            Records::Socket(packets) => packets.clone().next().is_none(),
        }
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    #[inline]
    fn next(&mut self) -> Option<Packet<'a>> {
        loop {
            let packet = match &mut self.records {
                Records::Ring(frames) => frames.next().map(packet_of)?,
                Records::Run(packets) => packets.next()?,
                Records::Filtered(packets) => packets.next()?,
                Records::Socket(packets) => packets.next()?,
            };
            match self.filter {
                None => return Some(packet),
                Some(filter) => {
                    if let Some(packet) = filter.apply(packet) {
                        return Some(packet);
                    }
                }
            }
        }
    }
}

/// Converts a frame of a ring to a packet. A ring has one interface.
#[inline]
fn packet_of(frame: Frame<'_>) -> Packet<'_> {
    Packet {
        timestamp: Timestamp::new(frame.secs.into(), frame.nanos),
        len: frame.len,
        interface: 0,
        flags: flags_of(frame.packet_type),
        data: frame.data,
        process: None,
    }
}

/// Returns the `epb_flags` for a packet type (`PACKET_HOST` … of packet(7)): direction in bits 0 and 1,
/// reception type in bits 2 to 4 (draft-ietf-opsawg-pcapng, section 4.3.1).
#[inline]
fn flags_of(packet_type: u8) -> PacketFlags {
    const UNICAST: u32 = 1 << 2;
    const MULTICAST: u32 = 2 << 2;
    const BROADCAST: u32 = 3 << 2;
    const PROMISCUOUS: u32 = 4 << 2;
    let inbound = PacketFlags::INBOUND.0;
    PacketFlags(match packet_type {
        0 => inbound | UNICAST,
        1 => inbound | BROADCAST,
        2 => inbound | MULTICAST,
        3 => inbound | PROMISCUOUS,
        4 => PacketFlags::OUTBOUND.0,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_types_become_flags() {
        assert_eq!(
            [0, 1, 2, 3, 4, 7].map(|t| flags_of(t).0),
            [5, 13, 9, 17, 2, 0]
        );
    }
}
