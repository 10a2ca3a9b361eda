//! Memory does not grow with the number of packets: reading, iterating and writing make as many
//! allocations for ten times the packets.

use std::io;
use std::process::ExitCode;

use ringtap_savefile::{
    Interface, Item, LinkType, Packet, PacketFlags, PcapOptions, PcapWriter, PcapngWriter,
    ReadOptions, Reader, Section, Timestamp,
};
use ringtap_testkit::{alloc, suite, test};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    suite(vec![
        test("pcap", &[], pcap_does_not_allocate_per_packet),
        test("pcapng", &[], pcapng_does_not_allocate_per_packet),
    ])
}

const SMALL: [u8; 90] = [7; 90];
const LARGE: [u8; 6000] = [8; 6000];

fn push_all(count: u64, mut push: impl FnMut(&Packet<'static>)) {
    for index in 0..count {
        let large = index % 16 == 0;
        push(&Packet {
            timestamp: Timestamp::new(1, 5),
            len: 1000,
            interface: 0,
            flags: PacketFlags(u32::from(index % 3 == 0)),
            data: if large { &LARGE } else { &SMALL },
            process: None,
        });
    }
}

fn pcap_file(count: u64) -> Vec<u8> {
    let options = PcapOptions::new(LinkType::ETHERNET, 0);
    let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
    push_all(count, |packet| writer.write_packet(packet).expect("memory"));
    writer.finish().expect("memory").0
}

fn pcapng_file(count: u64) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), &Section::default()).expect("memory");
    writer
        .add_interface(&Interface::new(LinkType::ETHERNET, 0))
        .expect("memory");
    push_all(count, |packet| writer.write_packet(packet).expect("memory"));
    writer.finish().expect("memory").0
}

fn open(file: Vec<u8>) -> Reader {
    let options = ReadOptions::default();
    Reader::new(Box::new(io::Cursor::new(file)), "memory", &options).expect("header")
}

/// Writes each packet twice, with its run and by itself; returns the number written.
fn rewrite_pcap(mut reader: Reader) -> u64 {
    let options = PcapOptions::for_interface(&reader.interfaces()[0]);
    let mut writer = PcapWriter::new(io::sink(), &options).expect("sink");
    while let Some(item) = reader.next().expect("valid") {
        if let Item::Run(run) = item {
            let mut batch = writer.batch();
            batch.push_run(&run).expect("sink");
            run.packets()
                .for_each(|packet| batch.push(&packet).expect("sink"));
            batch.commit().expect("sink");
        }
    }
    writer.finish().expect("sink").1.packets
}

fn rewrite_pcapng(mut reader: Reader) -> u64 {
    let mut writer = PcapngWriter::new(io::sink(), &Section::default()).expect("sink");
    while let Some(item) = reader.next().expect("valid") {
        match item {
            Item::Interface(index) => {
                let interface = &reader.interfaces()[index as usize];
                writer.add_interface(interface).expect("sink");
            }
            Item::Run(run) => {
                let mut batch = writer.batch();
                batch.push_run(&run).expect("sink");
                run.packets_with_options().for_each(|(packet, options)| {
                    batch.push_with_options(&packet, &options).expect("sink");
                });
                batch.commit().expect("sink");
            }
            _ => {}
        }
    }
    writer.finish().expect("sink").1.packets
}

/// Returns the allocations for files of two numbers of packets.
fn allocations(file: fn(u64) -> Vec<u8>, rewrite: fn(Reader) -> u64) -> Vec<alloc::Counts> {
    [10_000, 100_000]
        .map(|count| {
            let bytes = file(count);
            let (written, counts) = alloc::count(|| rewrite(open(bytes)));
            assert_eq!(written, 2 * count);
            counts
        })
        .into()
}

fn pcap_does_not_allocate_per_packet() {
    let counts = allocations(pcap_file, rewrite_pcap);
    assert!(counts[0].allocations > 0, "the allocator counts");
    assert_eq!(counts[0], counts[1]);
}

fn pcapng_does_not_allocate_per_packet() {
    let counts = allocations(pcapng_file, rewrite_pcapng);
    assert!(counts[0].allocations > 0, "the allocator counts");
    assert_eq!(counts[0], counts[1]);
}
