//! The pcapng format (draft-ietf-opsawg-pcapng): blocks, their options, sections and interfaces.

mod block;
pub(crate) mod block_type;
mod interface;
mod interface_table;
mod names;
mod options;
mod packets;
pub(crate) mod process;
mod section;
mod statistics;

pub use block::RawBlock;
pub use interface_table::InterfaceTable;
pub use names::{NameRecord, NameRecords, Names};
pub use options::{DROP_ENTERPRISE, DROP_OPTION, Options, OptionsIter, RawOption, RawOptions};
pub use process::ProcessBlock;
pub use section::Section;
pub use statistics::{InterfaceStatistics, Statistics};

pub(crate) use block::{FRAME, HEADER as BLOCK_HEADER, TRAILER, check_length};
pub(crate) use interface::{encode_interface, parse_interface};
pub(crate) use names::encode_names;
pub(crate) use options::{code, encode, encode_end, encode_packet_option};
pub(crate) use packets::{BlockPackets, EPB_FIXED, Stop, walk, walk_giving};
pub(crate) use section::{MAGIC_BYTES, SECTION_MIN, section_byte_order};
pub(crate) use statistics::split_ticks;
