//! Lines compared with those of an installed tcpdump, over every file of the corpus.
//!
//! Both print the same packets: tcpdump rewrites a file as plain pcap, which is read here. A line
//! is in scope when what stands above IP is TCP, UDP, ICMP, ICMPv6 or DNS, or when it is ARP. What
//! tcpdump tells of an application by its port, after the point where the generic form ends, is
//! not compared. For each protocol the share of equal lines must reach a bound.
//!
//! Beside it: printing allocates nothing once the buffers have their size.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_print::{BytesDump, PrintOptions, Printer, TimestampFormat};
use ringtap_testkit::{Need, alloc, corpus, repository, suite, test};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

/// Per cent of lines that must be equal.
const BOUND: f64 = 99.0;
/// A protocol with few lines in the corpus, one of them under MACsec, which has no decoder here.
const LOWER_BOUND: [(&str, f64); 1] = [("icmp", 98.0)];

fn main() -> ExitCode {
    let needs = [Need::Corpus, Need::Tool("tcpdump")];
    suite(vec![
        test("plain_lines_agree", &needs, || compare(&[])),
        test("quiet_lines_agree", &needs, || compare(&["-q"])),
        test("absolute_sequence_numbers_agree", &needs, || {
            compare(&["-S"]);
        }),
        test("dumps_agree", &needs, || compare(&["-XX"])),
        test(
            "link_control_and_groups_agree",
            &[Need::Tool("tcpdump")],
            link_control_and_groups,
        ),
        test(
            "nothing_is_allocated_per_packet",
            &[],
            nothing_is_allocated_per_packet,
        ),
    ])
}

/// Equal lines and all lines, by protocol.
type Tally = BTreeMap<&'static str, (u32, u32)>;

fn compare(arguments: &[&str]) {
    let mut tally = Tally::new();
    for file in corpus::files() {
        if let Some(ours) = our_lines(&file, arguments) {
            count(&mut tally, &ours, &their_lines(&file, arguments));
        }
    }
    let mut low = Vec::new();
    for (protocol, (equal, all)) in &tally {
        let share = f64::from(*equal) / f64::from(*all) * 100.0;
        println!("{protocol:6} {equal:6} of {all:6} lines equal, {share:.2} %");
        let bound = LOWER_BOUND
            .iter()
            .find(|(name, _)| name == protocol)
            .map_or(BOUND, |(_, b)| *b);
        if share < bound {
            low.push(*protocol);
        }
    }
    assert!(
        tally.len() >= 6,
        "the corpus holds every protocol in scope: {tally:?}"
    );
    assert!(low.is_empty(), "below the bound: {low:?}");
}

fn tcpdump(arguments: &[&str], file: &Path) -> Vec<u8> {
    let tool = ringtap_testkit::need::find_tool("tcpdump").expect("checked as a need");
    Command::new(tool)
        .env("TZ", "UTC")
        .args(["-n"])
        .args(arguments)
        .arg("-r")
        .arg(file)
        .output()
        .expect("tcpdump runs")
        .stdout
}

/// The output for each packet; `-#` marks where one begins.
fn their_lines(file: &Path, arguments: &[&str]) -> Vec<String> {
    let output = tcpdump(&[&["-t", "-#"], arguments].concat(), file);
    let mut lines: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&output).lines() {
        let marked = line
            .trim_start()
            .split_once("  ")
            .and_then(|(number, rest)| {
                (number.parse() == Ok(lines.len() + 1)).then(|| rest.to_owned())
            });
        match (marked, lines.last_mut()) {
            (Some(rest), _) => lines.push(rest),
            (None, Some(last)) => {
                last.push('\n');
                last.push_str(line);
            }
            (None, None) => {}
        }
    }
    lines
}

fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    data.get(at..)?
        .first_chunk()
        .copied()
        .map(u32::from_le_bytes)
}

