//! Tests the walk over headers: cases as data, random bytes, and the flow meter.
//!
//! The meter parses most packets with code of its own and a single length check, and the others
//! with the walk's steps. Its records are compared with [`Headers`] here.

use std::net::IpAddr;
use std::process::ExitCode;

use ringtap_flow::{FlowRecord, Meter, MeterOptions, Packet, Tunnels};
use ringtap_packet::bytes::{be16, be32, chunk};
use ringtap_packet::headers::Headers;
use ringtap_packet::headers::ip::{Ip, Part};
use ringtap_packet::headers::route::Stop;
use ringtap_packet::{LinkType, protocol};
use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_testkit::{Need, corpus, suite, test};

fn main() -> ExitCode {
    suite(vec![
        test("cases", &[], cases),
        test("every_cut_is_walked", &[], every_cut),
        test("stops_of_routes", &[], stops),
        test("any_bytes_are_walked_as_the_meter_does", &[], any_bytes),
        test(
            "the_corpus_is_walked_as_the_meter_does",
            &[Need::Corpus],
            of_corpus,
        ),
    ])
}

/// A case: a packet's bytes in hexadecimal, where `4` and `6` stand for an IP header with this
/// protocol, and the offsets of its headers.
struct Case {
    name: &'static str,
    link_type: LinkType,
    front: &'static str,
    /// Offset of the network layer, and its type.
    network: Option<(usize, Option<u16>)>,
    tags: &'static [usize],
    mpls: Option<usize>,
}

const fn case(
    name: &'static str,
    link_type: LinkType,
    front: &'static str,
    network: Option<(usize, Option<u16>)>,
) -> Case {
    Case {
        name,
        link_type,
        front,
        network,
        tags: &[],
        mpls: None,
    }
}

const MACS: &str = "020202020202060606060606";
const IP: Option<u16> = Some(0x0800);

/// Starts of packets, before an IPv4 header.
#[rustfmt::skip]
const CASES: [Case; 27] = [
    case("Ethernet", LinkType::ETHERNET, "M 0800", Some((14, IP))),
    case("ARP", LinkType::ETHERNET, "M 0806", Some((14, Some(0x0806)))),
    case("LLDP", LinkType::ETHERNET, "M 88cc", Some((14, Some(0x88cc)))),
    Case { tags: &[14], ..case("a tag", LinkType::ETHERNET, "M 8100 0007 0800", Some((18, IP))) },
    Case { tags: &[14, 18], ..case("two tags", LinkType::ETHERNET, "M 88a8 0007 8100 0008 0800", Some((22, IP))) },
    Case { tags: &[14, 18, 22, 26], ..case("five tags", LinkType::ETHERNET,
        "M 8100 0001 8100 0002 9100 0003 9200 0004 8100 0005 0800", Some((34, IP))) },
    Case { mpls: Some(14), ..case("labels", LinkType::ETHERNET, "M 8847 00010040 00011140", Some((22, None))) },
    Case { mpls: Some(14), ..case("a pseudowire", LinkType::ETHERNET, "M 8847 00011140 00000000 M 0800", Some((36, IP))) },
    case("PPPoE", LinkType::ETHERNET, "M 8864 11000001 0020 0021", Some((22, None))),
    case("LLC and SNAP", LinkType::ETHERNET, "M 0030 aaaa03 000000 0800", Some((22, IP))),
    case("LLC without IP", LinkType::ETHERNET, "M 0030 424203", None),
    Case { tags: &[32], ..case("a backbone's frame", LinkType::ETHERNET, "M 88e7 00000000 M 8100 0007 0800", Some((36, IP))) },
    case("MACsec in the clear", LinkType::ETHERNET, "M 88e5 00000000 0001 0800", Some((22, IP))),
    case("MACsec, encrypted", LinkType::ETHERNET, "M 88e5 0c000000 0001 0800", None),
    case("raw", LinkType::RAW, "", Some((0, None))),
    case("raw, by its DLT number", LinkType(12), "", Some((0, None))),
    case("BSD loopback", LinkType::NULL, "02000000", Some((4, None))),
    case("cooked", LinkType::LINUX_SLL, "0000 0001 0006 0202020202020000 0800", Some((16, IP))),
    case("cooked 2", LinkType::LINUX_SLL2, "0800 0000 00000003 0001 00 06 0202020202020000", Some((20, IP))),
    case("PPP with framing", LinkType::PPP, "ff03 0021", Some((4, None))),
    case("PPP, compressed", LinkType::PPP, "21", Some((1, None))),
    case("Cisco HDLC", LinkType::C_HDLC, "0f00 0800", Some((4, IP))),
    case("Frame Relay", LinkType::FRELAY, "1841 03cc", Some((4, None))),
    case("802.11", LinkType::IEEE802_11, "08000000 M 020202020202 0000 aaaa03 000000 0800", Some((32, IP))),
    case("radiotap", LinkType::IEEE802_11_RADIOTAP, "00000800 00000000 08000000 M 020202020202 0000 aaaa03 000000 0800", Some((40, IP))),
    Case { tags: &[22], ..case("PPI around Ethernet", LinkType::PPI, "00000800 01000000 M 8100 0007 0800", Some((26, IP))) },
    case("a link type without IP", LinkType::NETLINK, "0000", None),
];

