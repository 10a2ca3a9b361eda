//! One packet of any bytes, of any link layer, with and without a look into tunnels.
//!
//! Whatever it is, it is counted in exactly one place, and its record adds up.
#![no_main]

use ringtap_flow::{FlowRecord, InspectOptions, LinkType, Meter, MeterOptions, Packet, Tunnels};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Some((&[kind, choice], data)) = input.split_first_chunk::<2>() else {
        return;
    };
    // Link types up to 276 have a meaning; the second byte's upper bit makes the ninth.
    let link_type = u16::from(kind) | u16::from(choice >> 7) << 8;
    let options = MeterOptions::default()
        .flows(4)
        .datagrams(4)
        .tunnels(if choice & 1 == 0 {
            Tunnels::default()
        } else {
            Tunnels::ALL
        })
        .both_ways(choice & 2 != 0)
        .measure_tcp(choice & 4 != 0)
        .inspect((choice & 64 != 0).then(InspectOptions::default));
    let mut meter = Meter::new(&options).expect("valid options");
    let (mut packets, mut bytes) = (0, 0);
    let mut sink = |record: &FlowRecord| {
        packets += record.packets();
        bytes += record.bytes();
        assert!(record.forward.packets > 0);
        assert!(record.forward.first_ns <= record.forward.last_ns);
        assert!(record.forward.min_ttl <= record.forward.max_ttl);
        assert!(record.forward.min_length <= record.forward.max_length);
        assert_eq!(
            record.key.source.is_ipv6(),
            record.key.destination.is_ipv6()
        );
    };
    let packet = Packet {
        data,
        len: u32::try_from(data.len()).unwrap_or(u32::MAX) << (choice >> 3 & 7),
        time_ns: 1_700_000_000_000_000_000,
        link: LinkType(link_type).canonical(),
        input: 1,
    };
    meter.push(&packet, &mut sink);
    // The same once more, as a copy or a retransmission.
    meter.push(&packet, &mut sink);
    meter.flush(&mut sink);
    let counters = meter.counters();
    assert_eq!(counters.packets, 2);
    assert_eq!(
        counters.packets,
        counters.not_ip + counters.malformed + counters.ip_packets
    );
    assert_eq!((packets, bytes), (counters.ip_packets, counters.ip_bytes));
    assert_eq!(counters.active, 0);
});
