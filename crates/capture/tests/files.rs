//! Files as sources: the corpus is read as the reader reads it, and filtered by link type.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use ringtap_capture::{
    FileSource, Filter, FilterPlace, Interface, LinkType, Next, Packet, PacketFlags, ReadOptions,
    Source, Timestamp, Visitor, open_file, open_stream,
};
use ringtap_savefile::{Item, PcapngWriter, Reader};
use ringtap_testkit::{Need, corpus, suite, test};

fn main() -> std::process::ExitCode {
    suite(vec![
        test("filters_by_link_type", &[], filters_by_link_type),
        test("changes_the_filter", &[], changes_the_filter),
        test(
            "chooses_alike_in_a_large_file",
            &[],
            chooses_alike_in_a_large_file,
        ),
        test(
            "a_mapped_file_is_let_go_of_when_somebody_would_write_it",
            // Before, files are read, not mapped.
            &[Need::Kernel(5, 14)],
            a_mapped_file_is_let_go_of_when_somebody_would_write_it,
        ),
        test("wakes_between_blocks", &[], wakes_between_blocks),
        test("reads_the_corpus", &[Need::Corpus], reads_the_corpus),
    ])
}

/// Returns a UDP datagram to port 53, from its IP header on.
fn datagram() -> Vec<u8> {
    let mut bytes = vec![
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    bytes.extend([0x0f, 0xa0, 0, 53, 0, 8, 0, 0]);
    bytes
}

/// Returns a pcapng file with an Ethernet and a raw-IP interface; UDP and other packets on both.
fn two_link_types() -> Vec<u8> {
    let interfaces =
        [LinkType::ETHERNET, LinkType::RAW].map(|link_type| Interface::new(link_type, 65_535));
    let mut ethernet = vec![2; 12];
    ethernet.extend([0x08, 0x00]);
    ethernet.extend(datagram());
    let mut tcp = datagram();
    tcp[9] = 6;
    let packets = [(0, ethernet), (0, vec![3; 60]), (1, datagram()), (1, tcp)];
    let mut writer = PcapngWriter::new(Vec::new(), &Default::default()).unwrap();
    for interface in &interfaces {
        writer.add_interface(interface).unwrap();
    }
    for (interface, data) in &packets {
        let packet = Packet {
            timestamp: Timestamp::new(1, 2),
            len: u32::try_from(data.len()).unwrap(),
            interface: *interface,
            flags: PacketFlags::default(),
            data,
            process: None,
        };
        writer.write_packet(&packet).unwrap();
    }
    writer.finish().unwrap().0
}

fn source(filter: Option<&str>) -> impl Source {
    let filter = filter.map(Filter::new);
    let file = std::io::Cursor::new(two_link_types());
    open_stream(
        Box::new(file),
        "memory",
        &ReadOptions::default(),
        filter.as_ref(),
    )
    .unwrap()
}

/// Returns the interface and length of each packet.
fn read(source: &mut dyn Source) -> Vec<(u32, usize)> {
    let mut seen = Vec::new();
    loop {
        match source.next().unwrap() {
            Next::Block(block) => {
                assert!(!block.is_empty());
                let packets: Vec<_> = block
                    .packets()
                    .map(|packet| (packet.interface, packet.data.len()))
                    .collect();
                let with_options = block.packets_with_options();
                assert!(
                    with_options
                        .map(|(p, _)| (p.interface, p.data.len()))
                        .eq(packets.clone())
                );
                seen.extend(packets);
            }
            Next::End => return seen,
            Next::Meta(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn filters_by_link_type() {
    assert_eq!(
        read(&mut source(None)),
        [(0, 42), (0, 60), (1, 28), (1, 28)]
    );
    let mut filtered = source(Some("udp port 53"));
    assert_eq!(read(&mut filtered), [(0, 42), (1, 28)]);
    assert_eq!(filtered.stats().unwrap().received, Some(4));
    let description = filtered.describe();
    assert_eq!(description.link_types, [LinkType::ETHERNET, LinkType::RAW]);
    assert!(matches!(description.filter, FilterPlace::UserSpace { .. }));
    assert_eq!(read(&mut source(Some("ip"))), [(0, 42), (1, 28), (1, 28)]);
}

fn changes_the_filter() {
    let mut source = source(Some("udp"));
    source.set_filter(Some(&Filter::new("tcp"))).unwrap();
    assert!(
        source.set_filter(Some(&Filter::new("("))).is_ok(),
        "no link type is known yet"
    );
    source.set_filter(Some(&Filter::new("tcp"))).unwrap();
    assert_eq!(read(&mut source), [(1, 28)]);
}

/// The filter becomes native code on the way, and an interface of another link type comes after that.
fn chooses_alike_in_a_large_file() {
    const EACH: usize = 60_000;
    let mut udp = vec![2; 12];
    udp.extend([0x08, 0x00]);
    udp.extend(datagram());
    let mut tcp = udp.clone();
    tcp[14 + 9] = 6;
    let mut writer = PcapngWriter::new(Vec::new(), &Default::default()).unwrap();
    for (interface, (link_type, start)) in [(LinkType::ETHERNET, 0), (LinkType::RAW, 14)]
        .into_iter()
        .enumerate()
    {
        let described = Interface::new(link_type, 65_535);
        writer.add_interface(&described).unwrap();
        for nth in 0..EACH {
            let data = &[&udp, &tcp, &tcp][nth % 3][start..];
            let packet = Packet {
                timestamp: Timestamp::new(1, 2),
                len: u32::try_from(data.len()).unwrap(),
                interface: u32::try_from(interface).unwrap(),
                flags: PacketFlags::default(),
                data,
                process: None,
            };
            writer.write_packet(&packet).unwrap();
        }
    }
    let bytes = writer.finish().unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.pcapng");
    std::fs::write(&path, &bytes).unwrap();
    let (options, filter) = (ReadOptions::default(), Filter::new("udp port 53"));
    let stream = Box::new(std::io::Cursor::new(bytes));
    let mut sources = [
        open_file(&path, &options, Some(&filter)).unwrap(),
        open_stream(stream, "memory", &options, Some(&filter)).unwrap(),
    ];
    let expected = [(0, 42), (1, 28)].map(|each| vec![each; EACH / 3]).concat();
    for source in &mut sources {
        let seen = read(source);
        assert_eq!(seen.len(), expected.len());
        assert!(seen == expected, "other packets than those of the filter");
    }
}

/// A file of more than 8 MiB, for one thread. A process that opens it for writing waits until the mapping is
/// dropped, not for a reader that has read all of it; its end is then read and not mapped.
fn a_mapped_file_is_let_go_of_when_somebody_would_write_it() {
    const PACKETS: usize = 20_000;
    let mut writer = PcapngWriter::new(Vec::new(), &Default::default()).unwrap();
    let described = Interface::new(LinkType::ETHERNET, 65_535);
    writer.add_interface(&described).unwrap();
    for nth in 0..PACKETS {
        let data = vec![5; 600 + nth % 100];
        let packet = Packet {
            timestamp: Timestamp::new(1, 2),
            len: u32::try_from(data.len()).unwrap(),
            interface: 0,
            flags: PacketFlags::default(),
            data: &data,
            process: None,
        };
        writer.write_packet(&packet).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.pcapng");
    std::fs::write(&path, writer.finish().unwrap().0).unwrap();
    let mut options = ReadOptions::default();
    (options.read_ahead, options.map) = (false, Some(ringtap_capture::MAP_FILE));
    let expected: Vec<_> = (0..PACKETS).map(|nth| (0, 600 + nth % 100)).collect();

    for is_visited in [false, true] {
        let mut whole = Reading::open(&path, &options, is_visited);
        while whole.read_piece() {}
        assert!(whole.seen == expected, "other packets when mapped");
        assert_eq!(whole.visited > PACKETS / 2, is_visited);

        let mut source = Reading::open(&path, &options, is_visited);
        while source.seen.len() < PACKETS / 2 {
            assert!(source.read_piece());
        }
        let before = source.seen.len();
        source.source.waker().wake();
        assert!(!source.visits(), "somebody wants to be told");
        assert!(matches!(source.source.next().unwrap(), Next::Woken));
        assert_eq!(source.seen.len(), before);
        let to_write = path.clone();
        let opened = std::thread::spawn(move || {
            let file = std::fs::OpenOptions::new().append(true).open(to_write);
            file.map(drop)
        });
        while !somebody_waits(&path) {
            std::thread::yield_now();
        }
        // It is noticed when the next MiB is looked at.
        for _ in 0..5 {
            assert!(source.read_piece());
        }
        assert!(!somebody_waits(&path), "it is still mapped");
        assert!(source.seen.len() < PACKETS);
        while source.read_piece() {}
        assert!(source.seen == expected, "other packets afterwards");
        assert_eq!(source.visited > 0, is_visited);
        opened.join().unwrap().unwrap();
    }
}

/// A file that is read, by blocks or, if possible, packet by packet.
struct Reading {
    source: FileSource,
    is_visited: bool,
    /// Packets that came one by one.
    visited: usize,
    /// The interface and the length of all packets.
    seen: Vec<(u32, usize)>,
}

impl Reading {
    fn open(path: &Path, options: &ReadOptions, is_visited: bool) -> Self {
        Self {
            source: open_file(path, options, None).unwrap(),
            is_visited,
            visited: 0,
            seen: Vec::new(),
        }
    }

    /// Reads a piece, packet by packet. Returns false if that is not possible.
    fn visits(&mut self) -> bool {
        let visited = self.source.drain(&mut Seen(&mut self.seen));
        self.visited += visited;
        visited > 0
    }

    /// Reads a piece; false at the end.
    fn read_piece(&mut self) -> bool {
        if self.is_visited && self.visits() {
            return true;
        }
        match self.source.next().unwrap() {
            Next::Block(block) => block
                .packets()
                .for_each(|packet| Seen(&mut self.seen).packet(&packet)),
            Next::End => return false,
            _ => {}
        }
        true
    }
}

struct Seen<'a>(&'a mut Vec<(u32, usize)>);

impl Visitor for Seen<'_> {
    fn packet(&mut self, packet: &Packet<'_>) {
        self.0.push((packet.interface, packet.data.len()));
    }
}

/// Returns whether a lease of this file must be returned, by the kernel's list of locks.
fn somebody_waits(path: &Path) -> bool {
    let inode = path.metadata().unwrap().ino();
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    let file = format!(":{inode} ");
    let breaking = |line: &str| line.contains("LEASE") && line.contains("BREAKING");
    locks
        .lines()
        .any(|line| line.contains(&file) && breaking(line))
}

fn wakes_between_blocks() {
    let mut source = source(None);
    source.waker().wake();
    assert!(matches!(source.next().unwrap(), Next::Woken));
    assert_eq!(read(&mut source).len(), 4);
}

/// Returns the number of packets of a file by the reader itself, up to its end or its damage.
fn plain(path: &Path) -> Option<usize> {
    let mut reader = Reader::open(path, &ReadOptions::default()).ok()?;
    let mut packets = 0;
    while let Ok(Some(item)) = reader.next() {
        if let Item::Run(run) = item {
            packets += run.packets().count();
        }
    }
    Some(packets)
}

fn reads_the_corpus() {
    let mut files = 0;
    for path in corpus::files() {
        let source = open_file(&path, &ReadOptions::default(), None);
        let Some(expected) = plain(&path) else {
            assert!(source.is_err(), "{}", path.display());
            continue;
        };
        let mut source = source.unwrap();
        let mut packets = 0;
        while let Ok(next) = source.next() {
            match next {
                Next::Block(block) => {
                    assert!(block.runs().is_some());
                    packets += block.packets().count();
                }
                Next::End => break,
                _ => {}
            }
        }
        assert_eq!(packets, expected, "{}", path.display());
        assert_eq!(source.stats().unwrap().received, Some(packets as u64));
        files += 1;
    }
    assert!(files > 0);
}
