//! What is encoded here is decoded again; what is hostile is counted.

use std::num::NonZeroU32;

use proptest::prelude::*;
use ringtap_flow::export::{Encoder, ExportOptions, Message, Version};
use ringtap_flow::{
    EndReason, MacAddresses, Sampling, SamplingMode, TcpMeasures, Tunnel, TunnelKind,
};

use super::*;

const SECOND: u64 = 1_000_000_000;
const EPOCH: u64 = 1_700_000_000 * SECOND;

fn exporter() -> SocketAddr {
    ([192, 0, 2, 9], 2055).into()
}

/// The messages of an encoder to its end.
fn encode(options: ExportOptions, records: &[FlowRecord]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let mut encoder = Encoder::new(options).unwrap();
    let mut keep = |message: Message<'_>| messages.push(message.bytes.to_vec());
    encoder.advance(EPOCH, &mut keep);
    for record in records {
        encoder.record(record, &mut keep);
    }
    encoder.finish(&mut keep);
    messages
}

fn decode(messages: &[Vec<u8>]) -> (Vec<(FlowRecord, u32, u32)>, Counters) {
    let mut decoder = Decoder::default();
    let mut records = Vec::new();
    for message in messages {
        decoder.datagram(exporter(), message, &mut |record, origin| {
            assert_eq!(origin.exporter, exporter());
            records.push((record.clone(), origin.domain, origin.sampling));
        });
    }
    (records, decoder.counters())
}

fn traffic(protocol: u8, times: std::ops::Range<u64>) -> impl Strategy<Value = Traffic> {
    (
        1..u64::from(u32::MAX),
        any::<u32>(),
        times,
        0..SECOND,
        any::<u16>(),
        any::<[u8; 6]>(),
    )
        .prop_map(
            move |(packets, bytes, first, duration, flags, bounds)| Traffic {
                packets,
                bytes: bytes.into(),
                first_ns: first,
                last_ns: first + duration,
                // The library keeps 9 of the 12.
                tcp_flags: if protocol == 6 { flags & 0x1ff } else { 0 },
                min_ttl: bounds[0],
                max_ttl: bounds[1],
                min_length: u16::from_be_bytes([bounds[2], bounds[3]]),
                max_length: u16::from_be_bytes([bounds[4], bounds[5]]),
            },
        )
}

prop_compose! {
    fn key()(
        ipv6 in any::<bool>(),
        source in any::<[u8; 16]>(),
        destination in any::<[u8; 16]>(),
        ports in any::<(u16, u16)>(),
        protocol in prop_oneof![Just(6), Just(17), Just(1), Just(58), any::<u8>()],
        tos in any::<u8>(),
        vlans in (proptest::option::of(0..4096u16), proptest::option::of(0..4096u16)),
        input in any::<u32>(),
        tunnel in proptest::option::of((0..3, 0..1u32 << 24)),
    ) -> FlowKey {
        let address = |bytes: [u8; 16]| -> std::net::IpAddr {
            if ipv6 { bytes.into() } else { <[u8; 4]>::try_from(&bytes[..4]).unwrap().into() }
        };
        let kinds = [TunnelKind::Gre, TunnelKind::Vxlan, TunnelKind::GtpU];
        FlowKey {
            source: address(source),
            destination: address(destination),
            source_port: ports.0,
            destination_port: ports.1,
            protocol,
            tos,
            vlan: vlans.0,
            inner_vlan: vlans.1,
            input,
            tunnel: tunnel.map(|(kind, id)| Tunnel { kind: kinds[kind as usize], id }),
        }
    }
}

