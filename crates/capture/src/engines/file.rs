//! Engine `file`: capture files of all kinds that [`ringtap_savefile`] reads, with a filter.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use ringtap_savefile::{Format, Interface, Item, ReadError, ReadOptions, Reader, Visitor};
use ringtap_sys::eventfd::Waker;

use crate::block::Origin;
use crate::describe::{Clock, FilterPlace, UserSpaceReason, link_types};
use crate::filter::{Answers, Described, FilterTable, Groups};
use crate::options::Direction;
use crate::{Block, Description, Dropped, Error, Filter, Next, Result, Source, Stats};

/// A capture file as a source.
pub struct FileSource {
    reader: Reader,
    name: String,
    waker: Waker,
    filter: Option<FileFilter>,
    /// The control groups of the processes that were described so far.
    groups: Groups,
    packets: u64,
    /// Whether anything was read.
    started: bool,
}

/// The number of packets after which a file's filter is compiled to native code. That takes as long as
/// interpreting it some ten thousand times, so small files would only lose time.
const MANY: u64 = 32_768;

/// A filter as the reader applies it.
struct FileFilter {
    filter: Filter,
    table: Arc<FilterTable>,
    /// Whether all of the table is native code, if possible.
    is_native: bool,
    /// Whether the filter is applied after reading: to packets that the reader may have read already, or because
    /// the reader knows nothing of processes.
    after_reading: bool,
    /// Whether it asks for processes, so that the reader does not apply it.
    asks_for_process: bool,
}

impl FileFilter {
    /// Returns the filter that the reader applies.
    fn of_reader(&self) -> Option<Arc<FilterTable>> {
        (!self.asks_for_process).then(|| Arc::clone(&self.table))
    }
}

/// Opens a capture file: pcap or pcapng, compressed or not.
///
/// # Errors
///
/// The file cannot be opened, is not a capture file, or the filter cannot be compiled for its link type.
pub fn open_file(
    path: &Path,
    options: &ReadOptions,
    filter: Option<&Filter>,
) -> Result<FileSource> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| ReadError::unopened(&name, error))?;
    FileSource::from_file(file, &name, options, filter)
}

/// Reads a capture file from a stream, such as standard input. `name` appears in errors.
///
/// # Errors
///
/// The same errors as [`open_file`].
pub fn open_stream(
    stream: Box<dyn Read + Send>,
    name: &str,
    options: &ReadOptions,
    filter: Option<&Filter>,
) -> Result<FileSource> {
    FileSource::new(Reader::new(stream, name, options)?, name.to_owned(), filter)
}

/// The number of uncompressed bytes in which interfaces are searched beforehand.
const FIRST: u64 = 1 << 20;

