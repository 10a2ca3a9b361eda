//! The writers: the bytes that a call writes, its errors, and the intact part of the file after
//! one.

use std::io::{self, IoSlice, Write};

use ringtap_savefile::{
    Interface, Item, LinkType, Packet, PacketFlags, PcapOptions, PcapWriter, PcapngWriter,
    RawBlock, ReadOptions, Reader, Resolution, Section, Timestamp, WriteErrorKind,
};
use ringtap_testkit::captures::{BIG, LITTLE, Ng, PcapHeader, pattern};

use crate::collect::read_bytes;

fn packet(data: &[u8]) -> Packet<'_> {
    Packet {
        timestamp: Timestamp::new(1, 2_000),
        len: 60,
        interface: 0,
        flags: PacketFlags::default(),
        data,
        process: None,
    }
}

/// Takes a limited number of bytes in all, and per call.
struct Short {
    taken: Vec<u8>,
    room: usize,
    per_call: usize,
    calls: usize,
}

impl Short {
    fn new(room: usize, per_call: usize) -> Self {
        Self {
            taken: Vec::new(),
            room,
            per_call,
            calls: 0,
        }
    }
}

impl Write for Short {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        assert!(slices.len() <= 1024, "IOV_MAX");
        self.calls += 1;
        if self.calls.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let mut left = self.per_call.min(self.room);
        if left == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut count = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(left)];
            self.taken.extend_from_slice(part);
            left -= part.len();
            count += part.len();
        }
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_pcap_file_byte_for_byte() {
    for order in [LITTLE, BIG] {
        for (nanos, fraction, magic) in [(false, 2, 0xa1b2_c3d4), (true, 2000, 0xa1b2_3c4d)] {
            let mut options = PcapOptions::new(LinkType::ETHERNET, 96);
            options.byte_order = order;
            options.nanos = nanos;
            options.link_type_bits = 0x2400_0000;
            let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
            writer.write_packet(&packet(b"abcd")).expect("memory");
            let header = PcapHeader {
                order,
                magic,
                snaplen: 96,
                link_type: 0x2400_0001,
                ..PcapHeader::MICROS
            };
            let record = header.record([1, fraction, 4, 60], b"abcd");
            let file = writer.finish().expect("memory").0;
            assert_eq!(file, [header.bytes(), record].concat());
        }
    }
}

/// A damaged file's time is written as it was read, if the format has room for it.
#[test]
fn an_invalid_time_is_written_as_it_was_stored() {
    let micros = Timestamp::from_micros(1, 4_000_000_000);
    let nanos = Timestamp::new(1, 4_000_000_000);
    let cases = [
        (micros, false, [1, 4_000_000_000]),
        (nanos, true, [1, 4_000_000_000]),
        (nanos, false, [1, 4_000_000]),
        // The format has no room for this many nanoseconds.
        (micros, true, [4001, 0]),
        (
            Timestamp::from_micros(1, 1_000_001),
            true,
            [1, 1_000_001_000],
        ),
    ];
    for (timestamp, nanos, [secs, fraction]) in cases {
        let mut options = PcapOptions::new(LinkType::ETHERNET, 96);
        options.nanos = nanos;
        let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
        let packet = Packet {
            timestamp,
            ..packet(b"abcd")
        };
        writer.write_packet(&packet).expect("memory");
        let record = PcapHeader {
            order: options.byte_order,
            ..PcapHeader::MICROS
        };
        let record = record.record([secs, fraction, 4, 60], b"abcd");
        let (file, totals) = writer.finish().expect("memory");
        assert_eq!(file[24..], record, "{timestamp:?}, in nanoseconds: {nanos}");
        assert_eq!(totals.altered_times, u64::from(secs != 1), "{timestamp:?}");
    }
}

