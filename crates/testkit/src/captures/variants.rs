//! Files on which the agreement with libpcap is tested: variants, bounds and damages of both
//! formats.

use super::{BIG, LITTLE, Ng, PcapHeader, pattern};

/// Names of cases, and files.
pub type Cases = Vec<(String, Vec<u8>)>;

/// Returns pcap files of every magic number, version and length, some of them damaged.
#[must_use]
pub fn pcap_variants() -> Cases {
    let mut cases = Cases::new();
    let base = PcapHeader::MICROS;
    for order in [LITTLE, BIG] {
        for magic in [
            0xa1b2_c3d4,
            0xa1b2_3c4d,
            0xa1b2_cd34,
            0xa12b_3c4d,
            0x1c00_01ac,
            0x1c00_01ab,
            0xa1e2_cb12,
        ] {
            let header = PcapHeader {
                order,
                magic,
                ..base
            };
            let name = format!("magic {magic:#x} {order:?}");
            cases.push((name, [header.bytes(), header.packet(&pattern(40))].concat()));
        }
    }
    for version in [
        (0, 0),
        (1, 4),
        (2, 0),
        (2, 1),
        (2, 2),
        (2, 3),
        (2, 4),
        (2, 5),
        (3, 0),
        (543, 0),
        (543, 1),
    ] {
        let header = PcapHeader { version, ..base };
        for (first, second) in [(4, 9), (9, 4)] {
            let record = header.record([1, 2, first, second], b"abcd");
            let name = format!("version {version:?} lengths {first} {second}");
            cases.push((name, [header.bytes(), record].concat()));
        }
    }
    lengths(&mut cases);
    header_fields(&mut cases);
    truncations(&mut cases);
    cases
}

fn lengths(cases: &mut Cases) {
    let base = PcapHeader::MICROS;
    for snaplen in [
        0,
        1,
        10,
        65_535,
        262_144,
        300_000,
        0x7fff_ffff,
        0x8000_0000,
        u32::MAX,
    ] {
        for caplen in [4, 40, 262_144, 262_145, 300_000] {
            let header = PcapHeader { snaplen, ..base };
            let packets = [header.packet(&pattern(caplen)), header.packet(b"next")].concat();
            let name = format!("snaplen {snaplen} caplen {caplen}");
            cases.push((name, [header.bytes(), packets].concat()));
        }
        for link_type in [1, 101] {
            let modified = PcapHeader {
                snaplen,
                link_type,
                magic: 0xa1b2_cd34,
                ..base
            };
            let packets = [modified.packet(&pattern(30)), modified.packet(b"next")].concat();
            let name = format!("modified, snaplen {snaplen} link type {link_type}");
            cases.push((name, [modified.bytes(), packets].concat()));
        }
    }
    for (link_type, caplen) in [
        (231, 300_000),
        (249, 1_048_576),
        (249, 1_048_577),
        (279, 9_000_000),
    ] {
        let header = PcapHeader {
            snaplen: 0,
            link_type,
            ..base
        };
        let name = format!("link type {link_type} caplen {caplen}");
        let packet = header.packet(&pattern(caplen));
        cases.push((name, [header.bytes(), packet].concat()));
    }
    let longer = base.record([1, 2, 40, 3], &pattern(40));
    cases.push(("caplen > len".to_owned(), [base.bytes(), longer].concat()));
}

fn header_fields(cases: &mut Cases) {
    let base = PcapHeader::MICROS;
    for link_type in [
        0,
        12,
        15,
        100,
        101,
        106,
        117,
        246,
        258,
        0x0400_0001,
        0x1000_0001,
        0x3000_0001,
        0xf400_0001,
        0xfc00_0001,
        0x0001_0001,
        0x03ff_0001,
    ] {
        let header = PcapHeader { link_type, ..base };
        let name = format!("link type field {link_type:#x}");
        cases.push((name, [header.bytes(), header.packet(b"abcd")].concat()));
    }
    for magic in [0xa1b2_c3d4, 0xa1b2_3c4d] {
        for (secs, fraction) in [
            (u32::MAX, 5),
            (0x8000_0000, 5),
            (1, 999_999),
            (1, 1_000_000),
            (1, 2_000_000),
            (1, 4_294_968),
            (1, 0x7fff_ffff),
            (1, u32::MAX),
            (u32::MAX, u32::MAX),
        ] {
            let header = PcapHeader { magic, ..base };
            let record = header.record([secs, fraction, 4, 4], b"abcd");
            let name = format!("magic {magic:#x} time {secs}.{fraction}");
            cases.push((name, [header.bytes(), record].concat()));
        }
    }
}

fn truncations(cases: &mut Cases) {
    let base = PcapHeader::MICROS;
    let packets = [base.packet(b"abcd"), base.packet(&pattern(40))].concat();
    let whole = [base.bytes(), packets].concat();
    for length in (0..48).chain([whole.len() - 1, whole.len()]) {
        cases.push((format!("pcap cut to {length}"), whole[..length].to_vec()));
    }
}

