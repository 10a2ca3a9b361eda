//! Reads a stream of bytes as items, most of which are runs of packets.

mod ahead;
mod buffer;
mod choose;
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

pub use input::decompressed_start;
pub use mapped::{MapFile, Mapped};

use crate::codec::{Compression, MAGIC_LEN};
use crate::encoding::Walk;
use crate::filtered::{Filtered, PacketFilter};
use crate::index::{SeekPoint, Skips};
use crate::pcapng::{Names, RawBlock, Section, Statistics, block_type};
use crate::read_error::{ReadError, ReadErrorKind, Structure};
use crate::{ByteOrder, Encoding, Format, Interface, PacketRun, ReadOptions, Visitor};
use ahead::Walked;
use buffer::{Buffer, Filled};
use choose::Scratch;
use input::Input;
use pcap::PcapReader;
use pcapng::PcapngReader;
use walker::Walker;

/// An item of a file, in the file's order.
#[derive(Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// Consecutive packets, at least one.
    Run(PacketRun<'a>),
    /// The packets that the filter accepted from consecutive ones; it replaces a run after
    /// [`Reader::set_filter`].
    Filtered(Filtered<'a>),
    /// A section begins: the interfaces that follow belong to it.
    Section(&'a Section),
    /// An interface was described: its index in [`Reader::interfaces`]. A pcap file has one, which
    /// comes first.
    Interface(u32),
    /// Names of addresses.
    Names(Names<'a>),
    /// Counters of an interface.
    Statistics(Statistics<'a>),
    /// A raw block: custom, decryption secrets, unknown, or damaged statistics.
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
    /// Whether an error or the end of the file was reported: there is nothing more.
    ended: bool,
}

/// The bytes of the file and their name.
struct Source {
    name: String,
    input: Input,
    buffer: Buffer,
    /// Bytes of a stretch, if the file is read ahead.
    stretch: usize,
    /// Whether the format is known, so that the file may be read ahead.
    past_header: bool,
    filter: Option<Arc<dyn PacketFilter>>,
    scratch: Scratch,
    /// The packets at the start of the buffer, if they were walked when they were read ahead.
    walked: Option<Walked>,
    /// The stretches of the file that are skipped, if any.
    skips: Option<Arc<Skips>>,
    map: Option<MapFile>,
}

/// The smallest stretch that is read ahead, in bytes.
const MIN_STRETCH: usize = 64 * 1024;

enum FormatReader {
    Pcap(PcapReader),
    Pcapng(Box<PcapngReader>),
}

/// The place of an item, while the reader is still borrowed mutably.
enum Found {
    Interface(u32),
    Section,
    /// Packets, in the bytes that were consumed.
    Packets {
        taken: Taken,
        packets: usize,
        max_caplen: u32,
        /// Whether the filter has already been applied to them.
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
    /// The file cannot be opened or read, its format or version is unknown, or it ends within its
    /// header.
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, ReadError> {
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| ReadError::new(&name, 0, ReadErrorKind::Open(error)))?;
        Self::from_file(file, &name, options)
    }

    /// Reads the header of an open file, from its present position on; errors use `name`.
    ///
    /// # Errors
    /// The same as [`Reader::open`].
    pub fn from_file(file: File, name: &str, options: &ReadOptions) -> Result<Self, ReadError> {
        let input = Input::open(file, options);
        Self::start(input, name, options, None)
    }

    /// Reads a regular file as [`Reader::from_file`], from its beginning, without the stretches to skip. Each
    /// stretch must consist of complete packet records. Offsets are still those in the whole file, and in its
    /// uncompressed form.
    ///
    /// # Errors
    /// The same as [`Reader::open`].
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

    /// Reads the file's header from a stream; errors use `name`.
    ///
    /// The stream is read in pieces of up to the buffer's size. From a pipe, packets are delivered
    /// as soon as one complete record has arrived.
    ///
    /// # Errors
    /// The same as [`Reader::open`].
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
        let magic = source.buffer.bytes().first_chunk();
        let magic = magic.copied().unwrap_or_default();
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

    /// Returns the next item; `None` at the end of the file and after an error.
    ///
    /// # Errors
    /// The file is damaged or ends early: every packet before that place was delivered. Or reading
    /// failed; call the reader again only if the error is [`io::ErrorKind::WouldBlock`].
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

    /// Passes the next packets of a mapped file ([`ReadOptions::map`]) to `visitor`, one by one,
    /// without their flags. Each is passed on after its record was checked, while later ones are
    /// prefetched. This is the fastest way through a large file.
    ///
    /// Returns the number of packets. If it is 0, call [`Reader::next`]: the next item is not a
    /// packet, there is an error, or the packets are not mapped. The first packets are never
    /// mapped, and neither are those with a rare encoding: most significant byte first or, in pcap,
    /// not in microseconds.
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
            (Found::Section, FormatReader::Pcapng(reader)) => Item::Section(&reader.section),
            (Found::Block { taken, block_type }, FormatReader::Pcapng(reader)) => {
                reader.item(RawBlock {
                    block_type,
                    byte_order: reader.section.byte_order,
                    bytes: self.source.buffer.at(taken.range),
                    offset: taken.offset,
                })
            }
            (Found::Section | Found::Block { .. }, FormatReader::Pcap(_)) => {
                unreachable!("pcap files have packets only")
            }
        }
    }

    /// Sets or removes the filter; accepted packets are delivered as [`Item::Filtered`].
    ///
    /// In a large file, packets may have been read and filtered already: these keep the former
    /// filter's result. After an [`Item::Interface`], packets of that interface are not filtered
    /// before the next call of [`Reader::next`]. So a filter that depends on the interfaces can be
    /// replaced in between.
    pub fn set_filter(&mut self, filter: Option<Arc<dyn PacketFilter>>) {
        self.source.input.set_filter(filter.as_ref());
        self.source.filter = filter;
    }

    /// Returns the interfaces described so far, counted over all sections. That of a pcap file is
    /// available from the start.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Returns the file's format.
    #[must_use]
    pub fn format(&self) -> Format {
        match self.format {
            FormatReader::Pcap(_) => Format::Pcap,
            FormatReader::Pcapng(_) => Format::Pcapng,
        }
    }

    /// Returns the major and minor version of the format. pcapng has only one version.
    #[must_use]
    pub fn version(&self) -> (u16, u16) {
        match &self.format {
            FormatReader::Pcap(reader) => reader.version,
            FormatReader::Pcapng(_) => (1, 0),
        }
    }

    /// Returns the present section of a pcapng file.
    #[must_use]
    pub fn section(&self) -> Option<&Section> {
        match &self.format {
            FormatReader::Pcap(_) => None,
            FormatReader::Pcapng(reader) => Some(&reader.section),
        }
    }

    /// Returns the byte order of the present section, or of a pcap file.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        match &self.format {
            FormatReader::Pcap(reader) => reader.encoding.byte_order,
            FormatReader::Pcapng(reader) => reader.section.byte_order,
        }
    }

    /// Returns the compression of the file.
    #[must_use]
    pub fn compression(&self) -> Option<Compression> {
        self.source.input.compression()
    }

    /// Returns the input's name, as in errors.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Returns the offset of the next item, in bytes from the start of the uncompressed stream.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.source.offset()
    }

    /// Returns the last known place at or before `offset` where [`Reader::skipping`] can begin in a
    /// compressed file. `offset` counts bytes of the uncompressed stream, and should be near the
    /// present place. Returns `None` if the place is no longer known, or if the file is not
    /// compressed.
    #[must_use]
    pub fn seek_point(&self, offset: u64) -> Option<SeekPoint> {
        self.source.input.seek_point(offset)
    }

    /// Returns the bytes read from the file so far, in compressed form if it is compressed; up to a
    /// buffer more than was delivered.
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
            Self::Pcap(reader) => crate::Encoding::Pcap(reader.encoding),
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
    /// Returns an error at the present place.
    fn error(&self, kind: ReadErrorKind) -> ReadError {
        ReadError::new(&self.name, self.offset(), kind)
    }

    /// Returns the present offset, in the whole uncompressed stream.
    fn offset(&self) -> u64 {
        let offset = self.buffer.offset();
        self.skips
            .as_ref()
            .map_or(offset, |skips| skips.place(offset))
    }

    /// Returns the unconsumed bytes, and the list for the starts of records, if there is a filter
    /// that needs it.
    fn walkable(&mut self) -> (&[u8], Option<&mut Vec<usize>>) {
        let starts = self.filter.is_some().then_some(&mut self.scratch.starts);
        (self.buffer.bytes(), starts)
    }

    /// Takes the packets of a walk, and filters them.
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

    /// Takes the packets that were walked when they were read ahead.
    fn walked_ahead(&mut self) -> Option<Found> {
        let Walked { walk, filtered, .. } = self.walked.take()?;
        (walk.packets > 0).then(|| Found::Packets {
            taken: self.take(walk.used),
            packets: walk.packets,
            max_caplen: walk.max_caplen,
            filtered,
        })
    }

    /// Reads once more; `need` is the size of the incomplete structure. If that is a packet, a
    /// `walker` is given, which may walk over the new bytes.
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

    /// Extends the bytes of a mapped file, or reads more.
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

    /// Extends the bytes of a file that stays mapped, and leaves the prefetch to the caller.
    fn look_on(&mut self, need: usize) -> bool {
        let looked = self.buffer.look_on(need);
        if let Some((_, end)) = looked {
            self.input.set_consumed(end);
        }
        matches!(looked, Some((Filled::Some, _)))
    }

    /// Reads until `need` bytes are available.
    fn require(&mut self, need: usize, structure: Structure) -> Result<(), ReadError> {
        while self.buffer.bytes().len() < need {
            if self.fill(need, None)? == Filled::End {
                return Err(self.truncated(structure, need, 0));
            }
        }
        Ok(())
    }

    /// Returns the error of a file that ends within a structure of `expected` bytes. The first
    /// `before` of them belong to the structure before it.
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