/// pcapng does not store fractions.
#[test]
fn invalid_times_that_are_altered_are_counted() {
    let mut writer = PcapngWriter::new(Vec::new(), &Section::new(LITTLE)).expect("memory");
    let interface = Interface::new(LinkType::ETHERNET, 96);
    writer.add_interface(&interface).expect("memory");
    for fraction in [0, 999_999, 1_000_000, 4_000_000_000] {
        let packet = Packet {
            timestamp: Timestamp::from_micros(1, fraction),
            ..packet(b"abcd")
        };
        writer.write_packet(&packet).expect("memory");
    }
    assert_eq!(writer.finish().expect("memory").1.altered_times, 2);
}

#[test]
fn a_pcapng_file_byte_for_byte() {
    for order in [LITTLE, BIG] {
        let ng = Ng(order);
        let mut section = Section::new(order);
        section.os = Some("Linux".to_owned());
        let mut writer = PcapngWriter::new(Vec::new(), &section).expect("memory");
        let mut interface = Interface::new(LinkType::RAW, 65_535);
        interface.name = Some("tun0".to_owned());
        writer.add_interface(&interface).expect("memory");
        let outbound = Packet {
            flags: PacketFlags::OUTBOUND,
            ..packet(b"abcde")
        };
        writer.write_packet(&outbound).expect("memory");
        let file = writer.finish().expect("memory").0;
        let end = ng.option(0, b"");
        let flags = [ng.option(2, &order.of_u32(2)), end.clone()].concat();
        let expected = [
            ng.block(
                0x0a0d_0d0a,
                &ng.section_body((1, 0), &[ng.option(3, b"Linux"), end.clone()].concat()),
            ),
            ng.interface(
                101,
                65_535,
                &[ng.option(2, b"tun0"), ng.option(9, &[9]), end].concat(),
            ),
            ng.block(
                6,
                &ng.enhanced_body((0, 1_000_002_000, 5, 60), b"abcde", &flags),
            ),
        ];
        assert_eq!(file, expected.concat());
    }
}

#[test]
fn seconds_wrap_as_libpcaps_do() {
    let mut writer =
        PcapWriter::new(Vec::new(), &PcapOptions::new(LinkType::RAW, 0)).expect("memory");
    for secs in [-1, 1 << 32, (1 << 32) + 7] {
        let packet = Packet {
            timestamp: Timestamp::new(secs, 0),
            ..packet(b"")
        };
        writer.write_packet(&packet).expect("memory");
    }
    let read = read_bytes(&writer.finish().expect("memory").0);
    let secs: Vec<_> = read.packets.iter().map(|p| p.timestamp.secs()).collect();
    assert_eq!(secs, [0xffff_ffff, 0, 7]);
}

#[test]
fn packets_are_cut_at_the_snaplen() {
    for size in [20, 5000] {
        let data = pattern(size);
        let mut pcap =
            PcapWriter::new(Vec::new(), &PcapOptions::new(LinkType::RAW, 7)).expect("memory");
        pcap.write_packet(&packet(&data)).expect("memory");
        let mut pcapng = PcapngWriter::new(Vec::new(), &Section::default()).expect("memory");
        pcapng
            .add_interface(&Interface::new(LinkType::RAW, 7))
            .expect("memory");
        pcapng.write_packet(&packet(&data)).expect("memory");
        for file in [
            pcap.finish().expect("memory").0,
            pcapng.finish().expect("memory").0,
        ] {
            let read = read_bytes(&file);
            assert_eq!(read.error_text(), "no error");
            assert_eq!(
                (&read.packets[0].data, read.packets[0].len),
                (&pattern(7), 60)
            );
        }
    }
}

#[test]
fn a_run_is_not_moved_where_the_snaplen_is_smaller() {
    let header = PcapHeader::MICROS;
    let file = [
        header.bytes(),
        header.packet(&pattern(20)),
        header.packet(b"abc"),
    ]
    .concat();
    let input = Box::new(io::Cursor::new(file));
    let mut reader = Reader::new(input, "memory", &ReadOptions::default()).expect("header");
    let mut writer =
        PcapWriter::new(Vec::new(), &PcapOptions::new(LinkType::ETHERNET, 7)).expect("memory");
    while let Some(item) = reader.next().expect("valid") {
        if let Item::Run(run) = item {
            let mut batch = writer.batch();
            batch.push_run(&run).expect("memory");
            batch.commit().expect("memory");
        }
    }
    let read = read_bytes(&writer.finish().expect("memory").0);
    assert_eq!(
        (read.packets[0].data.len(), read.packets[1].data.len()),
        (7, 3)
    );
}

