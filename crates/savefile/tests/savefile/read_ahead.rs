//! A large file yields the same items if it is read ahead or read by one thread.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use ringtap_savefile::{
    Item, MapFile, Mapped, Packet, PacketFilter, ReadErrorKind, ReadOptions, Reader, Records,
    Visitor,
};
use ringtap_testkit::captures::{BIG, LITTLE, Ng, PcapHeader, pattern};

use crate::collect::{Collected, Way, collect, collect_in};

const MIB: usize = 1024 * 1024;

/// Returns packet sizes, some larger than a stretch, of at least 9 MiB together.
fn sizes() -> impl Iterator<Item = usize> {
    let sizes = [0, 60, 1500, 9000, 77, 70_000, 262_144, 4096, 1];
    let mut total = 0;
    sizes
        .into_iter()
        .cycle()
        .enumerate()
        .map_while(move |(index, size)| {
            total += size;
            (total < 9 * MIB).then_some(size.saturating_sub(index % 3))
        })
}

fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    file
}

/// Accepts about half of the packets, and all of 77 bytes.
struct Even;

fn is_even(len: u32, data: &[u8]) -> bool {
    len.is_multiple_of(2) || data.len() == 77
}

impl PacketFilter for Even {
    fn choose(&self, packets: Records<'_>, wanted: &mut Vec<bool>) {
        wanted.extend(packets.map(|packet| is_even(packet.len, packet.data)));
    }
}

/// A file's bytes instead of a mapping; they may be used `looks` times.
struct Bytes {
    file: File,
    bytes: Vec<u8>,
    looks: usize,
    /// The end of the bytes that were used.
    passed: usize,
}

impl Bytes {
    fn of(file: File, looks: usize) -> io::Result<Box<dyn Mapped>> {
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).expect("fits")];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Box::new(Self {
            file,
            bytes,
            looks,
            passed: 0,
        }))
    }
}

impl Mapped for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, passed: usize, end: usize) -> bool {
        assert!(self.passed <= passed && passed <= end && end <= self.bytes.len());
        self.passed = passed;
        self.looks = self.looks.saturating_sub(1);
        self.looks > 0
    }

    fn file(&self) -> &File {
        &self.file
    }
}

/// No mapping, one of the whole file, one that ends early, and one that fails.
pub(crate) const MAPS: [Option<MapFile>; 4] = [
    None,
    Some(MapFile(|file| Bytes::of(file, usize::MAX))),
    Some(MapFile(|file| Bytes::of(file, 20))),
    Some(MapFile(|_| Err(io::ErrorKind::Unsupported.into()))),
];

fn read(path: &Path, read_ahead: bool, buffer: usize, filter: bool) -> Collected {
    read_mapped(path, (read_ahead, None), buffer, filter, Way::Runs)
}

fn read_mapped(
    path: &Path,
    (read_ahead, map): (bool, Option<MapFile>),
    buffer: usize,
    filter: bool,
    way: Way,
) -> Collected {
    let mut options = ReadOptions::default();
    options.read_ahead = read_ahead;
    options.map = map;
    options.buffer = buffer;
    let mut reader = Reader::open(path, &options).expect("header");
    if filter {
        reader.set_filter(Some(Arc::new(Even)));
    }
    collect_in(reader, way)
}

fn assert_same(bytes: &[u8], packets: usize) {
    let file = file(bytes);
    let alone = read(file.path(), false, MIB, false);
    assert_eq!(alone.packets.len(), packets);
    let mut chosen = alone.packets.clone();
    chosen.retain(|packet| is_even(packet.len, &packet.data));
    assert!(!chosen.is_empty() && chosen.len() < packets);
    let ahead = [1, 100_000, MIB].map(|buffer| (buffer, true, None));
    let mapped = MAPS.map(|map| (9000, false, map));
    let inputs: Vec<_> = ahead.into_iter().chain(mapped).collect();
    for (way, (buffer, read_ahead, map)) in [Way::Runs, Way::Visits]
        .into_iter()
        .flat_map(|way| inputs.iter().map(move |&input| (way, input)))
    {
        for (filter, expected) in [(false, &alone.packets), (true, &chosen)] {
            let found = read_mapped(file.path(), (read_ahead, map), buffer, filter, way);
            assert!(
                found.packets == *expected,
                "buffer of {buffer}, ahead: {read_ahead}, filter: {filter}, map: {map:?}, {way:?}"
            );
            assert_eq!(found.read, packets);
            let is_mapped = !read_ahead && !filter && MAPS[1..3].contains(&map);
            let is_visited = found.visited > 0;
            assert_eq!(is_visited, way == Way::Visits && is_mapped, "map: {map:?}");
            assert_eq!(found.error_text(), alone.error_text());
            assert_eq!(found.others, alone.others);
        }
    }
}

