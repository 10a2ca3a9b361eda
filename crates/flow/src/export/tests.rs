//! Properties of every message, whatever the records.

use std::num::NonZeroU32;

use super::*;
use crate::{
    EndReason, FlowKey, FlowRecord, MacAddresses, SamplingMode, TcpMeasures, Traffic, Tunnel,
    TunnelKind,
};

const SECOND: u64 = 1_000_000_000;
/// 2023-11-14T22:13:20Z.
const EPOCH: u64 = 1_700_000_000 * SECOND;

/// A sent message with its header decoded.
struct Sent {
    kind: MessageKind,
    flows: u32,
    bytes: Vec<u8>,
}

impl Sent {
    fn u16(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes[at..at + 2].try_into().unwrap())
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    /// Returns numbers and bodies of the sets. Their lengths must add up to the message.
    fn sets(&self) -> Vec<(u16, &[u8])> {
        let mut at = if self.u16(0) == 9 { 20 } else { 16 };
        let mut sets = Vec::new();
        while at < self.bytes.len() {
            let length = usize::from(self.u16(at + 2));
            assert!(length > 4, "a set with something in it");
            sets.push((self.u16(at), &self.bytes[at + 4..at + length]));
            at += length;
        }
        assert_eq!(at, self.bytes.len());
        sets
    }
}

fn keep(sent: &mut Vec<Sent>) -> impl MessageSink {
    |message: Message<'_>| {
        sent.push(Sent {
            kind: message.kind,
            flows: message.flows,
            bytes: message.bytes.to_vec(),
        });
    }
}

fn options(version: Version) -> ExportOptions {
    ExportOptions {
        version,
        domain: 7,
        ..ExportOptions::default()
    }
}

/// Returns a flow of the 10 seconds before the epoch.
fn flow() -> FlowRecord {
    FlowRecord {
        key: FlowKey {
            source: [192, 0, 2, 1].into(),
            destination: [198, 51, 100, 2].into(),
            source_port: 40_000,
            destination_port: 443,
            protocol: 6,
            tos: 0x28,
            input: 3,
            ..FlowKey::default()
        },
        forward: Traffic {
            packets: 10,
            bytes: 5000,
            first_ns: EPOCH - 10 * SECOND + 123_456_789,
            last_ns: EPOCH - 987_654_321,
            tcp_flags: 0x1b,
            min_ttl: 63,
            max_ttl: 64,
            min_length: 40,
            max_length: 1500,
        },
        end: EndReason::EndOfFlow,
        ..FlowRecord::default()
    }
}

/// Returns flows of every shape that the meter emits.
fn shapes() -> Vec<FlowRecord> {
    let mut flows = Vec::new();
    for bits in 0..1u32 << 9 {
        let has = |bit: u32| bits & (1 << bit) != 0;
        let mut record = flow();
        if has(0) {
            record.key.source = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].into();
            record.key.destination = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2].into();
        }
        if has(1) {
            record.key.protocol = if has(0) { 58 } else { 1 };
            record.key.source_port = 0;
            record.key.destination_port = 0x0800;
        }
        record.reverse = has(2).then_some(record.forward);
        record.macs = has(3).then_some(MacAddresses::default());
        record.key.vlan = has(4).then_some(100);
        record.key.inner_vlan = has(5).then_some(200);
        record.mpls_label = has(6).then_some(300_000);
        record.key.tunnel = has(7).then_some(Tunnel {
            kind: if has(8) {
                TunnelKind::GtpU
            } else {
                TunnelKind::Vxlan
            },
            id: 5,
        });
        record.tcp = has(8).then_some(TcpMeasures::default());
        flows.push(record);
    }
    flows
}

/// Returns the complete output of an encoder for some records.
fn encode(options: ExportOptions, records: &[FlowRecord]) -> (Vec<Sent>, ExportCounters) {
    let mut sent = Vec::new();
    let mut encoder = Encoder::new(options).unwrap();
    encoder.advance(EPOCH, &mut keep(&mut sent));
    for record in records {
        encoder.record(record, &mut keep(&mut sent));
    }
    encoder.finish(&mut keep(&mut sent));
    (sent, encoder.counters())
}

#[test]
fn messages_are_within_the_limit_and_of_one_kind() {
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        for max_message in [MIN_MESSAGE, ETHERNET_MESSAGE, u16::MAX] {
            let options = ExportOptions {
                max_message,
                ..options(version)
            };
            let (sent, counters) = encode(options, &shapes());
            for message in &sent {
                assert!(message.bytes.len() <= max_message.into());
                if version == Version::V5 {
                    continue;
                }
                let (template, option) = if version == Version::V9 {
                    (0, 1)
                } else {
                    (2, 3)
                };
                for (id, _) in message.sets() {
                    let kind = match id {
                        id if id == template => MessageKind::Templates,
                        id if id == option => MessageKind::OptionsTemplates,
                        256 | 257 => MessageKind::Options,
                        _ => MessageKind::Flows,
                    };
                    assert_eq!(kind, message.kind);
                }
            }
            let flows: u32 = sent.iter().map(|message| message.flows).sum();
            assert_eq!(u64::from(flows), counters.flows);
            assert_eq!(sent.len() as u64, counters.messages);
            let bytes: usize = sent.iter().map(|message| message.bytes.len()).sum();
            assert_eq!(bytes as u64, counters.bytes);
        }
    }
}