prop_compose! {
    /// A record as the metering gives it, of the last day before the epoch.
    fn record()(key in key())(
        forward in traffic(key.protocol, EPOCH - 86_400 * SECOND..EPOCH - SECOND),
        reverse in proptest::option::of(traffic(key.protocol, EPOCH - 86_400 * SECOND..EPOCH - SECOND)),
        macs in proptest::option::of(any::<([u8; 6], [u8; 6])>()),
        mpls_label in proptest::option::of(0..1u32 << 20),
        tcp in proptest::option::of((any::<(u32, u32)>(), proptest::option::of(1..1000u64))),
        end in 1..=5u8,
        key in Just(key),
    ) -> FlowRecord {
        FlowRecord {
            key,
            forward,
            reverse,
            end: [
                EndReason::Idle,
                EndReason::Active,
                EndReason::EndOfFlow,
                EndReason::Forced,
                EndReason::NoResources,
            ][usize::from(end) - 1],
            macs: macs.map(|(source, destination)| MacAddresses { source, destination }),
            mpls_label,
            tcp: tcp.map(|((forward, backward), rtt)| TcpMeasures {
                retransmissions: forward,
                reverse_retransmissions: backward,
                // Half of it is exported, in milliseconds.
                server_rtt_ns: rtt.map(|rtt| rtt * 2 * NANOS_PER_MILLI),
                client_rtt_ns: None,
            }),
        }
    }
}

fn to_millis(traffic: &mut Traffic) {
    traffic.first_ns -= traffic.first_ns % NANOS_PER_MILLI;
    traffic.last_ns -= traffic.last_ns % NANOS_PER_MILLI;
}

proptest! {
    #[test]
    fn ipfix_comes_back_as_it_was(records in proptest::collection::vec(record(), 1..40)) {
        let options = ExportOptions { nanos: true, domain: 5, ..ExportOptions::default() };
        let (decoded, counters) = decode(&encode(options, &records));
        let decoded: Vec<_> = decoded.into_iter().map(|(record, domain, sampling)| {
            assert_eq!((domain, sampling), (5, 1));
            record
        }).collect();
        prop_assert_eq!(decoded, records);
        prop_assert_eq!(counters.malformed + counters.without_template, 0);
        prop_assert_eq!(counters.missed_ipfix_records, 0);
    }

    #[test]
    fn v9_comes_back_in_one_direction(records in proptest::collection::vec(record(), 1..40)) {
        let options = ExportOptions { version: Version::V9, ..ExportOptions::default() };
        let forward: Vec<_> = records.into_iter().map(|mut record| {
            record.reverse = None;
            record.tcp = None;
            record.forward.tcp_flags &= 0xff;
            record
        }).collect();
        let (decoded, counters) = decode(&encode(options, &forward));
        prop_assert_eq!(decoded.len(), forward.len());
        for (mut expected, (decoded, _, _)) in forward.into_iter().zip(decoded) {
            to_millis(&mut expected.forward);
            prop_assert_eq!(decoded, expected);
        }
        prop_assert_eq!(counters.malformed + counters.without_template, 0);
        prop_assert_eq!(counters.missed_v9_messages, 0);
    }

    #[test]
    fn v5_comes_back_with_what_it_has(records in proptest::collection::vec(record(), 1..40)) {
        let options = ExportOptions { version: Version::V5, ..ExportOptions::default() };
        let forward: Vec<_> = records.into_iter().map(|mut record| {
            record.reverse = None;
            record
        }).filter(|record| !record.key.is_ipv6()).collect();
        let (decoded, counters) = decode(&encode(options, &forward));
        prop_assert_eq!(decoded.len(), forward.len());
        for (expected, (decoded, _, _)) in forward.iter().zip(decoded) {
            let mut traffic = expected.forward;
            to_millis(&mut traffic);
            let told = (decoded.forward.packets, decoded.forward.bytes);
            prop_assert_eq!(told, (traffic.packets, traffic.bytes));
            let times = (decoded.forward.first_ns, decoded.forward.last_ns);
            prop_assert_eq!(times, (traffic.first_ns, traffic.last_ns));
            prop_assert_eq!(decoded.key.source_port, expected.key.source_port);
            prop_assert_eq!(decoded.key.destination, expected.key.destination);
        }
        prop_assert_eq!(counters.malformed, 0);
        prop_assert_eq!(counters.missed_v5_flows, 0);
    }

    /// Any bytes, and bytes that begin as messages do.
    #[test]
    fn hostile_datagrams_do_no_harm(
        version in prop_oneof![Just(5u16), Just(9), Just(10), any::<u16>()],
        datagrams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..600), 1..20),
    ) {
        let mut decoder = Decoder::default();
        for mut datagram in datagrams {
            if let Some(start) = datagram.get_mut(..2) {
                start.copy_from_slice(&version.to_be_bytes());
            }
            decoder.datagram(exporter(), &datagram, &mut |_, _| {});
        }
    }

    /// Good messages with a few bytes changed, cut, or in another order.
    #[test]
    fn damaged_messages_do_no_harm(
        version in prop_oneof![Just(Version::V5), Just(Version::V9), Just(Version::Ipfix)],
        records in proptest::collection::vec(record(), 1..10),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let options = ExportOptions { version, ..ExportOptions::default() };
        let mut messages = encode(options, &records);
        if messages.is_empty() {
            return Ok(());
        }
        for (message, at, byte) in damage {
            let message = message.get_mut(&mut messages);
            let at = at.index(message.len());
            message[at] = byte;
        }
        let last = messages.len() - 1;
        let length = messages[last].len();
        messages[last].truncate(cut.index(length));
        let mut decoder = Decoder::default();
        for message in messages.iter().rev().chain(&messages) {
            decoder.datagram(exporter(), message, &mut |_, _| {});
        }
        prop_assert_eq!(decoder.counters().datagrams, 2 * messages.len() as u64);
    }
}

