//! Round trips: written files are read again, in both formats and both byte orders, packet by
//! packet and run by run.

use proptest::collection::vec;
use proptest::prelude::*;
use ringtap_savefile::{
    ByteOrder, CaptureFilter, Interface, InterfaceStatistics, Item, LinkType, Packet, PacketFlags,
    PcapOptions, PcapWriter, PcapngWriter, ReadOptions, Reader, Resolution, Section, Timestamp,
};
use ringtap_testkit::captures::{BIG, LITTLE, Ng, PcapHeader};

use crate::collect::{Collected, OwnedPacket, read_bytes, read_with};

fn orders() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(LITTLE), Just(BIG)]
}

/// Returns packets of up to three interfaces; some are too large to be copied.
fn packets() -> impl Strategy<Value = Vec<OwnedPacket>> {
    let length = prop_oneof![8 => 0..200usize, 1 => 4090..4100usize, 1 => 9000..9003usize];
    let data = (length, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    let packet = (
        0..4_294_967_296i64,
        0..1_000_000_000u32,
        any::<u32>(),
        0..3u32,
        0..4u32,
        data,
    );
    vec(packet, 0..40).prop_map(|packets| {
        let own = |(secs, nanos, len, interface, flags, data)| OwnedPacket {
            timestamp: Timestamp::new(secs, nanos),
            len,
            interface,
            flags: PacketFlags(flags),
            data,
        };
        packets.into_iter().map(own).collect()
    })
}

fn view(packet: &OwnedPacket) -> Packet<'_> {
    Packet {
        timestamp: packet.timestamp,
        len: packet.len,
        interface: packet.interface,
        flags: packet.flags,
        data: &packet.data,
        process: None,
    }
}

fn small_buffer() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.buffer = 100;
    options
}

/// Reads a file and writes it again, run by run.
fn rewrite_pcapng(file: &[u8]) -> Vec<u8> {
    let input = Box::new(std::io::Cursor::new(file.to_vec()));
    let mut reader = Reader::new(input, "memory", &small_buffer()).expect("header");
    let mut writer =
        PcapngWriter::new(Vec::new(), reader.section().expect("pcapng")).expect("memory");
    let mut sections = 0;
    while let Some(item) = reader.next().expect("valid") {
        match item {
            Item::Section(section) => {
                sections += 1;
                if sections > 1 {
                    writer.start_section(section).expect("memory");
                }
            }
            Item::Interface(index) => {
                let interface = &reader.interfaces()[index as usize];
                assert_eq!(writer.add_interface(interface).expect("memory"), index);
            }
            Item::Run(run) => {
                let mut batch = writer.batch();
                batch.push_run(&run).expect("memory");
                batch.commit().expect("memory");
            }
            Item::Names(names) => writer.write_names(&names).expect("memory"),
            Item::Statistics(counters) => {
                writer
                    .write_statistics(&counters.counters())
                    .expect("memory");
            }
            Item::Other(block) => writer.write_block(&block).expect("memory"),
            _ => {}
        }
    }
    writer.finish().expect("memory").0
}

/// Reads a file and writes its interfaces and packets in the given byte order.
fn rewrite_in(file: &[u8], order: ByteOrder) -> Vec<u8> {
    let input = Box::new(std::io::Cursor::new(file.to_vec()));
    let mut reader = Reader::new(input, "memory", &ReadOptions::default()).expect("header");
    let mut writer = PcapngWriter::new(Vec::new(), &Section::new(order)).expect("memory");
    while let Some(item) = reader.next().expect("valid") {
        match item {
            Item::Interface(index) => {
                let interface = &reader.interfaces()[index as usize];
                writer.add_interface(interface).expect("memory");
            }
            Item::Run(run) => {
                let mut batch = writer.batch();
                batch.push_run(&run).expect("memory");
                batch.commit().expect("memory");
            }
            _ => {}
        }
    }
    writer.finish().expect("memory").0
}

