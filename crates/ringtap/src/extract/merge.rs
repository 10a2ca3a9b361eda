//! Merges the packets of several streams in order of time: one stream for each device of each folder.
//!
//! The files of a stream follow one another, and their packets are in order, so only the first packets of each
//! stream are compared. A file is opened when its turn comes.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal as _, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ringtap_capture::index::{Search, path_for, skips_of};
use ringtap_capture::{
    FileSource, Filter, Interface, Next, Packet, ReadOptions, Source as _, Timestamp, open_stream,
};
use ringtap_packet::PacketFlags;
use ringtap_record::archive::{
    Chunk, ChunkCounts, ChunkReader, Cut, Listed, Listing, Skipped, Window, nanos,
};
use ringtap_savefile::{ByteOrder, Item, Options, ProcessBlock};

use super::error::ExtractError;
use super::processes::Processes;
use super::sink::Sink;
use crate::notice::{counted, notice, raw};
use crate::object::object;
use crate::rights;

/// How often the progress is shown on a terminal.
const SHOW: Duration = Duration::from_millis(500);

/// The streams that are merged.
#[derive(Default)]
pub(crate) struct Merge {
    search: Searched,
    streams: Vec<Stream>,
    /// The interfaces of all streams.
    interfaces: Vec<Interface>,
    /// The parts outside of the window.
    by_time: Skipped,
    /// The chunks in the window.
    in_window: Skipped,
    /// The packets that cut-offs left out, about the time of the window.
    cut: Cut,
    show: Option<Instant>,
}

/// The packets that are searched, and the numbers of the search.
#[derive(Default)]
struct Searched {
    filter: Option<Filter>,
    window: Window,
    uses_index: bool,
    counts: Arc<ChunkCounts>,
    by_index: Skipped,
    /// Descriptions of processes.
    processes: Processes,
    /// The number of files that could not be read to their end.
    failed: u64,
    /// The number of files that the recorder has removed meanwhile.
    gone: u64,
}

/// The files of a device in a folder, or the answer of another host.
#[derive(Default)]
struct Stream {
    folder: PathBuf,
    files: VecDeque<Listed>,
    /// The answer of another host and its address, until it is read.
    remote: Option<(String, Box<dyn Read + Send>)>,
    source: Option<Opened>,
    /// The bytes of packets that wait.
    bytes: Vec<u8>,
    waiting: Vec<Waiting>,
    /// The number of packets of `waiting` that were taken.
    taken: usize,
}

/// A file that is being read.
struct Opened {
    source: FileSource,
    /// The indices of its interfaces in the answer.
    interfaces: Vec<u32>,
}

/// A packet that waits for its turn.
#[derive(Clone)]
struct Waiting {
    timestamp: Timestamp,
    len: u32,
    interface: u32,
    flags: PacketFlags,
    data: Range<usize>,
    /// The options of its block, which follow its data.
    options: usize,
    byte_order: ByteOrder,
}

object! {
    /// The numbers of an extraction. Their names are part of the command line's contract.
    pub(crate) struct Summary(merge: &Merge, written: u64) {
        packets: u64 = written,
        chunks_read: u64 = merge.search.counts.chunks.load(Ordering::Relaxed),
        bytes_read: u64 = merge.search.counts.bytes.load(Ordering::Relaxed),
        chunks_skipped_by_time: u64 = merge.by_time.chunks,
        bytes_skipped_by_time: u64 = merge.by_time.bytes,
        chunks_skipped_by_index: u64 = merge.search.by_index.chunks,
        bytes_skipped_by_index: u64 = merge.search.by_index.bytes,
        pub(crate) damaged_chunks: u64 = merge.search.counts.damaged.load(Ordering::Relaxed),
        pub(crate) damaged_packets: u64 = merge.search.counts.damaged_packets.load(Ordering::Relaxed),
        pub(crate) cut_packets: u64 = merge.cut.packets,
        pub(crate) cut_bytes: u64 = merge.cut.bytes,
        files_failed: u64 = merge.search.failed,
        pub(crate) files_gone: u64 = merge.search.gone,
    }
}

impl Merge {
    /// Prepares a search.
    pub(crate) fn new(filter: Option<Filter>, window: Window, uses_index: bool) -> Self {
        let search = Searched {
            filter,
            window,
            uses_index,
            ..Searched::default()
        };
        Self {
            search,
            ..Self::default()
        }
    }

    /// Shows the progress, if there is a terminal.
    pub(super) fn with_progress(mut self) -> Self {
        self.show = io::stderr().is_terminal().then(Instant::now);
        self
    }

    /// Returns whether there are files with packets of the window. If not, nobody has tried the filter.
    pub(crate) fn has_packets(&self) -> bool {
        !self.interfaces.is_empty()
    }