/// Returns pcapng files of every kind of block, some of them damaged.
#[must_use]
pub fn pcapng_variants() -> Cases {
    let mut cases = Cases::new();
    for order in [LITTLE, BIG] {
        blocks(Ng(order), &mut cases);
        section_headers(Ng(order), &mut cases);
        interfaces(Ng(order), &mut cases);
        damages(Ng(order), &mut cases);
    }
    let ng = Ng(LITTLE);
    let (first, second) = (ng.enhanced(0, 7, b"abcd"), ng.enhanced(0, 8, b"efgh"));
    let whole = [ng.prelude(), first, second].concat();
    for length in 0..=whole.len() {
        cases.push((format!("pcapng cut to {length}"), whole[..length].to_vec()));
    }
    cases
}

fn blocks(ng: Ng, cases: &mut Cases) {
    let epb = ng.enhanced(0, 1_000_002, b"abcd");
    let mut add = |name: &str, parts: &[Vec<u8>]| {
        cases.push((format!("{name} {:?}", ng.0), parts.concat()));
    };
    let prelude = ng.prelude();
    let (simple, obsolete) = (ng.simple(4, b"abcd"), ng.obsolete(0, 9, b"abcd"));
    let kinds = [epb.clone(), simple.clone(), obsolete].concat();
    add("all packet blocks", &[prelude.clone(), kinds]);
    add("no interface", &[ng.section()]);
    add("packet before interface", &[ng.section(), epb.clone()]);
    add("simple packet before interface", &[ng.section(), simple]);
    let unknown = ng.enhanced(1, 2, b"abcd");
    add(
        "unknown interface",
        &[prelude.clone(), epb.clone(), unknown],
    );
    let unknown = ng.obsolete(1, 2, b"abcd");
    add("unknown interface, obsolete", &[prelude.clone(), unknown]);
    for (name, block_type, body) in [
        ("names", 4, &[0xff; 6][..]),
        ("statistics", 5, &[]),
        ("secrets", 10, &[1; 9]),
        ("custom", 0xbad, &[2; 8]),
        ("custom not to copy", 0x4000_0bad, &[]),
        ("unknown", 0x99, &[]),
    ] {
        let block = ng.block(block_type, body);
        add(name, &[prelude.clone(), block, epb.clone()]);
    }
    for size in [16 * 1024 * 1024 - 12, 16 * 1024 * 1024 - 8] {
        let block = ng.block(0x99, &vec![0; size]);
        let name = format!("block of {size}");
        add(&name, &[prelude.clone(), block, epb.clone()]);
    }
    let first = [prelude.clone(), epb.clone()].concat();
    add("two sections", &[first.clone(), first.clone()]);
    let second = [ng.section(), epb.clone()];
    add(
        "second without interface",
        &[first.clone(), second.concat()],
    );
    let odd = ng.block(0x0a0d_0d0a, &ng.section_body((1, 1), &[]));
    let second = [odd, ng.interface(1, 0, &[]), epb];
    add("second of version 1.1", &[first, second.concat()]);
}

fn section_headers(ng: Ng, cases: &mut Cases) {
    let rest = [ng.interface(1, 0, &[]), ng.enhanced(0, 5, b"abcd")].concat();
    let mut add = |name: String, section: Vec<u8>| {
        let name = format!("section {name} {:?}", ng.0);
        cases.push((name, [section, rest.clone()].concat()));
    };
    let block = |body: &[u8]| ng.block(0x0a0d_0d0a, body);
    for version in [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (0, 0)] {
        add(
            format!("{version:?}"),
            block(&ng.section_body(version, &[])),
        );
    }
    let body = ng.section_body((1, 0), &[]);
    add("trailer".to_owned(), ng.framed(0x0a0d_0d0a, 28, &body, 99));
    for length in [0, 12, 20, 24, 0x0010_0004, 0x7fff_fffc] {
        let section = ng.framed(0x0a0d_0d0a, length, &body, length);
        add(format!("length {length}"), section);
    }
    let options = [ng.option(4, b"program"), ng.option(0, b"")].concat();
    let section = block(&ng.section_body((1, 0), &options));
    add("options".to_owned(), section);
    let damaged = ng.section_body((1, 0), &[4, 4, 99, 99]);
    add("damaged options".to_owned(), block(&damaged));
    let mut magic = body;
    magic[0] = 0x11;
    add("magic".to_owned(), block(&magic));
}

