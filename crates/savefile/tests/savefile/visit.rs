//! A mapped file delivers the same packets one by one as in runs.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use ringtap_savefile::{MapFile, ReadOptions, Reader};
use ringtap_testkit::captures::{BIG, LITTLE, Ng, PcapHeader, pattern};

use crate::collect::{Collected, Way, collect_in};
use crate::read_ahead::MAPS;

/// A file that is large enough to be mapped, with a variable end.
struct Ended {
    file: tempfile::NamedTempFile,
    start: u64,
}

impl Ended {
    fn new(start: &[u8]) -> Self {
        let mut file = tempfile::NamedTempFile::new().expect("temporary file");
        file.write_all(start).expect("written");
        Self {
            file,
            start: start.len() as u64,
        }
    }

    /// Reads the file with this end, by runs and by visits.
    fn read(&mut self, end: &[u8]) -> [Collected; 2] {
        let file = self.file.as_file_mut();
        file.set_len(self.start).expect("cut");
        file.seek(SeekFrom::Start(self.start)).expect("sought");
        file.write_all(end).expect("written");
        let path = self.file.path();
        [
            read(path, None, Way::Runs),
            read(path, MAPS[1], Way::Visits),
        ]
    }
}

fn read(path: &Path, map: Option<MapFile>, way: Way) -> Collected {
    let mut options = ReadOptions::default();
    (options.read_ahead, options.map) = (false, map);
    collect_in(Reader::open(path, &options).expect("header"), way)
}

fn assert_same([runs, visits]: &[Collected; 2]) {
    assert_eq!(visits.error_text(), runs.error_text());
    assert!(visits.packets == runs.packets, "{}", runs.error_text());
    assert_eq!(visits.others, runs.others);
    assert_eq!((visits.read, runs.visited), (runs.read, 0));
}

/// Returns pseudo-random numbers, the same each time.
fn chance() -> impl FnMut(usize) -> usize {
    let mut state = 77_u32;
    move |below| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    }
}

/// Compares intact ends, and ends with a few changed or missing bytes.
fn assert_same_when_damaged(start: &[u8], end: &[u8]) {
    let mut file = Ended::new(start);
    let whole = file.read(end);
    assert_same(&whole);
    assert!(whole[0].error.is_none() && whole[1].visited > 300);
    let mut random = chance();
    let (mut damaged, mut visited) = (0, 0);
    for _ in 0..60 {
        let mut end = end[..end.len() - random(40)].to_vec();
        for _ in 0..=random(3) {
            let at = random(end.len());
            end[at] = [0, 1, 0x7f, 0xff, end[at] ^ 4][random(5)];
        }
        let found = file.read(&end);
        assert_same(&found);
        damaged += usize::from(found[0].error.is_some());
        visited += usize::from(found[1].packets.len() > 65);
    }
    assert!(damaged > 20 && visited > 20, "{damaged}, {visited}");
}

#[test]
fn damaged_records_are_told_at_the_same_place() {
    let header = PcapHeader::MICROS;
    let large = header.packet(&pattern(160_000)).repeat(60);
    let end: Vec<u8> = (0..300)
        .flat_map(|nth| header.packet(&pattern(nth % 70)))
        .collect();
    assert_same_when_damaged(&[header.bytes(), large].concat(), &end);
}

#[test]
fn damaged_blocks_are_told_at_the_same_place() {
    let ng = Ng(LITTLE);
    let large = ng.enhanced(0, 5, &pattern(160_000)).repeat(60);
    let end: Vec<u8> = (0..300)
        .flat_map(|nth| match nth % 90 {
            7 => ng.interface(1, 50, &[]),
            19 => ng.block(77, &pattern(33)),
            _ => ng.enhanced(u32::from(nth > 30), 5, &pattern(nth % 50)),
        })
        .collect();
    assert_same_when_damaged(&[ng.prelude(), large].concat(), &end);
}

/// Packets are cut to the snapshot length; a block is longer than the window of a mapped file.
#[test]
fn what_is_cut_and_what_is_large_is_the_same() {
    let header = PcapHeader {
        snaplen: 100,
        ..PcapHeader::MICROS
    };
    let records = header.packet(&pattern(9_000)).repeat(1200);
    let found = Ended::new(&[header.bytes(), records].concat()).read(&[]);
    assert_same(&found);
    assert!(found[1].visited > 1000 && found[1].packets[1100].data.len() == 100);

    let ng = Ng(LITTLE);
    let small = ng.enhanced(0, 5, &pattern(200_000)).repeat(50);
    let comment = ng.option(1, &pattern(60_000)).repeat(20);
    let large = ng.block(6, &ng.enhanced_body((0, 5, 8, 8), &pattern(8), &comment));
    let found = Ended::new(&[ng.prelude(), small].concat()).read(&large.repeat(3));
    assert_same(&found);
    assert_eq!(
        (found[1].packets.len(), found[0].error_text()),
        (53, "no error".to_owned())
    );
}

#[test]
fn other_encodings_are_read_by_runs() {
    let nanos = PcapHeader {
        magic: 0xa1b2_3c4d,
        ..PcapHeader::MICROS
    };
    let modified = PcapHeader {
        magic: 0xa1b2_cd34,
        ..PcapHeader::MICROS
    };
    let big = PcapHeader {
        order: BIG,
        ..PcapHeader::MICROS
    };
    for header in [nanos, modified, big] {
        let records = header.packet(&pattern(9_000)).repeat(1200);
        let found = Ended::new(&[header.bytes(), records].concat()).read(&[]);
        assert_same(&found);
        assert_eq!((found[1].visited, found[1].packets.len()), (0, 1200));
    }
    let blocks = Ng(BIG).enhanced(0, 5, &pattern(9_000)).repeat(1200);
    let found = Ended::new(&[Ng(BIG).prelude(), blocks].concat()).read(&[]);
    assert_same(&found);
    assert_eq!((found[1].visited, found[1].packets.len()), (0, 1200));
}
