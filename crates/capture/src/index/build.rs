//! Reading a capture once to make its index.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use ringtap_filter::search::{Followed, Key, KeyReader};
use ringtap_savefile::index::{Collector, Entry, IndexWriter, Stamp};
use ringtap_savefile::{
    ByteOrder, Interface, Item, LinkType, Packet, ReadError, ReadOptions, Reader, Run, Timestamp,
};

use crate::{Error, Result, filter};

/// How an index is made.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexOptions {
    /// Bytes of a stretch, about: the less, the less a search reads around what it finds, and the
    /// more stretches it has to look at.
    pub stretch: u64,
    /// Bytes below which a stretch is left out of the index, and always read.
    pub least: u64,
    /// How the capture is read.
    pub read: ReadOptions,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            stretch: 1 << 20,
            least: 1 << 14,
            read: ReadOptions::default(),
        }
    }
}

/// An index that was made.
#[derive(Debug)]
pub struct Built {
    /// Packets that it covers.
    pub packets: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The damage in the capture before which it ends, if there is such.
    pub damage: Option<ReadError>,
}

/// Makes the index of a capture file, which errors call `name`, in `output`, which is empty. Neither
/// need be at its beginning.
///
/// # Errors
/// The capture can't be read or is none; the index can't be written; the capture was changed
/// meanwhile. Of a damaged capture the part before the damage is indexed.
pub fn build_index(
    capture: &File,
    name: &str,
    output: File,
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
    let reader = Reader::from_file(reading.map_err(failed)?, name, &options.read)?;
    let mut builder = Builder {
        writer: IndexWriter::new(output).map_err(failed)?,
        options: options.clone(),
        stretch: None,
        collector: Collector::default(),
        readers: Readers::default(),
    };
    let damage = builder.read(reader).map_err(failed)?;
    let (packets, bytes) = (builder.writer.packets(), builder.writer.bytes());
    if Stamp::of(capture).map_err(failed)? != stamp {
        return Err(failed(io::Error::other("it was changed meanwhile")));
    }
    builder.writer.finish(&stamp).map_err(failed)?;
    Ok(Built {
        packets,
        bytes,
        damage,
    })
}

struct Builder {
    writer: IndexWriter<File>,
    options: IndexOptions,
    /// What is known of the stretch that is read.
    stretch: Option<Entry>,
    collector: Collector,
    readers: Readers,
}

impl Builder {
    /// Reads the capture to its end, or to the damage that is given back.
    fn read(&mut self, mut reader: Reader) -> io::Result<Option<ReadError>> {
        loop {
            self.readers
                .extend(reader.interfaces(), reader.byte_order());
            match reader.next() {
                Ok(Some(Item::Run(run))) => {
                    let (run_at, len) = (run.offset(), run.bytes().len() as u64);
                    self.run(&run)?;
                    self.lies_at(run_at, len, &reader)?;
                }
                Ok(Some(_)) => self.end()?,
                Ok(None) => {
                    self.end()?;
                    return Ok(None);
                }
                Err(error) => {
                    self.end()?;
                    return Ok(Some(error));
                }
            }
        }
    }

    fn run(&mut self, run: &Run<'_>) -> io::Result<()> {
        if self
            .stretch
            .as_ref()
            .is_some_and(|stretch| stretch.offset + stretch.len != run.offset())
        {
            self.end()?;
        }
        let stretch = self.stretch.get_or_insert_with(|| Entry {
            offset: run.offset(),
            len: 0,
            packets: 0,
            first: Timestamp::new(i64::MAX, 0),
            last: Timestamp::new(i64::MIN, 0),
            seek: None,
            keys: ringtap_savefile::index::Keys::ANYTHING,
        });
        stretch.packets += run.len() as u64;
        let (readers, collector) = (&mut self.readers, &mut self.collector);
        run.packets().for_each(|packet| {
            stretch.first = stretch.first.min(packet.timestamp);
            stretch.last = stretch.last.max(packet.timestamp);
            readers.collect(&packet, collector);
        });
        Ok(())
    }

    /// The run that was added last lies there; ends the stretch where it is long enough.
    fn lies_at(&mut self, offset: u64, len: u64, reader: &Reader) -> io::Result<()> {
        if let Some(stretch) = &mut self.stretch {
            if stretch.offset == offset {
                stretch.seek = reader.seek_point(offset);
            }
            stretch.len += len;
            if stretch.len >= self.options.stretch {
                self.end()?;
            }
        }
        Ok(())
    }

    /// Ends the stretch, if one was begun.
    fn end(&mut self) -> io::Result<()> {
        let Some(mut stretch) = self.stretch.take() else {
            return Ok(());
        };
        stretch.keys = self.collector.take(stretch.len);
        if stretch.len < self.options.least {
            return Ok(());
        }
        self.writer.write(&stretch)
    }
}

/// What reads the keys of packets, by interface.
#[derive(Default)]
struct Readers {
    by_interface: Vec<usize>,
    readers: Vec<((LinkType, ByteOrder), Option<KeyReader>)>,
}

impl Readers {
    /// Adds those of new interfaces, whose numbers are in that byte order.
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

    fn collect(&mut self, packet: &Packet<'_>, collector: &mut Collector) {
        let index = self.by_interface.get(packet.interface as usize);
        let reader = index.and_then(|index| self.readers.get_mut(*index));
        let Some((_, Some(reader))) = reader else {
            return collector.anything();
        };
        let followed = reader.read(packet.data, packet.len, |key| match key {
            Key::Ip4(address) => collector.ip4(address),
            Key::Ip6(address) => collector.ip6(address),
            Key::Port(port) => collector.port(port),
        });
        if followed == Followed::No {
            collector.anything();
        }
    }
}