#[test]
fn another_link_type_is_refused_by_name() {
    let options = PcapOptions::new(LinkType::ETHERNET, 0);
    let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
    writer.add_interface(&Interface::new(LinkType::ETHERNET, 0));
    writer.add_interface(&Interface::new(LinkType::RAW, 0));
    let mut batch = writer.batch();
    batch.push(&packet(b"good")).expect("the file's link type");
    let other = Packet {
        interface: 1,
        ..packet(b"bad")
    };
    let error = batch.push(&other).expect_err("raw IP");
    assert_eq!(
        error.to_string(),
        "a pcap file of link type EN10MB cannot hold a packet of link type RAW \
         (interface 1); pcapng can"
    );
    batch.push(&packet(b"more")).expect("the file's link type");
    batch.commit().expect("memory");
    let (file, totals) = writer.finish().expect("memory");
    assert_eq!((totals.packets, read_bytes(&file).packets.len()), (2, 2));
}

#[test]
fn an_interface_that_is_not_described_is_refused() {
    let mut writer = PcapngWriter::new(Vec::new(), &Section::default()).expect("memory");
    writer
        .add_interface(&Interface::new(LinkType::RAW, 0))
        .expect("memory");
    writer.start_section(&Section::default()).expect("memory");
    let index = writer
        .add_interface(&Interface::new(LinkType::RAW, 0))
        .expect("memory");
    assert_eq!(index, 1, "counted over all sections");
    for interface in [0, 2] {
        let packet = Packet {
            interface,
            ..packet(b"x")
        };
        let error = writer
            .write_packet(&packet)
            .expect_err("not in the section");
        assert_eq!(
            error.to_string(),
            format!("interface {interface} is not described: the section has 1..2")
        );
    }
}

#[test]
fn a_raw_block_of_the_other_byte_order_is_refused() {
    let ng = Ng(BIG);
    let file = [ng.prelude(), ng.block(0x4242, &[1; 4])].concat();
    let input = Box::new(io::Cursor::new(file));
    let mut reader = Reader::new(input, "memory", &ReadOptions::default()).expect("header");
    let mut writer = PcapngWriter::new(Vec::new(), &Section::new(LITTLE)).expect("memory");
    let mut refused = 0;
    while let Some(item) = reader.next().expect("valid") {
        if let Item::Other(block) = item {
            let block: RawBlock<'_> = block;
            let error = writer.write_block(&block).expect_err("other order");
            assert!(matches!(error.kind(), WriteErrorKind::ByteOrder { .. }));
            refused += 1;
        }
    }
    assert_eq!(refused, 1);
}

#[test]
fn short_and_interrupted_writes_are_continued() {
    for per_call in [1, 7, 100, 5000] {
        let sink = Short::new(usize::MAX, per_call);
        let mut writer =
            PcapWriter::new(sink, &PcapOptions::new(LinkType::ETHERNET, 0)).expect("room");
        let sizes = [0, 10, 5000, 1, 4096, 4095, 9000];
        let data: Vec<_> = sizes.map(pattern).into();
        let mut batch = writer.batch();
        for data in &data {
            batch.push(&packet(data)).expect("room");
        }
        batch.commit().expect("room");
        let (sink, totals) = writer.finish().expect("room");
        assert_eq!(totals.bytes, sink.taken.len() as u64);
        let read = read_bytes(&sink.taken);
        let lengths: Vec<_> = read.packets.iter().map(|p| p.data.len()).collect();
        assert_eq!(lengths, sizes);
    }
}

