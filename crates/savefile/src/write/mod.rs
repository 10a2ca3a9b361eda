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
pub use pcapng::{PcapngBatch, PcapngWriter, whole_blocks};

/// What was handed to an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Packets.
    pub packets: u64,
    /// Bytes, with all headers.
    pub bytes: u64,
    /// Packets whose invalid time ([`crate::Timestamp::is_valid`]) has no place in the file as it was
    /// stored, and was written as what it adds up to.
    pub altered_times: u64,
}
