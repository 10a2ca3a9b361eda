//! Engine `file`: capture files of any kind that [`ringtap_savefile`] reads, filtered.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use ringtap_packet::LinkType;
use ringtap_savefile::{Format, Interface, Item, ReadError, ReadOptions, Reader, Visitor};
use ringtap_sys::eventfd::Waker;

use crate::describe::{Clock, FilterPlace, UserSpaceReason};
use crate::filter::FilterTable;
use crate::options::Direction;
use crate::{Block, Description, Dropped, Error, Filter, Next, Result, Source, Stats};

/// A capture file as a source.
pub struct FileSource {
    reader: Reader,
    name: String,
    waker: Waker,
    filter: Option<FileFilter>,
    packets: u64,
    /// Whether something was read.
    started: bool,
}

/// Packets of a file after which a filter is made native: to make it takes as long as to interpret
/// it some ten thousand times, so that small files would wait for it only.
const MANY: u64 = 32_768;

/// A filter as the reader applies it.
struct FileFilter {
    filter: Filter,
    table: Arc<FilterTable>,
    /// Whether all of the table is native code, where that can be had.
    is_native: bool,
    /// Whether the reader may have packets that it did not apply this filter to.
    replaced: bool,
}

/// Opens a capture file: pcap or pcapng, compressed or not.
///
/// # Errors
///
/// The file cannot be opened, is no capture file, or the filter cannot be compiled for its link
/// type.
pub fn open_file(
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
) -> Result<FileSource> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| ReadError::unopened(&name, error))?;
    FileSource::from_file(file, &name, options, filter)
}

/// Reads a capture file from a stream, such as standard input, which errors call `name`.
///
/// # Errors
///
/// As [`open_file`].
pub fn open_stream(
    stream: Box<dyn Read + Send>,
    name: &str,
    options: &ReadOptions,
    filter: Option<&Filter>,
) -> Result<FileSource> {
    FileSource::new(Reader::new(stream, name, options)?, name.to_owned(), filter)
}

/// Bytes of a file, uncompressed, within which its interfaces are looked at beforehand.
const FIRST: u64 = 1 << 20;

/// Compiles a filter for the interfaces that a pcapng file begins with: a filter that is invalid, or not for
/// them, is found before anything is done with packets. In a pipe they are found when they come. The file
/// stands afterwards where it stood.
pub(crate) fn check_first_interfaces(file: &File, name: &str, filter: &Filter) -> Result<()> {
    let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    let mut copy = match file.try_clone() {
        Ok(copy) if is_regular => copy,
        _ => return Ok(()),
    };
    let Ok(start) = copy.stream_position() else {
        return Ok(());
    };
    let mut options = ReadOptions::default();
    (options.read_ahead, options.map) = (false, None);
    let checked = Reader::from_file(copy, name, &options)
        .map_err(Error::from)
        .and_then(|mut reader| check_interfaces(&mut reader, filter));
    let mut file = file;
    let back = file.seek(SeekFrom::Start(start));
    back.map_err(|error| ReadError::unopened(name, error))?;
    checked
}

fn check_interfaces(reader: &mut Reader, filter: &Filter) -> Result<()> {
    if reader.format() != Format::Pcapng {
        return Ok(());
    }
    let mut table = FilterTable::of_file();
    // Damage in the file is reported when it is read.
    while let Ok(Some(item)) = reader.next() {
        let is_far = matches!(&item, Item::Run(run) if run.offset() > FIRST);
        if is_far {
            break;
        }
        if !table.knows(reader.interfaces().len()) {
            table.extend(filter, reader.interfaces(), reader.byte_order())?;
        }
    }
    Ok(())
}

impl FileSource {
    /// As [`open_file`] for a file that the caller has opened, which errors call `name`. It is read from
    /// where it stands.
    ///
    /// # Errors
    ///
    /// As [`open_file`].
    pub fn from_file(
        file: File,
        name: &str,
        options: &ReadOptions,
        filter: Option<&Filter>,
    ) -> Result<Self> {
        if let Some(filter) = filter {
            check_first_interfaces(&file, name, filter)?;
        }
        let reader = Reader::from_file(file, name, options)?;
        Self::new(reader, name.to_owned(), filter)
    }

    pub(crate) fn new(reader: Reader, name: String, filter: Option<&Filter>) -> Result<Self> {
        let mut source = Self {
            reader,
            name,
            waker: Waker::new()?,
            filter: None,
            packets: 0,
            started: false,
        };
        source.set_filter(filter)?;
        Ok(source)
    }

    /// Compiles the filter for interfaces that are new, as [`Source::next`] does before their packets:
    /// for who has to know earlier that it is one for them.
    ///
    /// # Errors
    /// The filter cannot be compiled for their link type.
    pub fn extend_filter(&mut self) -> Result<()> {
        let Some(FileFilter {
            filter,
            table,
            is_native,
            ..
        }) = &mut self.filter
        else {
            return Ok(());
        };
        if table.knows(self.reader.interfaces().len()) {
            return Ok(());
        }
        // Taken from the reader first, it need not be copied to be extended.
        self.reader.set_filter(None);
        let (interfaces, byte_order) = (self.reader.interfaces(), self.reader.byte_order());
        let programs = table.programs();
        let extended = Arc::make_mut(table).extend(filter, interfaces, byte_order);
        // A file may have an interface for each packet: the table is made native again, which copies it,
        // for a new program only.
        *is_native &= table.programs() == programs;
        self.reader.set_filter(Some(Arc::clone(table) as _));
        extended
    }

