//! Writes pcapng files (draft-ietf-opsawg-pcapng).

use std::io::Write;

use crate::encoding::{Encoding, PcapngEncoding};
use crate::pcapng::{
    EPB_FIXED, InterfaceStatistics, InterfaceTable, Names, Options, RawBlock, Section, TRAILER,
    block_type, code, encode, encode_end, encode_interface, encode_names, encode_packet_option,
    process, split_ticks,
};
use crate::write::output::{
    Framing, LARGE, Mark, Output, Pieces, batch_methods, whole, writer_methods,
};
use crate::write::{Totals, WriteError, WriteErrorKind};
use crate::{ByteOrder, Interface, Packet, PacketFlags, PacketRun, Timestamp};

/// Bytes of an `epb_flags` option and the end mark after it.
const FLAGS_OPTION: usize = 12;

/// Writes a pcapng file: sections, interfaces, packets as enhanced packet blocks, and all other
/// blocks.
///
/// Interfaces are counted over all sections, as in [`crate::Reader`]. To copy a file, add each
/// interface and start each section that the reader delivers: then packets keep their interface,
/// and runs are copied unchanged.
///
/// A time before the interface's epoch is written as its first tick; one beyond 64 bits, as its
/// last. Dropping a writer loses pending packets; call [`PcapngWriter::finish`] at the end.
pub struct PcapngWriter<W: Write> {
    output: Output<W>,
    byte_order: ByteOrder,
    /// Interfaces of the section.
    table: InterfaceTable,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the header of the first section.
    ///
    /// # Errors
    /// Writing to the output fails.
    pub fn new(sink: W, section: &Section) -> Result<Self, WriteError> {
        let mut output = Output::new(sink);
        section.encode(output.staging());
        let byte_order = section.byte_order;
        output.flush(&Blocks(byte_order))?;
        Ok(Self {
            output,
            byte_order,
            table: InterfaceTable::default(),
        })
    }

    /// Ends the section and starts another, which has no interfaces yet.
    ///
    /// # Errors
    /// Writing to the output fails.
    pub fn start_section(&mut self, section: &Section) -> Result<(), WriteError> {
        // Pending data are framed in the old byte order.
        self.output.flush(&self.framing())?;
        self.byte_order = section.byte_order;
        self.table.start_section(self.end());
        section.encode(self.output.staging());
        self.output.flush(&self.framing())
    }

    /// Describes the next interface of the section, and returns its index over all sections.
    ///
    /// # Errors
    /// Writing pending data to the output fails.
    pub fn add_interface(&mut self, interface: &Interface) -> Result<u32, WriteError> {
        let index = self.end();
        self.table.push(interface, interface.effective_snaplen());
        self.append(|order, out| encode_interface(interface, order, out))?;
        Ok(index)
    }

    /// Appends counters of an interface.
    ///
    /// # Errors
    /// The section does not describe the interface, or writing pending data to the output fails.
    pub fn write_statistics(&mut self, counters: &InterfaceStatistics) -> Result<(), WriteError> {
        let interface = self.local(counters.interface)?;
        let Some(clock) = self.table.clock(interface) else {
            return Err(self.unknown(counters.interface));
        };
        self.append(|order, out| counters.encode(interface, clock, order, out))
    }

    /// Appends names of addresses.
    ///
    /// # Errors
    /// Writing pending data to the output fails.
    pub fn write_names(&mut self, names: &Names<'_>) -> Result<(), WriteError> {
        self.append(|order, out| encode_names(names, order, out))
    }

    /// Appends a block of another file unchanged. For a custom block, check
    /// [`RawBlock::is_not_to_be_copied`] first.
    ///
    /// # Errors
    /// The block has the other byte order, and only its owner could convert its numbers; or writing
    /// pending data to the output fails.
    pub fn write_block(&mut self, block: &RawBlock<'_>) -> Result<(), WriteError> {
        let (expected, found) = (self.byte_order, block.byte_order());
        if expected != found {
            return Err(WriteErrorKind::ByteOrder { expected, found }.into());
        }
        self.append(|_, out| out.extend_from_slice(block.bytes()))
    }

