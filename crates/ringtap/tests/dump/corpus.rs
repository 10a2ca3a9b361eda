//! Every file of the corpus read and rewritten, compared with tcpdump on the same file.
//!
//! Both write pcap to standard output; the installed libpcap reads both results, so that neither
//! program judges itself.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use ringtap_testkit::libpcap::{Capture, Oracle, Packet};
use ringtap_testkit::{Need, Test, corpus, need, test};

use crate::program::{dump, stderr};

/// The most microseconds that libpcap converts to nanoseconds without an overflow of its 32 bits. It misreads
/// files with more in any stamp, and ringtap does not.
const MOST_MICROSECONDS: u32 = u32::MAX / 1000;

/// Filters over what most traffic consists of.
const FILTERS: [Option<&str>; 4] = [
    Some("tcp port 443"),
    Some("udp and not port 53"),
    Some("ip6 or arp"),
    Some("src net 10.0.0.0/8 or icmp"),
];
/// Link types that filters must know, as DLT values: BSD loopback, Ethernet, raw IP, both cooked.
const FILTERED_LINK_TYPES: [u32; 5] = [0, 1, 12, 113, 276];

pub(crate) fn tests() -> Vec<Test> {
    let needs = [Need::Corpus, Need::Tool("tcpdump"), Need::LibpcapDev];
    vec![
        test("corpus_is_rewritten_as_by_tcpdump", &needs, || {
            each_file(|bench, file| bench.compare_with_tcpdump(file, &[None]));
        }),
        test("corpus_is_filtered_as_by_tcpdump", &needs, || {
            each_file(|bench, file| bench.compare_with_tcpdump(file, &FILTERS));
        }),
        test("corpus_survives_pcapng", &needs, || {
            each_file(Bench::compare_through_pcapng);
        }),
        test(
            "differences_are_still_there",
            &[Need::Corpus],
            differences_exist,
        ),
    ]
}

/// Runs a comparison on every file, by two threads, and fails with all differences.
fn each_file(compare: impl Fn(&mut Bench, &Path) -> Vec<String> + Sync) {
    let files = corpus::files();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut bench = Bench::new();
        let mut differences = Vec::new();
        while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let name = corpus::name(file);
            if is_misread_by_libpcap(file) {
                continue;
            }
            let found = compare(&mut bench, file);
            differences.extend(found.iter().map(|found| format!("{name}: {found}")));
        }
        (differences, bench.packets)
    };
    let (mut differences, packets) = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let (mut differences, packets) = work();
        let (more, more_packets) = other.join().expect("the other half");
        differences.extend(more);
        (differences, packets + more_packets)
    });
    differences.sort();
    let count = differences.len();
    assert!(
        count == 0,
        "{count} differences:\n{}",
        differences.join("\n")
    );
    assert!(packets > 1000, "only {packets} packets were compared");
}

/// Checks that some files are left out, and most are not.
fn differences_exist() {
    let files = corpus::files();
    let misread = files.iter().filter(|file| is_misread_by_libpcap(file));
    let misread = misread.count();
    assert!(
        misread > 0 && misread < files.len() / 4,
        "{misread} of {}",
        files.len()
    );
}

/// Returns whether a pcap file of microseconds has a stamp that libpcap cannot make nanoseconds of.
fn is_misread_by_libpcap(file: &Path) -> bool {
    const MICROSECONDS: u32 = 0xa1b2_c3d4;
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    let bytes = std::fs::read(file).expect("a file of the corpus");
    let word = |bytes: &[u8], at: usize| -> Option<[u8; 4]> {
        bytes.get(at..)?.first_chunk::<4>().copied()
    };
    let number: fn([u8; 4]) -> u32 = match word(&bytes, 0) {
        Some(magic) if u32::from_le_bytes(magic) == MICROSECONDS => u32::from_le_bytes,
        Some(magic) if u32::from_be_bytes(magic) == MICROSECONDS => u32::from_be_bytes,
        _ => return false,
    };
    let mut rest = bytes.get(FILE_HEADER..).unwrap_or_default();
    while let (Some(micros), Some(caplen)) = (word(rest, 4), word(rest, 8)) {
        if number(micros) > MOST_MICROSECONDS {
            return true;
        }
        let record = RECORD_HEADER.saturating_add(number(caplen) as usize);
        rest = rest.get(record..).unwrap_or_default();
    }
    false
}

/// The result of a program on a file.
#[derive(Debug)]
struct Rewritten {
    /// Whether it ended without an error.
    success: bool,
    /// Its standard error.
    message: String,
    /// Its output, as libpcap reads it. `None` if it wrote no capture at all.
    capture: Option<Capture>,
}

/// A folder for the programs' output, and a judge of it.
struct Bench {
    folder: tempfile::TempDir,
    oracle: Oracle,
    /// Packets that were compared.
    packets: usize,
}

