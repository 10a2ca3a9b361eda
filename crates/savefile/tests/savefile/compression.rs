//! gzip, zstd and lz4 input: complete, with several members, cut and damaged.

use std::io::Write;

use ringtap_savefile::{Compression, ReadErrorKind, ReadOptions, Reader};
use ringtap_testkit::captures::{PcapHeader, pattern};

use crate::collect::{collect, read_bytes};

type Compress = fn(&[u8]) -> Vec<u8>;

const ALL: [(Compression, Compress); 3] = [
    (Compression::Gzip, gzip),
    (Compression::Zstd, zstd),
    (Compression::Lz4, lz4),
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("encoder");
    encoder.include_checksum(true).expect("checksum");
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new()
        .block_size(lz4_flex::frame::BlockSize::Max64KB)
        .content_checksum(true);
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// Returns a file of 300 packets that does not compress well.
fn plain() -> Vec<u8> {
    let header = PcapHeader::MICROS;
    let mut state = 1u32;
    let packets = (0..300).flat_map(|_| {
        let data: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .take(1000)
        .collect();
        header.packet(&data)
    });
    header.bytes().into_iter().chain(packets).collect()
}

#[test]
fn compressed_files_are_read_as_they_are() {
    let plain = plain();
    let expected = read_bytes(&plain).packets;
    assert_eq!(expected.len(), 300);
    for (compression, compress) in ALL {
        let file = Box::new(std::io::Cursor::new(compress(&plain)));
        let reader = Reader::new(file, "memory", &ReadOptions::default()).expect("header");
        assert_eq!(reader.compression(), Some(compression));
        let read = collect(reader);
        assert_eq!(read.error_text(), "no error", "{compression}");
        assert!(read.packets == expected, "{compression}");
    }
}

#[test]
fn members_and_frames_are_joined() {
    let plain = plain();
    let expected = read_bytes(&plain).packets;
    for (compression, compress) in ALL {
        for parts in [2, 7] {
            let joined: Vec<u8> = plain
                .chunks(plain.len().div_ceil(parts))
                .flat_map(|part| [compress(part), compress(&[])].concat())
                .collect();
            let read = read_bytes(&joined);
            assert_eq!(read.error_text(), "no error", "{compression}");
            assert!(read.packets == expected, "{compression}");
        }
    }
}

#[test]
fn skippable_frames_are_skipped() {
    let plain = plain();
    let (first, second) = plain.split_at(plain.len() / 2);
    let skippable = [&[0x5a, 0x2a, 0x4d, 0x18, 5, 0, 0, 0][..], b"12345"].concat();
    for compress in [zstd, lz4] {
        let file = [
            compress(first),
            skippable.clone(),
            compress(second),
            skippable.clone(),
        ];
        let read = read_bytes(&file.concat());
        assert_eq!(read.error_text(), "no error");
        assert_eq!(read.packets.len(), 300);
    }
    let cut = [lz4(&plain), skippable[..10].to_vec()].concat();
    assert!(
        read_bytes(&cut)
            .error_text()
            .contains("cannot decompress the lz4 stream")
    );
}

#[test]
fn a_cut_stream_gives_its_packets_and_then_an_error() {
    let plain = plain();
    let expected = read_bytes(&plain).packets;
    for (compression, compress) in ALL {
        let whole = compress(&plain);
        let mut most = 0;
        for cut in (20..whole.len())
            .step_by(997)
            .chain([whole.len() - 1, whole.len() - 5])
        {
            let read = read_bytes(&whole[..cut]);
            assert!(expected.starts_with(&read.packets));
            let error = read.error.expect("a cut stream is damaged");
            let ReadErrorKind::Decompress {
                compression: found, ..
            } = error.kind()
            else {
                panic!("{compression} cut at {cut}: {error}");
            };
            assert_eq!(*found, compression);
            let end = 24 + 1016 * read.packets.len() as u64;
            let allowed = if read.packets.is_empty() {
                0..=24
            } else {
                end..=end
            };
            assert!(
                allowed.contains(&error.offset()),
                "{compression} {cut}: {error}"
            );
            most = most.max(read.packets.len());
        }
        assert!(
            most > 200,
            "{compression}: {most} packets before the last cut"
        );
    }
}

#[test]
fn a_damaged_stream_is_an_error() {
    let plain = plain();
    let expected = read_bytes(&plain).packets;
    for (compression, compress) in ALL {
        let whole = compress(&plain);
        let mut last = whole.clone();
        let end = last.len()
            - if compression == Compression::Gzip {
                6
            } else {
                2
            };
        last[end] ^= 0x55;
        let read = read_bytes(&last);
        assert!(expected.starts_with(&read.packets));
        let text = read.error_text();
        assert!(
            text.contains(&format!("cannot decompress the {compression} stream")),
            "{text}"
        );
        let garbage = [whole, b"garbage behind the end".to_vec()].concat();
        let read = read_bytes(&garbage);
        assert_eq!(read.packets.len(), 300, "{compression}");
        assert!(read.error.is_some(), "{compression}");
    }
}

#[test]
fn progress_is_counted_in_compressed_bytes() {
    let compressed = zstd(&[plain(), PcapHeader::MICROS.packet(&pattern(9))].concat());
    let length = compressed.len() as u64;
    let file = Box::new(std::io::Cursor::new(compressed));
    let mut reader = Reader::new(file, "memory", &ReadOptions::default()).expect("header");
    while reader.next().expect("valid").is_some() {}
    assert_eq!(reader.input_offset(), length);
    assert_eq!(reader.offset(), plain().len() as u64 + 25);
}