    /// Returns the bytes in files that must be read, if no index helps.
    pub(crate) fn bytes(&self) -> u64 {
        self.in_window.bytes
    }

    /// Adds the files of a folder, of these devices, or of all if there are none.
    pub(crate) fn add(&mut self, folder: &Path, listing: Listing, devices: &[String]) {
        let add = |sum: &mut Skipped, more: Skipped| {
            sum.chunks += more.chunks;
            sum.bytes += more.bytes;
            sum.packets += more.packets;
        };
        add(&mut self.by_time, listing.skipped);
        let is_wanted = |device: &String| devices.is_empty() || devices.contains(device);
        let cuts = listing.cut.iter().filter(|(device, _)| is_wanted(device));
        cuts.for_each(|(_, cut)| self.cut.add(*cut));
        let mut streams: BTreeMap<String, VecDeque<Listed>> = BTreeMap::new();
        for listed in listing.files {
            if is_wanted(&listed.name.device) {
                let chunks = listed.chunks.iter();
                chunks.for_each(|chunk| self.in_window.add(chunk));
                let stream = streams.entry(listed.name.device.clone()).or_default();
                stream.push_back(listed);
            }
        }
        self.streams
            .extend(streams.into_values().map(|files| Stream {
                folder: folder.to_owned(),
                files,
                ..Stream::default()
            }));
    }

    /// Adds the packets of another host, which it has chosen.
    pub(super) fn add_remote(&mut self, address: String, answer: Box<dyn Read + Send>) {
        self.streams.push(Stream {
            remote: Some((address, answer)),
            ..Stream::default()
        });
    }

    /// Reads the first packets of each stream.
    ///
    /// # Errors
    /// The filter is invalid, or not for the link type.
    pub(crate) fn prime(&mut self, stop: &dyn Fn() -> bool) -> Result<(), ExtractError> {
        for stream in &mut self.streams {
            stream.fill(&mut self.search, &mut self.interfaces, stop)?;
        }
        Ok(())
    }

    /// Passes all packets to the answer, until `stop` returns true.
    ///
    /// # Errors
    /// The output failed.
    pub(crate) fn run(
        &mut self,
        answer: &mut impl Sink,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ExtractError> {
        while !stop() {
            for stream in &mut self.streams {
                if stream.is_empty() {
                    stream.fill(&mut self.search, &mut self.interfaces, stop)?;
                }
            }
            self.streams.retain(|stream| !stream.is_empty());
            answer.interfaces(&self.interfaces)?;
            let heads = self.streams.iter().enumerate();
            let Some((first, _)) = heads.min_by_key(|(_, stream)| stream.head()) else {
                break;
            };
            let others = self.streams.iter().enumerate();
            let others = others.filter(|(at, _)| *at != first);
            let until = others.filter_map(|(_, stream)| stream.head()).min();
            if let Some(stream) = self.streams.get_mut(first) {
                stream.pass(until, &mut self.search.processes, answer)?;
            }
            self.show_progress();
        }
        if self.show.is_some() {
            raw("\r\x1b[K");
        }
        Ok(())
    }

    fn show_progress(&mut self) {
        if self.show.is_none_or(|shown| shown.elapsed() < SHOW) {
            return;
        }
        self.show = Some(Instant::now());
        let read = self.search.counts.bytes.load(Ordering::Relaxed);
        let all = self.in_window.bytes;
        raw(format_args!(
            "\rread {} of {}, skipped {} by time and {} by indices\x1b[K",
            size(read),
            size(all),
            size(self.by_time.bytes),
            size(self.search.by_index.bytes)
        ));
    }

    /// Returns the numbers.
    pub(crate) fn summary(&self, packets: u64) -> Summary {
        Summary::new(self, packets)
    }
}

impl Summary {
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn words(&self) -> String {
        let cut = match self.cut_packets {
            0 => String::new(),
            packets => format!(
                "; cut-offs left out {packets} packets of {} in this time",
                size(self.cut_bytes)
            ),
        };
        format!(
            "{}; read {} in {} chunks, skipped {} by time and {} by indices{cut}",
            counted(self.packets, "packet"),
            size(self.bytes_read),
            self.chunks_read,
            size(self.bytes_skipped_by_time),
            size(self.bytes_skipped_by_index)
        )
    }

    /// Returns whether nothing was missing.
    pub(crate) fn is_whole(&self) -> bool {
        self.damaged_chunks == 0 && self.files_failed == 0
    }
}

/// Returns a number of bytes in a few digits.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    #[expect(clippy::cast_precision_loss, reason = "a few digits")]
    let mut number = bytes as f64;
    let mut unit = 0;
    while number >= 1000.0 && unit + 1 < units.len() {
        number /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{number:.1} {}", units[unit]),
    }
}