fn interfaces(ng: Ng, cases: &mut Cases) {
    let mut add = |name: String, snaplen: u32, options: &[u8], packets: &[Vec<u8>]| {
        let head = [ng.section(), ng.interface(1, snaplen, options)].concat();
        let name = format!("interface {name} {:?}", ng.0);
        cases.push((name, [head, packets.concat()].concat()));
    };
    let epb = ng.enhanced(0, 0x0005_1234_5678, b"abcd");
    let one = std::slice::from_ref(&epb);
    for resolution in [
        0u8, 3, 6, 9, 10, 12, 18, 19, 20, 30, 0x80, 0x8a, 0x94, 0x9e, 0xc0,
    ] {
        let options = [ng.option(9, &[resolution]), ng.option(0, b"")].concat();
        add(format!("tsresol {resolution:#x}"), 0, &options, one);
    }
    for offset in [100u64, 100u64.wrapping_neg(), 1 << 40] {
        let options = ng.option(14, &ng.0.of_u64(offset));
        add(format!("tsoffset {offset}"), 0, &options, one);
    }
    let overrun = |length| [&ng.0.of_u16(2)[..], &ng.0.of_u16(length), b"abcd"].concat();
    for (name, options) in [
        ("tsresol of 2", ng.option(9, &[6, 6])),
        ("tsresol twice", ng.option(9, &[6]).repeat(2)),
        ("tsoffset of 4", ng.option(14, &[0; 4])),
        ("tsoffset twice", ng.option(14, &[0; 8]).repeat(2)),
        ("end of 4", ng.option(0, &[0; 4])),
        ("overrun", overrun(40)),
        ("overrun by padding", overrun(5)),
        (
            "behind the end",
            [ng.option(0, b""), ng.option(9, &[6, 6])].concat(),
        ),
    ] {
        add(name.to_owned(), 0, &options, one);
    }
    for snaplen in [10, 0x8000_0000] {
        let packets = [epb.clone(), ng.enhanced(0, 1, &pattern(20))];
        add(format!("snaplen {snaplen}"), snaplen, &[], &packets);
    }
    let simple = [
        ng.simple(20, &pattern(20)),
        ng.simple(20, &pattern(12)),
        ng.simple(20, b"12345678"),
    ];
    add("snaplen 10, simple".to_owned(), 10, &[], &simple);
    for (name, snaplen, packet) in [
        ("simple beyond", 0, ng.simple(u32::MAX, b"12345678")),
        ("obsolete beyond", 10, ng.obsolete(0, 1, &pattern(20))),
        (
            "snaplen 400000",
            400_000,
            ng.enhanced(0, 1, &pattern(300_000)),
        ),
        ("caplen 262145", 0, ng.enhanced(0, 1, &pattern(262_145))),
    ] {
        add(name.to_owned(), snaplen, &[], &[packet]);
    }
}

fn damages(ng: Ng, cases: &mut Cases) {
    let good = [ng.prelude(), ng.enhanced(0, 5, b"abcd")].concat();
    let body = |caplen: u32, data: &[u8], options: &[u8]| {
        ng.enhanced_body((0, 1, caplen, 5), data, options)
    };
    let packet = |caplen, data: &[u8], options: &[u8]| ng.block(6, &body(caplen, data, options));
    for (name, block) in [
        ("caplen beyond the block", packet(400, b"abcd", &[])),
        ("caplen one beyond", packet(5, b"abcd", &[])),
        ("caplen in the padding", packet(8, b"abcde", &[])),
        ("caplen in the options", packet(12, b"abcde", &[0; 4])),
        ("damaged options", packet(4, b"abcd", &[2, 2, 99, 99])),
        ("trailer", ng.framed(6, 36, &body(4, b"abcd", &[]), 99)),
        ("length 37", ng.framed(6, 37, &body(4, b"abcd", &[]), 37)),
        ("length 8", ng.framed(6, 8, &[], 8)),
        ("length 0", ng.framed(6, 0, &[], 0)),
        ("length 12", ng.framed(6, 12, &[], 12)),
        ("interface of 16", ng.framed(1, 16, &[1, 0, 0, 0], 16)),
        ("unknown of 13", ng.framed(0x99, 13, &[1], 13)),
        ("zeros", vec![0; 40]),
    ] {
        let bytes = [good.clone(), block, ng.enhanced(0, 6, b"next")].concat();
        cases.push((format!("damage: {name} {:?}", ng.0), bytes));
    }
}

/// Returns files that ringtap reads and libpcap does not.
pub fn beyond_libpcap() -> Cases {
    let ng = Ng(LITTLE);
    let other = Ng(BIG);
    let start = [ng.prelude(), ng.enhanced(0, 5, b"abcd")].concat();
    let more = |parts: &[Vec<u8>]| [start.clone(), parts.concat()].concat();
    let (raw, ip) = (ng.interface(101, 0, &[]), b"\x45abc");
    let short = [ng.interface(1, 96, &[]), ng.enhanced(1, 6, b"abcd")];
    let section = [ng.section(), raw.clone(), ng.enhanced(0, 6, ip)];
    let swapped = [other.prelude(), other.enhanced(0, 6, b"abcd")];
    vec![
        ("link types".to_owned(), more(&[raw, ng.enhanced(1, 6, ip)])),
        ("snaplens".to_owned(), more(&short)),
        ("link types of sections".to_owned(), more(&section)),
        ("byte orders".to_owned(), more(&swapped)),
    ]
}
