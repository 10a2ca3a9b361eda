//! Why packets cannot be written, and what is in the file all the same.

use std::io;

use crate::{ByteOrder, LinkType};

/// Packets that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0)]
pub struct WriteError(Box<WriteErrorKind>);

impl WriteError {
    /// What went wrong.
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

/// What is intact. Of compressed files only packets are known.
fn kept(packets: u64, bytes: u64) -> String {
    let of = counted(packets, "packet");
    match (packets, bytes) {
        (0, _) | (_, 1..) => format!("{of}, {} are intact", counted(bytes, "byte")),
        (1, 0) => format!("{of} is intact"),
        (_, 0) => format!("{of} are intact"),
    }
}

/// What went wrong in a [`WriteError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// The output took no more. What it took before is a whole capture file up to `intact`.
    #[error("cannot write: {source} ({})", kept(*packets, *intact))]
    Output {
        /// What the output said.
        r#source: io::Error,
        /// Bytes that the output took, over all.
        written: u64,
        /// Bytes of them that end with a whole record or block.
        intact: u64,
        /// Packets in them.
        packets: u64,
    },
    /// An earlier call failed, maybe within a record: nothing can be appended.
    #[error("the output failed before")]
    FailedBefore,
    /// A pcap file holds packets of one link type.
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
    /// A packet or counters of an interface that the section does not describe.
    #[error("interface {interface} is not described: the section has {first}..{end}")]
    UnknownInterface {
        /// The interface, counted over all sections.
        interface: u32,
        /// The section's first interface.
        first: u32,
        /// One more than the section's last interface.
        end: u32,
    },
    /// A raw block whose numbers are in the other byte order than the section's.
    #[error("a raw {found:?}-endian block cannot be put into a {expected:?}-endian section")]
    ByteOrder {
        /// The section's byte order.
        expected: ByteOrder,
        /// The block's byte order.
        found: ByteOrder,
    },
}
