//! Tests of the meter on packets that were built for one property each.

mod build;
mod health;
mod interim;
mod payloads;
mod processes;
mod readers;
mod ways;

use std::net::IpAddr;
use std::time::Duration;

use build::{ethernet, ipv4, ipv4_part, ipv6, tcp, udp};
use ringtap_flow::{
    Counters, EndReason, FlowRecord, LinkType, Meter, MeterOptions, Packet, Sampling, SamplingMode,
    Spreader, TunnelKind, Tunnels,
};
use ringtap_testkit::alloc::{Counting, count};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;
const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
const IPV4: [u8; 2] = [8, 0];

/// Meters packets of raw IP, each with its time in nanoseconds from the start.
fn meter(options: &MeterOptions, packets: &[(u64, Vec<u8>)]) -> (Vec<FlowRecord>, Counters) {
    meter_link(options, LinkType::RAW, packets)
}

fn meter_link(
    options: &MeterOptions,
    link: LinkType,
    packets: &[(u64, Vec<u8>)],
) -> (Vec<FlowRecord>, Counters) {
    let mut meter = Meter::new(options).expect("valid options");
    let mut records = Vec::new();
    let mut sink = |record: &FlowRecord| records.push(record.clone());
    for (time, data) in packets {
        let packet = Packet {
            data,
            len: u32::try_from(data.len()).expect("short"),
            time_ns: START + time,
            link,
            input: 3,
        };
        meter.push(&packet, &mut sink);
    }
    meter.flush(&mut sink);
    (records, meter.counters())
}

fn small() -> MeterOptions {
    MeterOptions::default().flows(64)
}

/// Returns the source's last byte, packets and reason of each record.
fn shape(records: &[FlowRecord]) -> Vec<(u8, u64, EndReason)> {
    let last = |address: IpAddr| match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    let row = |record: &FlowRecord| {
        let source = last(record.key.source);
        (source, record.packets(), record.end)
    };
    records.iter().map(row).collect()
}

#[test]
fn a_silence_longer_than_the_inactive_time_out_ends_a_flow() {
    let packet = || ipv4(1, 2, 17, &udp(1000, 53, b"x"));
    let other = || ipv4(9, 2, 17, &udp(1000, 53, b"x"));
    let times = [0, 30 * SECOND, 60 * SECOND + 1];
    let mut packets: Vec<_> = times.map(|time| (time, packet())).into();
    packets.push((200 * SECOND, other()));
    let (records, _) = meter(&small(), &packets);
    use EndReason::{Forced, Idle};
    assert_eq!(
        shape(&records),
        [(1, 2, Idle), (1, 1, Idle), (9, 1, Forced)]
    );
    assert_eq!(records[0].forward.first_ns, START);
    assert_eq!(records[0].forward.last_ns, START + 30 * SECOND);
    assert_eq!(records[0].forward.bytes, 2 * 29);
}

#[test]
fn the_active_time_out_cuts_a_flow() {
    let packets: Vec<_> = (0..5)
        .map(|n| (n * 25 * SECOND, ipv4(1, 2, 17, &udp(1000, 53, b""))))
        .chain([(120 * SECOND, ipv4(1, 2, 17, &udp(1000, 53, b"")))])
        .collect();
    let (records, counters) = meter(&small(), &packets);
    use EndReason::{Active, Forced};
    assert_eq!(shape(&records), [(1, 5, Active), (1, 1, Forced)]);
    assert_eq!(counters.flows, 2);
}

#[test]
fn time_goes_on_without_packets_when_it_is_told() {
    let mut meter = Meter::new(&small()).expect("valid options");
    let mut records = 0;
    let mut sink = |record: &FlowRecord| {
        assert_eq!(record.end, EndReason::Idle);
        records += 1;
    };
    let data = ipv4(1, 2, 17, &udp(1, 2, b""));
    let packet = Packet {
        data: &data,
        len: 28,
        time_ns: START,
        link: LinkType::RAW,
        input: 0,
    };
    meter.push(&packet, &mut sink);
    meter.advance(START + 29 * SECOND, &mut sink);
    assert_eq!(meter.counters().active, 1);
    meter.advance(START + 32 * SECOND, &mut sink);
    assert_eq!(meter.counters().active, 0);
    assert_eq!(records, 1);
}

