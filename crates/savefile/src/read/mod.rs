//! Reading: a stream of bytes to items, the most frequent of which are runs of packets.

mod ahead;
mod buffer;
mod choose;
mod error;
mod input;
mod mapped;
mod pcap;
mod pcapng;
mod skipping;
mod walker;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

pub use error::{CaplenBound, ReadError, ReadErrorKind, Structure};
pub use input::decompressed_start;
pub use mapped::{MapFile, Mapped};

use crate::codec::{Compression, MAGIC_LEN};
use crate::filtered::{Filtered, PacketFilter};
use crate::index::{SeekPoint, Skips};
use crate::pcapng::{Names, RawBlock, Section, Statistics, block_type};
use crate::run::Walk;
use crate::{ByteOrder, Encoding, Interface, Packet, PacketRun, ReadOptions};
use ahead::Walked;
use buffer::{Buffer, Filled};
use choose::Scratch;
use input::Input;
use pcap::PcapReader;
use pcapng::PcapngReader;
use walker::Walker;

/// The format of a capture file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// pcap: one link type, packet records.
    Pcap,
    /// pcapng: sections, interfaces and blocks.
    Pcapng,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
        })
    }
}

/// What takes packets one by one.
///
/// Not a closure, since only a function can be made a part of each loop that calls it.
pub trait Visitor {
    /// Takes the next packet.
    fn packet(&mut self, packet: &Packet<'_>);
}

/// What a file consists of, in the file's order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// Consecutive packets, at least one.
    Run(PacketRun<'a>),
    /// What the filter chose from consecutive packets, in the place of a run where
    /// [`Reader::set_filter`] was called.
    Filtered(Filtered<'a>),
    /// A section begins: the interfaces that follow are its own.
    Section(&'a Section),
    /// An interface was described: its index in [`Reader::interfaces`]. A pcap file has one, which
    /// comes first.
    Interface(u32),
    /// Names of addresses.
    Names(Names<'a>),
    /// Counters of an interface.
    Statistics(Statistics<'a>),
    /// A block that is passed on as it is: custom, decryption secrets, unknown, or statistics that
    /// are damaged.
    Other(RawBlock<'a>),
}

/// Reads a capture file, pcap or pcapng, compressed or not.
///
/// ```
/// use ringtap_savefile::{Item, ReadOptions, Reader};
///
/// # fn main() -> Result<(), ringtap_savefile::ReadError> {
/// let file = [
///     &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0][..],
///     &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 60, 0, 0, 0, 0xaa, 0xbb, 0xcc],
/// ]
/// .concat();
/// let mut reader = Reader::new(Box::new(std::io::Cursor::new(file)), "memory", &ReadOptions::default())?;
/// let mut packets = 0;
/// while let Some(item) = reader.next()? {
///     if let Item::Run(run) = item {
///         for packet in run.packets() {
///             assert_eq!(packet.data, [0xaa, 0xbb, 0xcc]);
///             assert_eq!(packet.timestamp.subsec_nanos(), 2000);
///             packets += 1;
///         }
///     }
/// }
/// assert_eq!(packets, 1);
/// # Ok(())
/// # }
/// ```
pub struct Reader {
    source: Source,
    format: FormatReader,
    interfaces: Vec<Interface>,
    /// An error was given, or the end of the file: there is nothing more.
    ended: bool,
}

/// The bytes of the file and their name.
struct Source {
    name: String,
    input: Input,
    buffer: Buffer,
    /// Bytes of a stretch, where the file is read ahead.
    stretch: usize,
    /// Whether the format is known, so that the file may be read ahead.
    past_header: bool,
    filter: Option<Arc<dyn PacketFilter>>,
    scratch: Scratch,
    /// The packets at the start of the buffer, where they were found when they were read ahead.
    walked: Option<Walked>,
    /// What is left out of the file, if anything is.
    skips: Option<Arc<Skips>>,
    map: Option<MapFile>,
}

/// Least bytes of a stretch that is read ahead.
const MIN_STRETCH: usize = 64 * 1024;

enum FormatReader {
    Pcap(PcapReader),
    Pcapng(Box<PcapngReader>),
}

/// An item of which only the place is known, while the reader is still borrowed mutably.
enum Found {
    Interface(u32),
    Section,
    /// Packets, in the bytes that were consumed.
    Packets {
        taken: Taken,
        packets: usize,
        max_caplen: u32,
        /// Whether the filter has chosen from them.
        filtered: bool,
    },
    /// A block of that type, in the bytes that were consumed.
    Block {
        taken: Taken,
        block_type: u32,
    },
}

/// Bytes that were consumed: their place in the buffer, and their offset in the stream.
#[derive(Clone, Copy)]
struct Taken {
    range: (usize, usize),
    offset: u64,
}

impl Reader {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// A file that cannot be opened or read, that is in no known format or version, or ends within
    /// its header.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| ReadError::new(&name, 0, ReadErrorKind::Open(error)))?;
        Self::from_file(file, &name, options)
    }

    /// Reads the header of a file that the caller has opened, from where it stands, and which errors
    /// call `name`.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn from_file(file: File, name: &str, options: &ReadOptions) -> Result<Self, ReadError> {
        let input = Input::open(file, options);
        Self::start(input, name, options, None)
    }

    /// As [`Reader::from_file`] for a regular file, from its beginning, without the stretches that are
    /// to be skipped. Each of them must be whole packet records; offsets are still those in the whole
    /// file. A compressed file is read as if it were not.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn skipping(
        file: File,
        name: &str,
        options: &ReadOptions,
        skips: Skips,
    ) -> Result<Self, ReadError> {
        let skips = Arc::new(skips);
        let input = skipping::open(file, &skips).and_then(Input::new);
        Self::start(input, name, options, Some(skips))
    }

    /// Reads the file's header from a stream, which errors call `name`.
    ///
    /// The stream is read in pieces as large as the buffer; what a pipe has is handed out without
    /// waiting for more than one whole record.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub fn new(
        raw: Box<dyn Read + Send>,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Self, ReadError> {
        Self::start(Input::new(raw), name, options, None)
    }

    fn start(
        input: io::Result<Input>,
        name: &str,
        options: &ReadOptions,
        skips: Option<Arc<Skips>>,
    ) -> Result<Self, ReadError> {
        let input = input.map_err(|error| ReadError::new(name, 0, ReadErrorKind::Read(error)))?;
        let mut source = Source {
            name: name.to_owned(),
            input,
            buffer: Buffer::new(options.buffer),
            stretch: options.buffer.max(MIN_STRETCH),
            past_header: false,
            filter: None,
            scratch: Scratch::default(),
            walked: None,
            skips,
            map: options.map,
        };
        source.require(MAGIC_LEN, Structure::Magic)?;
        let magic = source
            .buffer
            .bytes()
            .first_chunk()
            .copied()
            .unwrap_or_default();
        let mut interfaces = Vec::new();
        let format = if crate::pcap::is_pcap(magic) {
            let (reader, interface) = PcapReader::open(&mut source, &options.limits)?;
            interfaces.push(interface);
            FormatReader::Pcap(reader)
        } else if u32::from_be_bytes(magic) == block_type::SECTION {
            FormatReader::Pcapng(Box::new(PcapngReader::open(&mut source, &options.limits)?))
        } else {
            return Err(source.error(ReadErrorKind::UnknownFormat { magic }));
        };
        source.past_header = true;
        Ok(Self {
            source,
            format,
            interfaces,
            ended: false,
        })
    }

    /// The next item, or none at the end of the file and after an error.
    ///
    /// # Errors
    /// Where the file is damaged or ends early: after every packet before that place was given.
    /// Where reading failed; only if the cause is [`io::ErrorKind::WouldBlock`] can the reader be
    /// called again.
    #[expect(
        clippy::should_implement_trait,
        reason = "items borrow from the reader, which Iterator cannot express"
    )]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, ReadError> {
        if self.ended {
            return Ok(None);
        }
        let found = match &mut self.format {
            FormatReader::Pcap(reader) => reader.next(&mut self.source),
            FormatReader::Pcapng(reader) => reader.next(&mut self.source, &mut self.interfaces),
        };
        match found {
            Ok(Some(found)) => Ok(Some(self.item(found))),
            Ok(None) => {
                self.ended = true;
                Ok(None)
            }
            Err(error) => {
                self.ended = !is_would_block(&error);
                Err(error)
            }
        }
    }

    /// Hands over the packets that come next, one by one, where they can be looked at as the file is mapped
    /// ([`ReadOptions::map`]): each when its record was checked, without its flags, and while those behind
    /// it are fetched. That is the fastest way through a large file. The number of them; where it is 0,
    /// what comes next is [`Reader::next`]'s: another item, an error, packets that are to be read, the
    /// first ones of a file, with which it is mapped, or those of a file that is encoded otherwise than
    /// most: not with the least significant byte first or, of pcap, not in microseconds.
    #[inline]
    pub fn visit(&mut self, visitor: &mut impl Visitor) -> usize {
        let Self { source, format, .. } = self;
        match format {
            _ if self.ended || source.filter.is_some() => 0,
            FormatReader::Pcap(reader) => reader.visit(source, visitor),
            FormatReader::Pcapng(reader) => reader.visit(source, visitor),
        }
    }

    fn item(&self, found: Found) -> Item<'_> {
        match (found, &self.format) {
            (Found::Interface(index), _) => Item::Interface(index),
            (
                Found::Packets {
                    taken,
                    packets,
                    max_caplen,
                    filtered: false,
                },
                format,
            ) => Item::Run(PacketRun {
                bytes: self.source.buffer.at(taken.range),
                offset: taken.offset,
                packets,
                max_caplen,
                captured: None,
                encoding: format.encoding(),
            }),
            (
                Found::Packets {
                    taken,
                    packets,
                    max_caplen,
                    filtered: true,
                },
                format,
            ) => Item::Filtered(Filtered {
                bytes: self.source.buffer.at(taken.range),
                ranges: self.source.buffer.ranges(),
                offset: taken.offset,
                read: packets,
                max_caplen,
                encoding: format.encoding(),
            }),
            (Found::Section, FormatReader::Pcapng(reader)) => Item::Section(reader.section()),
            (Found::Block { taken, block_type }, FormatReader::Pcapng(reader)) => {
                reader.item(RawBlock {
                    block_type,
                    byte_order: reader.section().byte_order,
                    bytes: self.source.buffer.at(taken.range),
                    offset: taken.offset,
                })
            }
            (Found::Section | Found::Block { .. }, FormatReader::Pcap(_)) => {
                unreachable!("pcap files have packets only")
            }
        }
    }

