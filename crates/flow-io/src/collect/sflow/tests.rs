//! Datagrams made word by word, as the specification draws them.

use std::net::SocketAddr;
use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::collect::decode::{CollectCounters, Decoder};

/// Ethernet with the tag of VLAN 7, IPv4 of 40 bytes with ToS 8 and TTL 64, TCP with SYN and ACK.
const FRAME: [u8; 58] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 0, // Ethernet
    0x45, 8, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2, // IPv4
    0, 80, 4, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x12, 1, 0, 0, 0, 0, 0, // TCP
];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Returns a sample or a record: its number, its length, its body.
fn framed(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap();
    [&words(&[kind, length]), body].concat()
}

/// Returns a record of a packet's first bytes.
fn raw(protocol: u32, frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap();
    let fill = vec![0; (4 - frame.len() % 4) % 4];
    let head = words(&[protocol, length + 4, 4, length]);
    framed(1, &[&head, frame, &fill].concat())
}

/// Returns a flow sample: 1 of 512 packets, input interface 3.
fn sample(records: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(records.len()).unwrap();
    let head = words(&[9, 3, 512, 9 * 512, 0, 3, 4, count]);
    framed(1, &[head, records.concat()].concat())
}

/// Returns the same with the longer form of its numbers.
fn expanded(input: [u32; 2], records: &[Vec<u8>]) -> Vec<u8> {
    let count = u32::try_from(records.len()).unwrap();
    let head = words(&[9, 0, 3, 512, 9 * 512, 0, input[0], input[1], 0, 4, count]);
    framed(3, &[head, records.concat()].concat())
}

/// Returns a datagram of the agent 203.0.113.7, sub-agent 2.
fn datagram(sequence: u32, samples: &[Vec<u8>]) -> Vec<u8> {
    let agent = u32::from_be_bytes([203, 0, 113, 7]);
    let count = u32::try_from(samples.len()).unwrap();
    let head = words(&[5, 1, agent, 2, sequence, 60_000, count]);
    [head, samples.concat()].concat()
}

fn decode(datagrams: &[Vec<u8>]) -> (Vec<FlowRecord>, CollectCounters) {
    let from = SocketAddr::from(([192, 0, 2, 9], 6343));
    let mut decoder = Decoder::default();
    let mut records = Vec::new();
    for datagram in datagrams {
        decoder.datagram(from, datagram, Instant::now(), &mut |record, origin| {
            assert_eq!(origin.exporter, ([203, 0, 113, 7], 6343).into());
            assert_eq!((origin.domain, origin.sampling), (2, 512));
            records.push(record.clone());
        });
    }
    (records, decoder.counters())
}

#[test]
fn a_header_is_metered() {
    for (sample, input) in [
        (sample(&[raw(1, &FRAME)]), 3),
        (expanded([0, 3], &[raw(1, &FRAME)]), 3),
        (expanded([0, INSIDE], &[raw(1, &FRAME)]), 0),
        (expanded([2, 5], &[raw(1, &FRAME)]), 0),
    ] {
        let (records, counters) = decode(&[datagram(1, &[sample])]);
        assert_eq!(counters.records, 1);
        let FlowRecord {
            key, forward, macs, ..
        } = &records[0];
        assert_eq!(key.source, IpAddr::from([192, 0, 2, 1]));
        assert_eq!(key.destination, IpAddr::from([198, 51, 100, 2]));
        assert_eq!((key.source_port, key.destination_port), (80, 1024));
        assert_eq!((key.protocol, key.tos, key.vlan), (6, 8, Some(7)));
        assert_eq!(key.input, input);
        // One packet, which is not multiplied by the sampling.
        assert_eq!((forward.packets, forward.bytes), (1, 40));
        assert_eq!((forward.tcp_flags, forward.min_ttl), (0x12, 64));
        assert!(forward.first_ns > 0 && forward.first_ns == forward.last_ns);
        assert_eq!(macs.unwrap().source, [2, 0, 0, 0, 0, 1]);
    }
}

#[test]
fn a_header_without_its_link_layer_is_metered() {
    let switch = framed(1001, &words(&[30, 0, 31, 0]));
    let (records, _) = decode(&[datagram(1, &[sample(&[raw(11, &FRAME[18..]), switch])])]);
    assert_eq!(records[0].key.destination_port, 1024);
    assert_eq!(records[0].key.vlan, Some(30), "the extended switch has it");
    assert_eq!(records[0].macs, None);
}

