//! Reads pcapng: blocks one by one, but packet blocks in runs.

use std::sync::Arc;

use crate::encoding::Visitor;
use crate::encoding::{Encoding, PcapngEncoding};
use crate::pcapng::{
    BLOCK_HEADER, InterfaceTable, MAGIC_BYTES, Names, RawBlock, SECTION_MIN, Section, Statistics,
    Stop, TRAILER, block_type, check_length, parse_interface, section_byte_order, walk,
    walk_giving,
};
use crate::read::walker::Walker;
use crate::read::{Filled, Found, Item, Source};
use crate::read_error::{ReadError, ReadErrorKind, Structure};
use crate::{ByteOrder, Interface, Limits};

const SECTION: Structure = Structure::Block(block_type::SECTION);

pub(super) struct PcapngReader {
    limits: Limits,
    pub(super) section: Section,
    /// Interfaces of the section; shared with the threads that walk over its packets.
    table: Arc<InterfaceTable>,
    /// Most bytes of a block, for the link types seen so far.
    max_block: usize,
    /// Bytes of interface and section blocks so far.
    metadata: usize,
    /// Whether the first section was delivered as an item.
    described: bool,
}

impl PcapngReader {
    pub(super) fn open(source: &mut Source, limits: &Limits) -> Result<Self, ReadError> {
        source.require(MAGIC_BYTES, SECTION)?;
        let section = read_section(source, limits, true)?;
        Ok(Self {
            limits: limits.clone(),
            section,
            table: Arc::default(),
            max_block: limits.block,
            metadata: 0,
            described: false,
        })
    }