#[test]
fn fin_and_rst_end_a_flow_after_the_linger_time_or_at_once() {
    let close = |flags| {
        vec![
            (0, ipv4(1, 2, 6, &tcp(7, 80, SYN, 1, b""))),
            (1, ipv4(1, 2, 6, &tcp(7, 80, ACK | flags, 2, b""))),
            (2, ipv4(1, 2, 6, &tcp(7, 80, ACK, 3, b""))),
            (10 * SECOND, ipv4(3, 2, 17, &udp(1, 2, b""))),
        ]
    };
    use EndReason::{EndOfFlow, Forced};
    for flags in [FIN, RST] {
        let (records, _) = meter(&small(), &close(flags));
        assert_eq!(shape(&records), [(1, 3, EndOfFlow), (3, 1, Forced)]);
        assert_eq!(records[0].forward.tcp_flags, (SYN | ACK | flags).into());
        let at_once = small().linger(Duration::ZERO);
        let (records, _) = meter(&at_once, &close(flags));
        assert_eq!(shape(&records)[0], (1, 2, EndOfFlow));
        assert_eq!(records.len(), 3);
    }
    // A connection that restarts on the same ports is a separate flow.
    let mut again = close(FIN);
    again.insert(3, (3, ipv4(1, 2, 6, &tcp(7, 80, SYN, 9, b""))));
    let (records, _) = meter(&small(), &again);
    assert_eq!(shape(&records)[0], (1, 3, EndOfFlow));
    assert_eq!(records.len(), 3);
}

#[test]
fn a_full_cache_ends_the_oldest() {
    let options = MeterOptions::default().flows(4);
    let packets: Vec<_> = (1..=6)
        .map(|n| {
            let data = ipv4(n, 200, 17, &udp(1, 2, b""));
            (u64::from(n) * SECOND, data)
        })
        .collect();
    let (records, counters) = meter(&options, &packets);
    use EndReason::NoResources;
    assert_eq!(
        shape(&records)[..2],
        [(1, 1, NoResources), (2, 1, NoResources)]
    );
    assert_eq!(
        (counters.evicted(), counters.peak, records.len()),
        (2, 4, 6)
    );
}

/// Fragments some packets; many of them never get their first fragment.
fn fragment_some(data: &mut [u8], number: u64) {
    data[6] = if number.is_multiple_of(5) { 0x20 } else { 0 };
    data[7] = u8::from(number.is_multiple_of(7));
}

#[test]
fn a_flood_of_flows_takes_no_memory_and_loses_no_packet() {
    const PACKETS: u64 = 300_000;
    let options = MeterOptions::default()
        .flows(1000)
        .both_ways(true)
        .measure_tcp(true);
    let mut meter = Meter::new(&options).expect("valid options");
    let mut data = ipv4(1, 2, 6, &tcp(1, 80, SYN, 1, b""));
    let (mut packets, mut evicted) = (0, 0);
    let mut sink = |record: &FlowRecord| {
        packets += record.packets();
        evicted += u64::from(record.end == EndReason::NoResources);
    };
    let mut flood = |meter: &mut Meter, from: u64| {
        for number in from..from + PACKETS {
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            data[12..20].copy_from_slice(&mixed.to_be_bytes());
            fragment_some(&mut data, number);
            let packet = Packet {
                data: &data,
                len: 40,
                time_ns: START + number * 1000,
                link: LinkType::RAW,
                input: 0,
            };
            meter.push(&packet, &mut sink);
        }
    };
    // The first flows take slots of the reserved memory; they must not allocate either.
    let ((), counts) = count(|| flood(&mut meter, 0));
    assert_eq!(counts.allocations, 0);
    assert_eq!(meter.counters().active, 1000);
    let ((), counts) = count(|| meter.flush(&mut sink));
    assert_eq!(counts.allocations, 0);
    let counters = meter.counters();
    assert_eq!((packets, counters.ip_packets), (PACKETS, PACKETS));
    assert!(evicted > PACKETS / 2 && evicted == counters.evicted());
    assert!(counters.fragments_alone > 0 && counters.fragments_evicted > 0);
}

