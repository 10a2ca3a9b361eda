//! Damage of every kind: the packets before it are delivered, then an error with the place, the
//! expected and the found value.

use std::path::Path;

use ringtap_savefile::{Limits, ReadErrorKind, ReadOptions, Reader};
use ringtap_testkit::captures::{LITTLE, Ng, PcapHeader, pattern};

use crate::collect::{read_bytes, read_with};

/// Reads `bytes` and expects this number of packets, then this error.
#[track_caller]
fn expect(bytes: &[u8], packets: usize, error: &str) {
    let file = read_bytes(bytes);
    assert_eq!(file.error_text(), format!("memory: {error}"));
    assert_eq!(file.packets.len(), packets);
}

#[test]
fn unknown_and_empty_files() {
    expect(
        b"",
        0,
        "offset 0: the file ends within the file's magic number: 4 bytes expected, 0 found",
    );
    expect(
        b"\xd4\xc3",
        0,
        "offset 0: the file ends within the file's magic number: 4 bytes expected, 2 found",
    );
    expect(
        b"GIF89a..",
        0,
        "offset 0: neither a pcap nor a pcapng file: it begins with 47 49 46 38",
    );
}

#[test]
fn files_that_cannot_be_opened_or_read() {
    let options = ReadOptions::default();
    let missing = Reader::open(Path::new("/nonexistent/file"), &options).expect_err("missing");
    assert!(matches!(missing.kind(), ReadErrorKind::Open(_)));
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/file: cannot open: ")
    );
    let folder = Reader::open(Path::new("/"), &options).expect_err("a folder");
    assert!(matches!(folder.kind(), ReadErrorKind::Read(_)));
}

#[test]
fn pcap_headers() {
    let header = PcapHeader::MICROS.bytes();
    expect(
        &header[..20],
        0,
        "offset 0: the file ends within the file header: 24 bytes expected, 20 found",
    );
    let version = PcapHeader {
        version: (2, 5),
        ..PcapHeader::MICROS
    }
    .bytes();
    expect(
        &version,
        0,
        "offset 0: pcap version 2.5 is not supported; supported are 2.0 to 2.4 and 543.0",
    );
    let link_type = PcapHeader {
        link_type: 0x0001_0001,
        ..PcapHeader::MICROS
    }
    .bytes();
    expect(
        &link_type,
        0,
        "offset 0: link type 65537 exceeds 65535, the largest that exists",
    );
}

#[test]
fn pcap_records() {
    let header = PcapHeader::MICROS;
    let start = [header.bytes(), header.packet(b"abcd")].concat();
    let with = |rest: &[u8]| [&start, rest].concat();
    expect(
        &with(&header.packet(b"ab")[..10]),
        1,
        "offset 44: the file ends within the packet record header: 16 bytes expected, 10 found",
    );
    expect(
        &with(&header.packet(&pattern(40))[..30]),
        1,
        "offset 44: the file ends within the packet record's data: 40 bytes expected, 14 found",
    );
    expect(
        &with(&header.record([1, 2, u32::MAX, 60], &pattern(60))),
        1,
        "offset 44: the packet record header states 4294967295 captured bytes, \
         at most 262144 are valid for link type EN10MB",
    );
}