#[test]
fn every_flow_is_sent_or_counted() {
    let shapes = shapes();
    let both: u64 = shapes.iter().filter(|r| r.reverse.is_some()).count() as u64;
    let all = shapes.len() as u64;
    let (_, counters) = encode(options(Version::Ipfix), &shapes);
    assert_eq!(counters.flows, all);
    let (_, counters) = encode(options(Version::V9), &shapes);
    assert_eq!(counters.flows, all + both);
    let (_, counters) = encode(options(Version::V5), &shapes);
    assert_eq!(counters.flows, (all + both) / 2, "those of IPv4");
    assert_eq!(counters.not_expressible, (all + both) / 2);
}

#[test]
fn a_template_comes_before_its_records() {
    for version in [Version::V9, Version::Ipfix] {
        let (sent, _) = encode(options(version), &shapes());
        let mut known = Vec::new();
        for message in &sent {
            for (id, body) in message.sets() {
                match message.kind {
                    MessageKind::Templates => known.extend(template_ids(version, body)),
                    MessageKind::Flows => assert!(known.contains(&id), "{id}"),
                    _ => {}
                }
            }
        }
    }
}

fn template_ids(version: Version, mut body: &[u8]) -> Vec<u16> {
    let mut ids = Vec::new();
    let number = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    while body.len() >= 4 {
        ids.push(number(body));
        let count = number(&body[2..]);
        body = &body[4..];
        for _ in 0..count {
            let enterprise = version == Version::Ipfix && number(body) & 0x8000 != 0;
            body = &body[if enterprise { 8 } else { 4 }..];
        }
    }
    ids
}

#[test]
fn sequence_numbers_count_what_the_version_counts() {
    let records = shapes();
    let (sent, _) = encode(options(Version::V5), &records);
    let mut flows = 0;
    for message in &sent {
        assert_eq!(message.u32(16), flows, "v5 counts flows");
        assert_eq!(u32::from(message.u16(2)), message.flows);
        flows += message.flows;
    }
    let (sent, _) = encode(options(Version::V9), &records);
    for (number, message) in (0..).zip(&sent) {
        assert_eq!(message.u32(12), number, "v9 counts messages");
        assert_eq!(message.u32(16), 7, "the source");
    }
    let (sent, _) = encode(options(Version::Ipfix), &records);
    let mut data_records = 0;
    for message in &sent {
        assert_eq!(message.u32(8), data_records, "IPFIX counts data records");
        assert_eq!(usize::from(message.u16(2)), message.bytes.len());
        data_records += match message.kind {
            MessageKind::Options => 2,
            _ => message.flows,
        };
    }
}

/// Returns the number of messages with templates, in a stream of one record a second.
fn refreshes(refresh: Option<Refresh>, seconds: u64) -> usize {
    let options = ExportOptions {
        refresh,
        ..options(Version::Ipfix)
    };
    let mut sent = Vec::new();
    let mut encoder = Encoder::new(options).unwrap();
    for second in 0..seconds {
        encoder.advance(EPOCH + second * SECOND, &mut keep(&mut sent));
        encoder.record(&flow(), &mut keep(&mut sent));
    }
    let templates = |message: &&Sent| message.kind == MessageKind::Templates;
    sent.iter().filter(templates).count()
}

#[test]
fn templates_are_repeated_by_time_and_by_messages() {
    let refresh = |seconds, messages| {
        Some(Refresh {
            interval: Duration::from_secs(seconds),
            messages,
        })
    };
    assert_eq!(refreshes(None, 1000), 1);
    // The first goes out after a second, with the first message.
    assert_eq!(refreshes(refresh(60, 1_000_000), 602), 11);
    // A message a second, each record held for one.
    assert_eq!(refreshes(refresh(1_000_000, 50), 502), 11);
}

#[test]
fn templates_are_repeated_while_no_flow_ends() {
    let mut sent = Vec::new();
    let mut encoder = Encoder::new(options(Version::V9)).unwrap();
    encoder.record(&flow(), &mut keep(&mut sent));
    for second in 0..121 {
        encoder.advance(EPOCH + second * SECOND, &mut keep(&mut sent));
    }
    let kinds: Vec<_> = sent.iter().map(|message| message.kind).collect();
    let announced = [
        MessageKind::Templates,
        MessageKind::OptionsTemplates,
        MessageKind::Options,
    ];
    assert_eq!(kinds[..3], announced);
    assert_eq!(kinds[3], MessageKind::Flows);
    assert_eq!(kinds[4..7], announced);
    assert_eq!(kinds[7..], announced);
}