/// IPv4 of 28 bytes with UDP, whose ports are 5000 and 53.
const DATAGRAM: &str = "4500001c 00000000 40110000 c0000201 c0000202 13880035 00080000";

fn bytes(text: &str) -> Vec<u8> {
    let text = text.replace('M', MACS).replace(' ', "");
    let digits = |pair: &[u8]| {
        std::str::from_utf8(pair)
            .ok()
            .and_then(|pair| u8::from_str_radix(pair, 16).ok())
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty(), "{text}");
    pairs
        .iter()
        .map(|pair| digits(pair).expect("hexadecimal digits"))
        .collect()
}

fn cases() {
    for case in &CASES {
        let packet = [bytes(case.front), bytes(DATAGRAM)].concat();
        let headers = Headers::of(case.link_type, &packet, packet.len());
        let network = headers.network.map(|at| (at, headers.link.ether_type));
        assert_eq!(network, case.network, "{}", case.name);
        assert_eq!(headers.link.mpls, case.mpls, "{}", case.name);
        if case.network.is_none() {
            continue;
        }
        assert_eq!(headers.link.tags(), case.tags, "{}", case.name);
        let at = bytes(case.front).len();
        let is_ip = headers.link.is_ip();
        assert_eq!(headers.arp().is_some(), case.name == "ARP");
        let ip = headers
            .ip
            .map(|ip| (ip.at, ip.transport, ip.end(packet.len()), ip.protocol));
        let expected = is_ip.then_some((at, Some(at + 20), at + 28, protocol::UDP));
        assert_eq!(ip, expected, "{}", case.name);
    }
}

/// Every packet of the cases, cut at every offset: no header may be found after the cut.
fn every_cut() {
    for case in &CASES {
        let packet = [bytes(case.front), bytes(DATAGRAM)].concat();
        for length in 0..packet.len() {
            check(case.link_type, &packet[..length], packet.len());
        }
    }
}

fn stops() {
    let fixed =
        "6000000000182b40 20010db8000000000000000000000001 20010db8000000000000000000000002";
    let packet = |routing: &str| {
        [
            bytes(fixed),
            bytes(routing),
            bytes("20010db8000000000000000000000003"),
            vec![0; 8],
        ]
        .concat()
    };
    let stop = |packet: &[u8]| {
        let headers = Headers::of(LinkType::RAW, packet, packet.len());
        headers.ip.expect("IPv6").last_stop(packet)
    };
    assert_eq!(stop(&packet("11020001 00000000")), Stop::At(48));
    assert_eq!(stop(&packet("11020000 00000000")), Stop::Reached);
    assert_eq!(stop(&packet("11020301 00000000")), Stop::Unknown);
    let v4 = bytes("4700001c 00000000 40110000 c0000201 c0000202 83070400 00000900");
    assert_eq!(stop(&v4), Stop::At(23));
}

fn any_bytes() {
    let mut random = fastrand::Rng::with_seed(22);
    let types: Vec<LinkType> = LinkType::known().collect();
    let mut meter = OneByOne::new();
    for round in 0..60_000 {
        let (link_type, mut packet) = if round % 2 == 0 {
            let case = &CASES[random.usize(..CASES.len())];
            (
                case.link_type,
                [bytes(case.front), bytes(DATAGRAM)].concat(),
            )
        } else {
            (types[random.usize(..types.len())], Vec::new())
        };
        packet.extend((0..random.usize(..120)).map(|_| random.u8(..)));
        for _ in 0..random.usize(..4) {
            if let Some(length @ 1..) = Some(packet.len()) {
                packet[random.usize(..length)] = random.u8(..);
            }
        }
        let wire = packet.len() + random.usize(..3) * 40_000;
        meter.check(link_type.canonical(), &packet, wire);
    }
}