    /// Has packets chosen by a filter, or by none any more; chosen ones come as [`Item::Filtered`].
    ///
    /// Of a large file, packets may have been read and filtered already when this is called: those
    /// stay as the filter before has chosen. Packets of an interface that comes as an
    /// [`Item::Interface`] are not filtered before the next call of [`Reader::next`], so that a
    /// filter that depends on the interfaces can be replaced in between.
    pub fn set_filter(&mut self, filter: Option<Arc<dyn PacketFilter>>) {
        self.source.input.set_filter(filter.as_ref());
        self.source.filter = filter;
    }

    /// The interfaces described so far, counted over all sections. The one of a pcap file is there
    /// from the start.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The file's format.
    #[must_use]
    pub fn format(&self) -> Format {
        match self.format {
            FormatReader::Pcap(_) => Format::Pcap,
            FormatReader::Pcapng(_) => Format::Pcapng,
        }
    }

    /// Major and minor number of the format's version. Of pcapng there is one.
    #[must_use]
    pub fn version(&self) -> (u16, u16) {
        match &self.format {
            FormatReader::Pcap(reader) => reader.version,
            FormatReader::Pcapng(_) => (1, 0),
        }
    }

    /// The section that is being read, of a pcapng file.
    #[must_use]
    pub fn section(&self) -> Option<&Section> {
        match &self.format {
            FormatReader::Pcap(_) => None,
            FormatReader::Pcapng(reader) => Some(reader.section()),
        }
    }