impl Waiting {
    /// Returns the packet with its options, which are in `bytes`.
    fn packet<'d>(&self, bytes: &'d [u8]) -> (Packet<'d>, Options<'d>) {
        let end = self.data.end + self.options;
        let options = bytes.get(self.data.end..end).unwrap_or_default();
        let options = Options::from_encoded(self.byte_order, options);
        let mut packet = Packet {
            timestamp: self.timestamp,
            len: self.len,
            interface: self.interface,
            flags: self.flags,
            data: bytes.get(self.data.clone()).unwrap_or_default(),
            process: None,
        };
        options.read_into(&mut packet);
        (packet, options)
    }
}

impl Stream {
    fn is_empty(&self) -> bool {
        self.taken >= self.waiting.len()
    }

    fn head(&self) -> Option<Timestamp> {
        self.waiting.get(self.taken).map(|packet| packet.timestamp)
    }

    /// Passes packets to the answer, up to that time.
    fn pass(
        &mut self,
        until: Option<Timestamp>,
        processes: &mut Processes,
        answer: &mut impl Sink,
    ) -> Result<(), ExtractError> {
        let rest = self.waiting.get(self.taken..).unwrap_or_default();
        let is_turn = |packet: &&Waiting| until.is_none_or(|until| packet.timestamp <= until);
        let count = rest.iter().take_while(is_turn).count();
        let bytes = &self.bytes;
        let packets = rest.iter().take(count).map(|waiting| waiting.packet(bytes));
        let plain = packets.clone().map(|(packet, _)| packet);
        processes.pass(plain, |described| answer.process(&described))?;
        answer.take(packets)?;
        self.taken += count;
        Ok(())
    }

    /// Reads the next packets of the answer. Nothing waits afterwards if there are none, or `stop` returns true.
    fn fill(
        &mut self,
        search: &mut Searched,
        known: &mut Vec<Interface>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ExtractError> {
        self.bytes.clear();
        self.waiting.clear();
        self.taken = 0;
        while self.waiting.is_empty() && !stop() {
            if self.source.is_none() && !self.open_next(search)? {
                return Ok(());
            }
            if !self.read_on(search, known)? {
                self.source = None;
            }
        }
        Ok(())
    }

    /// Reads a block of the open file. Returns false at its end.
    fn read_on(
        &mut self,
        search: &mut Searched,
        known: &mut Vec<Interface>,
    ) -> Result<bool, ExtractError> {
        let Some(Opened { source, interfaces }) = &mut self.source else {
            return Ok(false);
        };
        source.extend_filter()?;
        for interface in source.interfaces().iter().skip(interfaces.len()) {
            interfaces.push(index_in(known, interface));
        }
        match source.next() {
            Ok(Next::Block(block)) => {
                for (packet, options) in block.packets_with_options() {
                    if !search.window.has(nanos(packet.timestamp)) {
                        continue;
                    }
                    let begin = self.bytes.len();
                    self.bytes.extend_from_slice(packet.data);
                    let data = begin..self.bytes.len();
                    self.bytes.extend_from_slice(options.encoded());
                    let interface = interfaces.get(packet.interface as usize);
                    self.waiting.push(Waiting {
                        timestamp: packet.timestamp,
                        len: packet.len,
                        interface: interface.copied().unwrap_or(0),
                        flags: packet.flags,
                        options: self.bytes.len() - data.end,
                        data,
                        byte_order: options.byte_order(),
                    });
                }
                Ok(true)
            }
            Ok(Next::End) => Ok(false),
            Ok(Next::Meta(Item::Other(block))) => {
                if let Some(process) = ProcessBlock::parse(&block)
                    && block.byte_order() == ByteOrder::NATIVE
                {
                    search.processes.add(&process.tag, block.bytes());
                }
                Ok(true)
            }
            Ok(_) => Ok(true),
            Err(error) => {
                // The rest of the file is lost, and nothing else.
                notice(crate::filter::describe(&error));
                search.failed += 1;
                Ok(false)
            }
        }
    }

    /// Opens the next file of which anything must be read. Returns false if there is none.
    fn open_next(&mut self, search: &mut Searched) -> Result<bool, ExtractError> {
        if let Some((address, answer)) = self.remote.take() {
            let options = ReadOptions::default();
            let source = open_stream(answer, &address, &options, None)?;
            let interfaces = Vec::new();
            self.source = Some(Opened { source, interfaces });
            return Ok(true);
        }
        while let Some(listed) = self.files.pop_front() {
            let path = listed.name.path(&self.folder);
            let name = path.display().to_string();
            let file = match rights::read(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    search.gone += 1;
                    continue;
                }
                Err(error) => {
                    notice(format_args!("cannot read {name}: {error}"));
                    search.failed += 1;
                    continue;
                }
            };
            let is_listed = listed.is_listed();
            let options = ReadOptions::default();
            let filter = search.filter.as_ref();
            let opened = match is_listed {
                false => FileSource::from_file(file, &name, &options, filter),
                true => {
                    let chunks = search.chunks(&path, &file, &listed);
                    if !chunks.iter().any(|chunk| chunk.packets > 0) {
                        continue;
                    }
                    let counts = Arc::clone(&search.counts);
                    let chunks = ChunkReader::new(file, &listed.name, chunks, counts);
                    open_stream(Box::new(chunks), &name, &options, search.filter.as_ref())
                }
            };
            self.source = Some(Opened {
                source: opened?,
                interfaces: Vec::new(),
            });
            return Ok(true);
        }
        Ok(false)
    }
}

