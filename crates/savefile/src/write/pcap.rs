//! Writes pcap files (draft-ietf-opsawg-pcap).

use std::io::Write;

use crate::encoding::{Encoding, LengthOrder, PcapEncoding, PcapngEncoding};
use crate::pcap::{
    FILE_HEADER, MAGIC_MICROS, MAGIC_NANOS, RECORD_HEADER, fcs_bits, link_type_field,
};
use crate::pcapng::BlockPackets;
use crate::write::output::{
    Framing, LARGE, Mark, Output, Pieces, batch_methods, whole, writer_methods,
};
use crate::write::{Totals, WriteError, WriteErrorKind};
use crate::{ByteOrder, Interface, LinkType, Packet, PacketRun, Resolution, Timestamp};

const NANOS_PER_MICRO: u32 = 1000;

ringtap_packet::options! {
    /// The contents of a pcap file's header.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PcapOptions {
        /// Link type of all packets.
        pub link_type: LinkType,
        /// Most bytes of a packet; longer packets are cut. 0 means the link type's maximum.
        pub snaplen: u32,
        /// Whether timestamps are written in nanoseconds; otherwise in microseconds (rounded down).
        pub nanos: bool,
        /// Byte order of all headers; libpcap writes the machine's.
        pub byte_order: ByteOrder,
        /// The upper six bits of the link type field, in place: [`Interface::link_type_bits`].
        pub link_type_bits: u32,
    }
}

impl PcapOptions {
    /// Options for a file in this machine's byte order with timestamps in microseconds.
    #[must_use]
    pub fn new(link_type: LinkType, snaplen: u32) -> Self {
        Self {
            link_type,
            snaplen,
            nanos: false,
            byte_order: ByteOrder::NATIVE,
            link_type_bits: 0,
        }
    }

    /// Options for a file with the packets of an interface, in nanoseconds if its timestamps are
    /// finer than microseconds.
    #[must_use]
    pub fn for_interface(interface: &Interface) -> Self {
        let micros = Resolution::MICROS.ticks_per_second();
        Self {
            nanos: interface.resolution.ticks_per_second() > micros,
            link_type_bits: match (interface.link_type_bits, interface.fcs_len) {
                (0, Some(bits)) => fcs_bits(bits),
                (bits, _) => bits,
            },
            ..Self::new(interface.link_type, interface.snaplen)
        }
    }
}

/// Writes a pcap file of version 2.4.
///
/// Seconds are written like libpcap's: the lower 32 bits, so that times before 1970 and after 2106
/// wrap. Dropping a writer loses the packets that [`PcapWriter::write_packet`] left pending; call
/// [`PcapWriter::finish`] at the end.
///
/// ```
/// use ringtap_savefile::{LinkType, Packet, PacketFlags, PcapOptions, PcapWriter, Timestamp};
///
/// # fn main() -> Result<(), ringtap_savefile::WriteError> {
/// let mut writer = PcapWriter::new(Vec::new(), &PcapOptions::new(LinkType::ETHERNET, 65535))?;
/// let mut batch = writer.batch();
/// batch.push(&Packet {
///     timestamp: Timestamp::new(1, 2000),
///     len: 3,
///     interface: 0,
///     flags: PacketFlags::default(),
///     data: &[1, 2, 3],
///     process: None,
/// })?;
/// batch.commit()?;
/// let (file, totals) = writer.finish()?;
/// assert_eq!((file.len(), totals.packets), (24 + 16 + 3, 1));
/// # Ok(())
/// # }
/// ```
pub struct PcapWriter<W: Write> {
    output: Output<W>,
    records: Records,
    /// The link types of the interfaces of packets, if added; by default the file's.
    link_types: Vec<LinkType>,
    /// Whether one of them differs from the file's.
    mixed: bool,
}

