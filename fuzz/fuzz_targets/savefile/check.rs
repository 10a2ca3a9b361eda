//! Properties of any bytes that are read as a capture file and written again.

use std::sync::Arc;

use ringtap_savefile::{
    Format, Item, PacketFilter, PcapOptions, PcapWriter, PcapngWriter, Reader, Records, Section,
};

use crate::read::{Contents, OwnedPacket, open, own, read};

/// Reads with buffers of several sizes, whose results must be equal, and writes the packets, which must be
/// equal when read again.
pub(crate) fn check(bytes: &[u8]) {
    if is_compressed(bytes) {
        // A target of its own; how much a damaged stream gives depends on the calls.
        return;
    }
    let contents = read(bytes, 16 * 1024);
    assert_eq!(
        contents,
        read(bytes, 64),
        "the buffer's size does not matter"
    );
    let stored: usize = contents
        .packets
        .iter()
        .map(|packet| packet.data.len())
        .sum();
    assert!(
        stored <= bytes.len(),
        "packets are made of the file's bytes"
    );
    check_filtered(bytes, &contents);
    rewrite(bytes, &contents);
}

/// Returns whether a packet has an odd length, or more bytes than it should have.
fn is_wanted(len: u32, data: &[u8]) -> bool {
    len % 2 == 1 || data.len() > len as usize
}

struct Wanted;

impl PacketFilter for Wanted {
    fn choose(&self, packets: Records<'_>, wanted: &mut Vec<bool>) {
        wanted.extend(packets.map(|packet| is_wanted(packet.len, packet.data)));
    }
}

/// Checks that a filter in the reader selects the same packets as applied to all packets afterwards.
fn check_filtered(bytes: &[u8], contents: &Contents) {
    let Ok(mut reader) = open(bytes, 4096) else {
        return;
    };
    reader.set_filter(Some(Arc::new(Wanted)));
    let mut expected = contents
        .packets
        .iter()
        .filter(|packet| is_wanted(packet.len, &packet.data));
    let mut read = 0;
    let error = loop {
        match reader.next() {
            Ok(Some(Item::Filtered(filtered))) => {
                read += filtered.read();
                for packet in filtered.packets() {
                    assert_eq!(Some(&own(&packet)), expected.next());
                }
            }
            Ok(Some(item)) => assert!(!matches!(item, Item::Run(_))),
            Ok(None) => break None,
            Err(error) => break Some((error.offset(), error.to_string())),
        }
    };
    assert_eq!(expected.next(), None);
    assert_eq!((read, &error), (contents.packets.len(), &contents.error));
}

fn rewrite(bytes: &[u8], contents: &Contents) {
    let Ok(reader) = open(bytes, 4096) else {
        return;
    };
    let format = reader.format();
    for by_run in [true, false] {
        let Ok(reader) = open(bytes, 4096) else {
            return;
        };
        let again = match format {
            Format::Pcap => read(&to_pcap(reader, by_run), 4096),
            Format::Pcapng => read(&to_pcapng(reader, by_run), 4096),
        };
        if contents.interfaces.is_empty() {
            continue;
        }
        assert_eq!(again.error, None, "what is written is whole");
        assert_eq!(again.packets.len(), contents.packets.len());
        for (ours, first) in again.packets.iter().zip(&contents.packets) {
            assert_same(ours, first, contents, by_run);
        }
        if format == Format::Pcapng {
            assert_eq!(again.interfaces, contents.interfaces);
        }
    }
}

fn assert_same(ours: &OwnedPacket, first: &OwnedPacket, contents: &Contents, by_run: bool) {
    let mut ours = ours.clone();
    let interface = &contents.interfaces[first.interface as usize];
    let time = first.timestamp.secs();
    // A simple packet block has no time, and gets the epoch even if the interface has none.
    let exact = by_run || (interface.time_offset == 0 && (0..i64::MAX / 2).contains(&time));
    if !exact || !(0..i64::from(u32::MAX)).contains(&time) {
        ours.timestamp = first.timestamp;
    }
    assert_eq!(&ours, first);
}

fn to_pcap(mut reader: Reader, by_run: bool) -> Vec<u8> {
    let options = PcapOptions::for_interface(&reader.interfaces()[0]);
    let mut writer = PcapWriter::new(Vec::new(), &options).expect("memory");
    while let Ok(Some(item)) = reader.next() {
        if let Item::Run(run) = item {
            let mut batch = writer.batch();
            if by_run {
                batch.push_run(&run).expect("memory");
            } else {
                run.packets()
                    .for_each(|packet| batch.push(&packet).expect("memory"));
            }
            batch.commit().expect("memory");
        }
    }
    writer.finish().expect("memory").0
}

fn to_pcapng(mut reader: Reader, by_run: bool) -> Vec<u8> {
    let first = reader.section().cloned().unwrap_or_else(Section::default);
    let mut writer = PcapngWriter::new(Vec::new(), &first).expect("memory");
    let mut sections = 0;
    while let Ok(Some(item)) = reader.next() {
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
                if by_run {
                    batch.push_run(&run).expect("memory");
                } else {
                    run.packets_with_options().for_each(|(packet, options)| {
                        batch.push_with_options(&packet, &options).expect("memory");
                    });
                }
                batch.commit().expect("memory");
            }
            Item::Names(names) => writer.write_names(&names).expect("memory"),
            Item::Statistics(statistics) => {
                writer
                    .write_statistics(&statistics.counters())
                    .expect("memory");
            }
            Item::Other(block) => writer.write_block(&block).expect("memory"),
            _ => {}
        }
    }
    writer.finish().expect("memory").0
}

fn is_compressed(bytes: &[u8]) -> bool {
    let magics: [&[u8]; 4] = [
        &[0x1f, 0x8b],
        &[0x28, 0xb5],
        &[0x04, 0x22],
        &[0x2a, 0x4d, 0x18],
    ];
    magics.iter().any(|magic| {
        bytes.starts_with(magic) || bytes.get(1..).is_some_and(|b| b.starts_with(magic))
    })
}