    pub(super) fn encoding(&self) -> PcapngEncoding<'_> {
        PcapngEncoding {
            byte_order: self.section.byte_order,
            interfaces: &self.table,
        }
    }

    fn walker(&self) -> Walker {
        Walker::Pcapng {
            byte_order: self.section.byte_order,
            interfaces: Arc::clone(&self.table),
            max_block: self.max_block,
        }
    }

    /// Returns the item for a block that is neither packet, section nor interface.
    pub(super) fn item<'a>(&self, block: RawBlock<'a>) -> Item<'a> {
        match block.block_type() {
            block_type::NAMES => Item::Names(Names { block }),
            block_type::STATISTICS => {
                Statistics::parse(block, &self.table).map_or(Item::Other(block), Item::Statistics)
            }
            _ => Item::Other(block),
        }
    }

    /// Passes packets of a mapped file to the visitor; returns their number.
    #[inline]
    pub(super) fn visit(&self, source: &mut Source, visitor: &mut impl Visitor) -> usize {
        while let Some(bytes) = source.buffer.mapped_bytes() {
            let Some(walk) = walk_giving(bytes, self.encoding(), self.max_block, visitor) else {
                break;
            };
            if walk.packets > 0 {
                source.take(walk.used);
                return walk.packets;
            }
            match walk.stop {
                Stop::Header if source.look_on(BLOCK_HEADER) => {}
                Stop::Block { need, .. } if source.look_on(need) => {}
                _ => break,
            }
        }
        0
    }

    pub(super) fn next(
        &mut self,
        source: &mut Source,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Option<Found>, ReadError> {
        if !self.described {
            self.described = true;
            return Ok(Some(Found::Section));
        }
        loop {
            if let Some(found) = source.walked_ahead() {
                return Ok(Some(found));
            }
            let order = self.section.byte_order;
            let (bytes, starts) = source.walkable();
            let walk = walk(bytes, order, &self.table, self.max_block, starts);
            if walk.packets > 0 {
                let encoding = Encoding::Pcapng(self.encoding());
                return Ok(Some(source.found(&walk, encoding)));
            }
            match walk.stop {
                Stop::Damaged(kind) => return Err(source.error(kind)),
                Stop::Other => return self.other(source, interfaces).map(Some),
                Stop::Header => {
                    if source.fill(BLOCK_HEADER, Some(self.walker()))? == Filled::End {
                        return end(source, interfaces.is_empty());
                    }
                }
                Stop::Block { need, block_type } => {
                    if source.fill(need, Some(self.walker()))? == Filled::End {
                        return Err(source.truncated(Structure::Block(block_type), need, 0));
                    }
                }
            }
        }
    }

    /// Takes a block that is not a packet, after its type and length were read.
    fn other(
        &mut self,
        source: &mut Source,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Found, ReadError> {
        let order = self.section.byte_order;
        let bytes = source.buffer.bytes();
        let block_type = order.u32_at(bytes, 0).unwrap_or(0);
        if block_type == block_type::SECTION {
            return self.start_section(source, interfaces.len());
        }
        let length = order.u32_at(bytes, 4).unwrap_or(0);
        let length =
            check_length(block_type, length, self.max_block).map_err(|kind| source.error(kind))?;
        source.require(length, Structure::Block(block_type))?;
        check_trailer(source, block_type, length, order)?;
        if block_type == block_type::INTERFACE {
            return self.describe_interface(source, length, interfaces);
        }
        let taken = source.take(length);
        Ok(Found::Block { taken, block_type })
    }

    fn start_section(&mut self, source: &mut Source, known: usize) -> Result<Found, ReadError> {
        let before = source.buffer.offset();
        self.section = read_section(source, &self.limits, false)?;
        let length = source.buffer.offset() - before;
        self.count_metadata(source, usize::try_from(length).unwrap_or(usize::MAX))?;
        Arc::make_mut(&mut self.table).start_section(u32::try_from(known).unwrap_or(u32::MAX));
        Ok(Found::Section)
    }

    fn describe_interface(
        &mut self,
        source: &mut Source,
        length: usize,
        interfaces: &mut Vec<Interface>,
    ) -> Result<Found, ReadError> {
        let block = &source.buffer.bytes()[..length];
        let interface =
            parse_interface(block, self.section.byte_order).map_err(|kind| source.error(kind))?;
        let max = self.limits.interfaces;
        if interfaces.len() >= max {
            return Err(source.error(ReadErrorKind::TooManyInterfaces { max }));
        }
        self.count_metadata(source, length)?;
        self.max_block = self
            .max_block
            .max(self.limits.max_block(interface.link_type));
        let max_caplen = match interface.snaplen {
            0 => self.limits.max_caplen(interface.link_type),
            _ => interface.effective_snaplen(),
        };
        Arc::make_mut(&mut self.table).push(&interface, max_caplen);
        let index = u32::try_from(interfaces.len()).unwrap_or(u32::MAX);
        interfaces.push(interface);
        source.take(length);
        Ok(Found::Interface(index))
    }

    fn count_metadata(&mut self, source: &Source, length: usize) -> Result<(), ReadError> {
        self.metadata = self.metadata.saturating_add(length);
        let max = self.limits.metadata;
        if self.metadata > max {
            return Err(source.error(ReadErrorKind::TooMuchMetadata { max }));
        }
        Ok(())
    }
}

/// Reads a section header block.
///
/// Its length has the byte order that the block itself states. libpcap does not check the length at
/// the end of a file's first block, so a wrong one is accepted here too.
fn read_section(source: &mut Source, limits: &Limits, first: bool) -> Result<Section, ReadError> {
    source.require(MAGIC_BYTES, SECTION)?;
    let start = source.buffer.bytes();
    let order = section_byte_order(start).map_err(|kind| source.error(kind))?;
    let stated = order.u32_at(start, 4).unwrap_or(0);
    let length = check_length(block_type::SECTION, stated, limits.section_header)
        .map_err(|kind| source.error(kind))?;
    if length < SECTION_MIN {
        return Err(source.error(ReadErrorKind::BlockTooShort {
            structure: SECTION,
            length: stated,
            min: u32::try_from(SECTION_MIN).unwrap_or(u32::MAX),
        }));
    }
    source.require(length, SECTION)?;
    if !first {
        check_trailer(source, block_type::SECTION, length, order)?;
    }
    let section = Section::parse(&source.buffer.bytes()[..length], order, first)
        .map_err(|kind| source.error(kind))?;
    source.take(length);
    Ok(section)
}

fn check_trailer(
    source: &Source,
    block_type: u32,
    length: usize,
    order: ByteOrder,
) -> Result<(), ReadError> {
    let stated = u32::try_from(length).unwrap_or(u32::MAX);
    let trailer = order.u32_at(source.buffer.bytes(), length - TRAILER);
    if trailer == Some(stated) {
        return Ok(());
    }
    Err(source.error(ReadErrorKind::TrailerMismatch {
        structure: Structure::Block(block_type),
        length: stated,
        trailer: trailer.unwrap_or(0),
    }))
}

/// Handles the end of the stream where a block should begin.
fn end(source: &Source, without_interface: bool) -> Result<Option<Found>, ReadError> {
    if !source.buffer.bytes().is_empty() {
        return Err(source.truncated(Structure::BlockHeader, BLOCK_HEADER, 0));
    }
    if without_interface {
        return Err(source.error(ReadErrorKind::NoInterface));
    }
    Ok(None)
}
