#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod byte_order;
mod codec;
mod fetch;
mod filtered;
pub mod index;
mod interface;
mod limits;
mod pcap;
pub mod pcapng;
mod read;
mod resolution;
mod run;
mod write;

pub use byte_order::ByteOrder;
pub use codec::{Codec, CodecError, Compression, Compressor};
pub use filtered::{Filtered, FilteredPackets, PacketFilter, Records};
pub use interface::{CaptureFilter, Interface};
pub use limits::{Limits, ReadOptions};
pub use pcapng::{
    InterfaceStatistics, InterfaceTable, NameRecord, Names, Options, RawBlock, RawOption,
    RawOptions, Section, Statistics,
};
pub use read::{
    CaplenBound, Format, Item, MapFile, Mapped, ReadError, ReadErrorKind, Reader, Structure,
    Visitor, decompressed_start,
};
pub use resolution::Resolution;
pub use ringtap_packet::{LinkType, MAX_SNAPLEN, Packet, PacketFlags, Timestamp};
pub use run::{Encoding, LengthOrder, PacketRun, Packets, PcapEncoding, PcapngEncoding, RunTotals};
pub use write::{
    PcapBatch, PcapOptions, PcapWriter, PcapngBatch, PcapngWriter, Totals, WriteError,
    WriteErrorKind, whole_blocks, whole_records,
};
