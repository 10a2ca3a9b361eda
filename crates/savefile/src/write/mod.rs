//! Writing: packets to pcap and pcapng, by large vectored writes.
//!
//! Packets are pushed into a batch, which commits them: small ones are copied into a staging
//! buffer, large ones and whole runs of the same encoding are written from where they are. Nothing
//! is allocated per packet or batch.

mod error;
mod output;
mod pcap;
mod pcapng;

pub use error::{WriteError, WriteErrorKind};
pub use pcap::{PcapBatch, PcapOptions, PcapWriter, whole_records};
pub use pcapng::{BlockSummary, PcapngBatch, PcapngWriter, summarize_blocks, whole_blocks};

/// Totals of the packets written to an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Bytes, with all headers.
    pub bytes: u64,
    /// Number of packets whose invalid time ([`crate::Timestamp::is_valid`]) the format cannot hold
    /// as it was stored; the equivalent valid time was written.
    pub altered_times: u64,
}
