//! The health of TCP connections, as tshark analyses them.
//!
//! Both look at every capture of the corpus, each direction of two ends is summed up. tshark has names of
//! its own for retransmissions that were fast or unnecessary; out of order is a matter of time for both. So
//! the sums of segments that were sent again or out of order are compared, and each kind by itself as a share.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ringtap_testkit::corpus;

use super::{RINGTAP, rows};

/// Captures in which something is counted otherwise, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("ndpi/heuristic_tcp_ack_payload.pcap", PADDING),
    ("ndpi/ip_fragmented_garbage.pcap", SHORT_HEADER),
    ("tcpdump/kday4.pcap", TIMES),
    ("tcpdump/kday7.pcap", TIMES),
];
const TIMES: &str =
    "damaged times jump by days, so that flows time out here, and go on in tshark's analysis";
const PADDING: &str = "2 or 6 bytes of padding count as data behind bare acknowledgments, so that the next segment seems \
     to overlap them: tshark makes an exception of one that begins a byte too early; and it takes a reset \
     with such bytes for a retransmission, where resets are not followed here";
const SHORT_HEADER: &str = "a TCP header that states a length of 8 bytes: tshark does not report its flags, of which one is \
     the reset";

/// Tests that share the captures, so that several run at a time.
pub(crate) const PARTS: usize = 4;
/// In a corpus that [`DIFFERENT`] was not written for, one of so many directions may differ.
const TOLERATED: usize = 20;

/// Source, destination, their ports.
type Direction = (String, String, String, String);

/// Duplicate acknowledgments, zero windows, resets; segments sent again and out of order together; those
/// out of order.
type Counts = [u64; 5];

/// Compares the captures of a part.
pub(crate) fn agrees(part: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut wrong = Vec::new();
    let (mut directions, mut sums, mut expected_sums) = (0, Counts::default(), Counts::default());
    for capture in corpus::files().into_iter().skip(part).step_by(PARTS) {
        let name = corpus::name(&capture);
        let Some(expected) = by_tshark(&capture) else {
            continue;
        };
        let Some(counted) = by_ringtap(&capture, &folder.path().join("records.csv")) else {
            continue;
        };
        let counted_of = |direction| counted.get(direction).copied().unwrap_or_default();
        if DIFFERENT.iter().any(|(listed, _)| *listed == name) {
            let differs =
                |(direction, expected): (_, &Counts)| counted_of(direction)[..4] != expected[..4];
            if corpus::is_beside() && !expected.iter().any(differs) {
                wrong.push(format!("{name} is listed, and does not differ"));
            }
            continue;
        }
        for (direction, expected) in &expected {
            let counted = counted_of(direction);
            directions += 1;
            for (at, (sum, count)) in sums.iter_mut().zip(counted).enumerate() {
                *sum += count;
                expected_sums[at] += expected[at];
            }
            if counted[..4] != expected[..4] {
                wrong.push(format!(
                    "{name} {direction:?}: tshark {expected:?}, ringtap {counted:?}"
                ));
            }
        }
    }
    assert!(directions > 100, "{directions} directions");
    let tolerated = match corpus::is_beside() {
        true => 0,
        false => directions / TOLERATED,
    };
    assert!(
        wrong.len() <= tolerated,
        "{} of {directions} directions, {sums:?} and {expected_sums:?}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns tshark's counts by direction; `None` if the capture has no connections, or some in tunnels.
fn by_tshark(capture: &Path) -> Option<BTreeMap<Direction, Counts>> {
    const FIELDS: [&str; 15] = [
        "ip.src",
        "ip.dst",
        "ipv6.src",
        "ipv6.dst",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.analysis.duplicate_ack",
        "tcp.analysis.zero_window",
        "tcp.flags.reset",
        "tcp.analysis.retransmission",
        "tcp.analysis.fast_retransmission",
        "tcp.analysis.spurious_retransmission",
        "tcp.analysis.out_of_order",
        "frame.protocols",
        "frame.number",
    ];
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.desegment_tcp_streams:FALSE"]);
    command.args(["-T", "fields", "-E", "separator=|"]);
    command.args(["-Y", "tcp", "-r"]).arg(capture);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark starts");
    let mut sums: BTreeMap<Direction, Counts> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let cells: Vec<&str> = line.split('|').collect();
        // Packets in tunnels and in messages of ICMP have several headers.
        if cells.len() != FIELDS.len() || cells[..6].iter().any(|cell| cell.contains(',')) {
            return None;
        }
        let or = |four: usize, six: usize| {
            if cells[four].is_empty() {
                cells[six]
            } else {
                cells[four]
            }
        };
        let direction = (
            or(0, 2).to_owned(),
            or(1, 3).to_owned(),
            cells[4].to_owned(),
            cells[5].to_owned(),
        );
        // A flag of the header has a value, those of the analysis are there or not.
        let has = |at: usize| {
            let is_there = !matches!(cells[at], "" | "0" | "False");
            u64::from(is_there)
        };
        let sum = sums.entry(direction).or_default();
        let again = has(9).max(has(10)).max(has(11));
        for (sum, more) in sum
            .iter_mut()
            .zip([has(6), has(7), has(8), again.max(has(12)), has(12)])
        {
            *sum += more;
        }
    }
    (!sums.is_empty()).then_some(sums)
}

/// Returns ringtap's counts by direction, with timeouts that cut nothing; `None` if it does not read the capture.
fn by_ringtap(capture: &Path, records: &Path) -> Option<BTreeMap<Direction, Counts>> {
    let mut command = Command::new(RINGTAP);
    let day = "24h";
    command.args([
        "flow",
        "--top",
        "0",
        "--biflow",
        "--tcp",
        "--fields",
        "basic,tcp",
    ]);
    command.args(["--active", day, "--inactive", day, "--linger", day, "-r"]);
    command.arg(capture).arg("-w").arg(records);
    let output = command.output().expect("ringtap starts");
    if !output.status.success() {
        return None;
    }
    let mut sums: BTreeMap<Direction, Counts> = BTreeMap::new();
    for row in rows(records) {
        if row["protocol"] != "6" {
            continue;
        }
        let number = |name: &str| row[name].parse().unwrap_or(0);
        for (ends, prefix) in [(["src", "dst"], ""), (["dst", "src"], "reverse_")] {
            let [source, destination] = ends;
            let port = |end: &str| row[&format!("{end}_port")].clone();
            let direction = (
                row[source].clone(),
                row[destination].clone(),
                port(source),
                port(destination),
            );
            let count = |name: &str| number(&format!("{prefix}{name}"));
            let sum = sums.entry(direction).or_default();
            let disorder: u64 = count("out_of_order");
            let again = count("retransmissions") + disorder;
            let counts = [
                count("duplicate_acks"),
                count("zero_windows"),
                count("resets"),
                again,
                disorder,
            ];
            for (sum, more) in sum.iter_mut().zip(counts) {
                *sum += more;
            }
        }
    }
    Some(sums)
}