#[test]
fn both_directions_are_one_record_from_the_one_who_began() {
    let options = small().both_ways(true).measure_tcp(true);
    let packets = [
        // The larger address begins; its SYN was not captured.
        (0, ipv4(2, 9, 6, &tcp(80, 7777, SYN | ACK, 50, b""))),
        (4_000_000, ipv4(9, 2, 6, &tcp(7777, 80, ACK, 11, b""))),
        (5_000_000, ipv4(9, 2, 6, &tcp(7777, 80, ACK, 11, b"abc"))),
        (6_000_000, ipv4(9, 2, 6, &tcp(7777, 80, ACK, 11, b"abc"))),
    ];
    let (records, _) = meter(&options, &packets);
    assert_eq!(records.len(), 1);
    let record = &records[0];
    assert_eq!(shape(&records), [(9, 4, EndReason::Forced)]);
    assert_eq!(
        (record.key.source_port, record.key.destination_port),
        (7777, 80)
    );
    assert_eq!(record.forward.packets, 3);
    assert_eq!(record.forward.first_ns, START + 4_000_000);
    let reverse = record.reverse.expect("answers came");
    assert_eq!((reverse.packets, reverse.last_ns), (1, START));
    let measures = record.tcp.expect("asked for");
    assert_eq!(
        (
            measures.forward.retransmissions,
            measures.reverse.retransmissions
        ),
        (1, 0)
    );
    assert_eq!(measures.server_rtt_ns, None);
}

#[test]
fn round_trips_are_told_from_the_handshake() {
    let options = small().both_ways(true).measure_tcp(true);
    let packets = [
        (0, ipv4(1, 2, 6, &tcp(7777, 80, SYN, 10, b""))),
        (
            30_000_000,
            ipv4(2, 1, 6, &tcp(80, 7777, SYN | ACK, 50, b"")),
        ),
        (31_000_000, ipv4(1, 2, 6, &tcp(7777, 80, ACK, 11, b""))),
        (
            40_000_000,
            ipv4(1, 2, 6, &tcp(7777, 80, FIN | ACK, 11, b"")),
        ),
        (
            41_000_000,
            ipv4(2, 1, 6, &tcp(80, 7777, FIN | ACK, 51, b"")),
        ),
    ];
    let (records, _) = meter(&options, &packets);
    let measures = records[0].tcp.expect("asked for");
    assert_eq!(measures.server_rtt_ns, Some(30_000_000));
    assert_eq!(measures.client_rtt_ns, Some(1_000_000));
    assert_eq!(shape(&records), [(1, 5, EndReason::EndOfFlow)]);
}

#[test]
fn an_echo_and_its_answer_are_one_flow() {
    let options = small().both_ways(true);
    let packets = [
        (0, ipv4(9, 2, 1, &[8, 0, 0, 0, 0, 1])),
        (1, ipv4(2, 9, 1, &[0, 0, 0, 0, 0, 1])),
        (2, ipv6(9, 2, 58, &[128, 0, 0, 0])),
        (3, ipv6(2, 9, 58, &[129, 0, 0, 0])),
    ];
    let (records, _) = meter(&options, &packets);
    let kinds: Vec<_> = records.iter().map(|record| record.key.icmp()).collect();
    assert_eq!(kinds, [Some((8, 0)), Some((128, 0))]);
    assert!(
        records
            .iter()
            .all(|r| r.reverse.is_some_and(|r| r.packets == 1))
    );
    assert_eq!(records[1].key.tos, 0xb8);
}

#[test]
fn fragments_are_in_their_flow_in_whatever_order_they_come() {
    const MORE: u16 = 0x2000;
    let first = || ipv4_part(1, 2, 17, 7, MORE, &udp(1000, 53, &[0; 8]));
    let second = || ipv4_part(1, 2, 17, 7, MORE | 2, &[0; 16]);
    let last = || ipv4_part(1, 2, 17, 7, 4, &[0; 3]);
    let orders = [
        [first(), second(), last()],
        [last(), first(), second()],
        [second(), last(), first()],
    ];
    for order in orders {
        let packets: Vec<_> = (0..).zip(order).collect();
        let (records, counters) = meter(&small(), &packets);
        assert_eq!(shape(&records), [(1, 3, EndReason::Forced)]);
        assert_eq!(records[0].key.source_port, 1000);
        assert_eq!(records[0].forward.bytes, 36 + 36 + 23);
        assert_eq!(
            (records[0].forward.min_length, records[0].forward.max_length),
            (23, 36)
        );
        assert_eq!((counters.fragments, counters.fragments_alone), (3, 0));
    }
    // Without the first one, and after it was forgotten.
    let late = [(0, first()), (40 * SECOND, second()), (41 * SECOND, last())];
    let (records, counters) = meter(&small(), &late);
    let ports: Vec<_> = records
        .iter()
        .map(|r| (r.key.source_port, r.packets()))
        .collect();
    assert_eq!(ports, [(1000, 1), (0, 2)]);
    assert_eq!(counters.fragments_alone, 2);
}