/// The encoding of the writer's records.
#[derive(Clone, Copy)]
struct Records {
    byte_order: ByteOrder,
    nanos: bool,
    link_type: LinkType,
    /// Most bytes of a packet that readers accept.
    max_caplen: u32,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header.
    ///
    /// # Errors
    /// Writing to the output fails.
    pub fn new(sink: W, options: &PcapOptions) -> Result<Self, WriteError> {
        let link_type = options.link_type.canonical();
        let stated = crate::interface::effective_snaplen(options.snaplen, link_type);
        let records = Records {
            byte_order: options.byte_order,
            nanos: options.nanos,
            link_type,
            max_caplen: stated.min(link_type.max_snaplen()),
        };
        let mut output = Output::new(sink);
        encode_header(options, link_type, stated, output.staging());
        output.flush(&records)?;
        Ok(Self {
            output,
            records,
            link_types: Vec::new(),
            mixed: false,
        })
    }

    /// Adds an interface; packets refer to it by its index in the order of these calls. A packet of
    /// an interface with another link type than the file's is then rejected. Other interfaces are
    /// assumed to have the file's link type.
    pub fn add_interface(&mut self, interface: &Interface) {
        self.mixed |= interface.link_type.canonical() != self.records.link_type;
        self.link_types.push(interface.link_type.canonical());
    }

    writer_methods!(PcapBatch);

    fn framing(&self) -> Records {
        self.records
    }

    #[cold]
    fn check_link_type(&self, interface: u32) -> Result<(), WriteError> {
        let expected = self.records.link_type;
        let found = self.link_types.get(interface as usize).copied();
        match found {
            Some(found) if found != expected => Err(WriteErrorKind::LinkType {
                expected,
                found,
                interface,
            }
            .into()),
            _ => Ok(()),
        }
    }
}

fn encode_header(options: &PcapOptions, link_type: LinkType, snaplen: u32, out: &mut Vec<u8>) {
    let order = options.byte_order;
    let magic = if options.nanos {
        MAGIC_NANOS
    } else {
        MAGIC_MICROS
    };
    let start = out.len();
    out.extend_from_slice(&order.of_u32(magic));
    out.extend_from_slice(&order.of_u16(2));
    out.extend_from_slice(&order.of_u16(4));
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&order.of_u32(snaplen));
    out.extend_from_slice(&order.of_u32(link_type_field(link_type, options.link_type_bits)));
    debug_assert_eq!(out.len() - start, FILE_HEADER);
}

impl Records {
    #[inline]
    fn encode_header(&self, packet: &Packet<'_>, caplen: u32) -> [u8; RECORD_HEADER] {
        let order = self.byte_order;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the lower 32 bits are what libpcap writes"
        )]
        let mut secs = packet.timestamp.secs() as u32;
        let nanos = packet.timestamp.subsec_nanos();
        let mut fraction = if self.nanos {
            nanos
        } else {
            nanos / NANOS_PER_MICRO
        };
        if !packet.timestamp.is_valid()
            && let Some(stored) = self.as_stored(packet.timestamp)
        {
            (secs, fraction) = stored;
        }
        let [a, b, c, d] = order.of_u32(secs);
        let [e, f, g, h] = order.of_u32(fraction);
        let [i, j, k, l] = order.of_u32(caplen);
        let [m, n, o, p] = order.of_u32(packet.len);
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    /// Returns the fields of an invalid time as they were stored, if they fit.
    #[cold]
    fn as_stored(&self, time: Timestamp) -> Option<(u32, u32)> {
        let (secs, nanos) = time.stored();
        let fraction = if self.nanos {
            nanos
        } else {
            nanos / u64::from(NANOS_PER_MICRO)
        };
        Some((u32::try_from(secs).ok()?, u32::try_from(fraction).ok()?))
    }

    /// Returns whether a run's records are valid in this file byte for byte.
    fn takes(&self, encoding: &PcapEncoding, max_caplen: u32) -> bool {
        encoding.byte_order == self.byte_order
            && encoding.nanos == self.nanos
            && !encoding.extended
            && encoding.lengths == LengthOrder::CapturedFirst
            && max_caplen <= self.max_caplen.min(encoding.snaplen)
    }
}

