//! The reason why a file cannot be read (any further), and the place.

use std::fmt;
use std::io;

use crate::LinkType;
use crate::codec::Compression;
use crate::format::Format;
use crate::pcapng::block_type::block_name;

/// The error of a file that cannot be read, or only up to an offset; every packet before it was delivered.
///
/// It contains the input's name, the offset in the uncompressed stream where the damaged structure begins,
/// and what was expected and found there.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0)]
pub struct ReadError(Box<Located>);

#[derive(Debug, thiserror::Error)]
#[error("{name}: {}{kind}", kind.place(*offset))]
struct Located {
    name: String,
    offset: u64,
    kind: ReadErrorKind,
}

impl ReadError {
    pub(crate) fn new(name: &str, offset: u64, kind: ReadErrorKind) -> Self {
        Self(Box::new(Located {
            name: name.to_owned(),
            offset,
            kind,
        }))
    }

    /// Returns the error of a file that could not be opened, for callers that open files
    /// themselves.
    #[must_use]
    pub fn unopened(name: &str, error: std::io::Error) -> Self {
        Self::new(name, 0, ReadErrorKind::Open(error))
    }

    /// Returns the input's name: a path, or the name given to [`crate::Reader::new`].
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the offset of the damaged structure, in bytes from the start of the uncompressed
    /// stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.0.offset
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &ReadErrorKind {
        &self.0.kind
    }
}

impl ReadErrorKind {
    /// Returns the place for a message; a file that was not opened has none.
    fn place(&self, offset: u64) -> String {
        match self {
            Self::Open(_) => String::new(),
            _ => format!("offset {offset}: "),
        }
    }
}

