//! Random bytes as the index of a capture, with valid checksums. It is read to an end or an error, and its
//! stretches are in order. The capture is read without them, whatever they are. If they are whole records,
//! the remaining packets are those that a reader of all would find there.
#![no_main]

use std::fs::File;
use std::io::{Cursor, Write};

use libfuzzer_sys::fuzz_target;
use ringtap_savefile::index::{IndexReader, IndexWriter, Keys, Skips, Stamp, Wanted};
use ringtap_savefile::{Item, ReadOptions, Reader};
use std::hash::Hasher as _;
use twox_hash::XxHash64;

const HEADER: usize = 64;
const PACKETS: usize = 200;
const RECORD: usize = 16 + 40;

thread_local! {
    static CAPTURES: [File; 2] = captures();
}

fuzz_target!(|bytes: &[u8]| {
    CAPTURES.with(|captures| {
        let Some((choice, rest)) = bytes.split_first() else {
            return;
        };
        let capture = &captures[usize::from(choice & 1)];
        let stamp = Stamp::of(capture).expect("a stamp");
        let index = if choice & 2 == 0 {
            sealed(rest, &stamp)
        } else {
            rest.to_vec()
        };
        let Some(skips) = read(&index, &stamp) else {
            return;
        };
        check(capture, skips);
    });
});

/// Returns the parts that every second entry skips.
fn read(index: &[u8], stamp: &Stamp) -> Option<Skips> {
    let mut reader = IndexReader::new(index, stamp).ok()?;
    let (mut skips, mut end, mut number) = (Skips::default(), 0, 0);
    loop {
        match reader.next_entry() {
            Ok(Some(entry)) => {
                assert!(entry.offset >= end, "stretches are in order");
                end = entry.offset.checked_add(entry.len).expect("within a file");
                look(&entry.keys);
                if let Some(seek) = entry.seek {
                    skips.add_seek(seek);
                }
                if number % 2 == 0 {
                    skips.add(entry.offset, entry.len, entry.packets);
                }
                number += 1;
            }
            Ok(None) => return Some(skips),
            Err(_) => return None,
        }
    }
}

fn look(keys: &Keys) {
    let _ = keys.ip4.may_have(Wanted::Range(5, 500));
    let _ = keys.ip4.may_have(Wanted::Masked {
        value: 5,
        mask: u32::MAX,
    });
    let _ = keys.ip6.may_have(Wanted::Masked {
        value: 1 << 127,
        mask: 1 << 127,
    });
    let _ = keys.ports.may_have(Wanted::Range(53, 53));
}

fn check(capture: &File, skips: Skips) {
    let bounds = |at: u64| at >= 24 && (at - 24) % RECORD as u64 == 0;
    let ranges: Vec<_> = skips.ranges().collect();
    let whole = ranges
        .iter()
        .all(|range| bounds(range.start) && bounds(range.end));
    let first = |at: u64| (at.saturating_sub(24) / RECORD as u64).min(PACKETS as u64);
    let skipped: u64 = ranges
        .iter()
        .map(|range| first(range.end) - first(range.start))
        .sum();
    let file = capture.try_clone().expect("a descriptor");
    let Ok(mut reader) = Reader::skipping(file, "capture", &ReadOptions::default(), skips) else {
        return;
    };
    let mut packets = 0;
    let plain = loop {
        match reader.next() {
            Ok(Some(Item::Run(run))) => packets += run.packets().count() as u64,
            Ok(Some(_)) => {}
            Ok(None) => break true,
            // Places to read a compressed file from may be wrong.
            Err(_) => break false,
        }
    };
    assert!(!whole || !plain || packets == PACKETS as u64 - skipped || is_compressed(capture));
}

fn is_compressed(capture: &File) -> bool {
    let mut magic = [0; 2];
    std::os::unix::fs::FileExt::read_exact_at(capture, &mut magic, 0).expect("a magic");
    magic == [0x1f, 0x8b]
}

/// Returns an index of bodies of 2 + L bytes each, L in the first two.
fn sealed(mut bytes: &[u8], stamp: &Stamp) -> Vec<u8> {
    let empty = IndexWriter::new(Cursor::new(Vec::new())).expect("memory");
    let mut index = empty.finish(stamp).expect("memory").into_inner();
    let (mut entries, mut packets) = (0_u64, 0_u64);
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let (body, rest) = rest.split_at(len);
        index.extend(u32::try_from(len).expect("short").to_le_bytes());
        index.extend(hash(body).to_le_bytes());
        index.extend(body);
        entries += 1;
        let number = body.get(16..24).and_then(|number| number.first_chunk());
        packets = packets.wrapping_add(number.copied().map_or(0, u64::from_le_bytes));
        bytes = rest;
    }
    index[40..48].copy_from_slice(&entries.to_le_bytes());
    index[48..56].copy_from_slice(&packets.to_le_bytes());
    let sum = hash(&index[..HEADER - 8]);
    index[HEADER - 8..HEADER].copy_from_slice(&sum.to_le_bytes());
    index
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = XxHash64::with_seed(0);
    hasher.write(bytes);
    hasher.finish()
}

/// Returns a pcap file of packets of one size, and the same as gzip members.
fn captures() -> [File; 2] {
    let mut bytes = vec![
        0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0,
    ];
    for number in 0..PACKETS {
        let words = [u32::try_from(number).expect("few"), 0, 40, 40];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([7; RECORD - 16]);
    }
    let compressed = bytes.chunks(1000).flat_map(|chunk| {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(chunk).expect("memory");
        encoder.finish().expect("memory")
    });
    let compressed: Vec<u8> = compressed.collect();
    [bytes, compressed].map(|bytes| {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&bytes).expect("a file");
        file
    })
}