/// What the printer gives for each packet; None where the file cannot be read or its link type has
/// no decoder here.
fn our_lines(file: &Path, arguments: &[&str]) -> Option<Vec<String>> {
    const DECODED: [u32; 12] = [0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 276];
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    let pcap = tcpdump(&["-w", "-"], file);
    let link_type = u32_at(&pcap, 20)? & 0xffff;
    if !DECODED.contains(&link_type) {
        return None;
    }
    let mut options = PrintOptions::default();
    options.timestamps = TimestampFormat::None;
    options.quiet = arguments.contains(&"-q");
    options.link_header = arguments.contains(&"-e");
    options.absolute_seq = arguments.contains(&"-S");
    options.dump = BytesDump::from_counts(0, 2 * u8::from(arguments.contains(&"-XX")), 0);
    let mut printer = Printer::new(options);
    let mut lines = Vec::new();
    let mut at = FILE_HEADER;
    while let (Some(caplen), Some(len)) = (u32_at(&pcap, at + 8), u32_at(&pcap, at + 12)) {
        let begin = at + RECORD_HEADER;
        let end = begin + usize::try_from(caplen).expect("a 32-bit number");
        let packet = Packet {
            timestamp: Timestamp::new(0, 0),
            len,
            interface: 0,
            flags: PacketFlags(0),
            data: pcap.get(begin..end)?,
        };
        let mut out = Vec::new();
        let link_type = LinkType(u16::try_from(link_type).expect("masked"));
        printer
            .print(&mut out, &packet, link_type, None)
            .expect("memory does not fail");
        lines.push(
            String::from_utf8_lossy(&out)
                .trim_end_matches('\n')
                .to_owned(),
        );
        at = end;
    }
    Some(lines)
}

/// The protocol of a line, where it is in scope.
fn scope(line: &str) -> Option<&'static str> {
    if line.starts_with("ARP") || line.starts_with(" [|arp]") {
        return Some("arp");
    }
    let rest = line
        .strip_prefix("IP6 ")
        .or_else(|| line.strip_prefix("IP "))?;
    let rest = match rest.split_once("bytes missing!") {
        Some((before, rest)) if before.starts_with("truncated-ip") => rest.trim_start(),
        _ => rest,
    };
    let (source, rest) = rest.split_once(" > ")?;
    let (destination, rest) = rest.split_once(": ")?;
    let domain = |end: &str| end.ends_with(".53") || end.ends_with(".5353");
    match rest {
        _ if rest.starts_with("Flags [") || rest.starts_with("tcp ") || rest == "[|tcp]" => {
            Some("tcp")
        }
        // Node information, RPL and router renumbering are other protocols in the messages of ICMPv6.
        _ if ["who-are-you", "RPL", "router renumbering"]
            .iter()
            .any(|other| rest.contains(other)) =>
        {
            None
        }
        _ if rest.starts_with("ICMP6") => Some("icmp6"),
        _ if rest.starts_with("ICMP") => Some("icmp"),
        _ if domain(source) || domain(destination) => Some("dns"),
        _ if rest.starts_with("UDP") => Some("udp"),
        _ => None,
    }
}

fn count(tally: &mut Tally, ours: &[String], theirs: &[String]) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        let Some(protocol) = scope(theirs) else {
            continue;
        };
        let (equal, all) = tally.entry(protocol).or_default();
        *all += 1;
        *equal += u32::from(agree(protocol, ours, theirs));
    }
}

fn agree(protocol: &str, ours: &str, theirs: &str) -> bool {
    let (ours_first, ours_dump) = split(ours);
    let (theirs_first, theirs_dump) = split(theirs);
    if ours_first.trim_end() == theirs_first.trim_end() && ours_dump == theirs_dump {
        return true;
    }
    // The dump belongs to the packet; an application's lines before it are not compared.
    let application = |generic: &str| {
        theirs_first.starts_with(generic) && theirs.trim_end().ends_with(ours_dump.trim_end())
    };
    match protocol {
        "tcp" => application(ours_first.trim_end()),
        "udp" | "dns" => ours_first
            .split_once("UDP, length ")
            .is_some_and(|(before, _)| application(before)),
        // tcpdump prints the bytes of an operation that it does not know, asked or not.
        "arp" => ours_first == theirs_first && theirs_dump.ends_with(ours_dump),
        _ => false,
    }
}

/// The line, and what follows it.
fn split(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Every access point, control field and kind of frame of IEEE 802.2, and IGMP in short: no line
/// differs. The bytes that tcpdump prints unasked under what it does not decode are left out here.
fn link_control_and_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("frames.pcap");
    ringtap_testkit::pcap::write(&file, frames()).expect("a capture file");
    for arguments in [&[][..], &["-q"], &["-e"], &["-q", "-e"]] {
        let ours = our_lines(&file, arguments).expect("a file of Ethernet");
        let theirs = their_lines(&file, arguments);
        assert_eq!(ours.len(), theirs.len(), "{arguments:?}");
        for (number, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            assert_eq!(ours, split(theirs).0, "{arguments:?}, packet {number}");
        }
    }
}