#[test]
fn a_record_waits_no_longer_than_it_may() {
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let mut sent = Vec::new();
        let mut encoder = Encoder::new(options(version)).unwrap();
        encoder.advance(EPOCH, &mut keep(&mut sent));
        encoder.record(&flow(), &mut keep(&mut sent));
        encoder.advance(EPOCH + SECOND - 1, &mut keep(&mut sent));
        assert!(sent.is_empty());
        encoder.advance(EPOCH + SECOND, &mut keep(&mut sent));
        assert_eq!(sent.last().map(|message| message.flows), Some(1));
    }
}

/// Collected records may contain anything that their exporter sends.
#[test]
fn a_record_that_lies_is_cut() {
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let mut sent = Vec::new();
        let mut encoder = Encoder::new(options(version)).unwrap();
        let mut record = flow();
        encoder.record(&record, &mut keep(&mut sent));
        (record.forward.first_ns, record.forward.last_ns) = (record.forward.last_ns, 0);
        record.forward.packets = u64::MAX;
        encoder.record(&record, &mut keep(&mut sent));
        record.forward.first_ns = u64::MAX;
        encoder.record(&record, &mut keep(&mut sent));
        encoder.finish(&mut keep(&mut sent));
        let parts = if version == Version::V5 { 4096 } else { 1 };
        assert_eq!(encoder.counters().flows, 1 + 2 * parts, "{version:?}");
        let cut = encoder.counters().clamped;
        assert_eq!(cut, if version == Version::V5 { 2 } else { 0 });
    }
}

#[test]
fn a_new_session_begins_with_templates_and_number_0() {
    let mut sent = Vec::new();
    let mut encoder = Encoder::new(ExportOptions {
        refresh: None,
        ..options(Version::Ipfix)
    })
    .unwrap();
    encoder.record(&flow(), &mut keep(&mut sent));
    encoder.finish(&mut keep(&mut sent));
    encoder.restart();
    sent.clear();
    encoder.record(&flow(), &mut keep(&mut sent));
    encoder.finish(&mut keep(&mut sent));
    assert_eq!(sent[0].kind, MessageKind::Templates);
    assert_eq!(sent[0].u32(8), 0);
}

/// Returns the offsets of the times of the only record in a message of v5 or v9.
fn times(message: &Sent) -> (u64, u64) {
    let (now_ms, at) = match message.u16(0) {
        5 => {
            let millis = u64::from(message.u32(12)) / 1_000_000;
            (u64::from(message.u32(8)) * 1000 + millis, 24 + 24)
        }
        // Version, addresses, ports, protocol, ToS, interface, bytes, packets come before.
        _ => (u64::from(message.u32(8)) * 1000, 24 + 35),
    };
    let boot = now_ms - u64::from(message.u32(4));
    let absolute = |at| boot + u64::from(message.u32(at));
    (absolute(at), absolute(at + 4))
}

#[test]
fn netflow_tells_times_to_the_millisecond() {
    for version in [Version::V5, Version::V9] {
        for (first, last) in [(10, 0), (60, 59), (0, 0), (4_000_000, 3)] {
            let mut record = flow();
            record.forward.first_ns = EPOCH - first * SECOND + 1_999_999;
            record.forward.last_ns = EPOCH - last * SECOND + 2_000_001;
            let (sent, counters) = encode(options(version), &[record.clone()]);
            let message = sent.iter().find(|m| m.kind == MessageKind::Flows).unwrap();
            let expected = (
                record.forward.first_ns / 1_000_000,
                record.forward.last_ns / 1_000_000,
            );
            assert_eq!(times(message), expected, "{version:?}");
            assert_eq!(counters.clamped, 0);
            let uptime = u64::from(message.u32(4));
            assert!(uptime >= 3_600_000, "an hour before the first flow");
        }
    }
}

#[test]
fn times_far_apart_go_into_messages_of_their_own() {
    let year = 365 * 86_400 * SECOND;
    for version in [Version::V5, Version::V9] {
        let mut old = flow();
        old.forward.first_ns -= year;
        old.forward.last_ns -= year;
        let mut sent = Vec::new();
        let mut encoder = Encoder::new(options(version)).unwrap();
        // As when files are read one after the other: the clock is that of the packets.
        for record in [&flow(), &old, &flow()] {
            encoder.advance(record.forward.last_ns, &mut keep(&mut sent));
            encoder.record(record, &mut keep(&mut sent));
        }
        encoder.finish(&mut keep(&mut sent));
        let flows = sent.iter().filter(|m| m.kind == MessageKind::Flows);
        let told: Vec<_> = flows.map(times).collect();
        let expected = [&flow(), &old, &flow()].map(|record| {
            (
                record.forward.first_ns / 1_000_000,
                record.forward.last_ns / 1_000_000,
            )
        });
        assert_eq!(told, expected, "{version:?}");
        assert_eq!(encoder.counters().clamped, 0);
    }
}