    writer_methods!(PcapngBatch);

    /// Copies one packet with the options of its block in another file, which include its flags.
    ///
    /// # Errors
    /// The same as [`PcapngBatch::push`].
    pub fn write_packet_with_options(
        &mut self,
        packet: &Packet<'_>,
        options: &Options<'_>,
    ) -> Result<(), WriteError> {
        let mut batch = self.batch();
        batch.push_with_options(packet, options)?;
        batch.keep()
    }

    fn framing(&self) -> Blocks {
        Blocks(self.byte_order)
    }

    /// Returns the index after the last interface.
    fn end(&self) -> u32 {
        self.table.first().saturating_add(self.table.len())
    }

    /// Stages a block that is not a packet.
    fn append(&mut self, encode: impl FnOnce(ByteOrder, &mut Vec<u8>)) -> Result<(), WriteError> {
        let framing = self.framing();
        self.output.reserve(0, &mut Pieces::new(), &framing)?;
        encode(self.byte_order, self.output.staging());
        Ok(())
    }

    /// Returns the number of an interface in the section.
    #[inline]
    fn local(&self, interface: u32) -> Result<u32, WriteError> {
        match interface.checked_sub(self.table.first()) {
            Some(local) if local < self.table.len() => Ok(local),
            _ => Err(self.unknown(interface)),
        }
    }

    #[cold]
    fn unknown(&self, interface: u32) -> WriteError {
        WriteErrorKind::UnknownInterface {
            interface,
            first: self.table.first(),
            end: self.end(),
        }
        .into()
    }
}

/// Finds the blocks of pcapng.
struct Blocks(ByteOrder);

impl Framing for Blocks {
    fn record(&self, start: &[u8]) -> Option<(u64, bool)> {
        let block_type = self.0.u32_at(start, 0)?;
        let length = self.0.u32_at(start, 4)?;
        if !is_block(length) {
            return None;
        }
        let is_packet = matches!(
            block_type,
            block_type::ENHANCED_PACKET | block_type::SIMPLE_PACKET | block_type::PACKET
        );
        Some((u64::from(length), is_packet))
    }
}

/// Finds the blocks of pcapng in bytes that may be damaged.
struct SoundBlocks(ByteOrder);

impl Framing for SoundBlocks {
    fn record(&self, start: &[u8]) -> Option<(u64, bool)> {
        let (length, is_packet) = Blocks(self.0).record(start)?;
        let trailer = usize::try_from(length).ok()?.checked_sub(4)?;
        let repeated = self.0.u32_at(start, trailer).map(u64::from);
        (repeated == Some(length)).then_some((length, is_packet))
    }
}

/// Returns whether a block may have this length.
fn is_block(length: u32) -> bool {
    length as usize >= MIN_BLOCK && length.is_multiple_of(4)
}

/// Returns the bytes of the complete blocks in a part of a pcapng file that begins with a block,
/// and the number of packets among them. Blocks are complete if they have their length at both ends: after a power
/// cut a file may end with zeros.
#[must_use]
pub fn whole_blocks(bytes: &[u8], byte_order: ByteOrder) -> (u64, u64) {
    whole(bytes, &SoundBlocks(byte_order))
}

/// The contents of complete blocks, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSummary {
    /// The number of packets.
    pub packets: u64,
    /// The earliest and the latest time. `None` if no packet has a known time.
    pub times: Option<(Timestamp, Timestamp)>,
    /// Whether there are blocks that readers need for the packets after them: sections, interfaces, names.
    pub describes: bool,
}

