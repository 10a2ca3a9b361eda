//! Checks that encoded records decode again, and that hostile messages are counted.

use std::num::NonZeroU32;

use proptest::prelude::*;
use ringtap_flow::export::{Encoder, Enterprise, ExportOptions, Message, Version};
use ringtap_flow::schema::Fields;
use ringtap_flow::{
    EndReason, MacAddresses, Sampling, SamplingMode, TcpCounts, TcpMeasures, Tunnel, TunnelKind,
};

use super::*;
use crate::collect::exporters::{FIELDS, PEER_BYTES};

const SECOND: u64 = 1_000_000_000;
const EPOCH: u64 = 1_700_000_000 * SECOND;

fn exporter() -> SocketAddr {
    ([192, 0, 2, 9], 2055).into()
}

/// Returns all messages of an encoder.
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

fn decode(messages: &[Vec<u8>]) -> (Vec<(FlowRecord, u32, u32)>, CollectCounters) {
    let mut decoder = Decoder::default();
    let mut records = Vec::new();
    for message in messages {
        decoder.datagram(
            exporter(),
            message,
            Instant::now(),
            &mut |record, origin| {
                assert_eq!(origin.exporter, exporter());
                records.push((record.clone(), origin.domain, origin.sampling));
            },
        );
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
    /// A record as the meter emits it, of the last day before the epoch.
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
                forward: counts(forward),
                reverse: counts(backward),
                // Half of it is exported, in milliseconds.
                server_rtt_ns: rtt.map(|rtt| rtt * 2 * NANOS_PER_MILLI),
                client_rtt_ns: None,
            }),
            response_ns: None,
            application: None,
            source_process: None,
            destination_process: None,
        }
    }
}

fn counts(retransmissions: u32) -> TcpCounts {
    TcpCounts {
        retransmissions,
        ..TcpCounts::default()
    }
}

fn to_millis(traffic: &mut Traffic) {
    traffic.first_ns -= traffic.first_ns % NANOS_PER_MILLI;
    traffic.last_ns -= traffic.last_ns % NANOS_PER_MILLI;
}

proptest! {
    #[test]
    fn ipfix_comes_back_as_it_was(records in proptest::collection::vec(record(), 1..40)) {
        let options = ExportOptions::default().nanos(true).domain(5);
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
        let options = ExportOptions::default().version(Version::V9);
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
        let options = ExportOptions::default().version(Version::V5);
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

    /// Random bytes, and random bytes after the start of a message.
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
            decoder.datagram(exporter(), &datagram, Instant::now(), &mut |_, _| {});
        }
    }

    /// Valid messages with a few bytes changed, cut, or reordered.
    #[test]
    fn damaged_messages_do_no_harm(
        version in prop_oneof![Just(Version::V5), Just(Version::V9), Just(Version::Ipfix)],
        records in proptest::collection::vec(record(), 1..10),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let options = ExportOptions::default().version(version);
        let mut messages = encode(options, &records);
        prop_assume!(!messages.is_empty());
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
            decoder.datagram(exporter(), message, Instant::now(), &mut |_, _| {});
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
        let options = ExportOptions::default()
            .version(version)
            .sampling(Sampling {
                one_in: NonZeroU32::new(1000).unwrap(),
                mode: SamplingMode::Random,
            });
        let (decoded, _) = decode(&encode(options, &[flow()]));
        assert_eq!(decoded[0].2, 1000, "{version:?}");
    }
}