impl Searched {
    /// Returns the chunks of a file that may have packets of the answer, by its index.
    fn chunks(&mut self, path: &Path, file: &std::fs::File, listed: &Listed) -> Vec<Chunk> {
        let all = listed.chunks.clone();
        let (Some(filter), true) = (&self.filter, self.uses_index && listed.end.is_some()) else {
            return all;
        };
        let Ok(index) = rights::read(&path_for(path)) else {
            return all;
        };
        let search = Search::default();
        // An index that is not usable costs time only.
        let Ok(skips) = skips_of(file, index, Some(filter), &search) else {
            return all;
        };
        let ranges: Vec<Range<u64>> = skips.ranges().collect();
        let mut kept = Vec::new();
        for chunk in all {
            let end = chunk.base + u64::from(chunk.base_len);
            let behind = ranges.partition_point(|range| range.end < end);
            let range = ranges.get(behind);
            let is_skipped = range.is_some_and(|range| range.start <= chunk.base);
            match is_skipped && !chunk.describes {
                true => self.by_index.add(&chunk),
                false => kept.push(chunk),
            }
        }
        kept
    }
}

/// Returns the index of an interface in the answer, which has each once.
fn index_in(known: &mut Vec<Interface>, interface: &Interface) -> u32 {
    let place = known.iter().position(|one| one == interface);
    let place = place.unwrap_or_else(|| {
        known.push(interface.clone());
        known.len() - 1
    });
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use ringtap_capture::LinkType;
    use ringtap_savefile::{PcapngWriter, Section};

    use super::*;
    use crate::extract::Encoded;

    /// A comment, and the mark at the end of options.
    const COMMENT: &[u8] = b"\x01\0\x05\0hello\0\0\0\0\0\0\0";
    /// Process 7 and its thread 8, and the same mark.
    const PROCESS: &[u8] = b"\x08\0\x08\0\x07\0\0\0\x08\0\0\0\0\0\0\0";

    /// Returns a file with a packet at this second, whose block has these options.
    fn file(second: u32, options: &[u8]) -> Vec<u8> {
        let mut writer = PcapngWriter::new(Vec::new(), &Section::default()).expect("a file");
        let interface = Interface::new(LinkType::ETHERNET, 100);
        writer.add_interface(&interface).expect("an interface");
        let packet = Packet {
            timestamp: Timestamp::new(second.into(), 0),
            len: 4,
            interface: 0,
            flags: PacketFlags::default(),
            data: &[1, 2, 3, 4],
            process: None,
        };
        let options = Options::from_encoded(ByteOrder::Little, options);
        let written = writer.write_packet_with_options(&packet, &options);
        written.expect("a packet");
        writer.finish().expect("a file").0
    }

    #[test]
    fn packets_keep_their_options() {
        let mut merge = Merge::new(None, Window::default(), false);
        for (second, options) in [(2, COMMENT), (1, PROCESS), (3, &[][..])] {
            let answer = Box::new(io::Cursor::new(file(second, options)));
            merge.add_remote("host".to_owned(), answer);
        }
        let mut bytes = Vec::new();
        let mut encoded = Encoded::new(|piece| {
            bytes.extend_from_slice(&piece);
            Ok(())
        })
        .expect("a file");
        merge.run(&mut encoded, &|| false).expect("packets");
        encoded.finish().expect("a file");
        let mut source = open_stream(
            Box::new(io::Cursor::new(bytes)),
            "answer",
            &ReadOptions::default(),
            None,
        )
        .expect("a file");
        let mut found = Vec::new();
        loop {
            let block = match source.next().expect("packets") {
                Next::Block(block) => block,
                Next::End => break,
                _ => continue,
            };
            for (packet, options) in block.packets_with_options() {
                let process = packet.process.map(|process| (process.pid, process.tid));
                let comment = options.comments().next().map(std::borrow::Cow::into_owned);
                found.push((process, comment));
            }
        }
        let comment = Some("hello".to_owned());
        assert_eq!(found, [(Some((7, 8)), None), (None, comment), (None, None)]);
    }
}
