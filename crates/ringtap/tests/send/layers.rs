//! Packets of every layer that can be built, as tshark decodes them: nothing malformed, no checksum
//! wrong.

use std::process::Command;

use ringtap_testkit::netns::VethPair;

use crate::support::{Receiver, file, send, sent};

/// Descriptions, and the protocols that tshark finds in them.
const PACKETS: [(&str, &str); 21] = [
    ("eth/arp(spa=10.0.0.1,tpa=10.0.0.2)", "arp"),
    (
        "eth/vlan(id=9,pcp=3)/arp(op=reply,spa=10.0.0.1,tpa=10.0.0.2)",
        "vlan arp",
    ),
    (
        "eth/qinq(id=5)/vlan(id=6)/ipv4/udp(dport=40000)/\"data\"",
        "ieee8021ad vlan ip udp data",
    ),
    (
        "eth/mpls(label=100)/mpls(label=200,tc=5)/ipv4/tcp/\"data\"",
        "mpls ip tcp",
    ),
    ("eth/mpls/ipv6/icmpv6", "mpls ipv6 icmpv6"),
    (
        "eth/ipv4(options=94040000,id=7,df=1)/icmp(id=1,seq=2)/\"ping\"",
        "ip icmp data",
    ),
    (
        "eth/ipv4(options=01830b04c6336401c6336402)/udp(dport=40000)/\"routed\"",
        "ip udp data",
    ),
    (
        "eth/ipv6/hop(options=05020000)/route(type=2,left=1,data=0000000020010db8000000000000000000000099)\
         /frag(id=9)/dst(options=0102)/udp(dport=40000)/\"routed\"",
        "ipv6 ipv6.hopopts ipv6.routing ipv6.fraghdr ipv6.dstopts udp data",
    ),
    (
        "eth/ipv6/route(type=4,left=1,data=01000000\
         20010db800000000000000000000009920010db8000000000000000000000002)/tcp",
        "ipv6 ipv6.routing tcp",
    ),
    (
        "eth/ipv4/tcp(flags=SEC,options=020405b40402080a000000010000000001030307)",
        "ip tcp",
    ),
    ("eth/ipv6/tcp(flags=FPA,ack=1)/\"odd\"", "ipv6 tcp"),
    ("eth/ipv6/udp(dport=40000)/\"data\"", "ipv6 udp data"),
    ("eth/ipv6/icmpv6(id=1,seq=2)/\"ping\"", "ipv6 icmpv6 data"),
    (
        "eth/ipv4/sctp(tag=7)/hex(0003001100000001000000000000000061000000)",
        "ip sctp data",
    ),
    ("eth/ipv6/sctp/hex(0a000004)", "ipv6 sctp"),
    (
        "eth/ipv4/udp/vxlan(vni=77)/eth/vlan(id=3)/ipv6/udp(dport=40000)/\"data\"",
        "ip udp vxlan eth vlan ipv6 udp data",
    ),
    (
        "eth/ipv4/gre(key=1,seq=2)/ipv6/icmpv6",
        "ip gre ipv6 icmpv6",
    ),
    ("eth/ipv6/gre/eth/ipv4/icmp", "ipv6 gre eth ip icmp"),
    ("eth/ipv4/ipv6/tcp", "ip ipv6 tcp"),
    (
        "eth/ipv4/mpls/ipv4/udp(dport=40000)/fill(9,byte=0x41)",
        "ip mpls ip udp data",
    ),
    ("eth/ipv4(proto=253)/hex(0a0b)/zeros(3)/\"x\"", "ip data"),
];

/// Each must be 1, "good", as often as it is there.
const CHECKSUMS: [&str; 6] = ["ip", "tcp", "udp", "icmp", "icmpv6", "sctp"];
/// From this severity on tshark warns.
const WARNING: u32 = 0x60_0000;

pub(crate) fn decoded() {
    let folder = tempfile::tempdir().unwrap();
    let packets = PACKETS.map(|(spec, _)| format!("[[packet]]\nspec = '{spec}'\n"));
    let description = folder.path().join("all.toml");
    std::fs::write(&description, packets.concat()).unwrap();
    let pair = VethPair::new();
    let mut receiver = Receiver::on(&pair.right);
    let output = send(&pair.left, &["--build", description.to_str().unwrap()]);
    assert_eq!(sent(&output), PACKETS.len() as u64, "{output:?}");
    let arrived = file(folder.path(), &receiver.take(PACKETS.len()), 1);

    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&arrived);
    for layer in ["ip", "tcp", "udp"] {
        tshark.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
    }
    // The relations among these packets are random.
    tshark.args(["-o", "tcp.analyze_sequence_numbers:FALSE"]);
    tshark.args(["-o", "sctp.checksum:CRC 32c"]);
    tshark.args(["-T", "fields", "-E", "separator=|", "-e", "frame.protocols"]);
    tshark.args(["-e", "_ws.expert.severity", "-e", "_ws.expert.message"]);
    for layer in CHECKSUMS {
        tshark.args(["-e", &format!("{layer}.checksum.status")]);
    }
    let output = tshark.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), PACKETS.len(), "{text}");
    for (line, (spec, expected)) in text.lines().zip(PACKETS) {
        check(line, expected).unwrap_or_else(|what| panic!("{spec}: {what}: {line}"));
    }
}

fn check(line: &str, expected: &str) -> Result<(), String> {
    let fields: Vec<&str> = line.split('|').collect();
    let [protocols, severities, _messages, statuses @ ..] = &fields[..] else {
        return Err("fields are missing".to_owned());
    };
    let names: Vec<&str> = protocols
        .split(':')
        .filter(|name| *name != "ethertype")
        .skip(1)
        .collect();
    // tshark 4.4 decodes IP behind MPLS labels without naming it here.
    let names = names.join(" ");
    let unnamed = expected
        .replace("mpls ipv6", "mpls")
        .replace("mpls ip", "mpls");
    if names != expected && names != unnamed {
        return Err(format!("expected {expected}"));
    }
    let mut severities = severities.split(',').filter(|text| !text.is_empty());
    if severities.any(|text| text.parse().is_ok_and(|severity: u32| severity >= WARNING)) {
        return Err("tshark warns".to_owned());
    }
    for (layer, found) in CHECKSUMS.iter().zip(statuses) {
        // IPv4's protocol is called ip; each layer with a checksum has a correct one.
        let layers = expected.split(' ').filter(|name| name == layer).count();
        if *found != vec!["1"; layers].join(",") {
            return Err(format!("checksum of {layer}"));
        }
    }
    Ok(())
}