fn frames() -> Vec<Vec<u8>> {
    const BYTES: [u8; 10] = [0x81, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    // SNAP with types of Ethernet: none has a decoder there.
    const ORGANISATIONS: [u32; 7] = [0, 0xf8, 0x08_0007, 0x00_120f, 0x00_1b21, 0x0f_ac, 0x12_3456];
    const CONTROLS: [u8; 10] = [0x03, 0x0f, 0x43, 0x53, 0x63, 0x7f, 0x87, 0xaf, 0xe3, 0xff];
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    // What stands for IP, spanning trees, SNAP, IPX and OSI has lines of its own.
    for sap in (0..=0xfe_u8).step_by(2) {
        bodies.push(vec![sap, sap ^ 0x10, 0xaf, 0x81, 1, 0]);
        bodies.push(vec![sap, sap | 1, 0x7f]);
    }
    for control in CONTROLS {
        for length in 0..BYTES.len() {
            bodies.push([&[4, 4, control], &BYTES[..length]].concat());
            bodies.push([&[0xf0, 5, control], &BYTES[1..length.max(1)]].concat());
        }
    }
    for organisation in ORGANISATIONS {
        let [_, oui @ ..] = organisation.to_be_bytes();
        bodies.push([&[0xaa, 0xaa, 3][..], &oui, &[0x88, 0x70], &BYTES].concat());
    }
    bodies.push(vec![4]);
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for body in &bodies {
        let length = u16::try_from(body.len()).expect("a short frame");
        frames.push(frame(&[&length.to_be_bytes()[..], body].concat()));
        // The type that stands in the place of lengths that are too long for one.
        frames.push(frame(&[&[0x88, 0x70], &body[..]].concat()));
    }
    let kinds = [0x11, 0x12, 0x16, 0x17, 0x22, 0x99].map(|kind| (kind, 0));
    for (kind, delay) in kinds
        .into_iter()
        .chain((1..=255).map(|delay| (0x11, delay)))
    {
        for length in [8, 12] {
            let message = [kind, delay, 0, 0, 239, 1, 2, 3, 0, 0, 0, 0];
            let total = u8::try_from(20 + length).expect("a short packet");
            let header = [
                0x45, 0, 0, total, 0, 1, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 1,
            ];
            frames.push(frame(&[&[8, 0], &header[..], &message[..length]].concat()));
        }
    }
    frames
}

/// A frame of what follows the addresses.
fn frame(rest: &[u8]) -> Vec<u8> {
    [&[1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1], rest].concat()
}

/// The packets of the printer's own cases.
fn case_packets() -> Vec<Vec<u8>> {
    let folder = repository().join("crates/print/testdata");
    let mut packets = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the cases") {
        let file = entry.expect("a readable folder").path();
        let text = std::fs::read_to_string(file).expect("a readable file of cases");
        for hex in text
            .lines()
            .filter_map(|line| line.strip_prefix("packet: "))
        {
            let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            packets.push((0..hex.len() / 2).map(|index| byte(2 * index)).collect());
        }
    }
    packets
}

fn nothing_is_allocated_per_packet() {
    const ROUNDS: i64 = 50;
    let packets = case_packets();
    let mut dump = PrintOptions::default();
    dump.dump = BytesDump::from_counts(0, 2, 0);
    let mut verbose = PrintOptions::default();
    verbose.verbose = 2;
    verbose.link_header = true;
    let mut json = PrintOptions::default();
    json.json = true;
    for options in [dump, verbose, json] {
        let mut printer = Printer::new(options.clone());
        let mut round = |secs: i64| {
            for (data, link_type) in packets.iter().flat_map(|data| [(data, 1), (data, 101)]) {
                let packet = Packet {
                    timestamp: Timestamp::new(secs, 0),
                    len: u32::try_from(data.len()).expect("a small packet"),
                    interface: 0,
                    flags: PacketFlags(0),
                    data,
                };
                let out = &mut std::io::sink();
                printer
                    .print(out, &packet, LinkType(link_type), None)
                    .expect("a sink takes all");
            }
        };
        // The second round prints relative sequence numbers, and with them the longest lines.
        (0..2).for_each(&mut round);
        let ((), counts) = alloc::count(|| (2..ROUNDS).for_each(round));
        assert_eq!(counts.allocations, 0, "{options:?}");
    }
}