impl Bench {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            oracle: Oracle::start().expect("an oracle"),
            packets: 0,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compare_with_tcpdump(&mut self, file: &Path, filters: &[Option<&str>]) -> Vec<String> {
        let mut found = Vec::new();
        for &filter in filters {
            let ours = self.rewrite(&mut ringtap(file, filter));
            let theirs = self.rewrite(&mut tcpdump(file, filter));
            let is_newer = theirs.message.contains(NOT_IN_LIBPCAP);
            if filter.is_some() && (is_newer || is_not_yet_filtered(&ours, &theirs)) {
                continue;
            }
            let difference = difference(&ours, &theirs);
            found.extend(difference.map(|text| format!("{} {text}", filter.unwrap_or_default())));
        }
        found
    }

    /// Checks that every packet is unchanged after conversion to pcapng and back.
    fn compare_through_pcapng(&mut self, file: &Path) -> Vec<String> {
        let pcapng = self.path("between.pcapng");
        let direct = self.rewrite(&mut ringtap(file, None));
        let mut to_pcapng = dump();
        to_pcapng.arg("-r").arg(file).arg("-w").arg(&pcapng);
        let first = to_pcapng.output().expect("ringtap runs");
        let mut through = self.rewrite(&mut ringtap(&pcapng, None));
        // Damage is reported when the original is read; the copy is intact.
        through.success &= first.status.success();
        difference(&through, &direct).into_iter().collect()
    }

    fn rewrite(&mut self, command: &mut Command) -> Rewritten {
        let path = self.path("rewritten.pcap");
        let file = File::create(&path).expect("an output file");
        let command = command
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(Stdio::piped());
        let output = command.output().expect("the program runs");
        let capture = self.oracle.read(&path).ok();
        self.packets += capture.as_ref().map_or(0, |capture| capture.packets.len());
        Rewritten {
            success: output.status.success(),
            message: stderr(&output),
            capture,
        }
    }
}

fn ringtap(file: &Path, filter: Option<&str>) -> Command {
    let mut command = dump();
    command.arg("-r").arg(file).args(["-w", "-"]).args(filter);
    command
}

fn tcpdump(file: &Path, filter: Option<&str>) -> Command {
    let program = need::find_tool("tcpdump").expect("tcpdump");
    let mut command = Command::new(program);
    command
        .args(["-n", "--nano", "-r"])
        .arg(file)
        .args(["-w", "-"])
        .args(filter);
    command
}

/// libpcap before 1.11 does not read past the tags of switches; ringtap does.
const NOT_IN_LIBPCAP: &str = "link-layer type filtering not implemented";

/// Filters support the link types of networks first; they must reject the others.
fn is_not_yet_filtered(ours: &Rewritten, theirs: &Rewritten) -> bool {
    let is_required = theirs
        .capture
        .as_ref()
        .is_some_and(|capture| FILTERED_LINK_TYPES.contains(&capture.dlt));
    !ours.success && ours.message.contains("not supported yet") && !is_required
}

/// Returns the first difference, as a phrase.
fn difference(ours: &Rewritten, theirs: &Rewritten) -> Option<String> {
    let Some(expected) = &theirs.capture else {
        // Besides refusing files tcpdump gives up where its filter can match nothing.
        let none = ours
            .capture
            .as_ref()
            .is_none_or(|capture| capture.packets.is_empty());
        return (!none).then(|| format!("tcpdump refuses this: {}", theirs.message));
    };
    if ours.success != theirs.success {
        return Some(format!("success is {}: {}", ours.success, ours.message));
    }
    let Some(written) = &ours.capture else {
        return Some(format!("no capture: {}", ours.message));
    };
    if written.dlt != expected.dlt {
        return Some(format!(
            "link type {}, tcpdump's {}",
            written.dlt, expected.dlt
        ));
    }
    let mut pairs = written.packets.iter().zip(&expected.packets).enumerate();
    if let Some((at, (own, other))) = pairs.find(|(_, (own, other))| !is_same(own, other)) {
        return Some(format!(
            "packet {at}: {}, tcpdump's {}",
            show(own),
            show(other)
        ));
    }
    let (count, expected) = (written.packets.len(), expected.packets.len());
    (count != expected).then(|| format!("{count} packets, tcpdump's {expected}"))
}

/// Returns whether bytes, lengths and moment are the same.
fn is_same(one: &Packet, other: &Packet) -> bool {
    one.data == other.data && one.len == other.len && instant(one) == instant(other)
}

fn instant(packet: &Packet) -> i64 {
    packet.secs * 1_000_000_000 + i64::from(packet.nanos)
}

fn show(packet: &Packet) -> String {
    let Packet {
        secs,
        nanos,
        len,
        data,
    } = packet;
    let sum: u32 = data.iter().map(|&byte| u32::from(byte)).sum();
    format!(
        "{secs}.{nanos:09} len {len} caplen {} sum {sum}",
        data.len()
    )
}