fn of_corpus() {
    /// The most packets tested of a file.
    const PACKETS: usize = 400;
    let mut meter = OneByOne::new();
    let mut with_ip = 0;
    for file in corpus::files() {
        let Ok(mut reader) = Reader::open(&file, &ReadOptions::default()) else {
            continue;
        };
        let mut left = PACKETS;
        while left > 0 {
            let types: Vec<LinkType> = reader.interfaces().iter().map(|it| it.link_type).collect();
            match reader.next() {
                Ok(Some(Item::Run(run))) => {
                    for packet in run.packets().take(left) {
                        left -= 1;
                        let link_type = types[packet.interface as usize];
                        let wire = (packet.len as usize).max(packet.data.len());
                        with_ip += usize::from(meter.check(link_type, packet.data, wire));
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }
    assert!(with_ip > 10_000, "{with_ip} packets of IP");
}

/// Returns the headers, after a check that all offsets are in the captured bytes.
fn check(link_type: LinkType, data: &[u8], wire: usize) -> Headers {
    let headers = Headers::of(link_type, data, wire);
    let link = &headers.link;
    let places = [link.ethernet, link.mpls, link.interface];
    for at in places
        .into_iter()
        .flatten()
        .chain(link.tags().iter().copied())
    {
        assert!(at + 4 <= data.len(), "{link_type}: {at} in {data:02x?}");
    }
    let Some(ip) = headers.ip else {
        return headers;
    };
    let [source, destination] = ip.addresses();
    assert!(source.end == destination.start && destination.end <= data.len());
    if let Stop::At(at) = ip.last_stop(data) {
        assert!(at + destination.len() <= data.len());
    }
    headers
}

/// A meter that gets one packet and returns its record, then the next.
struct OneByOne {
    meters: [(Meter, Tunnels); 2],
}

impl OneByOne {
    fn new() -> Self {
        let meters = [Tunnels::default(), Tunnels::ALL].map(|tunnels| {
            let options = MeterOptions::default()
                .flows(4)
                .datagrams(4)
                .tunnels(tunnels);
            (Meter::new(&options).expect("valid options"), tunnels)
        });
        Self { meters }
    }

    /// Compares the meter's record with the headers; returns whether there is one.
    fn check(&mut self, link_type: LinkType, data: &[u8], wire: usize) -> bool {
        let mut has_ip = false;
        for (meter, tunnels) in &mut self.meters {
            let mut headers = check(link_type, data, wire);
            let tunnel = headers.enter(*tunnels, data, wire);
            let packet = Packet {
                data,
                len: u32::try_from(wire).expect("a length"),
                time_ns: 1_700_000_000_000_000_000,
                link: link_type,
                input: 0,
            };
            let before = meter.counters();
            let mut record = None;
            let mut sink = |found: &FlowRecord| record = Some(found.clone());
            meter.push(&packet, &mut sink);
            meter.flush(&mut sink);
            let after = meter.counters();
            has_ip = headers.ip.is_some();
            let place = format!("{link_type}: {data:02x?}");
            match (&headers.ip, &record) {
                (Some(ip), Some(record)) => {
                    assert_eq!(record.key.tunnel, tunnel, "{place}");
                    compare(data, &headers, ip, record, &place);
                }
                (None, None) => {
                    let is_malformed = headers.link.is_ip() && headers.network.is_some();
                    assert_eq!(
                        after.malformed - before.malformed,
                        u64::from(is_malformed),
                        "{place}"
                    );
                }
                (ip, record) => panic!("{ip:?} and {record:?} of {place}"),
            }
        }
        has_ip
    }
}

/// Compares a record with the bytes at the offsets of the headers.
fn compare(data: &[u8], headers: &Headers, ip: &Ip, record: &FlowRecord, place: &str) {
    let key = &record.key;
    let address = |at: usize| -> IpAddr {
        if ip.six {
            chunk::<16>(data, at).expect("captured").into()
        } else {
            chunk::<4>(data, at).expect("captured").into()
        }
    };
    let addresses = ip.addresses().map(|range| address(range.start));
    assert_eq!([key.source, key.destination], addresses, "{place}");
    assert_eq!((key.protocol, key.tos), (ip.protocol, ip.tos), "{place}");
    assert_eq!(record.forward.bytes, u64::from(ip.bytes), "{place}");
    let identifier = |index: usize| {
        headers
            .link
            .tags()
            .get(index)
            .and_then(|&at| be16(data, at))
    };
    let tags = [0, 1].map(|index| identifier(index).map(|control| control & 0xfff));
    assert_eq!([key.vlan, key.inner_vlan], tags, "{place}");
    let label = headers.link.mpls.and_then(|at| be32(data, at));
    assert_eq!(record.mpls_label, label.map(|entry| entry >> 12), "{place}");
    assert_eq!(
        record.macs.is_some(),
        headers.link.ethernet.is_some(),
        "{place}"
    );
    let has_ports = matches!(ip.protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
    // Other fragments have the ports of a first one, if that was there.
    if has_ports && !matches!(ip.part, Part::Later(_)) {
        let port = |offset: usize| {
            ip.transport
                .and_then(|at| be32(data, at).and(be16(data, at + offset)))
        };
        let ports = [0, 2].map(|offset| port(offset).unwrap_or(0));
        assert_eq!([key.source_port, key.destination_port], ports, "{place}");
    }
}