#[test]
fn pcapng_section_headers() {
    let ng = Ng(LITTLE);
    let body = ng.section_body((1, 0), &[]);
    let section = |block: Vec<u8>| [block, ng.interface(1, 0, &[])].concat();
    expect(
        &ng.section()[..9],
        0,
        "offset 0: the file ends within the section header block: 12 bytes expected, 9 found",
    );
    expect(
        &ng.section()[..20],
        0,
        "offset 0: the file ends within the section header block: 28 bytes expected, 20 found",
    );
    expect(
        &section(ng.framed(0x0a0d_0d0a, 24, &body, 24)),
        0,
        "offset 0: the section header block states a length of 24 bytes, at least 28 are required",
    );
    expect(
        &section(ng.framed(0x0a0d_0d0a, 0x7fff_fffc, &body, 28)),
        0,
        "offset 0: the section header block states a length of 2147483644 bytes, \
         at most 1048576 are accepted",
    );
    expect(
        &section(ng.block(0x0a0d_0d0a, &ng.section_body((2, 0), &[]))),
        0,
        "offset 0: pcapng version 2.0 is not supported; supported are 1.0 and 1.2",
    );
    let mut magic = ng.section();
    magic[8..12].copy_from_slice(b"1234");
    expect(
        &magic,
        0,
        "offset 0: section header block holds the byte-order magic 31 32 33 34, \
         expected 1a 2b 3c 4d or its reverse",
    );
    expect(
        &ng.section(),
        0,
        "offset 28: the file has no interface description block",
    );
    expect(
        &[ng.prelude(), ng.framed(0x0a0d_0d0a, 28, &body, 32)].concat(),
        0,
        "offset 48: the section header block states a length of 28 bytes at its start, 32 at its end",
    );
}

#[test]
fn pcapng_blocks() {
    let ng = Ng(LITTLE);
    let start = [ng.prelude(), ng.enhanced(0, 1, b"abcd")].concat();
    let with = |block: &[u8]| [&start, block].concat();
    let body = |caplen: u32| ng.enhanced_body((0, 1, caplen, 9), b"abcd", &[]);
    expect(
        &with(&[6, 0, 0]),
        1,
        "offset 84: the file ends within a block header: 8 bytes expected, 3 found",
    );
    expect(
        &with(&ng.enhanced(0, 1, b"abcd")[..35]),
        1,
        "offset 84: the file ends within the enhanced packet block: 36 bytes expected, 35 found",
    );
    let cases: [(Vec<u8>, &str); 9] = [
        (
            ng.framed(6, 36, &body(4), 40),
            "the enhanced packet block states a length of 36 bytes at its start, 40 at its end",
        ),
        (
            ng.framed(6, 8, &[], 8),
            "the enhanced packet block states a length of 8 bytes, at least 12 are required",
        ),
        (
            ng.framed(6, 28, &pattern(16), 28),
            "the enhanced packet block states a length of 28 bytes, at least 32 are required",
        ),
        (
            ng.framed(6, 38, &body(4), 38),
            "the enhanced packet block states a length of 38 bytes, which is not a multiple of 4",
        ),
        (
            ng.framed(3, 0x7fff_fffc, &[], 0),
            "the simple packet block states a length of 2147483644 bytes, at most 16777216 are accepted",
        ),
        (
            ng.block(6, &body(5)),
            "the enhanced packet block states 5 captured bytes, but has room for 4",
        ),
        (
            ng.enhanced(3, 1, b"abcd"),
            "the enhanced packet block names interface 3, but the section has described 1 so far",
        ),
        (
            ng.block(6, &body(262_145)),
            "the enhanced packet block states 262145 captured bytes, at most 262144 are valid for the interface's snaplen",
        ),
        (
            ng.framed(0x77, 16, &[1; 4], 12),
            "the block of type 0x00000077 states a length of 16 bytes at its start, 12 at its end",
        ),
    ];
    for (block, error) in cases {
        expect(&with(&block), 1, &format!("offset 84: {error}"));
    }
}