/// Returns the contents of a part of a pcapng file that consists of complete blocks, with the interfaces of
/// its section.
#[must_use]
pub fn summarize_blocks(
    bytes: &[u8],
    byte_order: ByteOrder,
    interfaces: &InterfaceTable,
) -> BlockSummary {
    let mut summary = BlockSummary::default();
    let mut rest = bytes;
    while let (Some(kind), Some(length)) = (byte_order.u32_at(rest, 0), byte_order.u32_at(rest, 4))
    {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length < MIN_BLOCK || length > rest.len() {
            break;
        }
        match kind {
            block_type::ENHANCED_PACKET => {
                summary.packets += 1;
                if let Some(time) = time_of(rest, byte_order, interfaces) {
                    let (first, last) = summary.times.unwrap_or((time, time));
                    summary.times = Some((first.min(time), last.max(time)));
                }
            }
            block_type::STATISTICS => {}
            _ => summary.describes = true,
        }
        rest = &rest[length..];
    }
    summary
}

/// The type and both lengths of a block.
const MIN_BLOCK: usize = 12;

/// Returns the time of an enhanced packet block.
fn time_of(block: &[u8], order: ByteOrder, interfaces: &InterfaceTable) -> Option<Timestamp> {
    let clock = interfaces.clock(order.u32_at(block, 8)?)?;
    let (high, low) = (order.u32_at(block, 12)?, order.u32_at(block, 16)?);
    Some(clock.timestamp(u64::from(high) << 32 | u64::from(low)))
}

/// Packets that are written together. If it is dropped without [`PcapngBatch::commit`], the packets
/// are discarded, except those already written to make room.
pub struct PcapngBatch<'w, 'd, W: Write> {
    writer: &'w mut PcapngWriter<W>,
    pieces: Pieces<'d>,
    mark: Mark,
}

impl<'d, W: Write> PcapngBatch<'_, 'd, W> {
    /// Adds a packet with its flags and its process, cut at its interface's snaplen.
    ///
    /// # Errors
    /// The section does not describe the packet's interface, or writing pending packets to the
    /// output fails.
    #[inline]
    pub fn push(&mut self, packet: &Packet<'d>) -> Result<(), WriteError> {
        if packet.process.is_some() {
            return self.push_with_process(packet);
        }
        if packet.flags == PacketFlags::default() {
            return self.push_block(packet, 0, |_, _| ());
        }
        let flags = packet.flags.0;
        self.push_block(packet, FLAGS_OPTION, |order, out| {
            encode(code::EPB_FLAGS, &order.of_u32(flags), order, out);
            out.extend_from_slice(&[0; 4]);
        })
    }

    fn push_with_process(&mut self, packet: &Packet<'d>) -> Result<(), WriteError> {
        let (flags, process) = (packet.flags.0, packet.process);
        self.push_block(
            packet,
            FLAGS_OPTION + process::OPTIONS_ROOM,
            |order, out| {
                if flags != 0 {
                    encode(code::EPB_FLAGS, &order.of_u32(flags), order, out);
                }
                if let Some(process) = &process {
                    process::encode_options(process, order, out);
                }
                out.extend_from_slice(&[0; 4]);
            },
        )
    }

    /// Adds a packet with the options of its block in another file, which include its flags.
    ///
    /// # Errors
    /// The same as [`PcapngBatch::push`].
    pub fn push_with_options(
        &mut self,
        packet: &Packet<'d>,
        options: &Options<'_>,
    ) -> Result<(), WriteError> {
        if options.is_empty() {
            return self.push(packet);
        }
        self.push_block(packet, options.encoded().len(), |order, out| {
            let start = out.len();
            for option in options {
                encode_packet_option(option, options.byte_order(), order, out);
            }
            encode_end(start, out);
        })
    }

    #[inline]
    fn push_block(
        &mut self,
        packet: &Packet<'d>,
        options_room: usize,
        options: impl FnOnce(ByteOrder, &mut Vec<u8>),
    ) -> Result<(), WriteError> {
        let interface = self.writer.local(packet.interface)?;
        let order = self.writer.byte_order;
        let blocks = Blocks(order);
        let (Some(clock), Some(max)) = (
            self.writer.table.clock(interface),
            self.writer.table.max_caplen(interface),
        ) else {
            return Err(self.writer.unknown(packet.interface));
        };
        let data = packet.data.get(..max as usize).unwrap_or(packet.data);
        let large = data.len() >= LARGE;
        let staged = if large { 0 } else { data.len() };
        let room = EPB_FIXED + staged + 4 + options_room + TRAILER;
        let output = &mut self.writer.output;
        output.reserve(room, &mut self.pieces, &blocks)?;

        let ticks = clock.ticks(packet.timestamp);
        if !packet.timestamp.is_valid() {
            output.alter_time();
        }
        let staging = output.staging();
        let start = staging.len();
        let header = encode_head(interface, ticks, data.len(), packet.len, order);
        staging.extend_from_slice(&header);
        if large {
            output.refer(data, &mut self.pieces);
        } else {
            staging.extend_from_slice(data);
        }
        let staging = output.staging();
        let padding = data.len().next_multiple_of(4) - data.len();
        staging.extend_from_slice(&[0; 3][..padding]);
        options(order, staging);
        let total = staging.len() - start + (data.len() - staged) + TRAILER;
        let total = order.of_u32(u32::try_from(total).unwrap_or(u32::MAX));
        staging[start + 4..start + 8].copy_from_slice(&total);
        staging.extend_from_slice(&total);
        output.count(1);
        Ok(())
    }

    /// Adds all packets of a run: as one piece if its blocks are valid in this section unchanged,
    /// otherwise one by one, with their options.
    ///
    /// # Errors
    /// The same as [`PcapngBatch::push`].
    pub fn push_run(&mut self, run: &PacketRun<'d>) -> Result<(), WriteError> {
        match run.encoding() {
            Encoding::Pcapng(encoding) if self.takes(&encoding) => {
                let blocks = self.writer.framing();
                let output = &mut self.writer.output;
                output.reserve(0, &mut self.pieces, &blocks)?;
                output.refer(run.bytes(), &mut self.pieces);
                output.count(run.len() as u64);
                Ok(())
            }
            Encoding::Pcapng(_) => run
                .packets_with_options()
                .try_for_each(|(packet, options)| self.push_with_options(&packet, &options)),
            Encoding::Pcap(_) => run.packets().try_for_each(|packet| self.push(&packet)),
        }
    }

    fn takes(&self, encoding: &PcapngEncoding<'_>) -> bool {
        encoding.byte_order == self.writer.byte_order
            && encoding.interfaces.is_prefix_of(&self.writer.table)
    }

    batch_methods!();
}

