//! Tests rules on packets that a library has built: the result must equal a packet that it builds
//! with the new values.

use etherparse::PacketBuilder;

use super::*;
use crate::{checksum, layers};

const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

fn rule(text: &str) -> Rule {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn udp4(source: [u8; 4], destination: [u8; 4], ports: (u16, u16)) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(MACS.0, MACS.1)
        .ipv4(source, destination, 64)
        .udp(ports.0, ports.1);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"payload").expect("memory");
    frame
}

fn tcp6(last: u8, ports: (u16, u16)) -> Vec<u8> {
    let mut address = [0x20; 16];
    address[15] = last;
    let builder = PacketBuilder::ethernet2(MACS.0, MACS.1)
        .ipv6(address, [0x30; 16], 64)
        .tcp(ports.0, ports.1, 5, 6);
    let mut frame = Vec::new();
    builder.write(&mut frame, b"odd length.").expect("memory");
    frame
}

fn rewritten(rules: &[&str], mut frame: Vec<u8>) -> Vec<u8> {
    let rules: Vec<_> = rules.iter().map(|text| rule(text)).collect();
    apply(&rules, &mut frame);
    frame
}

#[test]
fn addresses_and_ports_change_with_their_checksums() {
    let frame = udp4([10, 1, 2, 3], [192, 0, 2, 9], (4000, 53));
    let cases: [(&[&str], Vec<u8>); 6] = [
        (
            &["ip.src=172.16.0.1"],
            udp4([172, 16, 0, 1], [192, 0, 2, 9], (4000, 53)),
        ),
        (
            &["ip=10.0.0.0/8->11.0.0.0/8"],
            udp4([11, 1, 2, 3], [192, 0, 2, 9], (4000, 53)),
        ),
        (
            &["ip.dst=198.51.100.0/25"],
            udp4([10, 1, 2, 3], [198, 51, 100, 9], (4000, 53)),
        ),
        (
            &["port=53->5353"],
            udp4([10, 1, 2, 3], [192, 0, 2, 9], (4000, 5353)),
        ),
        (
            &["port.src=1", "port.dst=2", "ip.src=0.0.0.0"],
            udp4([0; 4], [192, 0, 2, 9], (1, 2)),
        ),
        (
            &["ip=10.0.0.0/16->1.1.0.0/16", "port=80->8080"],
            frame.clone(),
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(rewritten(rules, frame.clone()), expected, "{rules:?}");
    }
    let rules = [
        "ip.src=2020:2020:2020:2020:2020:2020:2020:2007",
        "port.dst=443",
    ];
    assert_eq!(rewritten(&rules, tcp6(9, (7, 80))), tcp6(7, (7, 443)));
}

#[test]
fn every_single_port_keeps_the_checksum_right() {
    for port in (0..=u16::MAX).step_by(251) {
        let rules = format!("port.dst={port}");
        let frame = rewritten(&[&rules], udp4([1, 2, 3, 4], [5, 6, 7, 8], (9, 10)));
        assert_eq!(frame, udp4([1, 2, 3, 4], [5, 6, 7, 8], (9, port)), "{port}");
    }
}

#[test]
fn a_datagram_without_checksum_has_none_afterwards() {
    let mut frame = udp4([10, 1, 2, 3], [192, 0, 2, 9], (4000, 53));
    frame[40..42].fill(0);
    let changed = rewritten(&["ip.src=9.9.9.9", "port.dst=54"], frame);
    assert_eq!(changed[40..42], [0, 0]);
}

#[test]
fn a_wrong_checksum_stays_wrong_and_is_mended_on_request() {
    let right = udp4([10, 1, 2, 3], [192, 0, 2, 9], (4000, 54));
    let mut frame = udp4([10, 1, 2, 3], [192, 0, 2, 9], (4000, 53));
    frame[41] ^= 1;
    let mut changed = rewritten(&["port.dst=54"], frame);
    assert_ne!(changed, right);
    assert!(checksum::fix(&mut changed, layers::find(&right).as_ref()));
    assert_eq!(changed, right);
}

#[test]
fn checksums_are_computed_as_the_library_does() {
    for right in [
        udp4([10, 1, 2, 3], [192, 0, 2, 9], (4000, 53)),
        tcp6(1, (80, 4000)),
    ] {
        let network = layers::find(&right);
        let mut frame = right.clone();
        let Some(Network::Ip(ip)) = &network else {
            panic!("IP");
        };
        let transport = ip.transport_checksum().expect("there is one");
        for at in [ip.header_checksum(), Some(transport)]
            .into_iter()
            .flatten()
        {
            checksum::write(&mut frame, at, 0x1234);
        }
        assert!(checksum::fix(&mut frame, network.as_ref()));
        assert_eq!(frame, right);
        // The transport's checksum of a cut packet cannot be computed.
        let mut cut = right[..right.len() - 1].to_vec();
        let network = layers::find(&cut);
        assert!(!checksum::fix(&mut cut, network.as_ref()));
        assert_eq!(cut, right[..right.len() - 1]);
    }
}

#[test]
fn tags_are_set_added_and_removed() {
    let plain = udp4([1; 4], [2; 4], (3, 4));
    let tagged = |control: u16| {
        let mut frame = plain.clone();
        let [high, low] = control.to_be_bytes();
        frame.splice(12..12, [0x81, 0, high, low]);
        frame
    };
    assert_eq!(rewritten(&["vlan=7"], plain.clone()), tagged(7));
    assert_eq!(rewritten(&["vlan=7"], tagged(0x2005)), tagged(0x2007));
    assert_eq!(rewritten(&["vlan=5->7"], tagged(0x2005)), tagged(0x2007));
    assert_eq!(rewritten(&["vlan=6->7"], tagged(5)), tagged(5));
    assert_eq!(rewritten(&["vlan=6->7"], plain.clone()), plain);
    assert_eq!(rewritten(&["vlan=none"], tagged(5)), plain);
    // Addresses are also found after a tag.
    let changed = rewritten(&["ip.dst=9.9.9.9", "vlan=none"], tagged(5));
    assert_eq!(changed, udp4([1; 4], [9; 4], (3, 4)));
}

#[test]
fn arp_goes_with_its_addresses() {
    let mut frame = vec![0xff; 6];
    frame.extend(MACS.0);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(MACS.0);
    frame.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
    let changed = rewritten(
        &[
            "eth.src=02:00:00:00:00:99",
            "eth.dst=2-0-0-0-0-5",
            "ip=10.0.0.0/24->10.1.1.0/24",
        ],
        frame,
    );
    assert_eq!(changed[..12], [2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 0x99]);
    assert_eq!(changed[22..32], [2, 0, 0, 0, 0, 0x99, 10, 1, 1, 1]);
    assert_eq!(changed[32..42], [0, 0, 0, 0, 0, 0, 10, 1, 1, 2]);
}

#[test]
fn damaged_packets_are_left_alone() {
    let rules: Vec<_> = [
        "ip.src=9.9.9.9",
        "port.dst=1",
        "vlan=3",
        "eth.dst=2:0:0:0:0:1",
    ]
    .map(rule)
    .into();
    for whole in [udp4([1; 4], [2; 4], (3, 4)), tcp6(1, (2, 3))] {
        for len in 0..whole.len() {
            let mut frame = whole[..len].to_vec();
            apply(&rules, &mut frame);
            let network = layers::find(&frame);
            checksum::fix(&mut frame, network.as_ref());
        }
        for at in 12..whole.len() {
            for byte in [0, 0x0f, 0x7f, 0xff] {
                let mut frame = whole.clone();
                frame[at] = byte;
                apply(&rules, &mut frame);
            }
        }
    }
}

#[test]
fn wrong_rules_are_refused() {
    for bad in [
        "",
        "ip",
        "ip=1.2.3.4",
        "ip.src=1.2.3",
        "ip.src=1.2.3.4/33",
        "ip.src=::1->1.2.3.4",
        "ip=10.0.0.0/8->11.0.0.0/16",
        "port=80",
        "port.dst=65536",
        "vlan=4096",
        "vlan.src=1",
        "eth.src=2:0:0:0:0",
        "eth.src=2:0:0:0:0:0:0",
        "eth.src=100:0:0:0:0:0",
        "mac.src=1",
        "ip.both=1.1.1.1",
    ] {
        assert!(bad.parse::<Rule>().is_err(), "{bad}");
    }
}

proptest::proptest! {
    /// Frames of arbitrary bytes, after an Ethernet type that leads further.
    #[test]
    fn any_frame_is_survived(
        kind in proptest::sample::select(vec![0x0800_u16, 0x86dd, 0x0806, 0x8100, 0x88a8]),
        rest in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
    ) {
        let mut frame = vec![2; 12];
        frame.extend(kind.to_be_bytes());
        frame.extend(&rest);
        let len = frame.len();
        let rules: Vec<_> = ["ip.src=9.9.9.9", "ip.dst=::9", "port.dst=1", "eth.dst=2:0:0:0:0:1"]
            .map(rule)
            .into();
        apply(&rules, &mut frame);
        let network = layers::find(&frame);
        checksum::fix(&mut frame, network.as_ref());
        proptest::prop_assert_eq!(frame.len(), len);
    }
}

/// Built packets have correct checksums; rules keep them correct, and computing them again gives
/// the same.
#[test]
fn sctp_keeps_its_checksum() {
    let built = |ports: &str| {
        let text = format!("eth/ipv4/sctp({ports},tag=7)/hex(0a000004)/fill(30,byte=0x5a)");
        let built: crate::Built = text.parse().expect("a description");
        built.0[0].clone()
    };
    let (old, new) = (built("sport=1,dport=2"), built("sport=300,dport=2"));
    let mut frame = old.clone();
    apply(&[rule("port.src=300")], &mut frame);
    assert_eq!(frame, new);
    apply(&[rule("ip.src=10.1.2.3")], &mut frame);
    assert_eq!(frame[42..46], new[42..46]);
    frame[42..46].fill(9);
    assert!(crate::fix_checksums(&mut frame));
    assert_eq!(frame[42..46], new[42..46]);
    // An incomplete packet cannot be corrected.
    frame.truncate(frame.len() - 1);
    assert!(!crate::fix_checksums(&mut frame));
}

fn built(text: &str) -> Vec<u8> {
    let built: crate::Built = text.parse().expect("a description");
    built.0[0].clone()
}

/// The checksum covers the last destination (RFC 8200, section 8.1; RFC 791 for IPv4).
#[test]
fn prescribed_routes_are_summed_to_their_end() {
    let end = "20010db8000000000000000000000099";
    let other = "20010db8000000000000000000000001";
    for (route, direct, transport_at) in [
        (
            format!("ipv6/route(type=0,left=2,data=00000000{other}{end})"),
            "ipv6(dst=2001:db8::99)",
            14 + 40 + 40,
        ),
        (
            format!("ipv6/route(type=2,left=1,data=00000000{end})"),
            "ipv6(dst=2001:db8::99)",
            14 + 40 + 24,
        ),
        (
            format!("ipv6/hop/route(type=4,left=1,data=01000000{end}{other})"),
            "ipv6(dst=2001:db8::99)",
            14 + 40 + 8 + 40,
        ),
        (
            format!("ipv6/route(type=4,left=0,data=00000000{other})"),
            "ipv6",
            14 + 40 + 24,
        ),
        (
            "ipv4(options=01830b040a0000010a000002)".to_owned(),
            "ipv4(dst=10.0.0.2)",
            14 + 32,
        ),
    ] {
        let right = built(&format!("eth/{route}/tcp/\"odd\""));
        let plain = built(&format!("eth/{direct}/tcp/\"odd\""));
        // TCP is the same as without the detour.
        let transport = &plain[plain.len() - 23..];
        assert_eq!(&right[transport_at..], transport, "{route}");
        let mut frame = right.clone();
        frame[transport_at + 16..transport_at + 18].fill(7);
        assert!(crate::fix_checksums(&mut frame));
        assert_eq!(frame, right, "{route}");
        // Another first stop does not change the checksum, another source does.
        let to = if route.starts_with("ipv6") {
            "::5"
        } else {
            "9.9.9.9"
        };
        for (rule, changes) in [("ip.dst", direct == "ipv6"), ("ip.src", true)] {
            let mut changed = rewritten(&[&format!("{rule}={to}")], right.clone());
            assert_eq!(&changed[transport_at..] != transport, changes, "{route}");
            let adjusted = changed.clone();
            assert!(crate::fix_checksums(&mut changed));
            assert_eq!(changed, adjusted, "{route} {rule}");
        }
    }
    // A checksum that cannot be computed stays, and is reported.
    let unknown = built("eth/ipv6/route(type=3,left=1,data=00000000)/udp");
    let mut frame = unknown.clone();
    assert!(!crate::fix_checksums(&mut frame));
    assert_eq!(frame, unknown);
}

/// Data after a datagram inside its packet, such as UDP options (RFC 9868), are not summed; neither are data
/// after the packet.
#[test]
fn only_the_datagram_is_summed() {
    for (ip, len_at, udp) in [("ipv4", 16, 34), ("ipv6", 18, 54)] {
        let mut right = built(&format!("eth/{ip}/udp/\"data\""));
        right.extend([9; 6]);
        right[len_at + 1] += 6;
        right.extend([5; 3]);
        assert!(crate::fix_checksums(&mut right));
        let without = built(&format!("eth/{ip}/udp/\"data\""));
        assert_eq!(right[udp..udp + 12], without[udp..], "{ip}");
        let mut frame = right.clone();
        frame[udp + 6..udp + 8].fill(1);
        assert!(crate::fix_checksums(&mut frame));
        assert_eq!(frame, right, "{ip}");
        // It states a length beyond its packet.
        frame[udp + 5] += 7;
        let wrong = frame.clone();
        assert!(!crate::fix_checksums(&mut frame));
        assert_eq!(frame, wrong, "{ip}");
    }
}
