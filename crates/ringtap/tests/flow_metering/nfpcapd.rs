//! Totals of each flow, as nfpcapd and nfdump have them.
//!
//! Both sum up over all records of the same ends and protocol. nfpcapd puts fragments together and
//! counts a datagram as one packet, without the headers of its fragments, and drops those of which
//! some are missing; so captures with fragments are not compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ringtap_testkit::corpus;

use super::{meter, number, rows, summary};

/// Captures in which nfpcapd counts something else.
const DIFFERENT: [(&str, &str); 1] = [(
    "ndpi/thrift.pcap",
    "a length of 0, which segmentation by the adapter leaves, is counted as 0 bytes",
)];
/// Compared at least, so that the test does not pass by comparing nothing.
const LEAST: usize = 100;

/// Protocol, source and its port, destination and its port or type and code.
type Ends = (String, String, String, String, String);

pub(crate) fn totals() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut compared, mut wrong) = (0, Vec::new());
    for capture in corpus::files() {
        let name = corpus::name(&capture);
        if !name.starts_with("ndpi/") || !is_plain_ethernet(&capture) {
            continue;
        }
        let records = folder.path().join("records.csv");
        let options = ["--active", "120", "--inactive", "30", "--linger", "0"];
        let output = meter(&capture, &records, &options);
        let fragments = summary(&output)["fragments"]["seen"].clone();
        if number(&fragments) > 0 {
            continue;
        }
        let ours = by_ringtap(&records);
        let theirs = by_nfpcapd(&capture, folder.path());
        compared += 1;
        let listed = DIFFERENT.iter().any(|(listed, _)| *listed == name);
        if (ours == theirs) == listed {
            let differs = |(ends, sum): &(&Ends, &(u64, u64))| theirs.get(*ends) != Some(*sum);
            let first = ours.iter().find(differs);
            wrong.push(format!(
                "{name}: listed {listed}, first difference {first:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= LEAST, "only {compared} captures were compared");
}

/// A pcap file of microseconds and little-endian numbers whose link type is Ethernet.
fn is_plain_ethernet(capture: &Path) -> bool {
    let bytes = std::fs::read(capture).expect("a readable capture");
    bytes.starts_with(&[0xd4, 0xc3, 0xb2, 0xa1]) && bytes.get(20..24) == Some(&[1, 0, 0, 0])
}

fn by_ringtap(records: &Path) -> BTreeMap<Ends, (u64, u64)> {
    let mut sums: BTreeMap<Ends, (u64, u64)> = BTreeMap::new();
    for row in rows(records) {
        let count = |name: &str| row[name].parse::<u64>().expect("a number");
        let port = |name: &str| match row[name].as_str() {
            "" => "0".to_owned(),
            port => port.to_owned(),
        };
        let destination_port = match row["icmp_type"].as_str() {
            "" => port("dst_port"),
            kind => format!("{kind}.{}", row["icmp_code"]),
        };
        let ends = (
            row["protocol"].clone(),
            row["src"].clone(),
            port("src_port"),
            row["dst"].clone(),
            destination_port,
        );
        let sum = sums.entry(ends).or_default();
        sum.0 += count("packets");
        sum.1 += count("bytes");
    }
    sums
}

fn by_nfpcapd(capture: &Path, folder: &Path) -> BTreeMap<Ends, (u64, u64)> {
    let flows = folder.join("nfpcapd");
    std::fs::create_dir(&flows).expect("a folder");
    let mut nfpcapd = Command::new("nfpcapd");
    nfpcapd.args(["-e", "120,30", "-w"]).arg(&flows);
    let output = nfpcapd.arg("-r").arg(capture).output();
    assert!(output.expect("nfpcapd starts").status.success());
    let mut nfdump = Command::new("nfdump");
    // Without aggregation, which does not keep types and codes of ICMP.
    nfdump.args(["-q", "-N", "-6", "-o"]);
    nfdump.arg("fmt:%pr,%sa,%sp,%da,%dp,%pkt,%byt").arg("-R");
    let output = nfdump.arg(&flows).output().expect("nfdump starts");
    std::fs::remove_dir_all(&flows).expect("it is ours");
    let mut sums: BTreeMap<Ends, (u64, u64)> = BTreeMap::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let [
            protocol,
            source,
            source_port,
            destination,
            destination_port,
            packets,
            bytes,
        ] = cells[..]
        else {
            continue;
        };
        let ends = (
            number_of(protocol),
            source.to_owned(),
            source_port.to_owned(),
            destination.to_owned(),
            destination_port.to_owned(),
        );
        let sum = sums.entry(ends).or_default();
        sum.0 += packets.parse::<u64>().expect("a number");
        sum.1 += bytes.parse::<u64>().expect("a number");
    }
    sums
}

/// nfdump writes names of protocols.
fn number_of(protocol: &str) -> String {
    let known = [
        ("ICMP", "1"),
        ("IGMP", "2"),
        ("TCP", "6"),
        ("UDP", "17"),
        ("GRE", "47"),
        ("ESP", "50"),
        ("AH", "51"),
        ("ICMP6", "58"),
        ("SCTP", "132"),
    ];
    let number = known.iter().find(|(name, _)| *name == protocol);
    number.map_or(protocol, |(_, number)| number).to_owned()
}