fn flow() -> FlowRecord {
    FlowRecord {
        forward: Traffic {
            packets: 1,
            first_ns: EPOCH - SECOND,
            last_ns: EPOCH,
            ..Traffic::default()
        },
        key: FlowKey {
            source: [192, 0, 2, 1].into(),
            ..FlowKey::default()
        },
        ..FlowRecord::default()
    }
}

#[test]
fn sampling_is_learnt_from_options_and_headers() {
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let options = ExportOptions {
            version,
            sampling: Sampling {
                one_in: NonZeroU32::new(1000).unwrap(),
                mode: SamplingMode::Random,
            },
            ..ExportOptions::default()
        };
        let (decoded, _) = decode(&encode(options, &[flow()]));
        assert_eq!(decoded[0].2, 1000, "{version:?}");
    }
}

#[test]
fn what_is_missing_is_counted() {
    let records = vec![flow(); 300];
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let options = ExportOptions {
            version,
            ..ExportOptions::default()
        };
        let mut messages = encode(options, &records);
        let whole = decode(&messages).0.len();
        // Of IPFIX and v9 the templates come first, and options.
        let missing = if version == Version::V5 { 2 } else { 4 };
        messages.remove(missing);
        let (decoded, counters) = decode(&messages);
        let lost = (whole - decoded.len()) as u64;
        assert!(lost > 0);
        let missed = (
            counters.missed_v5_flows,
            counters.missed_v9_messages,
            counters.missed_ipfix_records,
        );
        let expected = match version {
            Version::V5 => (lost, 0, 0),
            Version::V9 => (0, 1, 0),
            Version::Ipfix => (0, 0, lost),
        };
        assert_eq!(missed, expected, "{version:?}");
    }
}

#[test]
fn records_without_their_template_are_counted() {
    for version in [Version::V9, Version::Ipfix] {
        let options = ExportOptions {
            version,
            ..ExportOptions::default()
        };
        let mut messages = encode(options, &[flow()]);
        messages.remove(0);
        let (decoded, counters) = decode(&messages);
        assert_eq!(decoded.len(), 0);
        assert_eq!(counters.without_template, 1, "{version:?}");
    }
}

#[test]
fn malformed_datagrams_are_counted() {
    for datagram in [&b""[..], b"\0", b"\0\x05", b"\0\x63hello", &[0, 9, 0, 1, 0]] {
        let (_, counters) = decode(&[datagram.to_vec()]);
        assert_eq!(counters.malformed, 1, "{datagram:?}");
    }
}