    /// The byte order of the present section's numbers, of all numbers of a pcap file.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        match &self.format {
            FormatReader::Pcap(reader) => reader.encoding().byte_order,
            FormatReader::Pcapng(reader) => reader.section().byte_order,
        }
    }

    /// What the file is compressed with.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.source.input.compression()
    }

    /// The input's name, as errors give it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Where the next item begins: bytes from the start of the uncompressed stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Where a compressed file can be read from, by [`Reader::skipping`], to come to a place at or
    /// near the present one, given as bytes from the start of the uncompressed stream. None where
    /// that is not known any more, and for files that are not compressed.
    #[must_use]
    pub fn seek_point(&self, offset: u64) -> Option<SeekPoint> {
        self.source.input.seek_point(offset)
    }

    /// Bytes read of the file so far, compressed if it is; it runs ahead of what was handed out
    /// by up to a buffer.
    #[must_use]
    pub fn input_offset(&self) -> u64 {
        self.source.input.consumed()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("name", &self.name())
            .field("format", &self.format())
            .field("compression", &self.compression())
            .field("offset", &self.offset())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl FormatReader {
    fn encoding(&self) -> crate::Encoding<'_> {
        match self {
            Self::Pcap(reader) => crate::Encoding::Pcap(reader.encoding()),
            Self::Pcapng(reader) => crate::Encoding::Pcapng(reader.encoding()),
        }
    }
}