fn assert_equal(read: &Collected, packets: &[OwnedPacket]) {
    assert_eq!(read.error_text(), "no error");
    assert_eq!(read.packets.len(), packets.len());
    for (ours, theirs) in read.packets.iter().zip(packets) {
        assert_eq!(ours, theirs);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pcap(mut packets in packets(), order in orders(), nanos: bool) {
        for packet in &mut packets {
            packet.interface = 0;
            packet.flags = PacketFlags::default();
            if !nanos {
                let whole = packet.timestamp.subsec_nanos() / 1000 * 1000;
                packet.timestamp = Timestamp::new(packet.timestamp.secs(), whole);
            }
        }
        let mut options = PcapOptions::new(LinkType::ETHERNET, 0);
        options.byte_order = order;
        options.nanos = nanos;
        let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
        let mut batch = writer.batch();
        for packet in &packets {
            batch.push(&view(packet)).expect("memory");
        }
        batch.commit().expect("memory");
        let (file, totals) = writer.finish().expect("memory");
        prop_assert_eq!(totals.packets, packets.len() as u64);
        prop_assert_eq!(totals.bytes, file.len() as u64);
        assert_equal(&read_bytes(&file), &packets);
        assert_equal(&read_with(&file, &small_buffer()), &packets);
    }

    #[test]
    fn pcap_by_run_is_byte_for_byte(lengths in vec(0..300usize, 0..50), order in orders()) {
        let header = PcapHeader { order, ..PcapHeader::MICROS };
        let records: Vec<u8> =
            lengths.iter().flat_map(|length| header.packet(&vec![7; *length])).collect();
        let file = [header.bytes(), records].concat();
        let input = Box::new(std::io::Cursor::new(file.clone()));
        let mut reader = Reader::new(input, "memory", &small_buffer()).expect("header");
        let mut options = PcapOptions::for_interface(&reader.interfaces()[0]);
        options.byte_order = order;
        let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
        while let Some(item) = reader.next().expect("valid") {
            if let Item::Run(run) = item {
                let mut batch = writer.batch();
                batch.push_run(&run).expect("memory");
                batch.commit().expect("memory");
            }
        }
        prop_assert!(writer.finish().expect("memory").0 == file);
    }

    #[test]
    fn pcapng(packets in packets(), order in orders()) {
        let mut writer = PcapngWriter::new(Vec::new(), &Section::new(order)).expect("memory");
        let mut interfaces = Vec::new();
        for link_type in [LinkType::ETHERNET, LinkType::RAW, LinkType::LINUX_SLL2] {
            let interface = Interface::new(link_type, 0);
            writer.add_interface(&interface).expect("memory");
            interfaces.push(interface);
        }
        let mut batch = writer.batch();
        for packet in &packets {
            batch.push(&view(packet)).expect("memory");
        }
        batch.commit().expect("memory");
        let (file, totals) = writer.finish().expect("memory");
        prop_assert_eq!(totals.packets, packets.len() as u64);
        prop_assert_eq!(totals.bytes, file.len() as u64);
        let read = read_with(&file, &small_buffer());
        assert_equal(&read, &packets);
        let link_types = |list: &[Interface]| list.iter().map(|i| i.link_type).collect::<Vec<_>>();
        prop_assert_eq!(link_types(&read.interfaces), link_types(&interfaces));
        let again = rewrite_pcapng(&file);
        prop_assert!(again == file, "moved byte for byte");
    }

    #[test]
    fn pcapng_in_the_other_byte_order(packets in packets(), order in orders()) {
        let other = if order == LITTLE { BIG } else { LITTLE };
        let mut writer = PcapngWriter::new(Vec::new(), &Section::new(order)).expect("memory");
        for _ in 0..3 {
            writer.add_interface(&Interface::new(LinkType::ETHERNET, 0)).expect("memory");
        }
        for packet in &packets {
            writer.write_packet(&view(packet)).expect("memory");
        }
        let file = writer.finish().expect("memory").0;
        assert_equal(&read_bytes(&rewrite_in(&file, other)), &packets);
    }
}

#[test]
fn numbers_in_packet_options_are_turned() {
    let options = |ng: Ng| {
        [
            ng.option(1, b"text"),
            ng.option(2, &ng.0.of_u32(5)),
            ng.option(3, &[2, 9, 8, 7, 6]),
            ng.option(4, &ng.0.of_u64(77)),
            ng.option(5, &ng.0.of_u64(78)),
            ng.option(6, &ng.0.of_u32(3)),
            ng.option(2989, &[&ng.0.of_u32(4242)[..], b"theirs"].concat()),
            ng.option(0, b""),
        ]
        .concat()
    };
    let file = |ng: Ng| {
        let body = ng.enhanced_body((0, 1, 3, 3), b"abc", &options(ng));
        let interface = [ng.option(9, &[6]), ng.option(0, b"")].concat();
        [
            ng.section(),
            ng.interface(1, 0, &interface),
            ng.block(6, &body),
        ]
        .concat()
    };
    for (from, to) in [(LITTLE, BIG), (BIG, LITTLE)] {
        assert_eq!(rewrite_in(&file(Ng(from)), to), file(Ng(to)));
    }
}

/// Returns an interface with all options that this crate knows.
fn described_interface() -> Interface {
    let mut interface = Interface::new(LinkType::ETHERNET, 96);
    interface.name = Some("eth0".to_owned());
    interface.description = Some("uplink".to_owned());
    interface.filter = Some(CaptureFilter::Expression("tcp".to_owned()));
    interface.os = Some("Linux 6.1".to_owned());
    interface.hardware = Some("a card".to_owned());
    interface.speed = Some(10_000_000_000);
    interface.rx_speed = Some(1);
    interface.tx_speed = Some(2);
    interface.mac = Some([1, 2, 3, 4, 5, 6]);
    interface.eui = Some([8; 8]);
    interface.ipv4 = vec![([10, 0, 0, 1].into(), [255, 0, 0, 0].into())];
    interface.ipv6 = vec![([1u16, 2, 3, 4, 5, 6, 7, 8].into(), 64)];
    interface.resolution = Resolution::from_option(0x94).expect("valid");
    interface.time_offset = -77;
    interface.fcs_len = Some(32);
    interface.other.push_comment("of the interface");
    interface
}

#[test]
fn descriptions_survive() {
    for (from, to) in [(LITTLE, LITTLE), (LITTLE, BIG), (BIG, LITTLE)] {
        let mut section = Section::new(from);
        section.hardware = Some("a machine".to_owned());
        section.os = Some("Linux".to_owned());
        section.application = Some("ringtap".to_owned());
        section.other.push_comment("of the section");
        let interface = described_interface();
        let mut counters = InterfaceStatistics::new(0, Timestamp::new(5, 0));
        counters.start = Some(Timestamp::new(1, 0));
        counters.end = Some(Timestamp::new(6, 0));
        counters.received = Some(u64::MAX);
        counters.dropped_by_interface = Some(3);
        counters.dropped_by_os = Some(4);
        counters.accepted_by_filter = Some(5);
        counters.delivered = Some(6);

        let mut writer = PcapngWriter::new(Vec::new(), &section).expect("memory");
        let mut turned = section.clone();
        turned.byte_order = to;
        writer.start_section(&turned).expect("memory");
        let index = writer.add_interface(&interface).expect("memory");
        assert_eq!(index, 0);
        writer.write_statistics(&counters).expect("memory");
        let file = writer.finish().expect("memory").0;

        let input = Box::new(std::io::Cursor::new(rewrite_pcapng(&file)));
        let mut reader = Reader::new(input, "memory", &ReadOptions::default()).expect("header");
        let mut found = None;
        while let Some(item) = reader.next().expect("valid") {
            if let Item::Statistics(statistics) = item {
                found = Some(statistics.counters());
            }
        }
        let mut found = found.expect("statistics");
        assert!(found.other.is_empty());
        found.other = counters.other.clone();
        assert_eq!(found, counters);
        let read = &reader.interfaces()[0];
        let comments: Vec<_> = read.other.comments().collect();
        assert_eq!(comments, ["of the interface"]);
        let mut same = read.clone();
        same.other = interface.other.clone();
        assert_eq!(same, interface);
        let last = reader.section().expect("pcapng");
        assert_eq!(
            (last.byte_order, &last.application),
            (to, &section.application)
        );
        assert_eq!((&last.os, &last.hardware), (&section.os, &section.hardware));
        assert_eq!(
            last.other.comments().collect::<Vec<_>>(),
            ["of the section"]
        );
    }
}

#[test]
fn names_custom_and_unknown_blocks_pass_through() {
    for order in [LITTLE, BIG] {
        let ng = Ng(order);
        let names = [
            &order.of_u16(1)[..],
            &order.of_u16(6),
            &[1, 2, 3, 4, b'h', 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let comment = [ng.option(1, b"kept"), ng.option(0, b"")].concat();
        let file = [
            ng.section(),
            ng.interface(1, 0, &[ng.option(9, &[6]), ng.option(0, b"")].concat()),
            ng.block(4, &names),
            ng.block(6, &ng.enhanced_body((0, 1, 3, 3), b"abc", &comment)),
            ng.simple(5, b"hello"),
            ng.obsolete(0, 4, b"old"),
            ng.block(10, &[1; 20]),
            ng.block(0x0bad, &[9; 8]),
            ng.block(0x8000_0001, b"local"),
        ]
        .concat();
        assert_eq!(rewrite_pcapng(&file), file);
    }
}
