//! Files written byte by byte, with every kind of block and all variants of pcap.

use ringtap_savefile::{
    CaptureFilter, Compression, Encoding, Format, Interface, InterfaceTable, Item, LinkType,
    PacketFlags, PacketRun, ReadOptions, Reader, Resolution, Timestamp,
};
use ringtap_testkit::captures::{BIG, LITTLE, Ng, PcapHeader, pattern};

use crate::collect::{collect, read_bytes};

#[test]
fn pcap_in_both_byte_orders_and_units() {
    for order in [LITTLE, BIG] {
        for (magic, nanos) in [(0xa1b2_c3d4, 2000), (0xa1b2_3c4d, 2)] {
            let header = PcapHeader {
                order,
                magic,
                ..PcapHeader::MICROS
            };
            let record = header.record([1, 2, 3, 60], b"abc");
            let file = read_bytes(&[header.bytes(), record].concat());
            assert_eq!(file.error_text(), "no error");
            assert_eq!(file.others, ["interface 0"]);
            let packet = &file.packets[0];
            assert_eq!(packet.timestamp, Timestamp::new(1, nanos));
            assert_eq!((packet.len, &packet.data[..]), (60, &b"abc"[..]));
        }
    }
}

#[test]
fn pcap_header_fields_are_kept() {
    let header = PcapHeader {
        snaplen: 96,
        link_type: 0x2400_0001,
        ..PcapHeader::MICROS
    };
    let file = read_bytes(&header.bytes());
    let interface = &file.interfaces[0];
    assert_eq!(interface.link_type, LinkType::ETHERNET);
    assert_eq!(interface.snaplen, 96);
    assert_eq!(interface.fcs_len, Some(32));
    assert_eq!(interface.link_type_bits, 0x2400_0000);
    assert_eq!(interface.resolution, Resolution::MICROS);
}

#[test]
fn a_packet_longer_than_the_snaplen_is_cut() {
    let header = PcapHeader {
        snaplen: 4,
        ..PcapHeader::MICROS
    };
    let file = read_bytes(
        &[
            header.bytes(),
            header.packet(&pattern(9)),
            header.packet(b"x"),
        ]
        .concat(),
    );
    assert_eq!(file.packets[0].data, [0, 1, 2, 3]);
    assert_eq!(file.packets[0].len, 9);
    assert_eq!(file.packets[1].data, b"x");
}

#[test]
fn modified_pcap_has_longer_record_headers_and_a_longer_snaplen() {
    let header = PcapHeader {
        magic: 0xa1b2_cd34,
        snaplen: 10,
        ..PcapHeader::MICROS
    };
    let file = read_bytes(&[header.bytes(), header.packet(&pattern(30))].concat());
    assert_eq!(file.packets[0].data, pattern(24));
    assert_eq!(file.interfaces[0].snaplen, 24);
}

#[test]
fn a_fraction_of_more_than_a_second_is_kept() {
    let header = PcapHeader::MICROS;
    let record = header.record([1, 4_000_000_005, 0, 0], &[]);
    let file = read_bytes(&[header.bytes(), record].concat());
    let time = file.packets[0].timestamp;
    assert_eq!(time, Timestamp::from_micros(1, 4_000_000_005));
    assert_eq!(time.stored(), (1, 4_000_000_005_000));
    assert_eq!((time.secs(), time.subsec_nanos()), (4001, 5000));
}

