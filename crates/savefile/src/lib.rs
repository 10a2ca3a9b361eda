//! Capture files: pcap and pcapng, read and written, compressed or not.
//!
//! What it is: bytes in, [`Packet`]s out ([`Reader`]) and packets in, bytes out ([`PcapWriter`],
//! [`PcapngWriter`]). What it is not: it opens no socket, knows no filter language and decodes no
//! protocol.
//!
//! Data in: anything that implements [`std::io::Read`]. Data out: a [`PacketRun`], a validated stretch
//! of consecutive packet records that are handed out in place, without a copy; or, from a reader
//! that was given a [`PacketFilter`], the [`Filtered`] ones.
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
pub use pcap::UsualRecords;
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
pub use run::{
    BareBlocks, BarePackets, Encoding, LengthOrder, PacketRun, Packets, PcapEncoding,
    PcapngEncoding, RunTotals,
};
pub use write::{
    PcapBatch, PcapOptions, PcapWriter, PcapngBatch, PcapngWriter, Totals, WriteError,
    WriteErrorKind, whole_blocks, whole_records,
};