/// Captures of other years were put into one file: the record comes when the clock is elsewhere.
#[test]
fn a_flow_of_another_year_than_the_clock_is_told_exactly() {
    let year = 365 * 86_400 * SECOND;
    for version in [Version::V5, Version::V9] {
        let mut sent = Vec::new();
        let mut encoder = Encoder::new(options(version)).unwrap();
        for now_ns in [EPOCH + year, EPOCH, EPOCH - year] {
            encoder.advance(now_ns, &mut keep(&mut sent));
            encoder.record(&flow(), &mut keep(&mut sent));
        }
        encoder.finish(&mut keep(&mut sent));
        let flows = sent.iter().filter(|m| m.kind == MessageKind::Flows);
        for message in flows {
            let expected = (
                flow().forward.first_ns / 1_000_000,
                flow().forward.last_ns / 1_000_000,
            );
            assert_eq!(times(message), expected, "{version:?}");
        }
        let counters = encoder.counters();
        assert_eq!((counters.flows, counters.clamped), (3, 0), "{version:?}");
    }
}

#[test]
fn a_flow_longer_than_netflow_can_tell_is_cut_and_counted() {
    for version in [Version::V5, Version::V9] {
        let mut record = flow();
        record.forward.first_ns = EPOCH - 60 * 86_400 * SECOND;
        let (sent, counters) = encode(options(version), &[record.clone()]);
        assert_eq!(counters.clamped, 1);
        let message = sent.iter().find(|m| m.kind == MessageKind::Flows).unwrap();
        assert_eq!(times(message).1, record.forward.last_ns / 1_000_000);
    }
}

#[test]
fn v5_splits_what_32_bits_do_not_hold() {
    let mut record = flow();
    record.forward.packets = 18_000_001;
    record.forward.bytes = 10_000_000_001;
    let (sent, counters) = encode(options(Version::V5), &[record]);
    assert_eq!(counters.flows, 3);
    let sum = |offset: usize| -> u64 {
        let parts = (0..3).map(|part| sent[0].u32(24 + 48 * part + offset));
        parts.map(u64::from).sum()
    };
    assert_eq!(sum(16), 18_000_001);
    assert_eq!(sum(20), 10_000_000_001);
}

#[test]
fn v5_says_its_sampling_and_refuses_what_it_cannot_say() {
    let sampled = |one_in, mode| ExportOptions {
        sampling: Sampling {
            one_in: NonZeroU32::new(one_in).unwrap(),
            mode,
        },
        ..options(Version::V5)
    };
    let field = |options| encode(options, &[flow()]).0[0].u16(22);
    assert_eq!(field(options(Version::V5)), 0);
    assert_eq!(
        field(sampled(100, SamplingMode::Deterministic)),
        1 << 14 | 100
    );
    assert_eq!(
        field(sampled(16_383, SamplingMode::Random)),
        2 << 14 | 16_383
    );
    assert_eq!(
        Encoder::new(sampled(16_384, SamplingMode::Random)).err(),
        Some(ExportError::SamplingBeyondV5 { one_in: 16_384 })
    );
    let domain = ExportOptions {
        domain: 256,
        ..options(Version::V5)
    };
    assert_eq!(
        Encoder::new(domain).err(),
        Some(ExportError::DomainBeyondV5 { domain: 256 })
    );
    let short = ExportOptions {
        max_message: MIN_MESSAGE - 1,
        ..options(Version::Ipfix)
    };
    assert_eq!(
        Encoder::new(short).err(),
        Some(ExportError::MessageTooShort {
            limit: MIN_MESSAGE - 1,
            least: MIN_MESSAGE
        })
    );
}

#[test]
fn the_other_direction_is_turned_round() {
    let mut record = flow();
    record.key.protocol = 1;
    record.key.source_port = 0;
    record.key.destination_port = 0x0800;
    let mut reverse = record.forward;
    reverse.packets = 9;
    record.reverse = Some(reverse);
    let (sent, _) = encode(options(Version::V5), &[record]);
    let second = 24 + 48;
    assert_eq!(sent[0].bytes[second..second + 4], [198, 51, 100, 2]);
    assert_eq!(sent[0].bytes[second + 4..second + 8], [192, 0, 2, 1]);
    assert_eq!(sent[0].u32(second + 16), 9);
    assert_eq!(sent[0].u16(second + 34), 0, "an echo reply");
}
