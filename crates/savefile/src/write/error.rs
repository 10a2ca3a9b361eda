//! The reasons why packets cannot be written, and how much of the file is intact.

use std::io;

use crate::{ByteOrder, LinkType};

/// An error of writing packets.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0)]
pub struct WriteError(Box<WriteErrorKind>);

impl WriteError {
    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &WriteErrorKind {
        &self.0
    }
}

impl From<WriteErrorKind> for WriteError {
    #[cold]
    fn from(kind: WriteErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

fn counted(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// Describes the intact part of the file. For compressed files only the packets are known.
fn kept(packets: u64, bytes: u64) -> String {
    let of = counted(packets, "packet");
    match (packets, bytes) {
        (0, _) | (_, 1..) => format!("{of}, {} are intact", counted(bytes, "byte")),
        (1, 0) => format!("{of} is intact"),
        (_, 0) => format!("{of} are intact"),
    }
}

/// The reason of a [`WriteError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// Writing to the output failed. The bytes before `intact` are a complete capture file.
    #[error("cannot write: {source} ({})", kept(*packets, *intact))]
    Output {
        /// The output's error.
        r#source: io::Error,
        /// Number of bytes written to the output.
        written: u64,
        /// Number of these bytes that are complete records or blocks.
        intact: u64,
        /// Number of packets in the intact bytes.
        packets: u64,
    },
    /// An earlier call failed, possibly within a record: nothing can be appended.
    #[error("an earlier write to the output failed")]
    FailedBefore,
    /// A pcap file holds packets of only one link type.
    #[error(
        "a pcap file of link type {expected} cannot hold a packet of link type {found} \
         (interface {interface}); pcapng can"
    )]
    LinkType {
        /// The file's link type.
        expected: LinkType,
        /// The packet's link type.
        found: LinkType,
        /// The packet's interface.
        interface: u32,
    },
    /// The section does not describe the interface of a packet or of counters.
    #[error("interface {interface} is not described: the section has {first}..{end}")]
    UnknownInterface {
        /// The interface, counted over all sections.
        interface: u32,
        /// The section's first interface.
        first: u32,
        /// The index after the section's last interface.
        end: u32,
    },
    /// A raw block has another byte order than the section.
    #[error("a raw {found:?}-endian block cannot be put into a {expected:?}-endian section")]
    ByteOrder {
        /// The section's byte order.
        expected: ByteOrder,
        /// The block's byte order.
        found: ByteOrder,
    },
}