impl<W: Write> Drop for PcapngBatch<'_, '_, W> {
    fn drop(&mut self) {
        self.writer.output.undo(self.mark);
    }
}

/// Encodes the fixed part of an enhanced packet block, except its total length.
#[inline]
fn encode_head(
    interface: u32,
    ticks: u64,
    caplen: usize,
    len: u32,
    order: ByteOrder,
) -> [u8; EPB_FIXED] {
    let mut head = [0; EPB_FIXED];
    let caplen = u32::try_from(caplen).unwrap_or(u32::MAX);
    head[..4].copy_from_slice(&order.of_u32(block_type::ENHANCED_PACKET));
    head[8..12].copy_from_slice(&order.of_u32(interface));
    head[12..20].copy_from_slice(&split_ticks(ticks, order));
    head[20..24].copy_from_slice(&order.of_u32(caplen));
    head[24..].copy_from_slice(&order.of_u32(len));
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block without content.
    const EMPTY: [u8; 12] = [9, 0, 0, 0, 12, 0, 0, 0, 12, 0, 0, 0];

    #[test]
    fn whole_blocks_end_before_damage() {
        for (rest, reason) in [
            (&[0; 64][..], "zeros after a power cut"),
            (
                &[9, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0],
                "shorter than a block",
            ),
            (
                &[9, 0, 0, 0, 13, 0, 0, 0, 0, 13, 0, 0, 0],
                "not a multiple of four",
            ),
            (
                &[9, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0],
                "no length at its end",
            ),
            (&[9, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4], "cut"),
            (&[], "nothing"),
        ] {
            let bytes = [&EMPTY[..], &EMPTY, rest].concat();
            let (whole, packets) = whole_blocks(&bytes, ByteOrder::Little);
            assert_eq!((whole, packets), (24, 0), "{reason}");
        }
    }
}