#[test]
fn a_full_output_tells_what_is_intact() {
    // Each size with the bytes before the packets, and a packet's bytes.
    let sizes = [100usize, 5000, 3];
    for room in 100..6000 {
        let mut sink = Short::new(room, 1 << 20);
        let mut writer =
            PcapWriter::new(&mut sink, &PcapOptions::new(LinkType::ETHERNET, 0)).expect("room");
        let data: Vec<_> = sizes.map(pattern).into();
        let mut batch = writer.batch();
        for data in data.iter().cycle().take(6) {
            batch.push(&packet(data)).expect("staged");
        }
        let error = batch.commit().expect_err("full");
        let WriteErrorKind::Output {
            source,
            written,
            intact,
            packets,
        } = error.kind()
        else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        let (written, intact, packets) = (*written, *intact, *packets);
        let again = writer
            .write_packet(&packet(b"x"))
            .and_then(|()| writer.flush());
        assert!(matches!(
            again.expect_err("failed before").kind(),
            WriteErrorKind::FailedBefore
        ));
        drop(writer);
        assert_eq!(written, sink.taken.len() as u64);
        let read = read_bytes(&sink.taken);
        assert_eq!(packets, read.packets.len() as u64);
        assert_eq!(intact, read.error.map_or(written, |error| error.offset()));
    }
}

#[test]
fn a_full_output_tells_what_is_intact_in_pcapng() {
    for room in (200..20_000).step_by(97) {
        let mut sink = Short::new(room, 1 << 20);
        let mut writer = PcapngWriter::new(&mut sink, &Section::default()).expect("room");
        writer
            .add_interface(&Interface::new(LinkType::RAW, 0))
            .expect("room");
        let data: Vec<_> = [100usize, 5000, 3].map(pattern).into();
        let mut batch = writer.batch();
        for data in data.iter().cycle().take(12) {
            batch.push(&packet(data)).expect("staged");
        }
        let error = batch.commit().expect_err("full");
        let WriteErrorKind::Output {
            intact, packets, ..
        } = error.kind()
        else {
            panic!("{error}");
        };
        let (intact, packets) = (*intact, *packets);
        drop(writer);
        let read = read_bytes(&sink.taken);
        assert_eq!(packets, read.packets.len() as u64);
        let end = sink.taken.len() as u64;
        assert_eq!(intact, read.error.map_or(end, |error| error.offset()));
    }
}

#[test]
fn many_large_packets_take_few_calls() {
    let data = pattern(4096);
    let sink = Short::new(usize::MAX, usize::MAX);
    let mut writer = PcapWriter::new(sink, &PcapOptions::new(LinkType::RAW, 0)).expect("room");
    let mut batch = writer.batch();
    for _ in 0..640 {
        batch.push(&packet(&data)).expect("room");
    }
    batch.commit().expect("room");
    let (sink, totals) = writer.finish().expect("room");
    assert_eq!(totals.packets, 640);
    assert!(sink.calls <= 20, "{} calls for 640 packets", sink.calls);
}

#[test]
fn a_batch_that_is_dropped_leaves_nothing() {
    let mut writer =
        PcapWriter::new(Vec::new(), &PcapOptions::new(LinkType::RAW, 0)).expect("memory");
    writer.write_packet(&packet(b"kept")).expect("memory");
    let large = pattern(5000);
    let mut batch = writer.batch();
    batch.push(&packet(b"forgotten")).expect("memory");
    batch.push(&packet(&large)).expect("memory");
    drop(batch);
    writer.write_packet(&packet(b"kept too")).expect("memory");
    let (file, totals) = writer.finish().expect("memory");
    let read = read_bytes(&file);
    let data: Vec<_> = read.packets.iter().map(|p| &p.data[..]).collect();
    assert_eq!(data, [&b"kept"[..], b"kept too"]);
    assert_eq!(totals.packets, 2);
}

#[test]
fn options_for_an_interface_keep_its_precision() {
    let mut interface = Interface::new(LinkType::RAW, 5);
    interface.fcs_len = Some(32);
    let options = PcapOptions::for_interface(&interface);
    assert!(options.nanos);
    assert_eq!((options.snaplen, options.link_type_bits), (5, 0x2400_0000));
    interface.resolution = Resolution::MICROS;
    assert!(!PcapOptions::for_interface(&interface).nanos);
}