    /// Makes the filter native in a file that has shown to be large.
    fn hasten_filter(&mut self) {
        let Some(FileFilter {
            table, is_native, ..
        }) = &mut self.filter
        else {
            return;
        };
        if *is_native || self.packets < MANY {
            return;
        }
        // The reader keeps the old one until it has the new one: both choose the same packets.
        Arc::make_mut(table).make_native();
        self.reader.set_filter(Some(Arc::clone(table) as _));
        *is_native = true;
    }

    /// Hands the packets that come next to a visitor, as [`Block::drain`], one by one while a file that is
    /// mapped and not filtered is checked; returns how many. If none, [`Source::next`] returns what comes next.
    #[inline]
    pub fn drain(&mut self, visitor: &mut impl Visitor) -> usize {
        if self.filter.is_some() || self.waker.is_pending() {
            return 0;
        }
        let packets = self.reader.visit(visitor);
        self.packets += packets as u64;
        packets
    }

    /// The reader, for what files have and sources have not: format, offsets, compression.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}

impl Source for FileSource {
    fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces()
    }

    /// Waits for a stream as long as it takes: the [`Waker`] takes effect between blocks.
    fn next(&mut self) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        // An interface is an item of its own, so that it is known here before its packets come.
        self.extend_filter()?;
        self.hasten_filter();
        self.started = true;
        let filter = self.filter.as_ref().filter(|filter| filter.replaced);
        let table = filter.map(|filter| &*filter.table);
        Ok(match self.reader.next()? {
            Some(Item::Run(run)) => {
                self.packets += run.len() as u64;
                Next::Block(Block::from_run(run, table))
            }
            Some(Item::Filtered(filtered)) => {
                self.packets += filtered.read() as u64;
                Next::Block(Block::from_filtered(filtered, table))
            }
            Some(item) => Next::Meta(item),
            None => Next::End,
        })
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        self.next()
    }

    /// Packets read; a file loses none.
    fn stats(&mut self) -> Result<Stats> {
        let dropped = Dropped {
            hook: Some(0),
            sampling: Some(0),
            ring: Some(0),
            application: Some(0),
            ..Dropped::default()
        };
        Ok(Stats {
            received: Some(self.packets),
            dropped,
            ..Stats::default()
        })
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        let mut table = FilterTable::of_file();
        if let Some(filter) = filter {
            table.extend(filter, self.reader.interfaces(), self.reader.byte_order())?;
        }
        let table = Arc::new(table);
        self.filter = filter.map(|filter| FileFilter {
            filter: filter.clone(),
            table: Arc::clone(&table),
            is_native: false,
            replaced: self.started,
        });
        self.reader.set_filter(filter.map(|_| table as _));
        Ok(())
    }

    fn describe(&self) -> Description {
        let mut link_types: Vec<LinkType> = Vec::new();
        for interface in self.reader.interfaces() {
            if !link_types.contains(&interface.link_type) {
                link_types.push(interface.link_type);
            }
        }
        let filter = match self.filter {
            None => FilterPlace::None,
            Some(_) => FilterPlace::UserSpace {
                reason: UserSpaceReason::File,
            },
        };
        Description {
            engine: "file",
            choice: None,
            device: self.name.clone(),
            link_types,
            hook: "none: packets are read from a file",
            clock: Clock::File,
            vlan: "as the file has them",
            memory: None,
            snaplen: None,
            loopback: false,
            promiscuous: false,
            direction: Direction::Both,
            delivery_bound: None,
            filter,
            fanout_group: None,
            required_capabilities: &[],
            notes: Vec::new(),
            blind: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap_packet::{Packet, PacketFlags, Timestamp};
    use ringtap_savefile::{ByteOrder, PcapngWriter, Section};

    use super::*;

    /// A file of 65,536 sections with an interface each took six seconds: from the 32,768th packet on, the
    /// table was copied for each.
    #[test]
    fn a_further_interface_of_a_known_link_type_leaves_the_filter_native() {
        let section = Section::new(ByteOrder::NATIVE);
        let mut writer = PcapngWriter::new(Vec::new(), &section).expect("a vector");
        for (interface, packets) in [(0, MANY), (1, 1), (2, 1)] {
            writer.start_section(&section).expect("a vector");
            let described = Interface::new(LinkType::ETHERNET, 0);
            writer.add_interface(&described).expect("a vector");
            let packet = Packet {
                timestamp: Timestamp::new(1, 0),
                len: 60,
                interface,
                flags: PacketFlags::default(),
                data: &[0; 60],
            };
            for _ in 0..packets {
                writer.write_packet(&packet).expect("a vector");
            }
        }
        let (bytes, _) = writer.finish().expect("a vector");
        let (filter, options) = (Filter::new("greater 60"), ReadOptions::default());
        let stream = Box::new(std::io::Cursor::new(bytes));
        let mut source = open_stream(stream, "it", &options, Some(&filter)).expect("a capture");
        let mut table = None;
        let mut packets = 0;
        loop {
            match source.next().expect("whole") {
                Next::Block(block) => packets += block.packets().count() as u64,
                Next::End => break,
                _ => {}
            }
            let filter = source.filter.as_ref().expect("it has one");
            if filter.is_native {
                let now = Arc::as_ptr(&filter.table);
                assert_eq!(*table.get_or_insert(now), now, "it was copied");
            } else {
                assert_eq!(table, None, "it was native");
            }
        }
        assert_eq!(packets, MANY + 2);
        assert!(table.is_some(), "it became native");
    }
}
