//! Reading, filtering and writing allocate for a file, never for a packet.

use std::io;
use std::path::Path;

use ringtap_capture::{Filter, Next, ReadOptions, Source, open_file};
use ringtap_packet::LinkType;
use ringtap_savefile::{PcapOptions, PcapWriter, PcapngWriter, Section};
use ringtap_testkit::alloc::{self, Counting};
use ringtap_testkit::traffic::{Sizes, Traffic};
use ringtap_testkit::{Test, test};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// So many that the filter is compiled to native code.
const FEW: u64 = 100_000;
const MANY: u64 = 1_000_000;
/// The maximum cost of a block with thousands of packets.
const PACKETS_PER_ALLOCATION: u64 = 1_000;

type Fallible = Result<u64, Box<dyn std::error::Error>>;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("no_allocation_per_packet_in_pcap", &[], || {
            flat(|file| to_pcap(file, None));
        }),
        test("no_allocation_per_packet_filtered", &[], || {
            flat(|file| to_pcap(file, Some(&Filter::new("tcp port 443"))));
        }),
        test("no_allocation_per_packet_in_pcapng", &[], || {
            flat(to_pcapng);
        }),
    ]
}

/// Compares the allocations for a small and a large file.
fn flat(pass: impl Fn(&Path) -> Fallible) {
    let few = allocations(FEW, &pass);
    let many = allocations(MANY, &pass);
    let allowed = few + (MANY - FEW) / PACKETS_PER_ALLOCATION;
    assert!(
        many <= allowed,
        "{few} allocations for {FEW} packets, {many} for {MANY}"
    );
}

fn allocations(packets: u64, pass: &impl Fn(&Path) -> Fallible) -> u64 {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("input.pcap");
    let traffic = Traffic {
        packets,
        sizes: Sizes::Fixed(64),
        ..Traffic::default()
    };
    let totals = traffic.write_file(&file).expect("a capture");
    let (written, counts) = alloc::count(|| pass(&file));
    let written = written.expect("a pass without errors");
    assert!(
        written == packets || written == totals.https,
        "{written} packets"
    );
    assert!(counts.allocations > 0, "the allocator does not count");
    counts.allocations
}

fn to_pcap(file: &Path, filter: Option<&Filter>) -> Fallible {
    let mut source = open_file(file, &ReadOptions::default(), filter)?;
    let mut writer = PcapWriter::new(io::sink(), &PcapOptions::new(LinkType::ETHERNET, 262_144))?;
    loop {
        match source.next()? {
            Next::Block(block) => {
                let mut batch = writer.batch();
                for packet in block.packets() {
                    batch.push(&packet)?;
                }
                batch.commit()?;
            }
            Next::End => return Ok(writer.finish()?.1.packets),
            _ => {}
        }
    }
}

fn to_pcapng(file: &Path) -> Fallible {
    let mut source = open_file(file, &ReadOptions::default(), None)?;
    let mut writer = PcapngWriter::new(io::sink(), &Section::default())?;
    let mut described = false;
    loop {
        if !described && let Some(interface) = source.interfaces().first() {
            writer.add_interface(interface)?;
            described = true;
        }
        match source.next()? {
            Next::Block(block) => {
                let mut batch = writer.batch();
                for packet in block.packets() {
                    batch.push(&packet)?;
                }
                batch.commit()?;
            }
            Next::End => return Ok(writer.finish()?.1.packets),
            _ => {}
        }
    }
}