#[test]
fn fragments_of_ipv6_are_in_their_flow() {
    let part = |place: u16, payload: &[u8]| {
        let mut body = vec![17, 0];
        body.extend(place.to_be_bytes());
        body.extend([0, 0, 0, 9]);
        body.extend(payload);
        ipv6(1, 2, 44, &body)
    };
    let packets = [(0, part(1, &udp(1000, 53, &[]))), (1, part(8, &[1, 2]))];
    let (records, _) = meter(&small(), &packets);
    assert_eq!(shape(&records), [(1, 2, EndReason::Forced)]);
    let key = records[0].key;
    assert_eq!((key.source_port, key.protocol, key.tos), (1000, 17, 0xb8));
    assert_eq!(records[0].forward.bytes, 56 + 50);
}

#[test]
fn tags_labels_and_sessions_lead_to_the_packet() {
    let packet = || ipv4(1, 2, 17, &udp(1000, 53, b""));
    type Case<'a> = (&'a str, &'a [u8], Option<u16>, Option<u16>, Option<u32>);
    let cases: [Case<'_>; 6] = [
        ("plain", &[8, 0], None, None, None),
        ("802.1Q", &[0x81, 0, 0xe0, 5, 8, 0], Some(5), None, None),
        (
            "priority only",
            &[0x81, 0, 0xe0, 0, 8, 0],
            Some(0),
            None,
            None,
        ),
        (
            "QinQ",
            &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9, 8, 0],
            Some(7),
            Some(9),
            None,
        ),
        (
            "MPLS",
            &[0x88, 0x47, 0, 1, 0x40, 64, 0, 2, 1, 64],
            None,
            None,
            Some(20),
        ),
        (
            "PPPoE in a VLAN",
            &[0x81, 0, 0, 6, 0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21],
            Some(6),
            None,
            None,
        ),
    ];
    for (name, types, vlan, inner, label) in cases {
        let frame = ethernet(types, &packet());
        let (records, counters) = meter_link(&small(), LinkType::ETHERNET, &[(0, frame)]);
        assert_eq!((records.len(), counters.not_ip), (1, 0), "{name}");
        let record = &records[0];
        assert_eq!(
            (record.key.vlan, record.key.inner_vlan),
            (vlan, inner),
            "{name}"
        );
        assert_eq!((record.mpls_label, record.key.input), (label, 3), "{name}");
        assert_eq!(record.forward.bytes, 28, "{name}");
        let macs = record.macs.expect("Ethernet has them");
        assert_eq!((macs.source[5], macs.destination[5]), (1, 2), "{name}");
    }
}

#[test]
fn flows_inside_tunnels_are_metered_on_request() {
    let inner = || ipv4(5, 6, 6, &tcp(40000, 443, ACK, 1, b"12"));
    let frame = ethernet(&IPV4, &inner());
    let vxlan = [&[8, 0, 0, 0, 0, 0x12, 0x34, 0][..], &frame].concat();
    let gtp = [&[0x30, 255, 0, 42, 0, 0, 0, 99][..], &inner()].concat();
    let gre = [&[0x20, 0, 8, 0, 0, 0, 0, 77][..], &inner()].concat();
    let cases = [
        (
            TunnelKind::Vxlan,
            0x1234,
            ipv4(1, 2, 17, &udp(9, 4789, &vxlan)),
        ),
        (TunnelKind::GtpU, 99, ipv4(1, 2, 17, &udp(2152, 2152, &gtp))),
        (TunnelKind::Gre, 77, ipv4(1, 2, 47, &gre)),
        (TunnelKind::IpInIp, 0, ipv6(1, 2, 4, &inner())),
    ];
    for (kind, id, packet) in cases {
        let options = small().tunnels(Tunnels::ALL);
        let (records, _) = meter(&options, &[(0, packet.clone())]);
        let tunnel = records[0].key.tunnel.expect("a tunnel");
        assert_eq!((tunnel.kind, tunnel.id), (kind, id));
        assert_eq!(
            (records[0].key.source_port, records[0].forward.bytes),
            (40000, 42)
        );
        assert_eq!(shape(&records)[0].0, 5, "{kind:?}");
        // Without the option, the tunnel itself is metered.
        let (records, _) = meter(&small(), &[(0, packet)]);
        assert_eq!((shape(&records)[0].0, records[0].key.tunnel), (1, None));
    }
}

