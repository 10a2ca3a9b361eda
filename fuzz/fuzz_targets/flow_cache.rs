//! Packets of few flows in any order and at any time, in a cache of few slots: every packet is in one
//! record of its own key, whatever ended it.
#![no_main]

use std::collections::HashMap;
use std::time::Duration;

use ringtap_flow::{EndReason, FlowRecord, InspectOptions, LinkType, Meter, MeterOptions, Packet, Tunnels};

const HEADER: usize = 20;
/// The parts of one packet.
const STEP: usize = 6;
const START_NS: u64 = 1_700_000_000_000_000_000;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[slots, switches, active, inactive], steps)) = input.split_first_chunk::<4>() else {
        return;
    };
    let options = MeterOptions::default()
        .flows(u32::from(slots % 32) + 1)
        .active(Duration::from_secs(u64::from(active) + 1))
        .inactive(Duration::from_secs(u64::from(inactive) + 1))
        .linger(Duration::from_millis(u64::from(switches >> 4) * 300))
        .fragments(Duration::from_secs(5))
        .datagrams(8)
        .both_ways(switches & 1 != 0)
        .measure_tcp(switches & 2 != 0)
        .inspect((switches & 4 != 0).then(InspectOptions::default))
        .tunnels(Tunnels::default())
        .sampling(None)
        .seed(u64::from(switches));
    let mut meter = Meter::new(&options).expect("valid options");
    let both_ways = options.both_ways;
    let mut seen: HashMap<[u8; 3], (u64, u64)> = HashMap::new();
    let mut got: HashMap<[u8; 3], (u64, u64)> = HashMap::new();
    let mut records = 0;
    let mut sink = |record: &FlowRecord| {
        records += 1;
        let end = |address: std::net::IpAddr| match address {
            std::net::IpAddr::V4(address) => address.octets()[3],
            std::net::IpAddr::V6(_) => unreachable!("all packets are of IPv4"),
        };
        let ends = (end(record.key.source), end(record.key.destination));
        let key = flow(ends.0, ends.1, record.key.protocol, both_ways);
        let sum = got.entry(key).or_default();
        sum.0 += record.packets();
        sum.1 += record.bytes();
        assert!(record.forward.packets > 0);
        assert!(record.forward.first_ns <= record.forward.last_ns);
        if let Some(reverse) = record.reverse {
            assert!(both_ways && reverse.packets > 0 && reverse.first_ns <= reverse.last_ns);
        }
    };
    let mut now = START_NS;
    for step in steps.chunks_exact(STEP) {
        let &[ends, kind, flags, place, more, wait] = step else {
            return;
        };
        now = later(now, wait);
        if kind & 0x80 != 0 {
            meter.advance(now, &mut sink);
            continue;
        }
        let packet = packet(ends, kind, flags, place, more);
        let sum = seen
            .entry(flow(packet[15], packet[19], packet[9], both_ways))
            .or_default();
        sum.0 += 1;
        sum.1 += u64::from(u16::from_be_bytes([packet[2], packet[3]]));
        meter.push(
            &Packet {
                data: &packet,
                len: 40,
                time_ns: now,
                link: LinkType::RAW,
                input: 0,
            },
            &mut sink,
        );
        assert!(meter.counters().active <= u64::from(options.flows));
    }
    meter.flush(&mut sink);
    let counters = meter.counters();
    assert_eq!(counters.active, 0);
    assert_eq!(counters.records(), records);
    assert!(counters.ended_by(EndReason::NoResources) <= counters.flows);
    assert_eq!(seen, got);
});

/// Returns the identity of a flow: the ends, in one order if directions are one flow, and the protocol.
fn flow(source: u8, destination: u8, protocol: u8, both_ways: bool) -> [u8; 3] {
    if both_ways && source > destination {
        [destination, source, protocol]
    } else {
        [source, destination, protocol]
    }
}

/// Returns a later time: it advances by up to 31 s, or goes back, or advances by hours.
fn later(now: u64, wait: u8) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    match wait {
        ..=127 => now + u64::from(wait) * SECOND / 4,
        128..=191 => now + u64::from(wait),
        192..=223 => now.saturating_sub(u64::from(wait - 191) * SECOND),
        224..=239 => now + 3600 * SECOND,
        _ => now.saturating_sub(86_400 * SECOND),
    }
}

/// Returns a packet of IPv4 between few hosts: TCP, UDP, ICMP or another, whole or a fragment.
fn packet(ends: u8, kind: u8, flags: u8, place: u8, more: u8) -> [u8; HEADER + 20] {
    let mut packet = [0; HEADER + 20];
    packet[0] = 0x45;
    packet[3] = 20 + (more & 0x3f);
    packet[5] = place >> 5;
    packet[6] = if kind & 0x40 != 0 { 0x20 } else { 0 };
    packet[7] = if kind & 0x20 != 0 { 1 + (place & 3) } else { 0 };
    packet[8] = flags;
    packet[9] = [6, 17, 1, 47][usize::from(kind & 3)];
    packet[12] = 10;
    packet[15] = ends >> 4;
    packet[16] = 10;
    packet[19] = ends & 15;
    packet[21] = 7;
    packet[23] = kind >> 2 & 3;
    packet[24] = place;
    packet[32] = 0x50;
    packet[33] = flags;
    packet
}