impl Framing for Records {
    fn record(&self, start: &[u8]) -> Option<(u64, bool)> {
        let caplen = self.byte_order.u32_at(start, 8)?;
        Some((RECORD_HEADER as u64 + u64::from(caplen), true))
    }
}

/// Returns the bytes and packets of the complete records in a part of a pcap file that begins with
/// a record.
#[must_use]
pub fn whole_records(bytes: &[u8], byte_order: ByteOrder) -> (u64, u64) {
    let framing = Records {
        byte_order,
        nanos: false,
        link_type: LinkType(0),
        max_caplen: 0,
    };
    whole(bytes, &framing)
}

/// Packets that are written together. If it is dropped without [`PcapBatch::commit`], the packets
/// are discarded, except those already written to make room.
pub struct PcapBatch<'w, 'd, W: Write> {
    writer: &'w mut PcapWriter<W>,
    pieces: Pieces<'d>,
    mark: Mark,
}

impl<'d, W: Write> PcapBatch<'_, 'd, W> {
    /// Adds a packet; its data are cut at the file's snaplen.
    ///
    /// # Errors
    /// The packet's link type is not the file's, or writing pending packets to the output fails.
    #[inline(always)]
    pub fn push(&mut self, packet: &Packet<'d>) -> Result<(), WriteError> {
        if self.writer.mixed {
            self.writer.check_link_type(packet.interface)?;
        }
        let records = self.writer.records;
        let output = &mut self.writer.output;
        let max = records.max_caplen as usize;
        let data = packet.data.get(..max).unwrap_or(packet.data);
        #[expect(clippy::cast_possible_truncation, reason = "at most max_caplen, a u32")]
        let header = records.encode_header(packet, data.len() as u32);
        if !packet.timestamp.is_valid() && records.as_stored(packet.timestamp).is_none() {
            output.alter_time();
        }
        if data.len() >= LARGE {
            output.reserve(RECORD_HEADER, &mut self.pieces, &records)?;
            output.staging().extend_from_slice(&header);
            output.refer(data, &mut self.pieces);
        } else {
            output.reserve(RECORD_HEADER + data.len(), &mut self.pieces, &records)?;
            let staging = output.staging();
            staging.extend_from_slice(&header);
            staging.extend_from_slice(data);
        }
        output.count(1);
        Ok(())
    }

    /// Adds all packets of a run: as one piece if its encoding is the file's, otherwise one by one.
    ///
    /// # Errors
    /// The same as [`PcapBatch::push`].
    pub fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError> {
        let records = self.writer.records;
        match run.encoding() {
            Encoding::Pcap(encoding) if records.takes(&encoding, run.max_caplen()) => {
                if self.writer.mixed {
                    self.writer.check_link_type(0)?;
                }
                let output = &mut self.writer.output;
                output.reserve(0, &mut self.pieces, &records)?;
                output.refer(run.bytes(), &mut self.pieces);
                output.count(run.len() as u64);
                Ok(())
            }
            Encoding::Pcapng(encoding) => self.push_blocks(run.bytes(), encoding),
            Encoding::Pcap(_) => run.packets().try_for_each(|packet| self.push(&packet)),
        }
    }

    /// Adds the packets of pcapng blocks, in a separate loop: pcap records cannot hold their
    /// options, so these are not read.
    fn push_blocks(
        &mut self,
        bytes: &'d [u8],
        encoding: PcapngEncoding<'d>,
    ) -> Result<(), WriteError> {
        let mut blocks = BlockPackets::new(bytes, encoding);
        while let Some(packet) = blocks.next_without_flags() {
            self.push(&packet)?;
        }
        Ok(())
    }

    batch_methods!();
}

impl<W: Write> Drop for PcapBatch<'_, '_, W> {
    fn drop(&mut self) {
        self.writer.output.undo(self.mark);
    }
}
