//! Totals of each flow, as nfpcapd and nfdump have them.
//!
//! Both sum up all records of the same ends and protocol. All captures that should agree are one file, which
//! either program reads once. Captures that are known to differ are read one by one, and must differ. nfpcapd
//! reassembles fragments and counts a datagram as one packet, without the headers of its fragments. It drops
//! incomplete datagrams, and packets that were not captured completely. Captures with either are not
//! compared.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ringtap_testkit::corpus;

use super::{meter, number, rows, summary};

/// Captures in which nfpcapd counts something else, and why. Corpora differ: not all of these are in each.
const DIFFERENT: [(&str, &str); 45] = [
    ("ndpi/4in4tunnel.pcap", TUNNEL),
    ("ndpi/4in6tunnel.pcap", TUNNEL),
    ("ndpi/6in4tunnel.pcap", TUNNEL),
    ("ndpi/6in6tunnel.pcap", TUNNEL),
    ("ndpi/android.pcap", HEADERS),
    ("ndpi/anyconnect-vpn.pcap", HEADERS),
    ("ndpi/iphone.pcap", HEADERS),
    ("ndpi/wechat.pcap", HEADERS),
    ("tcpdump/OSPFv3_with_AH.pcap", HEADERS),
    ("tcpdump/QinQpacket.pcap", LINK),
    ("tcpdump/dccp_partial_csum_v4_longer.pcap", DCCP),
    ("tcpdump/dccp_partial_csum_v6_longer.pcap", DCCP),
    ("tcpdump/dccp_partial_csum_v6_simple.pcap", DCCP),
    ("tcpdump/ipv6-srh-insert-cksum.pcap", HEADERS),
    ("tcpdump/ipv6-srh-ipproto-ether.pcap", HEADERS),
    ("tcpdump/ipv6-too-long-jumbo.pcap", HEADERS),
    ("ndpi/thrift.pcap", LENGTH),
    ("tcpdump/arista_ether.pcap", LINK),
    ("tcpdump/bigtcp-ipv4-vxlan-ipv6.pcap", LENGTH),
    ("tcpdump/bigtcp-ipv6-hbh.pcap", LENGTH),
    ("tcpdump/bigtcp-ipv6-vxlan-ipv6.pcap", LENGTH),
    ("tcpdump/bigtcp-ipv6.pcap", LENGTH),
    ("tcpdump/dcb_ets.pcap", HEADERS),
    ("tcpdump/dcb_qcn.pcap", HEADERS),
    ("tcpdump/dccp_partial_csum_v4_simple.pcap", DCCP),
    ("tcpdump/erspan-type-i-2.pcap", GRE),
    ("tcpdump/erspan-type-i-3.pcap", GRE),
    ("tcpdump/erspan-type-i-4.pcap", GRE),
    ("tcpdump/erspan-type-ii-1.pcap", GRE),
    ("tcpdump/erspan-type-iii-ft-7.pcap", GRE),
    ("tcpdump/icmpv6.pcap", HEADERS),
    ("tcpdump/ios_nhrp.pcap", GRE),
    (
        "tcpdump/ipv4_invalid_total_length_2.pcap",
        "it counts a packet shorter than its header",
    ),
    ("tcpdump/ipv4_tcp_http_xml_tso.pcap", LENGTH),
    ("tcpdump/ipv6-routing-header.pcap", HEADERS),
    ("tcpdump/ipv6-srh-ext-header.pcap", HEADERS),
    ("tcpdump/ipv6-srh-tlv-pad1-padn-5.pcap", HEADERS),
    ("tcpdump/macsec-integonly.pcap", LINK),
    ("tcpdump/macsec-short-shorter.pcap", LINK),
    ("tcpdump/macsec-short-valid.pcap", LINK),
    (
        "tcpdump/mptcp-dss-oobr.pcap",
        "it drops a packet whose header of TCP is cut off",
    ),
    ("tcpdump/nhrp-trace.pcap", GRE),
    ("tcpdump/nsh.pcap", LINK),
    ("tcpdump/ospf-signed-integer-ubsan.pcap", HEADERS),
    ("tcpdump/various_gre.pcap", GRE),
];
const LENGTH: &str =
    "a length of 0, which segmentation by the adapter leaves, is counted as 0 bytes, or dropped";
