//! Filters that ask for the processes of a file's packets: by what was recorded beside each packet, and by the
//! descriptions of processes between packets.
#![expect(
    clippy::unwrap_used,
    reason = "a test fails where something is missing"
)]

use std::io::Write as _;
use std::path::Path;

use ringtap_capture::index::{IndexOptions, IndexUse, Search, build_index, open_indexed, path_for};
use ringtap_capture::{
    Filter, Interface, LinkType, Next, Packet, PacketFlags, ReadOptions, Source, Timestamp,
    open_file, open_stream,
};
use ringtap_packet::process::{PacketProcess, ProcessDescription, ProcessFacts, ProcessTag};
use ringtap_savefile::{PcapngWriter, ProcessBlock, RawBlock};

/// A process: its number, its name, the number and the path of its control group.
#[derive(Clone, Copy)]
struct Process(u32, &'static str, u64, &'static str);

const WEB: Process = Process(10, "nginx", 100, "/lxc.payload.web");
const SHELL: Process = Process(11, "bash", 200, "/user.slice/shell");
/// A process of the container that is not described.
const WORKER: Process = Process(12, "nginx", 100, "");

impl Process {
    fn tag(self) -> [u8; 56] {
        ProcessFacts {
            pid: self.0,
            tid: self.0,
            uid: 1000,
            comm: self.1.as_bytes(),
            cgroup: self.2,
            ..ProcessFacts::default()
        }
        .encode()
    }
}

/// A file that is being written. Packets have a length of their own, by which they are recognised.
struct File(PcapngWriter<Vec<u8>>);

impl File {
    fn new() -> Self {
        let mut writer = PcapngWriter::new(Vec::new(), &Default::default()).unwrap();
        let interface = Interface::new(LinkType::RAW, 65_535);
        writer.add_interface(&interface).unwrap();
        Self(writer)
    }

    fn describe(&mut self, process: Process) {
        let tag = process.tag();
        let mut block = Vec::new();
        ProcessBlock {
            tag: ProcessTag::parse(&tag).unwrap(),
            description: ProcessDescription {
                cgroup: process.3.to_owned(),
                ..ProcessDescription::default()
            },
        }
        .encode(&mut block);
        self.0
            .write_block(&RawBlock::built(&block).unwrap())
            .unwrap();
    }

    fn packet(&mut self, process: Option<Process>, len: u32) {
        self.packet_to(process, len, [0; 4]);
    }

    /// Adds a packet to an address.
    fn packet_to(&mut self, process: Option<Process>, len: u32, address: [u8; 4]) {
        let tag = process.map(Process::tag);
        let process = tag.as_ref().map(|tag| {
            let tag = ProcessTag::parse(tag).unwrap();
            PacketProcess {
                pid: tag.pid(),
                tid: tag.tid(),
                tag: Some(tag),
            }
        });
        let mut data = vec![0; len as usize];
        data[0] = 0x45;
        data[16..20].copy_from_slice(&address);
        let packet = Packet {
            timestamp: Timestamp::new(1, 2),
            len,
            interface: 0,
            flags: PacketFlags::default(),
            data: &data,
            process,
        };
        self.0.write_packet(&packet).unwrap();
    }

    fn finish(self) -> Vec<u8> {
        self.0.finish().unwrap().0
    }
}

/// Returns packets of lengths 21 to 24: of the container, of the shell, of nobody, of the container's worker.
fn capture() -> Vec<u8> {
    let mut file = File::new();
    file.describe(WEB);
    file.packet(Some(WEB), 21);
    file.describe(SHELL);
    file.packet(Some(SHELL), 22);
    file.packet(None, 23);
    file.packet(Some(WORKER), 24);
    file.finish()
}

fn filter(expression: &str) -> Filter {
    Filter::new(expression).with_extensions(true)
}

fn opened(expression: &str) -> impl Source {
    let stream = Box::new(std::io::Cursor::new(capture()));
    let filter = filter(expression);
    open_stream(stream, "memory", &ReadOptions::default(), Some(&filter)).unwrap()
}