#[test]
fn pcapng_blocks_of_all_kinds() {
    for order in [LITTLE, BIG] {
        let ng = Ng(order);
        let flags = [ng.option(2, &order.of_u32(2)), ng.option(0, b"")].concat();
        let received = ng.option(4, &order.of_u64(77));
        let statistics = [&[0; 12][..], &received].concat();
        let names = [
            &order.of_u16(1)[..],
            &order.of_u16(6),
            &[10, 0, 0, 1, b'a', 0, 0, 0],
            &[0; 4],
        ]
        .concat();
        let file = [
            ng.section(),
            ng.interface(1, 0, &ng.option(9, &[9])),
            ng.block(
                6,
                &ng.enhanced_body((0, 5_000_000_007, 5, 90), b"abcde", &flags),
            ),
            ng.simple(6, b"simple"),
            ng.obsolete(0, 8, b"old"),
            ng.block(4, &names),
            ng.block(5, &statistics),
            ng.block(5, &[0xff; 12]),
            ng.block(0x0bad, &[1, 2, 3, 4]),
            ng.block(0x4242, &[]),
        ]
        .concat();
        let file = read_bytes(&file);
        assert_eq!(file.error_text(), "no error");
        let section = format!("section {order:?}");
        let expected = [
            section.as_str(),
            "interface 0",
            "names 1",
            "statistics Some(77)",
            "block 0x5",
            "block 0xbad",
            "block 0x4242",
        ];
        assert_eq!(file.others, expected);
        let [enhanced, simple, obsolete] = &file.packets[..] else {
            panic!("three packets, not {}", file.packets.len());
        };
        assert_eq!(enhanced.timestamp, Timestamp::new(5, 7));
        assert_eq!((enhanced.len, enhanced.flags), (90, PacketFlags::OUTBOUND));
        assert_eq!(enhanced.data, b"abcde");
        assert_eq!(
            (simple.timestamp, &simple.data[..]),
            (Timestamp::default(), &b"simple"[..])
        );
        assert_eq!(
            (obsolete.timestamp, &obsolete.data[..]),
            (Timestamp::new(0, 8), &b"old"[..])
        );
    }
}

#[test]
fn interfaces_are_counted_over_sections_of_different_byte_order() {
    let (little, big) = (Ng(LITTLE), Ng(BIG));
    let file = [
        little.section(),
        little.interface(1, 0, &[]),
        little.interface(101, 50, &[]),
        little.enhanced(1, 1, b"first"),
        big.section(),
        big.interface(113, 0, &big.option(9, &[0x8a])),
        big.enhanced(0, 1024, b"second"),
    ]
    .concat();
    let file = read_bytes(&file);
    assert_eq!(file.error_text(), "no error");
    let found: Vec<_> = file
        .packets
        .iter()
        .map(|p| (p.interface, &p.data[..]))
        .collect();
    assert_eq!(found, [(1, &b"first"[..]), (2, b"second")]);
    assert_eq!(file.packets[1].timestamp, Timestamp::new(1, 0));
    let link_types: Vec<_> = file.interfaces.iter().map(|i| i.link_type).collect();
    assert_eq!(
        link_types,
        [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL]
    );
}

#[test]
fn interface_options_are_typed_and_the_rest_is_kept() {
    let ng = Ng(BIG);
    let options = [
        ng.option(2, b"eth0\0"),
        ng.option(3, b"uplink"),
        ng.option(4, &[10, 0, 0, 1, 255, 0, 0, 0]),
        ng.option(5, &[&[0xfe; 16][..], &[64]].concat()),
        ng.option(6, &[1, 2, 3, 4, 5, 6]),
        ng.option(8, &1_000_000u64.to_be_bytes()),
        ng.option(11, b"\0udp"),
        ng.option(13, &[32]),
        ng.option(14, &(-3i64).to_be_bytes()),
        ng.option(12, &[0xff]),
        ng.option(1, b"a comment"),
        ng.option(0, b""),
    ]
    .concat();
    let file = read_bytes(&[ng.section(), ng.interface(1, 77, &options)].concat());
    let interface = &file.interfaces[0];
    assert_eq!(interface.name.as_deref(), Some("eth0"));
    assert_eq!(interface.description.as_deref(), Some("uplink"));
    assert_eq!(
        interface.ipv4,
        [([10, 0, 0, 1].into(), [255, 0, 0, 0].into())]
    );
    assert_eq!(interface.ipv6, [([0xfe; 16].into(), 64)]);
    assert_eq!(interface.mac, Some([1, 2, 3, 4, 5, 6]));
    assert_eq!(interface.speed, Some(1_000_000));
    assert_eq!(
        interface.filter,
        Some(CaptureFilter::Expression("udp".to_owned()))
    );
    assert_eq!((interface.fcs_len, interface.time_offset), (Some(32), -3));
    assert_eq!((interface.snaplen, interface.os.as_deref()), (77, None));
    assert_eq!(
        interface.other.comments().collect::<Vec<_>>(),
        ["a comment"]
    );
    assert!(
        interface.other.iter().any(|option| option.code == 12),
        "malformed, kept raw"
    );
}

