//! A large file that is read ahead gives what it gives when read by one thread.

use std::fs::OpenOptions;
use std::path::Path;

use ringtap_savefile::{Item, ReadErrorKind, ReadOptions, Reader};

use crate::collect::{Collected, collect};
use crate::craft::{LITTLE, Ng, PcapHeader, pattern};

const MIB: usize = 1024 * 1024;

/// Packets of many sizes, some larger than a stretch, of at least 9 MiB together.
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

fn read(path: &Path, read_ahead: bool, buffer: usize) -> Collected {
    let mut options = ReadOptions::default();
    options.read_ahead = read_ahead;
    options.buffer = buffer;
    collect(Reader::open(path, &options).expect("header"))
}

fn assert_same(bytes: &[u8], packets: usize) {
    let file = file(bytes);
    let alone = read(file.path(), false, MIB);
    assert_eq!(alone.packets.len(), packets);
    for buffer in [1, 100_000, MIB] {
        let ahead = read(file.path(), true, buffer);
        assert!(ahead.packets == alone.packets, "buffer of {buffer}");
        assert_eq!(ahead.error_text(), alone.error_text());
        assert_eq!(ahead.others, alone.others);
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
