//! Compares lines with those of an installed tcpdump, over every file of the corpus.
//!
//! Both print the same packets: tcpdump rewrites a file as plain pcap, which is read here. A line
//! is compared if a row of `protocols` recognises it. For each protocol the share of equal lines
//! must reach the bound in the table of `docs/reference/output.md`. The hex dump that tcpdump
//! always prints below undecoded data is not compared. What versions after 4.99.3 print otherwise is
//! listed in `versions`.
//!
//! Another test checks that printing allocates nothing once the buffers have their size.

mod protocols;
mod versions;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

use ringtap_packet::{LinkType, Packet, PacketFlags, Timestamp};
use ringtap_print::{BytesDump, PrintOptions, Printer, TimestampFormat};
use ringtap_testkit::{Need, alloc, corpus, repository, suite, test};

use protocols::{Comparison, Protocol};
use versions::{Rewriter, Version};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    let needs = [Need::Corpus, Need::Tool("tcpdump")];
    suite(vec![
        test("plain_lines_agree", &needs, || compare(&[])),
        test("quiet_lines_agree", &needs, || compare(&["-q"])),
        test("absolute_sequence_numbers_agree", &needs, || {
            compare(&["-S"]);
        }),
        test("dumps_agree", &needs, || compare(&["-XX"])),
        test("changes_of_versions_are_known", &[], changes_of_versions),
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

/// Points of a share that another set of captures than the page's may have less.
const MARGIN: u32 = 5;
/// Lines of a protocol that may differ in another set of captures.
const FEW: u32 = 5;

/// Equal lines and all lines, by protocol.
type Tally = BTreeMap<&'static str, (u32, u32)>;

fn compare(arguments: &[&str]) {
    let bounds = bounds();
    let mut tally = Tally::new();
    let mut shown = ShownDifferences::from_environment();
    let mut rewriter = Rewriter::new(tcpdump_version());
    for file in corpus::files() {
        if let Some(ours) = our_lines(&file, arguments) {
            let theirs: Vec<_> = their_lines(&file, arguments)
                .into_iter()
                .map(|text| rewriter.rewrite(text))
                .collect();
            count(&mut tally, &mut shown, &ours, &theirs);
        }
    }
    println!("| protocol | equal lines | of |\n|---|---|---|");
    let mut low = Vec::new();
    for protocol in protocols::all().filter(|protocol| protocol.is_compared()) {
        let Some((equal, all)) = tally.get(protocol.name) else {
            println!("| {} | not in the corpus | 0 |", protocol.name);
            continue;
        };
        let share = equal * 100 / all;
        println!("| {} | {share} % | {all} |", protocol.name);
        if bounds[protocol.name].is_some_and(|bound| is_low((*equal, *all), bound)) {
            low.push(protocol.name);
        }
    }
    assert!(
        tally.len() >= 6,
        "the corpus holds few protocols: {tally:?}"
    );
    rewriter.check(arguments.contains(&"-q"));
    assert!(low.is_empty(), "below the bound: {low:?}");
}

/// Returns whether fewer lines are equal than the page states. Its shares are those of one set of captures,
/// so another set, such as the one that `cargo xtask corpus` fetches, has a margin: [`MARGIN`] points, and
/// [`FEW`] lines of rare protocols.
fn is_low((equal, all): (u32, u32), bound: u32) -> bool {
    let share = equal * 100 / all;
    if corpus::folder() == Some(repository().with_file_name("shared").join("corpus")) {
        return share < bound;
    }
    share + MARGIN < bound && all - equal > FEW
}

fn tcpdump_version() -> Version {
    let tool = ringtap_testkit::need::find_tool("tcpdump").expect("checked as a need");
    let output = Command::new(tool)
        .arg("--version")
        .output()
        .expect("tcpdump runs");
    let text = String::from_utf8_lossy(&output.stdout);
    versions::parse(&text).unwrap_or_else(|| panic!("not a version of tcpdump: {text}"))
}

/// Checks the rewriting of newer lines, whatever version is installed.
fn changes_of_versions() {
    assert_eq!(
        versions::parse("tcpdump version 4.99.5\nlibpcap version 1.10.5"),
        Some((4, 99, 5))
    );
    for change in versions::CHANGES {
        for (newer, older) in change.examples {
            let mut at_once = Rewriter::new(change.since);
            assert_eq!(at_once.rewrite((*newer).to_owned()), *older);
            assert_eq!(at_once.rewrite((*older).to_owned()), *older);
            let mut before = Rewriter::new((4, 99, 3));
            assert_eq!(before.rewrite((*newer).to_owned()), *newer);
        }
    }
}

/// Returns the percentage of each protocol's lines that must be equal, from the page; `None` for a
/// protocol that was not in the corpus when the page was written.
fn bounds() -> BTreeMap<String, Option<u32>> {
    const TITLE: &str = "| protocol | equal lines |";
    let page = repository().join("docs/reference/output.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let rows = page.lines().skip_while(|line| *line != TITLE).skip(2);
    let bounds: BTreeMap<_, _> = rows
        .map_while(|row| {
            let (name, share) = row.strip_prefix("| ")?.split_once(" | ")?;
            let share = share.split_once(" %").map(|(share, _)| share.parse());
            Some((name.to_owned(), share.map(|share| share.expect("a number"))))
        })
        .collect();
    let names: Vec<_> = protocols::all()
        .filter(|protocol| protocol.is_compared())
        .map(|protocol| protocol.name.to_owned())
        .collect();
    let mut sorted = names.clone();
    sorted.sort();
    let listed: Vec<_> = bounds.keys().cloned().collect();
    assert_eq!(listed, sorted, "the page has a row for each protocol");
    bounds
}

/// Differing lines, printed for work on a protocol: `RINGTAP_PRINT_DIFFERENCES` has its name, or is
/// `none` for the lines that no row recognises.
struct ShownDifferences {
    protocol: Option<String>,
    left: u32,
}

impl ShownDifferences {
    fn from_environment() -> Self {
        Self {
            protocol: std::env::var("RINGTAP_PRINT_DIFFERENCES").ok(),
            left: 100,
        }
    }

    fn show(&mut self, protocol: &str, ours: &str, theirs: &str) {
        if self.protocol.as_deref() == Some(protocol) && self.left > 0 {
            self.left -= 1;
            println!("tcpdump: {theirs}\nringtap: {ours}");
        }
    }
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

/// Returns tcpdump's output for each packet; `-#` marks where one begins.
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

/// Returns the printer's output for each packet; `None` if the file cannot be read or its link type
/// has no decoder here.
fn our_lines(file: &Path, arguments: &[&str]) -> Option<Vec<String>> {
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    let pcap = tcpdump(&["-w", "-"], file);
    let link_type = u32_at(&pcap, 20)? & 0xffff;
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
            process: None,
        };
        let mut out = Vec::new();
        let link_type = LinkType(u16::try_from(link_type).expect("masked"));
        printer
            .print(&mut out, &packet, link_type, None)
            .expect("memory does not fail");
        if out.starts_with(b"link type ") {
            return None;
        }
        lines.push(
            String::from_utf8_lossy(&out)
                .trim_end_matches('\n')
                .to_owned(),
        );
        at = end;
    }
    Some(lines)
}

fn count(tally: &mut Tally, shown: &mut ShownDifferences, ours: &[String], theirs: &[String]) {
    for (ours, theirs) in ours.iter().zip(theirs) {
        let first = split(theirs).0;
        let Some(protocol) = protocols::of(first).filter(|protocol| protocol.is_compared()) else {
            if split(ours).0.trim_end() != first.trim_end() {
                shown.show("none", ours, theirs);
            }
            continue;
        };
        let (equal, all) = tally.entry(protocol.name).or_default();
        *all += 1;
        if agree(protocol, ours, theirs) {
            *equal += 1;
        } else {
            shown.show(protocol.name, ours, theirs);
        }
    }
}

fn agree(protocol: &Protocol, ours: &str, theirs: &str) -> bool {
    let (ours_first, ours_rest) = split(ours);
    let (theirs_first, theirs_rest) = split(theirs);
    if ours_first.trim_end() == theirs_first.trim_end() && rest_agrees(ours_rest, theirs_rest) {
        return true;
    }
    // The dump belongs to the packet; an application's lines before it are not compared.
    let application = |generic: &str| {
        theirs_first.starts_with(generic) && theirs.trim_end().ends_with(ours_rest.trim_end())
    };
    protocol.comparison == Comparison::BeforeApplication
        && match ours_first.split_once("UDP, length ") {
            Some((before, _)) => application(before),
            None => application(ours_first.trim_end()),
        }
}

/// Compares the lines after the first. tcpdump prints undecoded bytes even without `-x`: the rows
/// of the packet's dump are the last ones.
fn rest_agrees(ours: &str, theirs: &str) -> bool {
    let is_text = |line: &&str| !line.trim_start().starts_with("0x");
    ours == theirs
        || theirs.ends_with(ours.trim_start_matches('\n'))
            && ours
                .lines()
                .filter(is_text)
                .eq(theirs.lines().filter(is_text))
}

/// Splits text into the first line and the rest.
fn split(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

/// Checks every access point, control field and kind of frame of IEEE 802.2, and IGMP in short: no
/// line differs. The hex dump below undecoded data is left out here.
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
    // SNAP with types of Ethernet: tcpdump has no decoder for them.
    const ORGANISATIONS: [u32; 7] = [0, 0xf8, 0x08_0007, 0x00_120f, 0x00_1b21, 0x0f_ac, 0x12_3456];
    const CONTROLS: [u8; 10] = [0x03, 0x0f, 0x43, 0x53, 0x63, 0x7f, 0x87, 0xaf, 0xe3, 0xff];
    let mut bodies: Vec<Vec<u8>> = Vec::new();
    // The access points of IP, spanning trees, SNAP, IPX and OSI have lines of their own.
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
        // The type that replaces lengths that do not fit.
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

/// Returns a frame with this content after the addresses.
fn frame(rest: &[u8]) -> Vec<u8> {
    [&[1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1], rest].concat()
}

/// Returns the packets of the printer's own cases.
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
                    process: None,
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