/// Returns the lengths of the packets.
fn lengths(source: &mut dyn Source) -> Vec<u32> {
    let mut lengths = Vec::new();
    loop {
        match source.next().unwrap() {
            Next::Block(block) => {
                assert!(block.runs().is_none(), "the filter is left out");
                let packets: Vec<u32> = block.packets().map(|packet| packet.len).collect();
                let with_options = block.packets_with_options().map(|(packet, _)| packet.len);
                assert!(with_options.eq(packets.clone()));
                lengths.extend(packets);
            }
            Next::End => return lengths,
            Next::Meta(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn by_what_was_recorded() {
    let cases: [(&str, &[u32]); 9] = [
        ("process nginx", &[21, 24]),
        ("not process nginx", &[22, 23]),
        ("pid 11 or greater 24", &[22, 24]),
        ("uid 1000 and not pid in { 11, 12 }", &[21]),
        ("container web", &[21, 24]),
        ("not container web", &[22, 23]),
        ("cgroup /user.slice", &[22]),
        ("cgroup /", &[21, 22, 24]),
        ("cgroup /user.slice or container web and pid 12", &[24]),
    ];
    for (expression, expected) in cases {
        assert_eq!(lengths(&mut opened(expression)), expected, "{expression}");
    }
}

#[test]
fn a_later_filter_knows_earlier_descriptions() {
    for first in ["less 1", "pid 1", "container shop"] {
        let mut source = opened(first);
        // Everything up to the description of the shell is read under the first filter.
        let mut described = 0;
        while described < 2 {
            match source.next().unwrap() {
                Next::Meta(ringtap_savefile::Item::Other(_)) => described += 1,
                Next::End => panic!("two descriptions"),
                _ => {}
            }
        }
        source.set_filter(Some(&filter("container web"))).unwrap();
        assert_eq!(lengths(&mut source), [24], "{first}");
    }
}

#[test]
fn files_that_are_read_ahead() {
    const ROUNDS: u32 = 20_000;
    let mut file = File::new();
    for round in 0..ROUNDS {
        if round % 1000 == 0 {
            file.describe(WEB);
        }
        file.packet(Some(WEB), 21);
        file.packet(Some(SHELL), 22);
    }
    file.describe(SHELL);
    file.packet(Some(SHELL), 23);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.pcapng");
    let mut written = std::fs::File::create(&path).unwrap();
    written.write_all(&file.finish()).unwrap();
    let count = |path: &Path, expression: &str| {
        let mut source =
            open_file(path, &ReadOptions::default(), Some(&filter(expression))).unwrap();
        let found = lengths(&mut source);
        assert_eq!(
            source.stats().unwrap().received,
            Some(u64::from(2 * ROUNDS) + 1)
        );
        found.len()
    };
    assert_eq!(count(&path, "container web"), ROUNDS as usize);
    assert_eq!(count(&path, "pid 11"), ROUNDS as usize + 1);
    // Its control group is known at the end only.
    assert_eq!(count(&path, "cgroup /user.slice"), 1);
}

#[test]
fn files_without_processes_match_negations_only() {
    let mut file = File::new();
    file.packet(None, 30);
    let bytes = file.finish();
    for (expression, expected) in [("process a", 0), ("not (process a or cgroup /)", 1)] {
        let stream = Box::new(std::io::Cursor::new(bytes.clone()));
        let filter = filter(expression);
        let options = ReadOptions::default();
        let mut source = open_stream(stream, "memory", &options, Some(&filter)).unwrap();
        assert_eq!(lengths(&mut source).len(), expected);
    }
}

/// Stretches that an index leaves out hold packets alone, so that no description is missed.
#[test]
fn files_with_an_index() {
    let mut file = File::new();
    file.describe(SHELL);
    for len in [100, 200] {
        for _ in 0..5000 {
            file.packet_to(Some(WEB), len, [10, 0, 0, u8::try_from(len).unwrap()]);
        }
        file.describe(WEB);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.pcapng");
    std::fs::write(&path, file.finish()).unwrap();
    let capture = std::fs::File::open(&path).unwrap();
    let index = || std::fs::File::create(path_for(&path));
    build_index(&capture, "capture", index, &IndexOptions::default()).unwrap();
    let count = |expression: &str| {
        let (filter, options) = (filter(expression), ReadOptions::default());
        let search = Search::default();
        let (mut source, used) = open_indexed(&path, &options, Some(&filter), &search).unwrap();
        let skipped = matches!(used, IndexUse::Used { packets, .. } if packets > 4000);
        (lengths(&mut source).len(), skipped)
    };
    assert_eq!(count("dst host 10.0.0.200 and container web"), (5000, true));
    assert_eq!(
        count("dst host 10.0.0.200 and not container web"),
        (0, true)
    );
    assert_eq!(count("container web"), (5000, false));
}
