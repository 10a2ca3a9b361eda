//! Datagrams of sFlow v5 whose samples are the packets of a capture: ringtap collects the flows that it meters in
//! the capture itself, and sfcapd those packets.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, UdpSocket};

use serde_json::Value;

use crate::capture::{Capture, capture, number, probe, text};
use crate::collectors;
use crate::floods;

/// One of this many packets was sampled, the datagrams claim.
const ONE_IN: u32 = 100;
/// The first bytes of a packet that an agent sends.
const HEADER: usize = 128;
const AGENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);

/// Packets and bytes by addresses, ports, protocol and VLAN.
type Flows = BTreeMap<String, (u64, u64)>;

/// Returns the frames of a capture.
fn frames(capture: &Capture) -> Vec<Vec<u8>> {
    let file = std::fs::read(&capture.path).expect("a file");
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while let Some((header, behind)) = rest.split_first_chunk::<16>() {
        let length = u32::from_le_bytes(*header[8..].first_chunk().expect("4 bytes"));
        let (frame, behind) = behind.split_at(usize::try_from(length).expect("a length"));
        frames.push(frame.to_vec());
        rest = behind;
    }
    frames
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a length")
}

/// Returns a flow sample of a packet, whose checksum the agent removed.
fn sample(sequence: u32, frame: &[u8]) -> Vec<u8> {
    let header = &frame[..frame.len().min(HEADER)];
    let fill = vec![0; (4 - header.len() % 4) % 4];
    let raw = words(&[1, length(frame) + 4, 4, length(header)]);
    let raw = [&raw, header, &fill].concat();
    let head = words(&[
        sequence,
        3,
        ONE_IN,
        sequence * ONE_IN,
        0,
        3,
        4,
        1,
        1,
        length(&raw),
    ]);
    let body = [head, raw].concat();
    [words(&[1, length(&body)]), body].concat()
}

/// Sends all packets, some in each datagram, and returns the number of datagrams.
fn send(socket: &UdpSocket, frames: &[Vec<u8>]) -> u64 {
    let (mut sequence, mut datagrams) = (0, 0);
    for some in frames.chunks(6) {
        datagrams += 1;
        let head = [5, 1, AGENT.to_bits(), 0, datagrams, 1000 * datagrams];
        let mut datagram = words(&head);
        datagram.extend(words(&[u32::try_from(some.len()).expect("a few")]));
        for frame in some {
            sequence += 1;
            datagram.extend(sample(sequence, frame));
        }
        floods::send(socket, datagrams as usize, &datagram);
    }
    datagrams.into()
}

/// Returns the flows of ringtap's records, with counters times the sampling.
fn flows(records: &[Value]) -> Flows {
    let mut flows = Flows::new();
    for record in records {
        let icmp = number(record, "icmp_type") * 256 + number(record, "icmp_code");
        let key = format!(
            "{} {} {}:{} {}:{}",
            number(record, "protocol"),
            number(record, "vlan"),
            text(record, "src"),
            number(record, "src_port"),
            text(record, "dst"),
            number(record, "dst_port") + icmp,
        );
        let sampling = number(record, "sampling").max(1);
        let flow = flows.entry(key).or_default();
        flow.0 += number(record, "packets") * sampling;
        flow.1 += number(record, "bytes") * sampling;
    }
    flows
}

/// The records of samples add up to the flows that the meter reports of all packets.
pub(crate) fn collected() {
    let capture = capture();
    let frames = frames(&capture);
    let collector = floods::Collector::start(&["--fields", "all"]);
    let socket = collector.exporter(Ipv4Addr::LOCALHOST);
    let datagrams = send(&socket, &frames);
    let collected = collector.end();
    let stats = &collected.stats;
    assert_eq!(number(stats, "sflow"), datagrams, "{}", collected.text);
    assert_eq!(number(stats, "records"), frames.len() as u64);
    assert_eq!(number(stats, "malformed"), 0);
    assert_eq!(number(stats, "missed_sflow_datagrams"), 0);
    for record in &collected.records {
        assert_eq!(text(record, "exporter"), AGENT.to_string());
        assert_eq!(number(record, "sampling"), u64::from(ONE_IN));
        assert_eq!((number(record, "packets"), number(record, "input")), (1, 3));
    }
    let metered = flows(&probe(&capture, &["--fields", "all"]).records);
    let factor = u64::from(ONE_IN);
    let expected = metered
        .into_iter()
        .map(|(key, (packets, bytes))| (key, (packets * factor, bytes * factor)));
    let expected: Flows = expected.collect();
    assert!(expected.len() > 100, "a capture with many flows");
    assert_eq!(flows(&collected.records), expected);
}

/// sfcapd reports the same packets. It multiplies them by the sampling itself, counts the bytes of frames, has no
/// types of ICMP, and of two tags it takes the inner one.
pub(crate) fn sfcapd() {
    let capture = capture();
    let frames = frames(&capture);
    let collector = floods::Collector::start(&["--fields", "all"]);
    send(&collector.exporter(Ipv4Addr::LOCALHOST), &frames);
    let mut ours = Flows::new();
    for mut record in collector.end().records {
        for field in ["bytes", "icmp_type", "icmp_code"] {
            record[field] = 0.into();
        }
        if number(&record, "inner_vlan") > 0 {
            record["vlan"] = record["inner_vlan"].clone();
        }
        for (key, (packets, bytes)) in flows(&[record]) {
            let flow = ours.entry(key).or_default();
            *flow = (flow.0 + packets, bytes);
        }
    }
    let folder = capture.folder.path().join("sfcapd");
    std::fs::create_dir(&folder).expect("a folder");
    let collector = collectors::Collector::start(|port| {
        let mut command = collectors::tool("sfcapd");
        command.args([
            "-b",
            "127.0.0.1",
            "-t",
            "3600",
            "-p",
            &port.to_string(),
            "-w",
        ]);
        command.arg(&folder);
        command
    });
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("an address");
    socket
        .connect((Ipv4Addr::LOCALHOST, collector.port()))
        .expect("loopback");
    send(&socket, &frames);
    collector.settle();
    collector.end("TERM");
    let theirs = reported(&collectors::nfdump_records(&folder));
    let differing: Vec<_> = ours
        .iter()
        .filter(|(key, flow)| theirs.get(*key) != Some(flow))
        .collect();
    let surplus: Vec<_> = theirs
        .keys()
        .filter(|key| !ours.contains_key(*key))
        .collect();
    assert!(
        differing.is_empty() && surplus.is_empty(),
        "{differing:?} {surplus:?}"
    );
}

/// Returns the flows of nfdump's records.
fn reported(records: &[Value]) -> Flows {
    let mut theirs = Flows::new();
    for record in records {
        let either = |four, six| match text(record, four) {
            "" => text(record, six),
            four => four,
        };
        let key = format!(
            "{} {} {}:{} {}:{}",
            number(record, "proto"),
            number(record, "src_vlan"),
            either("src4_addr", "src6_addr"),
            number(record, "src_port"),
            either("dst4_addr", "dst6_addr"),
            number(record, "dst_port"),
        );
        theirs.entry(key).or_default().0 += number(record, "in_packets");
    }
    theirs
}
