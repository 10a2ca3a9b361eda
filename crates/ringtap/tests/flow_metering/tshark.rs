//! Packets and bytes of IP per capture, as tshark counts them.
//!
//! All captures of the corpus become one file, each an interface of it, so that one run of either
//! program looks at all of them. tshark's count of a frame is the length field of its outermost header
//! of IP.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_packet::Packet;
use ringtap_savefile::{ByteOrder, Item, PcapngWriter, ReadOptions, Reader, Section};
use ringtap_testkit::corpus;

use super::{meter, number, rows, summary};

/// Captures that ringtap counts differently: its packets and bytes, and the reason. Corpora differ: not all
/// of these are in each, and some are there in another form.
const DIFFERENT: [(&str, (u64, u64), &str); 17] = [
    (
        "ndpi/ajp.pcap",
        (26, 3978),
        "tshark looks into FabricPath's frames",
    ),
    (
        "tcpdump/LINKTYPE_USER2_PKTAP.pcap",
        (0, 0),
        "a user's link type has no meaning",
    ),
    (
        "tcpdump/arista_ether.pcap",
        (16, 1248),
        "tshark leaves frames with some of its stamps",
    ),
    ("tcpdump/bgp-aigp.pcap", (0, 0), LINK),
    ("tcpdump/e1000g.pcap", (0, 0), LINK),
    ("tcpdump/icmp6_nodeinfo_oobr.pcap", (1, 44), SLIP),
    ("tcpdump/ipoib.pcap", (0, 0), LINK),
    (
        "tcpdump/bad-ipv4-version-pgm-heapoverflow.pcap",
        (0, 0),
        "a packet of version 8 is malformed",
    ),
    (
        "tcpdump/bigtcp-ipv6-hbh.pcap",
        (1, 80_080),
        "the jumbo payload option counts",
    ),
    ("tcpdump/bigtcp-ipv6-vxlan-ipv6.pcap", (1, 80_142), LARGE),
    ("tcpdump/bigtcp-ipv6.pcap", (1, 80_040), LARGE),
    ("tcpdump/cve2015-0261-crash.pcap", (1, 12_376), SLIP),
    ("tcpdump/cve2015-0261-ipv6.pcap", (2, 53_020), SLIP),
    (
        "tcpdump/ipv4_invalid_total_length_2.pcap",
        (0, 0),
        "a packet shorter than its header is malformed",
    ),
    ("tcpdump/ipv6_39_byte_header.pcap", (0, 0), CUT),
    ("tcpdump/ipv6_invalid_length.pcap", (0, 0), CUT),
    ("tcpdump/macsec-short-shorter.pcap", (1, 32), MACSEC),
];
const LARGE: &str = "where the length does not fit its field, that on the wire counts";
const LINK: &str = "a link type that is not metered: Juniper's, IPNET, InfiniBand";
const SLIP: &str = "tshark does not look into SLIP";
const MACSEC: &str =
    "tshark 4.4 does not look into a frame of MACsec that is shorter than it states";
const CUT: &str = "a header of IPv6 of which less than 40 bytes were captured is malformed";

/// Packets and bytes.
type Sum = (u64, u64);