#[test]
fn what_lies_or_is_cut_off_is_counted() {
    let whole = ipv4(1, 2, 6, &tcp(1, 2, ACK, 1, b""));
    for length in 0..whole.len() {
        let (records, counters) = meter(&small(), &[(0, whole[..length].to_vec())]);
        let metered = u64::from(length >= 20);
        assert_eq!(
            (counters.ip_packets, counters.malformed),
            (metered, 1 - metered)
        );
        // The header contains the length on the wire; ports are known once they were captured.
        assert!(records.iter().all(|r| r.forward.bytes == 40));
        assert!(
            records
                .iter()
                .all(|r| (r.key.source_port == 1) == (length >= 24))
        );
    }
    let mut short = whole.clone();
    short[3] = 19;
    let mut options = whole.clone();
    options[0] = 0x44;
    for wrong in [short, options] {
        let (records, counters) = meter(&small(), &[(0, wrong)]);
        assert_eq!((records.len(), counters.malformed), (0, 1));
    }
    // Endless tags.
    let endless = ethernet(&[0x81, 0, 0, 1].repeat(200), &whole);
    let (_, counters) = meter_link(&small(), LinkType::ETHERNET, &[(0, endless)]);
    assert_eq!(counters.not_ip, 1);
    // Endless extension headers: an IPv6 packet whose transport is not found.
    let chain = ipv6(1, 2, 0, &[0; 8].repeat(100));
    let (records, _) = meter(&small(), &[(0, chain)]);
    assert_eq!(
        (records[0].key.source_port, records[0].forward.bytes),
        (0, 840)
    );
}

#[test]
fn one_packet_in_so_many_is_metered() {
    let packets: Vec<_> = (0..10_000)
        .map(|n| (n, ipv4(1, 2, 17, &udp(1, 2, b""))))
        .collect();
    let sampled = |mode| {
        let options = small()
            .sampling(Some(Sampling {
                one_in: 10.try_into().expect("not 0"),
                mode,
            }))
            .seed(5);
        let (records, counters) = meter(&options, &packets);
        assert_eq!(counters.packets, 10_000);
        assert_eq!(counters.sampled_out + records[0].packets(), 10_000);
        records[0].packets()
    };
    assert_eq!(sampled(SamplingMode::Deterministic), 1000);
    assert!((800..1200).contains(&sampled(SamplingMode::Random)));
}

#[test]
fn a_clock_that_goes_back_begins_flows_anew() {
    let packet = || ipv4(1, 2, 17, &udp(1, 2, b""));
    let hour = 3600 * SECOND;
    let packets = [
        (2 * hour, packet()),
        (2 * hour + 1, packet()),
        // A second capture, from earlier.
        (hour, packet()),
        (hour + 1, packet()),
        (hour + 100 * SECOND, packet()),
    ];
    let (records, _) = meter(&small(), &packets);
    use EndReason::{Forced, Idle};
    assert_eq!(
        shape(&records),
        [(1, 2, Idle), (1, 2, Idle), (1, 1, Forced)]
    );
    assert!(
        records
            .iter()
            .all(|r| r.forward.first_ns <= r.forward.last_ns)
    );
}

#[test]
fn invalid_options_are_rejected() {
    let refused = |change: fn(&mut MeterOptions)| {
        let mut options = small();
        change(&mut options);
        Meter::new(&options).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|o| o.flows = 0),
        "option flows: 0 is invalid: it must be between 1 and 67108864"
    );
    assert!(refused(|o| o.active = Duration::ZERO).starts_with("option active: 0ns is invalid"));
    assert!(refused(|o| o.linger = Duration::MAX).starts_with("option linger"));
}

