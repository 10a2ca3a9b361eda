//! Reads a capture once to make its index.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use ringtap_filter::search::{Followed, Key, KeyReader};
use ringtap_packet::{LinkType, Packet, Timestamp};
use ringtap_savefile::index::{Collector, Entry, IndexWriter, Keys, SeekPoint, Stamp};
use ringtap_savefile::{ByteOrder, Interface, Item, PacketRun, ReadError, ReadOptions, Reader};

use super::uncached::UncachedFile;
use crate::{Error, Result, filter};

ringtap_packet::options! {
    /// Options of an index.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct IndexOptions {
        /// The approximate size of a stretch, in bytes. Smaller stretches mean that a search reads less around
        /// its results, and examines more stretches.
        pub stretch: u64,
        /// The size, in bytes, below which a stretch is left out of the index and always read. It is also the
        /// size of the piece that is treated as a whole if a packet in it could not be followed.
        pub least: u64,
        /// Offsets of a compressed capture, in ascending order, at which reading can start, beside the starts of
        /// members or frames: chunks of a [`Codec`](ringtap_savefile::Codec).
        pub chunks: Vec<SeekPoint>,
        /// How to read the capture.
        pub read: ReadOptions,
        /// Whether to read past the page cache, for a capture that is not in it (`O_DIRECT`, where the file
        /// system has it). Default: no.
        pub past_cache: bool,
    }
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            stretch: 1 << 20,
            least: 1 << 14,
            chunks: Vec::new(),
            read: ReadOptions::default(),
            past_cache: false,
        }
    }
}

impl IndexOptions {
    /// Returns the last offset of the uncompressed capture, at or before this one, at which reading can
    /// start.
    fn seek(&self, offset: u64, reader: &Reader) -> Option<SeekPoint> {
        let member = reader.seek_point(offset);
        let behind = self
            .chunks
            .partition_point(|chunk| chunk.uncompressed <= offset);
        let chunk = behind.checked_sub(1).and_then(|at| self.chunks.get(at));
        let later = chunk
            .filter(|chunk| member.is_none_or(|member| chunk.uncompressed > member.uncompressed));
        later.copied().or(member)
    }
}

/// A finished index.
#[derive(Debug)]
pub struct Built {
    /// Packets that it covers.
    pub packets: u64,
    /// All packets of the capture. Those in stretches that are too short to skip are not indexed.
    pub of: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The damage in the capture at which the index ends, if there is any.
    pub damage: Option<ReadError>,
}

/// Makes the index of a capture file, which errors call `name`. `output` returns an empty file for it; it is
/// called once the capture was recognized. Neither file need be at its beginning.
///
/// # Errors
/// The capture cannot be read or is not a capture; the index cannot be written; the capture was changed in
/// the meantime. In a corrupt capture the part before the damage is indexed.
pub fn build_index(
    capture: &File,
    name: &str,
    output: impl FnOnce() -> io::Result<File>,
    options: &IndexOptions,
) -> Result<Built> {
    let failed = |source| Error::Index {
        name: name.to_owned(),
        source,
    };
    let stamp = Stamp::of(capture).map_err(failed)?;
    let reading = capture.try_clone().and_then(|mut file| {
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    });
    let reading = reading.map_err(failed)?;
    let reader = if options.past_cache {
        Reader::new(Box::new(UncachedFile::new(reading)), name, &options.read)?
    } else {
        Reader::from_file(reading, name, &options.read)?
    };
    let writer = output().and_then(IndexWriter::new);
    let mut builder = Builder {
        writer: writer.map_err(failed)?,
        options: options.clone(),
        stretch: None,
        ended: Vec::new(),
        collector: Collector::default(),
        readers: Readers::default(),
        read: 0,
    };
    let damage = builder.read(reader).map_err(failed)?;
    let (packets, bytes) = (builder.writer.packets(), builder.writer.bytes());
    if Stamp::of(capture).map_err(failed)? != stamp {
        return Err(failed(io::Error::other("it was changed in the meantime")));
    }
    builder.writer.finish(&stamp).map_err(failed)?;
    Ok(Built {
        packets,
        of: builder.read,
        bytes,
        damage,
    })
}

struct Builder {
    writer: IndexWriter<File>,
    options: IndexOptions,
    /// The data of the stretch that is being read.
    stretch: Option<Stretch>,
    /// Completed stretches of the present run. Their reading offsets are known when the run is done.
    ended: Vec<Entry>,
    collector: Collector,
    readers: Readers,
    /// Packets so far.
    read: u64,
}

/// A growing stretch. Either all its packets could be followed, or all count as if they could not.
struct Stretch {
    entry: Entry,
    followed: bool,
}

impl Builder {
    /// Reads the capture to its end, or to a damage, which is returned.
    fn read(&mut self, mut reader: Reader) -> io::Result<Option<ReadError>> {
        loop {
            self.readers
                .extend(reader.interfaces(), reader.byte_order());
            match reader.next() {
                Ok(Some(Item::Run(run))) => {
                    let begin = run.offset();
                    self.run(&run);
                    self.place(begin, &reader)?;
                }
                Ok(Some(_)) => self.end_all(&reader)?,
                Ok(None) => {
                    self.end_all(&reader)?;
                    return Ok(None);
                }
                Err(error) => {
                    self.end_all(&reader)?;
                    return Ok(Some(error));
                }
            }
        }
    }