pub(crate) fn sums() {
    let folder = tempfile::tempdir().expect("a folder");
    let (merged, records) = (
        folder.path().join("all.pcapng"),
        folder.path().join("all.csv"),
    );
    let names = merge(&merged);
    let expected = count_by_tshark(&merged);
    let output = meter(&merged, &records, &[]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let mut metered: BTreeMap<u32, Sum> = BTreeMap::new();
    for row in rows(&records) {
        let field = |name: &str| row[name].parse::<u64>().expect("a number");
        let input = u32::try_from(field("input")).expect("an interface");
        let sum = metered.entry(input).or_default();
        sum.0 += field("packets");
        sum.1 += field("bytes");
    }
    let counters = summary(&output);
    let all = |of: &BTreeMap<u32, Sum>| of.values().fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let counted = (number(&counters["metered"]), number(&counters["bytes"]));
    assert_eq!(all(&metered), counted, "records add up to the counters");
    let unmetered = number(&counters["not_ip"]) + number(&counters["malformed"]);
    assert_eq!(number(&counters["packets"]), counted.0 + unmetered);

    let mut wrong = Vec::new();
    for (number, name) in (1..).zip(&names) {
        let listed = DIFFERENT.iter().find(|(listed, _, _)| listed == name);
        let by_tshark = expected.get(&number).copied().unwrap_or_default();
        let by_ringtap = metered.get(&number).copied().unwrap_or_default();
        let wanted = listed.map_or(by_tshark, |(_, sum, _)| *sum);
        if by_ringtap != by_tshark && by_ringtap != wanted {
            wrong.push(format!(
                "{name}: tshark {by_tshark:?}, ringtap {by_ringtap:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!expected.is_empty());
}

/// Writes all packets of the corpus into one file, in the order of their interfaces; the names of
/// the captures, one for each interface.
fn merge(path: &Path) -> Vec<String> {
    let file = BufWriter::new(File::create(path).expect("a file"));
    let section = Section::new(ByteOrder::NATIVE);
    let mut writer = PcapngWriter::new(file, &section).expect("a header");
    let mut names = Vec::new();
    for capture in corpus::files() {
        copy(&capture, &mut writer, &mut names);
    }
    writer.finish().expect("all is written");
    names
}

/// Copies the readable part of a capture.
fn copy(capture: &Path, writer: &mut PcapngWriter<BufWriter<File>>, names: &mut Vec<String>) {
    let Ok(mut reader) = Reader::open(capture, &ReadOptions::default()) else {
        return;
    };
    let mut numbers: Vec<u32> = Vec::new();
    loop {
        let known = reader.interfaces().len();
        for number in numbers.len()..known {
            let mut interface = reader.interfaces()[number].clone();
            interface.snaplen = 0;
            numbers.push(writer.add_interface(&interface).expect("described"));
            names.push(corpus::name(capture));
        }
        match reader.next() {
            Ok(Some(Item::Run(run))) => {
                for packet in run.packets() {
                    let interface = numbers[packet.interface as usize];
                    let packet = Packet {
                        interface,
                        ..packet
                    };
                    writer.write_packet(&packet).expect("written");
                }
            }
            Ok(Some(_)) => {}
            // Damaged files end early; the packets before count.
            Ok(None) | Err(_) => return,
        }
    }
}

/// Returns the counts by interface, counted from 1.
fn count_by_tshark(file: &PathBuf) -> BTreeMap<u32, Sum> {
    let fields = [
        "frame.interface_id",
        "ip.len",
        "ipv6.plen",
        "frame.protocols",
    ];
    let mut command = Command::new("tshark");
    command.args([
        "-n",
        "-T",
        "fields",
        "-E",
        "occurrence=f",
        "-E",
        "separator=|",
        "-r",
    ]);
    command.arg(file);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark starts");
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let cells: Vec<&str> = line.split('|').collect();
        let [interface, four, six, protocols] = cells[..] else {
            panic!("a line of tshark: {line}");
        };
        let protocols: Vec<&str> = protocols.split(':').collect();
        let place = |name| protocols.iter().position(|&protocol| protocol == name);
        let (four, six) = (four.parse::<u64>().ok(), six.parse::<u64>().ok());
        let first_is_six = match (place("ip"), place("ipv6")) {
            (Some(four), Some(six)) => six < four,
            (four, _) => four.is_none(),
        };
        let bytes = match (four, six) {
            (_, Some(payload)) if first_is_six => payload + 40,
            (Some(length), _) => length,
            (None, Some(payload)) => payload + 40,
            (None, None) => continue,
        };
        let interface: u32 = interface.parse().expect("a number");
        let sum = sums.entry(interface + 1).or_default();
        sum.0 += 1;
        sum.1 += bytes;
    }
    sums
}