/// Compiles a filter for the interfaces at the start of a pcapng file, so that an invalid filter is found
/// before any packet is read. In a pipe interfaces are found when they come. The file offset is restored.
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
    let mut table = FilterTable::of_file(Answers::default());
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
    /// Opens a capture file as [`open_file`] does, from a file that the caller has opened. `name` appears in
    /// errors. It is read from its current offset.
    ///
    /// # Errors
    ///
    /// The same errors as [`open_file`].
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
            groups: Groups::default(),
            packets: 0,
            started: false,
        };
        source.set_filter(filter)?;
        Ok(source)
    }

    /// Compiles the filter for new interfaces, as [`Source::next`] does before their packets. A caller that
    /// needs an invalid filter reported earlier calls it.
    ///
    /// # Errors
    /// The filter cannot be compiled for their link type.
    pub fn extend_filter(&mut self) -> Result<()> {
        let Some(filter) = &mut self.filter else {
            return Ok(());
        };
        if filter.table.knows(self.reader.interfaces().len()) {
            return Ok(());
        }
        // Taken from the reader first, so that it can be extended without a copy.
        self.reader.set_filter(None);
        let (interfaces, byte_order) = (self.reader.interfaces(), self.reader.byte_order());
        let programs = filter.table.programs();
        let table = Arc::make_mut(&mut filter.table);
        let extended = table.extend(&filter.filter, interfaces, byte_order);
        // A file may have an interface for each packet. The table, which is copied for that, is compiled
        // again only for a new program.
        filter.is_native &= filter.table.programs() == programs;
        let of_reader = filter.of_reader();
        self.reader.set_filter(of_reader.map(|table| table as _));
        extended
    }

    /// Compiles the filter to native code once a file turns out to be large.
    fn hasten_filter(&mut self) {
        let packets = self.packets;
        let Some(filter) = self.filter.as_mut().filter(|filter| !filter.is_native) else {
            return;
        };
        if packets < MANY {
            return;
        }
        // The reader keeps the old filter until it has the new one; both select the same packets.
        Arc::make_mut(&mut filter.table).make_native();
        let of_reader = filter.of_reader();
        self.reader.set_filter(of_reader.map(|table| table as _));
        filter.is_native = true;
    }

    /// Passes the next packets to a visitor, as [`Block::drain`], one by one while a mapped, unfiltered file
    /// is checked. Returns their number. If it is 0, [`Source::next`] returns the next item.
    #[inline]
    pub fn drain(&mut self, visitor: &mut impl Visitor) -> usize {
        if self.filter.is_some() || self.waker.is_pending() {
            return 0;
        }
        let packets = self.reader.visit(visitor);
        self.packets += packets as u64;
        packets
    }

    /// Returns the reader, for properties that only files have: format, offsets, compression.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}

impl Source for FileSource {
    fn interfaces(&self) -> &[Interface] {
        self.reader.interfaces()
    }

    /// Waits for a stream without a limit: the [`Waker`] takes effect between blocks.
    fn next(&mut self) -> Result<Next<'_>> {
        if self.waker.is_pending() && self.waker.take() {
            return Ok(Next::Woken);
        }
        // An interface is an item of its own, so that it is known here before its packets come.
        self.extend_filter()?;
        self.hasten_filter();
        self.started = true;
        let item = self.reader.next()?;
        if let Some(described) = item.as_ref().and_then(Described::of) {
            if let Some(filter) = self
                .filter
                .as_mut()
                .filter(|filter| filter.asks_for_process)
            {
                Arc::make_mut(&mut filter.table).learn(&described);
            }
            self.groups.learn(described);
        }
        let filter = self.filter.as_ref().filter(|filter| filter.after_reading);
        let table = filter.map(|filter| &*filter.table);
        Ok(match item {
            Some(Item::Run(run)) => {
                self.packets += run.len() as u64;
                Next::Block(Block::new(Origin::Run(run), table))
            }
            Some(Item::Filtered(filtered)) => {
                self.packets += filtered.read() as u64;
                Next::Block(Block::new(Origin::Filtered(filtered), table))
            }
            Some(item) => Next::Meta(item),
            None => Next::End,
        })
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        self.next()
    }

    /// Returns the number of packets read; a file loses none.
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
        let asked = filter.map(Filter::asked).unwrap_or_default();
        let asks_for_process = asked.anything;
        let mut table = FilterTable::of_file(Answers::new(asked, &self.groups));
        if let Some(filter) = filter {
            table.extend(filter, self.reader.interfaces(), self.reader.byte_order())?;
        }
        let table = Arc::new(table);
        self.filter = filter.map(|filter| FileFilter {
            filter: filter.clone(),
            table,
            is_native: false,
            after_reading: self.started || asks_for_process,
            asks_for_process,
        });
        let of_reader = self.filter.as_ref().and_then(FileFilter::of_reader);
        self.reader.set_filter(of_reader.map(|table| table as _));
        Ok(())
    }

    fn describe(&self) -> Description {
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
            link_types: link_types(self.reader.interfaces()),
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
    use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
    use ringtap_savefile::{ByteOrder, PcapngWriter, Section};

    use super::*;

    /// Regression test: a file of 65,536 sections with an interface each took six seconds, since from the
    /// 32,768th packet on the table was copied for each.
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
                process: None,
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