#[test]
fn packet_options_are_reachable() {
    let ng = Ng(LITTLE);
    let options = [ng.option(1, b"why"), ng.option(4, &3u64.to_le_bytes())].concat();
    let file = [
        ng.prelude(),
        ng.block(6, &ng.enhanced_body((0, 0, 2, 2), b"ab", &options)),
    ]
    .concat();
    let mut reader = reader(file);
    let mut seen = 0;
    while let Some(item) = reader.next().expect("valid") {
        if let Item::Run(run) = item {
            for (packet, options) in run.packets_with_options() {
                assert_eq!(packet.data, b"ab");
                assert_eq!(options.comments().collect::<Vec<_>>(), ["why"]);
                assert_eq!(options.packet_drop_count(), Some(3));
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 1);
}

#[test]
fn a_run_is_the_whole_stretch_of_the_file() {
    let header = PcapHeader::MICROS;
    let records = [header.packet(b"one"), header.packet(b"two")].concat();
    let mut reader = reader([header.bytes(), records.clone()].concat());
    assert_eq!(reader.format(), Format::Pcap);
    assert_eq!(reader.compression(), None::<Compression>);
    assert!(matches!(reader.next(), Ok(Some(Item::Interface(0)))));
    let Ok(Some(Item::Run(run))) = reader.next() else {
        panic!("a run");
    };
    assert_eq!(
        (run.bytes(), run.offset(), run.len()),
        (&records[..], 24, 2)
    );
    assert!(matches!(run.encoding(), Encoding::Pcap(encoding) if !encoding.nanos));
    assert_eq!(reader.offset(), 24 + records.len() as u64);
    assert_eq!(collect(reader).packets, []);
}

#[test]
fn a_ring_of_packet_blocks_is_a_run() {
    let ng = Ng(LITTLE);
    let mut interfaces = vec![Interface::new(LinkType::ETHERNET, 96)];
    interfaces.push(Interface::new(LinkType::RAW, 0));
    let table = InterfaceTable::new(5, &interfaces);
    let good = [ng.enhanced(0, 7, b"abc"), ng.enhanced(1, 8, &pattern(200))].concat();
    let tails = [
        Vec::new(),
        ng.enhanced(0, 9, b"not whole")[..20].to_vec(),
        ng.enhanced(2, 9, b"unknown interface"),
        ng.enhanced(0, 9, &pattern(97)),
        ng.block(5, &[0; 12]),
        vec![0; 64],
    ];
    for tail in tails {
        let ring = [&good[..], &tail].concat();
        let run = PacketRun::from_epbs(&ring, LITTLE, &table, 4096);
        assert_eq!((run.bytes(), run.len(), run.offset()), (&good[..], 2, 4096));
        assert_eq!(run.max_caplen(), 200);
        let found: Vec<_> = run.packets().map(|p| (p.interface, p.timestamp)).collect();
        assert_eq!(
            found,
            [(5, Timestamp::new(0, 7)), (6, Timestamp::new(0, 8))]
        );
    }
    assert!(PacketRun::from_epbs(&[0; 32], LITTLE, &table, 0).is_empty());
}

fn reader(file: Vec<u8>) -> Reader {
    let file = Box::new(std::io::Cursor::new(file));
    Reader::new(file, "memory", &ReadOptions::default()).expect("valid header")
}
