#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod byte_order;
mod codec;
mod encoding;
mod fetch;
mod filtered;
mod format;
pub mod index;
mod interface;
mod limits;
mod pcap;
pub mod pcapng;
mod read;
mod read_error;
mod resolution;
mod run;
mod write;

pub use byte_order::ByteOrder;
pub use codec::{Codec, CodecError, Compression, Compressor};
pub use encoding::{Encoding, LengthOrder, PcapEncoding, PcapngEncoding, Visitor};
pub use filtered::{Filtered, FilteredPackets, PacketFilter, Records};
pub use format::Format;
pub use interface::{CaptureFilter, Interface};
pub use limits::{Limits, ReadOptions};
pub use pcapng::{
    InterfaceStatistics, InterfaceTable, NameRecord, Names, Options, ProcessBlock, RawBlock,
    RawOption, RawOptions, Section, Statistics,
};
pub use read::{Item, MapFile, Mapped, Reader, decompressed_start};
pub use read_error::{CaplenBound, ReadError, ReadErrorKind, Structure};
pub use resolution::Resolution;
pub use ringtap_packet::{LinkType, MAX_SNAPLEN, Packet, PacketFlags, Timestamp};
pub use run::{PacketRun, Packets, RunTotals};
pub use write::{
    BlockSummary, PcapBatch, PcapOptions, PcapWriter, PcapngBatch, PcapngWriter, Totals,
    WriteError, WriteErrorKind, summarize_blocks, whole_blocks, whole_records,
};