/// The reason of a [`ReadError`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// The file cannot be opened.
    #[error("cannot open: {0}")]
    Open(io::Error),
    /// The operating system (or the caller's reader) failed to deliver bytes.
    #[error("cannot read: {0}")]
    Read(io::Error),
    /// The compressed stream is damaged or ends early.
    #[error("cannot decompress the {compression} stream: {source}")]
    Decompress {
        /// The compression that was detected.
        compression: Compression,
        /// The decoder's error.
        r#source: io::Error,
    },
    /// The first bytes are not those of a known format.
    #[error(
        "neither a pcap nor a pcapng file: it begins with {:02x} {:02x} {:02x} {:02x}",
        magic[0], magic[1], magic[2], magic[3]
    )]
    UnknownFormat {
        /// The first four bytes.
        magic: [u8; 4],
    },
    /// An unknown version.
    #[error("{format} version {major}.{minor} is not supported; supported are {supported}")]
    Version {
        /// The format.
        format: Format,
        /// Major version found.
        major: u16,
        /// Minor version found.
        minor: u16,
        /// The versions that can be read.
        supported: &'static str,
    },
    /// A pcap link type beyond the 16 bits that link types have.
    #[error("link type {value} exceeds 65535, the largest that exists")]
    LinkTypeRange {
        /// The value found, without the upper bits for the frame check sequence.
        value: u32,
    },
    /// The file ends within a structure.
    #[error("the file ends within {structure}: {expected} bytes expected, {found} found")]
    Truncated {
        /// The structure that was read.
        structure: Structure,
        /// Bytes it should have.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A packet states more captured bytes than it may have.
    #[error("{structure} states {caplen} captured bytes, at most {max} are valid for {bound}")]
    CapturedLength {
        /// The structure that states it.
        structure: Structure,
        /// The length found, in bytes.
        caplen: u32,
        /// The bound, in bytes.
        max: u32,
        /// The origin of the bound.
        bound: CaplenBound,
    },
    /// A packet states more captured bytes than its block holds.
    #[error("{structure} states {caplen} captured bytes, but has room for {room}")]
    CapturedBeyondBlock {
        /// The structure that states it.
        structure: Structure,
        /// The length found, in bytes.
        caplen: u32,
        /// Bytes between the block's fixed part and its end.
        room: u32,
    },
    /// A block too short for its type.
    #[error("{structure} states a length of {length} bytes, at least {min} are required")]
    BlockTooShort {
        /// The block.
        structure: Structure,
        /// The total length found, in bytes.
        length: u32,
        /// The least that is valid, in bytes.
        min: u32,
    },
    /// A block longer than the limit.
    #[error("{structure} states a length of {length} bytes, at most {max} are accepted")]
    BlockTooLong {
        /// The block.
        structure: Structure,
        /// The total length found, in bytes.
        length: u32,
        /// The bound, in bytes.
        max: u64,
    },
    /// A block length that is not a multiple of 4.
    #[error("{structure} states a length of {length} bytes, which is not a multiple of 4")]
    BlockUnaligned {
        /// The block.
        structure: Structure,
        /// The total length found, in bytes.
        length: u32,
    },
    /// The two lengths of a block differ.
    #[error("{structure} states a length of {length} bytes at its start, {trailer} at its end")]
    TrailerMismatch {
        /// The block.
        structure: Structure,
        /// The length at the start, in bytes.
        length: u32,
        /// The length at the end, in bytes.
        trailer: u32,
    },
    /// A section header without the magic number of its byte order.
    #[error(
        "section header block holds the byte-order magic {:02x} {:02x} {:02x} {:02x}, \
         expected 1a 2b 3c 4d or its reverse",
        found[0], found[1], found[2], found[3]
    )]
    ByteOrderMagic {
        /// The four bytes found.
        found: [u8; 4],
    },
    /// A pcapng file without any interface description block.
    #[error("the file has no interface description block")]
    NoInterface,
    /// A packet of an interface that the section does not describe.
    #[error(
        "{structure} names interface {interface}, but the section has described {known} so far"
    )]
    UnknownInterface {
        /// The block.
        structure: Structure,
        /// The interface index found, in the section.
        interface: u32,
        /// The number of interfaces that the section has described.
        known: u32,
    },
    /// An option that extends beyond its block.
    #[error("option {code} states {length} bytes, but the block has {room} left")]
    OptionOverrun {
        /// The option's code.
        code: u16,
        /// The stated length, in bytes.
        length: u16,
        /// Bytes left in the block.
        room: u32,
    },
    /// An option with a length that is invalid for it.
    #[error("option {option} has {length} bytes, expected {expected}")]
    OptionLength {
        /// The option's name.
        option: &'static str,
        /// The length found, in bytes.
        length: u16,
        /// The only valid length, in bytes.
        expected: u16,
    },
    /// An option that must not be repeated.
    #[error("option {option} is given more than once")]
    OptionRepeated {
        /// The option's name.
        option: &'static str,
    },
    /// A timestamp unit whose second exceeds 64 bits.
    #[error(
        "option if_tsresol states {}^-{}, finest supported are 10^-19 and 2^-63",
        if value & 0x80 == 0 { 10 } else { 2 }, value & 0x7f
    )]
    TimestampResolution {
        /// The option's value.
        value: u8,
    },
    /// More interfaces than [`crate::Limits::interfaces`].
    #[error("more than {max} interfaces")]
    TooManyInterfaces {
        /// The bound.
        max: usize,
    },
    /// More bytes of interface and section blocks than [`crate::Limits::metadata`].
    #[error("more than {max} bytes of interface and section descriptions")]
    TooMuchMetadata {
        /// The bound, in bytes.
        max: usize,
    },
}

/// The structures of capture files, as errors name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Structure {
    /// The four magic bytes that identify the format.
    Magic,
    /// The header of a pcap file.
    FileHeader,
    /// The header of a pcap packet record.
    RecordHeader,
    /// The captured bytes of a pcap packet record.
    RecordData,
    /// Type and length of a pcapng block.
    BlockHeader,
    /// A pcapng block of that type.
    Block(u32),
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Magic => "the file's magic number",
            Self::FileHeader => "the file header",
            Self::RecordHeader => "the packet record header",
            Self::RecordData => "the packet record's data",
            Self::BlockHeader => "a block header",
            Self::Block(block_type) => {
                return match block_name(*block_type) {
                    Some(name) => write!(f, "the {name}"),
                    None => write!(f, "the block of type {block_type:#010x}"),
                };
            }
        };
        f.write_str(text)
    }
}

/// The origin of a limit on captured bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaplenBound {
    /// The link type's maximum, or [`crate::Limits::caplen`].
    LinkType(LinkType),
    /// The snaplen of the packet's interface.
    Snaplen,
}

impl fmt::Display for CaplenBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LinkType(link_type) => write!(f, "link type {link_type}"),
            Self::Snaplen => f.write_str("the interface's snaplen"),
        }
    }
}