#[test]
fn both_formats_are_the_same() {
    let data = pattern(262_144);
    let header = PcapHeader::MICROS;
    let packets: Vec<u8> = sizes()
        .flat_map(|size| header.packet(&data[..size]))
        .collect();
    assert_same(&[header.bytes(), packets].concat(), sizes().count());
    let ng = Ng(LITTLE);
    let packets: Vec<u8> = sizes()
        .flat_map(|size| ng.enhanced(0, 5, &data[..size]))
        .collect();
    assert_same(&[ng.prelude(), packets].concat(), sizes().count());
}

#[test]
fn damage_at_the_end_is_the_same() {
    let data = pattern(262_144);
    let header = PcapHeader::MICROS;
    let packets: Vec<u8> = sizes()
        .flat_map(|size| header.packet(&data[..size]))
        .collect();
    let whole = [header.bytes(), packets].concat();
    let damaged = header.record([1, 2, u32::MAX, 9], b"");
    assert_same(&[&whole[..], &damaged].concat(), sizes().count());
    assert_same(&[&whole[..], &damaged[..7]].concat(), sizes().count());
}

#[test]
fn other_blocks_stay_where_they_are() {
    let data = pattern(262_144);
    let (little, big) = (Ng(LITTLE), Ng(BIG));
    let mut bytes = little.prelude();
    for (index, size) in sizes().enumerate() {
        let ng = if index < sizes().count() / 2 {
            little
        } else {
            big
        };
        if index == sizes().count() / 2 {
            bytes.extend(ng.prelude());
        }
        bytes.extend(ng.enhanced(0, 5, &data[..size]));
        match index % 40 {
            7 => bytes.extend(ng.block(4, &[0; 4])),
            19 => bytes.extend(ng.block(77, &data[..70_000])),
            _ => {}
        }
    }
    assert_same(&bytes, sizes().count());
}

#[test]
fn a_file_that_shrinks_is_a_truncated_file() {
    let header = PcapHeader::MICROS;
    let records = header.packet(&pattern(1000)).repeat(12_000);
    let file = file(&[header.bytes(), records].concat());
    let mut reader = Reader::open(file.path(), &ReadOptions::default()).expect("header");
    let mut packets = 0;
    while packets == 0 {
        if let Some(Item::Run(run)) = reader.next().expect("valid") {
            packets += run.len();
        }
    }
    let shrunk = OpenOptions::new()
        .write(true)
        .open(file.path())
        .expect("opened");
    shrunk.set_len(11_000_000).expect("shrunk");
    let rest = collect(reader);
    assert_eq!(packets + rest.packets.len(), (11_000_000 - 24) / 1016);
    let error = rest.error.expect("cut within a record");
    assert!(matches!(error.kind(), ReadErrorKind::Truncated { .. }));
}

#[test]
fn a_reader_may_be_dropped_early() {
    let header = PcapHeader::MICROS;
    let records = header.packet(&pattern(1000)).repeat(12_000);
    let file = file(&[header.bytes(), records].concat());
    let mut reader = Reader::open(file.path(), &ReadOptions::default()).expect("header");
    for _ in 0..4 {
        assert!(reader.next().expect("valid").is_some());
    }
    assert!(reader.input_offset() >= reader.offset());
}

#[test]
fn a_filter_that_comes_while_a_file_is_mapped_chooses_from_then_on() {
    let data = pattern(1500);
    let header = PcapHeader::MICROS;
    let count = 9 * MIB / 1500;
    let packets: Vec<u8> = (0..count)
        .flat_map(|index| header.packet(&data[..1400 + index % 100]))
        .collect();
    let file = file(&[header.bytes(), packets].concat());
    let mut options = ReadOptions::default();
    (options.read_ahead, options.map) = (false, MAPS[1]);
    for way in [Way::Runs, Way::Visits] {
        let mut reader = Reader::open(file.path(), &options).expect("header");
        let (mut seen, mut filtered) = (Collected::default(), 0);
        loop {
            if way == Way::Visits && reader.visit(&mut seen) > 0 {
                assert_eq!(filtered, 0, "packets that no filter has seen");
            } else {
                match reader.next().expect("a whole file") {
                    Some(Item::Run(run)) => run.packets().for_each(|packet| seen.packet(&packet)),
                    Some(Item::Filtered(chosen)) => {
                        let right = |packet: Packet<'_>| is_even(packet.len, packet.data);
                        assert!(chosen.packets().all(right));
                        filtered += chosen.read();
                    }
                    Some(_) => {}
                    None => break,
                }
            }
            if seen.packets.len() > count / 2 {
                reader.set_filter(Some(Arc::new(Even)));
            }
        }
        assert_eq!(seen.packets.len() + filtered, count, "{way:?}");
        assert!(filtered > count / 4, "{way:?}");
    }
}