const LINK: &str = "it does not look behind MACsec, a network service header, a switch's stamps or tags \
                    of the type 0x9100";
const DCCP: &str = "it does not know DCCP's ports";
const TUNNEL: &str = "it looks into tunnels of IP in IP";
const HEADERS: &str = "it takes an extension header of IPv6 for the protocol";
const GRE: &str = "it looks into GRE, and drops what it does not know there";
/// Compared at least, so that the test does not pass by comparing nothing.
const LEAST: usize = 200;

/// Protocol, source and its port, destination and its port or type and code.
type Ends = (String, String, String, String, String);
type Totals = BTreeMap<Ends, (u64, u64)>;

pub(crate) fn totals() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let (mut compared, mut together) = (0, Vec::new());
    for capture in corpus::files() {
        let name = corpus::name(&capture);
        let bytes = std::fs::read(&capture).expect("a readable capture");
        if !is_plain_ethernet(&bytes) {
            continue;
        }
        let (_, fragments) = by_ringtap(&capture, folder);
        if fragments > 0 {
            continue;
        }
        compared += 1;
        if !DIFFERENT.iter().any(|(listed, _)| *listed == name) {
            let from = if together.is_empty() { 0 } else { HEADER };
            together.extend_from_slice(&bytes[from..]);
        }
    }
    assert!(compared >= LEAST, "only {compared} captures were compared");
    let capture = folder.join("together.pcap");
    std::fs::write(&capture, together).expect("a file");
    let ((ours, _), theirs) = (by_ringtap(&capture, folder), by_nfpcapd(&capture, folder));
    let differs = |(ends, sum): &(&Ends, &(u64, u64))| theirs.get(*ends) != Some(*sum);
    let first: Vec<_> = ours.iter().filter(differs).take(5).collect();
    assert!(
        ours == theirs,
        "{} and {} flows, of which differ {first:#?}",
        ours.len(),
        theirs.len()
    );
}

/// Bytes of the header of a file, and of a packet in it.
const HEADER: usize = 24;
const PACKET: usize = 16;

/// Returns whether it is a little-endian pcap file of microseconds with link type Ethernet, whose packets
/// were captured completely.
fn is_plain_ethernet(bytes: &[u8]) -> bool {
    if !bytes.starts_with(&[0xd4, 0xc3, 0xb2, 0xa1]) || bytes.get(20..24) != Some(&[1, 0, 0, 0]) {
        return false;
    }
    let mut rest = &bytes[HEADER..];
    while let Some((header, behind)) = rest.split_at_checked(PACKET) {
        let captured = u32::from_le_bytes(header[8..12].try_into().expect("4 bytes"));
        let length = usize::try_from(captured).expect("64 bits");
        if header[8..12] != header[12..] || behind.len() < length {
            return false;
        }
        rest = &behind[length..];
    }
    rest.is_empty()
}

/// Returns the totals, and how many fragments there were.
fn by_ringtap(capture: &Path, folder: &Path) -> (Totals, u64) {
    let records = &folder.join("records.csv");
    let options = ["--active", "120", "--inactive", "30", "--linger", "0"];
    let output = meter(capture, records, &options);
    let fragments = number(&summary(&output)["fragments"]["seen"]);
    let mut sums = Totals::new();
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
    (sums, fragments)
}

fn by_nfpcapd(capture: &Path, folder: &Path) -> Totals {
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
    let mut sums = Totals::new();
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

/// Returns the number for a name of a protocol, which nfdump writes.
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