/// Returns packets of few hosts over minutes: TCP that ends and restarts, both directions, fragments in any
/// order, packets without IP; in the time of a capture.
fn medley() -> Vec<(u64, Vec<u8>)> {
    let mut state = 7_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut time = 0;
    let hosts: Vec<u8> = (0..12).collect();
    let mut packets = Vec::new();
    for _ in 0..60_000 {
        time += u64::from(random(9_000_000));
        let (a, b) = (hosts[random(12) as usize], hosts[random(12) as usize]);
        let ports = [1000, 2000, 3000];
        let (from, to) = (ports[random(3) as usize], ports[random(3) as usize]);
        let datagram = u16::from(a) << 8 | u16::from(b);
        packets.push((
            time,
            match random(10) {
                0 => vec![0x11; 30],
                1 => ipv4_part(a, b, 17, datagram, 0x2000, &udp(from, to, b"12345678")),
                2 => ipv4_part(a, b, 17, datagram, 2, b"12345678"),
                3..6 => {
                    let flags = [ACK, SYN, FIN | ACK, RST][random(4) as usize];
                    ipv4(a, b, 6, &tcp(from, to, flags, 1, b"x"))
                }
                _ => ipv4(a, b, 17, &udp(from, to, b"yz")),
            },
        ));
    }
    packets
}

#[test]
fn several_meters_give_the_records_of_one() {
    let packets = medley();
    for both_ways in [false, true] {
        let options = MeterOptions::default()
            .flows(4096)
            .both_ways(both_ways)
            .measure_tcp(both_ways);
        let (mut expected, counters) = meter(&options, &packets);
        let key = |record: &FlowRecord| {
            let key = &record.key;
            let ports = (key.source_port, key.destination_port, key.protocol);
            (key.source, key.destination, ports, record.forward.first_ns)
        };
        expected.sort_by_key(key);
        assert!(counters.flows > 1000 && counters.fragments > 1000 && counters.malformed > 1000);
        for meters in [1, 2, 5] {
            let (mut records, sum) = spread(&options, meters, &packets);
            records.sort_by_key(key);
            assert_eq!(records.len(), expected.len(), "{meters} meters");
            for (record, expected) in records.iter().zip(&expected) {
                assert_eq!(record, expected, "{meters} meters");
            }
            let peak = sum.peak;
            assert!(peak >= counters.peak);
            assert_eq!(
                Counters {
                    peak: counters.peak,
                    ..sum
                },
                counters,
                "{meters} meters"
            );
        }
    }
}

#[test]
fn packets_are_spread_over_meters_without_allocations() {
    const PACKETS: u64 = 50_000;
    let options = MeterOptions::default().flows(500);
    let mut spreader = Spreader::new(&options, 3).expect("valid options");
    let new = |_| Meter::new(&options).expect("valid options");
    let mut meters: Vec<Meter> = (0..3).map(new).collect();
    let mut data = ipv4(1, 2, 17, &udp(1, 2, b""));
    let mut packets = 0;
    let mut sink = |record: &FlowRecord| packets += record.packets();
    let ((), counts) = count(|| {
        for number in 0..PACKETS {
            data[12..16].copy_from_slice(&u32::try_from(number % 5000).unwrap_or(0).to_be_bytes());
            fragment_some(&mut data, number);
            let packet = Packet {
                data: &data,
                len: 28,
                time_ns: START + number * 1000,
                link: LinkType::RAW,
                input: 0,
            };
            spreader.push(&packet, |meter, batch| meters[meter].take(batch, &mut sink));
        }
        spreader.settle(|meter, batch| meters[meter].take(batch, &mut sink));
    });
    assert_eq!(counts.allocations, 0);
    for meter in &mut meters {
        meter.flush(&mut sink);
        assert!(meter.counters().ip_packets > PACKETS / 6);
        assert!(meter.counters().evicted() > 0);
    }
    assert_eq!(packets, PACKETS);
}

/// Meters packets of raw IP with several meters.
fn spread(
    options: &MeterOptions,
    meters: usize,
    packets: &[(u64, Vec<u8>)],
) -> (Vec<FlowRecord>, Counters) {
    let mut spreader = Spreader::new(options, meters).expect("valid options");
    let mut meters: Vec<Meter> = (0..meters)
        .map(|_| Meter::new(options).expect("valid options"))
        .collect();
    let mut records = Vec::new();
    let mut sink = |record: &FlowRecord| records.push(record.clone());
    for (time, data) in packets {
        let packet = Packet {
            data,
            len: u32::try_from(data.len()).expect("short"),
            time_ns: START + time,
            link: LinkType::RAW,
            input: 3,
        };
        spreader.push(&packet, |meter, batch| meters[meter].take(batch, &mut sink));
    }
    spreader.settle(|meter, batch| meters[meter].take(batch, &mut sink));
    let mut sum = spreader.counters();
    for meter in &mut meters {
        meter.flush(&mut sink);
        sum += meter.counters();
    }
    (records, sum)
}