    /// Adds a run in pieces: if a packet could not be followed, only its piece must be read by every search.
    fn run(&mut self, run: &PacketRun<'_>) {
        let mut rest = *run;
        while !rest.is_empty() {
            let (piece, behind) = rest.split(self.options.least);
            self.piece(&piece);
            rest = behind;
        }
    }

    fn piece(&mut self, piece: &PacketRun<'_>) {
        self.read += piece.len() as u64;
        let (mut first, mut last) = (Timestamp::new(i64::MAX, 0), Timestamp::new(i64::MIN, 0));
        let mut followed = true;
        let (readers, collector) = (&mut self.readers, &mut self.collector);
        // Keys are added before it is known whether the piece belongs to the stretch. The keys of a piece
        // that does not belong are superfluous, which hides nothing.
        piece.packets().for_each(|packet| {
            first = first.min(packet.timestamp);
            last = last.max(packet.timestamp);
            followed &= readers.collect(&packet, collector);
        });
        let goes_on = |stretch: &Stretch| {
            stretch.followed == followed
                && stretch.entry.offset + stretch.entry.len == piece.offset()
        };
        if self
            .stretch
            .as_ref()
            .is_some_and(|stretch| !goes_on(stretch))
        {
            let begins_followed = followed;
            self.end();
            if begins_followed {
                self.collect_again(piece);
            }
        }
        let stretch = self.stretch.get_or_insert_with(|| Stretch {
            entry: Entry {
                offset: piece.offset(),
                len: 0,
                packets: 0,
                first,
                last,
                seek: None,
                keys: Keys::ANYTHING,
            },
            followed,
        });
        let entry = &mut stretch.entry;
        entry.packets += piece.len() as u64;
        entry.first = entry.first.min(first);
        entry.last = entry.last.max(last);
        entry.len += piece.bytes().len() as u64;
        if entry.len >= self.options.stretch {
            self.end();
        }
    }

    /// Adds the keys of a piece that starts a stretch again, because they went to the previous one.
    fn collect_again(&mut self, piece: &PacketRun<'_>) {
        let (readers, collector) = (&mut self.readers, &mut self.collector);
        piece.packets().for_each(|packet| {
            readers.collect(&packet, collector);
        });
    }

    /// Sets the reading offsets of the stretches that started in the run from `begin` on, and writes those
    /// that have ended.
    fn place(&mut self, begin: u64, reader: &Reader) -> io::Result<()> {
        let growing = self.stretch.iter_mut().map(|stretch| &mut stretch.entry);
        for entry in self.ended.iter_mut().chain(growing) {
            if entry.offset >= begin {
                entry.seek = self.options.seek(entry.offset, reader);
            }
        }
        for entry in self.ended.drain(..) {
            self.writer.write(&entry)?;
        }
        Ok(())
    }

    /// Ends the stretch, if one was started, and writes the completed ones.
    fn end_all(&mut self, reader: &Reader) -> io::Result<()> {
        self.end();
        self.place(u64::MAX, reader)
    }

    /// Ends the stretch, if one was started.
    fn end(&mut self) {
        let Some(Stretch {
            mut entry,
            followed,
        }) = self.stretch.take()
        else {
            return;
        };
        let keys = self.collector.take(entry.len);
        if followed {
            entry.keys = keys;
        }
        if entry.len >= self.options.least {
            self.ended.push(entry);
        }
    }
}

/// The readers of packets' keys, by interface.
#[derive(Default)]
struct Readers {
    by_interface: Vec<usize>,
    readers: Vec<((LinkType, ByteOrder), Option<KeyReader>)>,
}

impl Readers {
    /// Adds those of new interfaces with that byte order.
    fn extend(&mut self, interfaces: &[Interface], byte_order: ByteOrder) {
        let new = interfaces.get(self.by_interface.len()..);
        for interface in new.unwrap_or_default() {
            let key = (interface.link_type, byte_order);
            let known = self.readers.iter().position(|(of, _)| *of == key);
            let index = known.unwrap_or_else(|| {
                let reader = filter::key_reader(interface.link_type, byte_order);
                self.readers.push((key, reader));
                self.readers.len() - 1
            });
            self.by_interface.push(index);
        }
    }

    /// Adds a packet's keys to the collector. Returns whether there are no others.
    fn collect(&mut self, packet: &Packet<'_>, collector: &mut Collector) -> bool {
        let index = self.by_interface.get(packet.interface as usize);
        let reader = index.and_then(|index| self.readers.get_mut(*index));
        let Some((_, Some(reader))) = reader else {
            return false;
        };
        let followed = reader.read(packet.data, packet.len, |key| match key {
            Key::Ip4(address) => collector.ip4(address),
            Key::Ip6(address) => collector.ip6(address),
            Key::Port(port) => collector.port(port),
        });
        followed == Followed::Wholly
    }
}
