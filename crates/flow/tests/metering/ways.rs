//! The ways to count packets: one by one or in blocks, by the short parser or the long one.

use super::{
    ACK, Counters, FIN, FlowRecord, IPV4, LinkType, MeterOptions, RST, SYN, ethernet, ipv4_part,
    meter, meter_link, spread, tcp, udp,
};

/// More flows than are counted one by one.
const MANY: u32 = 30_000;

/// Returns packets of few flows, then of many, over some minutes; a few of them are fragments, ends of
/// connections, without IP, or older than the last one. No fragment waits for its first one: the time at
/// which such fragments are counted depends on when the table is checked.
pub(crate) fn wave() -> Vec<(u64, Vec<u8>)> {
    let mut state = 11_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    let mut time = 1_000_000_000;
    let mut packets = Vec::new();
    for number in 0..200_000_u32 {
        let flows = if number < 100_000 { 40 } else { MANY };
        time += u64::from(random(1_500_000));
        if number % 70_000 == 60_000 {
            time += 20_000_000_000;
        }
        let [_, _, high, low] = random(flows).to_be_bytes();
        let port = 1000 + u16::from(low);
        let flags = [ACK, ACK, ACK, ACK, ACK, SYN, FIN | ACK, RST][random(8) as usize];
        let (id, rest) = (u16::from(low), b"12345678");
        let packet = match random(20) {
            0 => vec![0x11; 60],
            1 => {
                let first = ipv4_part(high, low, 17, id, 0x2000, &udp(port, 53, rest));
                packets.push((time, first));
                ipv4_part(high, low, 17, id, 2, rest)
            }
            2..12 => ipv4_part(high, low, 6, id, 0, &tcp(port, 80, flags, 1, rest)),
            _ => ipv4_part(high, low, 17, id, 0, &udp(port, 53, &[5; 30])),
        };
        packets.push((time - u64::from(random(3) / 2) * 700_000, packet));
    }
    packets
}

/// Returns records in a fixed order, and without the fields that raw packets lack.
fn sorted((mut records, counters): (Vec<FlowRecord>, Counters)) -> (Vec<FlowRecord>, Counters) {
    for record in &mut records {
        record.macs = None;
    }
    records.sort_by_key(|record| {
        let key = &record.key;
        let ports = (key.source_port, key.destination_port, key.protocol);
        let times = (record.forward.first_ns, record.forward.last_ns);
        (key.source, key.destination, ports, times)
    });
    (records, counters)
}

#[test]
fn every_way_of_counting_gives_the_same_records() {
    let packets = wave();
    let framed = packets.iter().map(|(time, packet)| {
        let framed = ethernet(&IPV4, packet);
        (*time, framed)
    });
    let framed: Vec<_> = framed.collect();
    for linger in [0, 5] {
        let options = MeterOptions::default()
            .flows(4 * MANY)
            .linger(std::time::Duration::from_secs(linger));
        let (expected, counters) = sorted(spread(&options, 1, &packets));
        assert!(counters.peak > 10_000, "{counters:?}");
        assert!(expected.len() > 2 * MANY as usize && counters.fragments > 1_000);
        let raw = sorted(meter(&options, &packets));
        let framed = sorted(meter_link(&options, LinkType::ETHERNET, &framed));
        for (found, found_counters) in [raw, framed] {
            assert_eq!(found_counters, counters);
            assert_eq!(found.len(), expected.len());
            for (record, expected) in found.iter().zip(&expected) {
                assert_eq!(record, expected);
            }
        }
    }
}