#[test]
fn what_is_missing_is_counted() {
    let records = vec![flow(); 300];
    for version in [Version::V5, Version::V9, Version::Ipfix] {
        let options = ExportOptions::default().version(version);
        let mut messages = encode(options, &records);
        let whole = decode(&messages).0.len();
        // In IPFIX and v9, templates and options come first.
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
        let options = ExportOptions::default().version(version);
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

/// Returns an IPFIX message of these sets, sent `sent` seconds after the epoch.
fn ipfix(sent: u64, sets: &[(u16, &[u8])]) -> Vec<u8> {
    let mut message = vec![0, 10, 0, 0];
    let seconds = u32::try_from(EPOCH / SECOND + sent).unwrap();
    message.extend(seconds.to_be_bytes());
    message.extend([0; 8]);
    for (id, body) in sets {
        message.extend(id.to_be_bytes());
        message.extend(u16::try_from(4 + body.len()).unwrap().to_be_bytes());
        message.extend(*body);
    }
    let length = u16::try_from(message.len()).unwrap();
    message[2..4].copy_from_slice(&length.to_be_bytes());
    message
}

/// IPFIX as softflowd sends it: times of uptime, with the start of uptime in an options record.
#[test]
fn ipfix_tells_in_an_option_when_uptime_began() {
    let option_template = [
        1, 0, 0, 2, 0, 1, // template 256: 2 fields, of which 1 is the scope
        0, 143, 0, 4, 0, 160, 0, 8,
    ];
    let template = [
        4, 0, 0, 4, // template 1024
        0, 8, 0, 4, 0, 12, 0, 4, 0, 22, 0, 4, 0, 21, 0, 4,
    ];
    const DAY_MS: u64 = 86_400_000;
    // The start of uptime, and a flow's first and last time in it, in milliseconds; and how many times 32
    // bits have wrapped.
    for (days, first, last, rounds) in [
        (1, DAY_MS - 5000, DAY_MS - 4000, 0),
        (50, 50 * DAY_MS - (1 << 32) - 9, 50 * DAY_MS - (1 << 32), 1),
        (50, u64::from(u32::MAX) - 9, u64::from(u32::MAX), 0),
    ] {
        let boot_ms = EPOCH / NANOS_PER_MILLI - days * DAY_MS;
        let mut option = vec![0, 0, 0, 7];
        option.extend(boot_ms.to_be_bytes());
        let mut flow = vec![192, 0, 2, 1, 198, 51, 100, 2];
        for uptime in [first, last] {
            flow.extend(u32::try_from(uptime).unwrap().to_be_bytes());
        }
        let (records, counters) = decode(&[ipfix(
            1,
            &[
                (3, &option_template),
                (2, &template),
                (256, &option),
                (1024, &flow),
            ],
        )]);
        assert_eq!((counters.options, counters.malformed), (1, 0));
        let traffic = records[0].0.forward;
        let expected = [first, last].map(|uptime| boot_ms + uptime + (rounds << 32));
        let told = [traffic.first_ns, traffic.last_ns].map(|time| time / NANOS_PER_MILLI);
        assert_eq!(told, expected);
    }
}

/// Uptime has 32 bits: if an exporter has run for more than 49 days, a flow may have begun before the uptime
/// wrapped to 0.
#[test]
fn uptime_that_came_back_to_0_is_understood() {
    let seconds = u32::try_from(EPOCH / SECOND).unwrap();
    let mut v5 = vec![0; 24 + 48];
    v5[1] = 5;
    v5[3] = 1;
    v5[4..8].copy_from_slice(&3000u32.to_be_bytes());
    v5[8..12].copy_from_slice(&seconds.to_be_bytes());
    v5[24 + 24..24 + 28].copy_from_slice(&(u32::MAX - 1999).to_be_bytes());
    v5[24 + 28..24 + 32].copy_from_slice(&1000u32.to_be_bytes());
    let mut v9 = vec![0, 9, 0, 2];
    v9.extend(3000u32.to_be_bytes());
    v9.extend(seconds.to_be_bytes());
    v9.extend([0; 8]);
    v9.extend([0, 0, 0, 24, 1, 0, 0, 4]);
    v9.extend([0, 8, 0, 4, 0, 12, 0, 4, 0, 22, 0, 4, 0, 21, 0, 4]);
    v9.extend([1, 0, 0, 20, 192, 0, 2, 1, 198, 51, 100, 2]);
    v9.extend(&v5[24 + 24..24 + 32]);
    for message in [v5, v9] {
        let (records, _) = decode(&[message]);
        let traffic = records[0].0.forward;
        assert_eq!(traffic.first_ns, EPOCH - 5 * SECOND);
        assert_eq!(traffic.last_ns, EPOCH - 2 * SECOND);
    }
}

/// The library takes 1,024 records of a set unless the limit is set, and does not report the rest.
#[test]
fn all_records_of_a_large_datagram_are_taken() {
    // The source's and the destination's address.
    let template = [1, 0, 0, 2, 0, 8, 0, 4, 0, 12, 0, 4];
    let records = [10, 0, 0, 1, 10, 0, 0, 2].repeat(8_000);
    let messages = [ipfix(0, &[(2, &template), (256, &records)])];
    let (decoded, counters) = decode(&messages);
    assert_eq!(decoded.len(), 8_000);
    assert_eq!((counters.records, counters.malformed), (8_000, 0));
}

/// Without limits, domains of 4,096 templates each took 800 MB, and templates of 10,000 fields a thousand
/// times as much.
#[test]
fn templates_that_somebody_makes_up_are_bounded() {
    let mut decoder = Decoder::default();
    let templates: Vec<u8> = (256..4_256_u16)
        .flat_map(|id| [id.to_be_bytes(), [0, 1], [0, 1], [0, 4]].concat())
        .collect();
    let message = ipfix(0, &[(2, &templates)]);
    let take: &mut Take<'_> = &mut |_, _| unreachable!("no record was sent");
    for port in 1..=70 {
        let from = ([192, 0, 2, 9], port).into();
        decoder.datagram(from, &message, Instant::now(), take);
    }
    let (exporters, reports) = decoder.exporters(9);
    let kept = reports[0].sources;
    assert_eq!(exporters, 1);
    assert!(kept <= PEER_BYTES / (4_000 * 256), "{kept}");
    let forgotten = decoder.counters();
    assert_eq!(forgotten.sources_forgotten, 70 - kept as u64);
    assert_eq!(forgotten.templates_forgotten, 4_000 * (70 - kept as u64));

    let fields = [0, 1, 0, 4].repeat(FIELDS + 1);
    let count = u16::try_from(FIELDS + 1).unwrap();
    let long = [vec![1, 0], count.to_be_bytes().to_vec(), fields].concat();
    let records = vec![0; 4 * (FIELDS + 1)];
    let (_, counters) = decode(&[ipfix(0, &[(2, &long)]), ipfix(0, &[(256, &records)])]);
    assert_eq!(counters.without_template, 1);
}

/// A record with fields of all groups.
fn talkative() -> FlowRecord {
    let mut fields = ringtap_inspect::Fields::default();
    let raw = |text| Some(ringtap_inspect::Text::raw(text));
    fields.protocol = Some(ringtap_inspect::Protocol::Tls);
    fields.name_source = Some(ringtap_inspect::NameSource::Sni);
    fields.tls_sni = raw("www.example.org");
    fields.tls_alpn = raw("h2");
    fields.tls_version = Some(0x0304);
    fields.tls_cipher = Some(0x1301);
    fields.tls_ja4 = ringtap_inspect::Ja4::parse("t13d1516h2_8daaf6152771_e5627efa2ab1");
    fields.dns_name = raw("example.org");
    fields.dns_type = Some(1);
    fields.dns_rcode = Some(3);
    fields.dns_latency_ns = Some(5);
    fields.http_host = raw("a \u{1b}\"b\"");
    fields.http_status = Some(404);
    let counts = TcpCounts {
        retransmissions: 1,
        out_of_order: 2,
        duplicate_acks: 3,
        zero_windows: 4,
        resets: 5,
    };
    let forward = Traffic {
        packets: 9,
        bytes: 999,
        first_ns: EPOCH - SECOND,
        last_ns: EPOCH - SECOND,
        min_length: 40,
        max_length: 1500,
        min_ttl: 1,
        max_ttl: 64,
        ..Traffic::default()
    };
    FlowRecord {
        key: FlowKey {
            protocol: 6,
            source_port: 5000,
            destination_port: 443,
            ..FlowKey::default()
        },
        forward,
        reverse: Some(forward),
        tcp: Some(TcpMeasures {
            forward: counts,
            reverse: TcpCounts {
                resets: 0,
                ..counts
            },
            ..TcpMeasures::default()
        }),
        response_ns: Some(7 * NANOS_PER_MILLI),
        application: Some(ringtap_flow::Entry::of(&fields)),
        ..FlowRecord::default()
    }
}

#[test]
fn all_fields_come_back() {
    let options = ExportOptions::default().nanos(true).fields(Fields::all());
    let record = talkative();
    let (decoded, counters) = decode(&encode(options, &[record.clone(), FlowRecord::default()]));
    assert_eq!(counters.malformed + counters.without_template, 0);
    assert_eq!(decoded[0].0, record);
    assert_eq!(decoded[1].0.application, None);
}

/// Elements of a user's enterprise come back where the collector knows the number, and only there.
#[test]
fn elements_of_an_own_enterprise_come_back() {
    let enterprise = Enterprise::new(54_321).expect("free");
    let options = ExportOptions::default()
        .nanos(true)
        .fields(Fields::all())
        .enterprise(enterprise);
    let messages = encode(options, &[talkative()]);
    let decode_by = |enterprise| {
        let mut decoder = Decoder::default();
        decoder.set_enterprise(enterprise);
        let mut records = Vec::new();
        for message in &messages {
            decoder.datagram(exporter(), message, Instant::now(), &mut |record, _| {
                records.push(record.clone());
            });
        }
        assert_eq!(decoder.counters().malformed, 0);
        records.remove(0)
    };
    assert_eq!(decode_by(enterprise), talkative());
    let unknown = decode_by(Enterprise::default());
    let fields = unknown
        .application
        .as_ref()
        .expect("those of ntop")
        .fields();
    assert!(fields.tls_sni.is_some() && fields.tls_ja4.is_none());
}

/// NetFlow v9 has what has a number there, in records of one direction.
#[test]
fn names_come_back_in_v9() {
    let options = ExportOptions::default()
        .version(Version::V9)
        .fields(Fields::all());
    let (decoded, counters) = decode(&encode(options, &[talkative()]));
    assert_eq!((decoded.len(), counters.malformed), (2, 0));
    for (record, _, _) in &decoded {
        let fields = record.application.as_ref().expect("it has some").fields();
        let text = |text: Option<ringtap_inspect::Text<'_>>| text.map(|t| t.as_str().to_owned());
        assert_eq!(text(fields.tls_sni).as_deref(), Some("www.example.org"));
        assert_eq!(text(fields.dns_name).as_deref(), Some("example.org"));
        assert_eq!(fields.http_status, Some(404));
        assert_eq!(record.response_ns, Some(7 * NANOS_PER_MILLI));
    }
    let resets = decoded
        .iter()
        .map(|(record, ..)| record.tcp.map(|tcp| tcp.forward.resets));
    assert_eq!(resets.collect::<Vec<_>>(), [Some(5), Some(0)]);
}