#[test]
fn fields_that_the_agent_read_are_taken() {
    let [source, destination] = [0xc000_0201, 0xc633_6402];
    let four = framed(3, &words(&[1500, 17, source, destination, 53, 5353, 0, 4]));
    let host = |last| [0x2001_0db8, 0, 0, last];
    let six = [&[900, 6][..], &host(1), &host(2), &[443, 999, 0x18, 8]].concat();
    let (records, counters) = decode(&[
        datagram(1, &[sample(&[four])]),
        datagram(2, &[sample(&[framed(4, &words(&six))])]),
    ]);
    assert_eq!((counters.sflow, counters.records), (2, 2));
    let [four, six] = &records[..] else {
        unreachable!("two records were counted")
    };
    assert_eq!(four.key.destination, IpAddr::from([198, 51, 100, 2]));
    assert_eq!((four.key.source_port, four.key.protocol), (53, 17));
    assert_eq!((four.forward.packets, four.forward.bytes), (1, 1500));
    assert_eq!(six.key.source.to_string(), "2001:db8::1");
    assert_eq!((six.key.destination_port, six.key.tos), (999, 8));
    assert_eq!((six.forward.tcp_flags, six.forward.bytes), (0x18, 900));
}

#[test]
fn other_samples_and_packets_without_ip_are_counted() {
    let mut arp = FRAME;
    arp[16..18].copy_from_slice(&[8, 6]);
    let samples = [
        framed(2, &words(&[1, 3, 0])),
        framed(4, &words(&[1, 0, 3, 0])),
        framed(7 << 12 | 1, &[1; 8]),
        sample(&[raw(1, &arp)]),
        sample(&[raw(5, &FRAME), framed(1003, &[0; 4])]),
        sample(&[]),
        sample(&[framed(1003, &[0; 4]), raw(1, &FRAME)]),
    ];
    let (_, counters) = decode(&[datagram(1, &samples)]);
    assert_eq!((counters.other_samples, counters.not_flows), (3, 3));
    assert_eq!((counters.records, counters.malformed), (1, 0));
}

#[test]
fn missing_datagrams_are_counted_by_agent() {
    let numbers = [7, 8, 12, 3];
    let datagrams = numbers.map(|number| datagram(number, &[]));
    let (_, counters) = decode(&datagrams);
    assert_eq!(
        counters.missed_sflow_datagrams, 3,
        "the last is a new start"
    );
}

#[test]
fn samples_before_an_error_are_taken() {
    let good = sample(&[raw(1, &FRAME)]);
    let long = words(&[1, 4_000, 0]);
    // The record is longer than its sample, so the next sample is taken.
    let inside = framed(
        1,
        &[words(&[9, 3, 512, 0, 0, 3, 4, 1]), words(&[1, 99])].concat(),
    );
    let samples = [good.clone(), inside, good, long];
    let (_, counters) = decode(&[datagram(1, &samples)]);
    assert_eq!((counters.records, counters.malformed), (2, 1));
    for header in [words(&[4, 1, 0, 0, 0, 0, 0]), words(&[5, 3, 0, 0, 0, 0, 0])] {
        let (_, counters) = decode(&[header]);
        assert_eq!((counters.sflow, counters.malformed), (0, 1));
    }
}

/// Counts that somebody makes up cost no time: each sample and record needs its bytes.
#[test]
fn counts_that_somebody_makes_up_are_bounded() {
    let mut lie = datagram(1, &[]);
    lie[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
    let head = words(&[9, 3, 512, 0, 0, 3, 4, u32::MAX]);
    lie.extend(framed(1, &head));
    let (_, counters) = decode(&[lie]);
    assert_eq!((counters.records, counters.malformed), (0, 1));
}

/// An agent's address is part of the datagram, so quotas are by the address that sent it.
#[test]
fn agents_that_somebody_makes_up_cost_their_sender_only() {
    let mut decoder = Decoder::default();
    for agent in 0..2_000_u32 {
        let mut made_up = datagram(1, &[]);
        made_up[8..12].copy_from_slice(&agent.to_be_bytes());
        let from = ([192, 0, 2, 9], 6343).into();
        decoder.datagram(from, &made_up, Instant::now(), &mut |_, _| {});
    }
    let (exporters, reports) = decoder.exporters(9);
    assert_eq!((exporters, reports[0].sources), (1, 512));
    assert_eq!(decoder.counters().sources_forgotten, 2_000 - 512);
}

proptest! {
    #[test]
    fn damaged_datagrams_do_not_panic(at in 0..200_usize, with in any::<u8>(), end in 0..300_usize) {
        let samples = [sample(&[raw(1, &FRAME)]), expanded([0, 3], &[raw(1, &FRAME)])];
        let mut damaged = datagram(1, &samples);
        damaged.truncate(end);
        if let Some(byte) = damaged.get_mut(at) {
            *byte = with;
        }
        let from = ([192, 0, 2, 9], 6343).into();
        let mut taken = 0;
        let mut decoder = Decoder::default();
        decoder.datagram(from, &damaged, Instant::now(), &mut |_, _| taken += 1);
        prop_assert_eq!(decoder.counters().records, taken);
    }
}
