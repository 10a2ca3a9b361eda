//! The pcapng format (draft-ietf-opsawg-pcapng): blocks, their options, sections and interfaces.

mod block;
mod interface;
mod names;
mod options;
mod packets;
mod section;
mod statistics;

use crate::read::{ReadErrorKind, Structure};

pub use block::RawBlock;
pub use names::{NameRecord, NameRecords, Names};
pub use options::{Options, OptionsIter, RawOption, RawOptions};
pub use packets::InterfaceTable;
pub use section::Section;
pub use statistics::{InterfaceStatistics, Statistics};

pub(crate) use block::{FRAME, HEADER as BLOCK_HEADER, TRAILER};
pub(crate) use interface::{encode_interface, parse_interface};
pub(crate) use names::encode_names;
pub(crate) use options::{code, encode, encode_end, encode_packet_option};
pub(crate) use packets::{BlockPackets, EPB_FIXED, Stop, walk, walk_giving};
pub(crate) use section::{MAGIC_BYTES, SECTION_MIN, section_byte_order};
pub(crate) use statistics::split_ticks;

/// Block types.
pub(crate) mod block_type {
    pub(crate) const INTERFACE: u32 = 1;
    pub(crate) const PACKET: u32 = 2;
    pub(crate) const SIMPLE_PACKET: u32 = 3;
    pub(crate) const NAMES: u32 = 4;
    pub(crate) const STATISTICS: u32 = 5;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
    pub(crate) const SECRETS: u32 = 10;
    pub(crate) const CUSTOM: u32 = 0x0bad;
    pub(crate) const CUSTOM_NO_COPY: u32 = 0x4000_0bad;
    pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
}

/// Returns the name of a block type.
pub(crate) fn block_name(block_type: u32) -> Option<&'static str> {
    Some(match block_type {
        block_type::INTERFACE => "interface description block",
        block_type::PACKET => "obsolete packet block",
        block_type::SIMPLE_PACKET => "simple packet block",
        block_type::NAMES => "name resolution block",
        block_type::STATISTICS => "interface statistics block",
        block_type::ENHANCED_PACKET => "enhanced packet block",
        block_type::SECRETS => "decryption secrets block",
        block_type::CUSTOM | block_type::CUSTOM_NO_COPY => "custom block",
        block_type::SECTION => "section header block",
        _ => return None,
    })
}

/// Checks the length of a block as far as possible without the block.
pub(crate) fn check_length(
    block_type: u32,
    length: u32,
    max: usize,
) -> Result<usize, ReadErrorKind> {
    let structure = Structure::Block(block_type);
    let bytes = length as usize;
    if bytes < FRAME {
        return Err(ReadErrorKind::BlockTooShort {
            structure,
            length,
            min: u32::try_from(FRAME).unwrap_or(u32::MAX),
        });
    }
    if !bytes.is_multiple_of(4) {
        return Err(ReadErrorKind::BlockUnaligned { structure, length });
    }
    if bytes > max {
        return Err(ReadErrorKind::BlockTooLong {
            structure,
            length,
            max: max as u64,
        });
    }
    Ok(bytes)
}