#[test]
fn pcapng_interfaces() {
    let ng = Ng(LITTLE);
    let cases: [(Vec<u8>, &str); 7] = [
        (
            ng.option(9, &[6, 6]),
            "option if_tsresol has 2 bytes, expected 1",
        ),
        (
            ng.option(9, &[20]),
            "option if_tsresol states 10^-20, finest supported are 10^-19 and 2^-63",
        ),
        (
            ng.option(9, &[0xc0]),
            "option if_tsresol states 2^-64, finest supported are 10^-19 and 2^-63",
        ),
        (
            ng.option(14, &[0; 4]),
            "option if_tsoffset has 4 bytes, expected 8",
        ),
        (
            [ng.option(14, &[0; 8]), ng.option(14, &[0; 8])].concat(),
            "option if_tsoffset is given more than once",
        ),
        (
            ng.option(0, &[0; 4]),
            "option opt_endofopt has 4 bytes, expected 0",
        ),
        (
            [2, 0, 9, 0, 1, 1, 1, 1].to_vec(),
            "option 2 states 9 bytes, but the block has 4 left",
        ),
    ];
    for (options, error) in cases {
        let file = [ng.section(), ng.interface(1, 0, &options)].concat();
        expect(&file, 0, &format!("offset 28: {error}"));
    }
    expect(
        &[ng.section(), ng.framed(1, 16, &[1, 0, 0, 0], 16)].concat(),
        0,
        "offset 28: the interface description block states a length of 16 bytes, \
         at least 20 are required",
    );
}

#[test]
fn limits_are_the_callers() {
    let header = PcapHeader::MICROS;
    let mut options = ReadOptions::default();
    options.limits.caplen = Some(10);
    let file = [
        header.bytes(),
        header.packet(b"ok"),
        header.packet(&pattern(11)),
    ]
    .concat();
    let read = read_with(&file, &options);
    assert_eq!(read.packets.len(), 1);
    assert!(
        read.error_text()
            .contains("states 11 captured bytes, at most 10 are valid")
    );
    options.limits.caplen = Some(400_000);
    let large = PcapHeader {
        snaplen: 400_000,
        ..header
    };
    let read = read_with(
        &[large.bytes(), large.packet(&pattern(300_000))].concat(),
        &options,
    );
    assert_eq!(
        (read.packets[0].data.len(), read.error.is_none()),
        (300_000, true)
    );
}

#[test]
fn descriptions_are_bounded() {
    let ng = Ng(LITTLE);
    let mut limits = Limits::default();
    limits.interfaces = 3;
    let mut options = ReadOptions::default();
    options.limits = limits.clone();
    let file = [ng.section(), ng.interface(1, 0, &[]).repeat(4)].concat();
    let read = read_with(&file, &options);
    assert_eq!(
        (read.interfaces.len(), read.error_text()),
        (3, "memory: offset 88: more than 3 interfaces".to_owned())
    );
    limits.interfaces = 100;
    limits.metadata = 50;
    options.limits = limits;
    let read = read_with(&file, &options);
    assert_eq!(
        read.error_text(),
        "memory: offset 68: more than 50 bytes of interface and section descriptions"
    );
}

#[test]
fn a_length_without_data_costs_no_memory() {
    // 128 MiB are within the limits for D-Bus; the file has 20 bytes of them.
    let header = PcapHeader {
        snaplen: 0,
        link_type: 231,
        ..PcapHeader::MICROS
    };
    let caplen = 128 << 20;
    let file = [
        header.bytes(),
        header.record([1, 2, caplen, caplen], &pattern(20)),
    ]
    .concat();
    expect(
        &file,
        0,
        "offset 24: the file ends within the packet record's data: 134217728 bytes expected, 20 found",
    );
}

#[test]
fn every_cut_gives_the_packets_before_it() {
    let header = PcapHeader::MICROS;
    let ng = Ng(LITTLE);
    let pcap: Vec<_> = (0..20).flat_map(|n| header.packet(&pattern(n))).collect();
    let pcapng: Vec<_> = (0..20)
        .flat_map(|n| ng.enhanced(0, 1, &pattern(n)))
        .collect();
    for whole in [
        [header.bytes(), pcap].concat(),
        [ng.prelude(), pcapng].concat(),
    ] {
        let all = read_bytes(&whole).packets;
        for length in 48..whole.len() {
            let cut = read_bytes(&whole[..length]);
            assert!(all.starts_with(&cut.packets));
            let end = cut.error.map_or(length as u64, |error| error.offset());
            assert!(end <= length as u64);
            let next = &read_bytes(&whole[..length + 1]).packets;
            assert!(next.len() - cut.packets.len() <= 1);
        }
    }
}