fn is_would_block(error: &ReadError) -> bool {
    let (ReadErrorKind::Read(source) | ReadErrorKind::Decompress { source, .. }) = error.kind()
    else {
        return false;
    };
    source.kind() == io::ErrorKind::WouldBlock
}

impl Source {
    /// An error at the place that is read next.
    fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError::new(&self.name, self.offset(), kind)
    }

    /// Where what is read next begins, in the whole uncompressed stream.
    fn offset(&self) -> u64 {
        let offset = self.buffer.offset();
        self.skips
            .as_ref()
            .map_or(offset, |skips| skips.place(offset))
    }

    /// The bytes that are there, and the place to note where their records begin, if a filter
    /// wants to know it.
    fn walkable(&mut self) -> (&[u8], Option<&mut Vec<usize>>) {
        let starts = self.filter.is_some().then_some(&mut self.scratch.starts);
        (self.buffer.bytes(), starts)
    }

    /// Takes the packets that the reader has walked over, and filters them.
    fn found<S>(&mut self, walk: &Walk<S>, encoding: Encoding<'_>) -> Found {
        if let Some(filter) = &self.filter {
            let (records, ranges) = self.buffer.filterable(walk.used);
            self.scratch.choose(&**filter, records, encoding, ranges);
        }
        Found::Packets {
            taken: self.take(walk.used),
            packets: walk.packets,
            max_caplen: walk.max_caplen,
            filtered: self.filter.is_some(),
        }
    }

    /// Takes the packets that were walked over when they were read ahead.
    fn walked_ahead(&mut self) -> Option<Found> {
        let Walked { walk, filtered, .. } = self.walked.take()?;
        (walk.packets > 0).then(|| Found::Packets {
            taken: self.take(walk.used),
            packets: walk.packets,
            max_caplen: walk.max_caplen,
            filtered,
        })
    }

    /// Reads once more; `need` is the size of the structure that is not complete. It is a packet's
    /// where a `walker` is given, which may go on with the bytes that come.
    fn fill(&mut self, need: usize, walker: Option<Walker>) -> Result<Filled, ReadError> {
        let ahead = if self.past_header {
            self.input.ahead(self.stretch, self.filter.as_ref())
        } else {
            None
        };
        let filled = match ahead {
            Some(ahead) => {
                let result = self.buffer.take_over(ahead, walker, &mut self.scratch);
                result.map(|(filled, walked)| {
                    self.walked = walked;
                    filled
                })
            }
            None => self.look_or_read(need),
        };
        filled.map_err(|source| {
            let kind = match self.input.compression() {
                None => ReadErrorKind::Read(source),
                Some(compression) => ReadErrorKind::Decompress {
                    compression,
                    source,
                },
            };
            self.error(kind)
        })
    }

    /// Looks further in a file that is mapped, or else reads.
    fn look_or_read(&mut self, need: usize) -> io::Result<Filled> {
        if self.past_header
            && let Some(map) = self.map
            && self.filter.is_none()
            && let Some(file) = self.input.take_alone()
            && let Ok(mapped) = (map.0)(file)
        {
            self.buffer.go_on_in(mapped);
        }
        if let Some((filled, end)) = self.buffer.look_further(need) {
            self.input.set_consumed(end);
            return Ok(filled);
        }
        self.buffer.fill(&mut self.input, need)
    }

    /// Looks further in a file that is mapped, and stays so, and leaves it to the caller to fetch it.
    fn look_on(&mut self, need: usize) -> bool {
        let looked = self.buffer.look_on(need);
        if let Some((_, end)) = looked {
            self.input.set_consumed(end);
        }
        matches!(looked, Some((Filled::Some, _)))
    }

    /// Reads until `need` bytes are there.
    fn require(&mut self, need: usize, structure: Structure) -> Result<(), ReadError> {
        while self.buffer.bytes().len() < need {
            if self.fill(need, None)? == Filled::End {
                return Err(self.truncated(structure, need, 0));
            }
        }
        Ok(())
    }

    /// The error that the file ends within a structure of `expected` bytes, of which the first
    /// `before` belong to the structure before it.
    fn truncated(&self, structure: Structure, expected: usize, before: usize) -> ReadError {
        let found = self.buffer.bytes().len().saturating_sub(before);
        self.error(ReadErrorKind::Truncated {
            structure,
            expected: expected.saturating_sub(before) as u64,
            found: found as u64,
        })
    }

    fn take(&mut self, count: usize) -> Taken {
        let offset = self.offset();
        Taken {
            range: self.buffer.consume(count),
            offset,
        }
    }
}
