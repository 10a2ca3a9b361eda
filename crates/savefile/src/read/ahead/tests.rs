use std::io::Write;

use super::*;
use crate::encoding::{LengthOrder, PcapEncoding};
use crate::filtered::Records;
use crate::{ByteOrder, LinkType};

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("temporary file");
    file.write_all(bytes).expect("written");
    file
}

fn pattern(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

fn start(file: File, offset: usize, filter: Option<Arc<dyn PacketFilter>>) -> Ahead {
    Ahead::start(file, offset as u64, 1000, filter).expect("thread")
}

fn read_all(ahead: &mut Ahead) -> Vec<u8> {
    let mut scratch = Scratch::default();
    let mut all = Vec::new();
    loop {
        let stretch = ahead.next(&[], None, &mut scratch).expect("reads");
        assert!(stretch.walked.is_none(), "nobody may walk");
        if stretch.end == HEADROOM {
            return all;
        }
        all.extend_from_slice(&stretch.memory.data[HEADROOM..stretch.end]);
        ahead.recycle(stretch.memory);
    }
}

/// Returns records of 16 and 5 bytes.
fn records(count: u32) -> Vec<u8> {
    (0..count)
        .flat_map(|number| {
            let [a, b, c, d] = number.to_le_bytes();
            [
                a, b, c, d, 0, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0, 1, 2, 3, 4, 5,
            ]
        })
        .collect()
}

fn walker() -> Walker {
    Walker::Pcap {
        encoding: PcapEncoding {
            byte_order: ByteOrder::Little,
            nanos: false,
            extended: false,
            lengths: LengthOrder::CapturedFirst,
            snaplen: 100,
        },
        max_caplen: LinkType::ETHERNET.max_snaplen(),
    }
}

#[test]
fn gives_the_file_in_order() {
    for length in [0, 1, 999, 1000, 1001, 50_000, 50_007] {
        let bytes = pattern(length);
        let from = length.min(13);
        let mut ahead = start(file_of(&bytes), from, None);
        assert_eq!(read_all(&mut ahead), &bytes[from..], "{length} bytes");
        assert_eq!(ahead.offset, length as u64);
    }
}

#[test]
fn a_file_that_grows_is_read_on() {
    let mut bytes = pattern(2500);
    let mut file = file_of(&bytes);
    let mut ahead = start(file.try_clone().expect("clone"), 0, None);
    let mut all = read_all(&mut ahead);
    file.write_all(b"more").expect("written");
    all.extend(read_all(&mut ahead));
    bytes.extend_from_slice(b"more");
    assert_eq!(all, bytes);
}

#[test]
fn is_closed_while_there_is_more() {
    let bytes = pattern(100_000);
    let mut ahead = start(file_of(&bytes), 0, None);
    let stretch = ahead
        .next(&[], None, &mut Scratch::default())
        .expect("reads");
    assert_eq!(stretch.memory.data[HEADROOM..stretch.end], bytes[..1000]);
}

/// Accepts packets whose number is divisible by three.
struct Third;

impl PacketFilter for Third {
    fn choose(&self, packets: Records<'_>, wanted: &mut Vec<bool>) {
        wanted.extend(packets.map(|packet| packet.timestamp.secs() % 3 == 0));
    }
}

#[test]
fn walks_are_handed_on_and_end_with_the_file() {
    let bytes = records(10_000);
    let mut scratch = Scratch::default();
    let mut ahead = start(file_of(&bytes), 0, Some(Arc::new(Third)));
    let (mut rest, mut read, mut chosen) = (Vec::new(), 0, Vec::new());
    loop {
        let stretch = ahead
            .next(&rest, Some(walker()), &mut scratch)
            .expect("reads");
        let Some(walked) = stretch.walked else {
            panic!("the helper lives to the end of the file");
        };
        read += walked.walk.packets;
        let bytes = &stretch.memory.data[stretch.start..stretch.end];
        for range in &stretch.memory.ranges {
            chosen.extend_from_slice(&bytes[range.start..range.end]);
        }
        rest = bytes[walked.walk.used..].to_vec();
        let last = stretch.read_len() < 1000;
        assert_eq!(walked.handed_on, !last);
        ahead.recycle(stretch.memory);
        if last {
            break;
        }
    }
    assert_eq!((read, rest.len()), (10_000, 0));
    let expected: Vec<u8> = bytes.chunks(21).step_by(3).flatten().copied().collect();
    assert_eq!(chosen, expected);
}

#[test]
fn a_walk_that_meets_damage_is_not_handed_on() {
    let mut bytes = records(200);
    bytes.truncate(21 * 60);
    bytes.extend_from_slice(&[0xff; 3000]);
    let mut scratch = Scratch::default();
    let mut ahead = start(file_of(&bytes), 0, None);
    let first = ahead.next(&[], Some(walker()), &mut scratch);
    let first = first.expect("reads");
    let walked = first.walked.expect("walked");
    assert!(walked.handed_on);
    let rest = first.memory.data[first.start + walked.walk.used..first.end].to_vec();
    let second = ahead.next(&rest, Some(walker()), &mut scratch);
    let second = second.expect("reads").walked.expect("walked");
    assert_eq!((second.handed_on, second.walk.stop), (false, Stop::Other));
    assert_eq!(walked.walk.packets + second.walk.packets, 60);
    let third = ahead.next(&[], None, &mut scratch).expect("reads");
    assert!(third.walked.is_none());
}

/// Panics at a certain packet.
struct Failing;

impl PacketFilter for Failing {
    fn choose(&self, mut packets: Records<'_>, _: &mut Vec<bool>) {
        assert!(packets.all(|packet| packet.timestamp.secs() < 1000));
    }
}

#[test]
fn a_filter_that_panics_makes_the_reader_panic() {
    let bytes = records(10_000);
    let outcome = std::panic::catch_unwind(|| {
        let mut scratch = Scratch::default();
        let mut ahead = start(file_of(&bytes), 0, Some(Arc::new(Failing)));
        let mut rest = Vec::new();
        loop {
            let stretch = ahead
                .next(&rest, Some(walker()), &mut scratch)
                .expect("reads");
            let Some(walked) = stretch.walked else {
                break;
            };
            rest = stretch.memory.data[stretch.start + walked.walk.used..stretch.end].to_vec();
        }
    });
    assert!(outcome.is_err());
}
