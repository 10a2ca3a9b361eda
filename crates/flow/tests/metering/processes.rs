//! Processes at the ends of flows.

use ringtap_flow::{FlowRecord, LinkType, Meter, MeterOptions, Packet, PacketEnd};
use ringtap_packet::process::{
    PacketProcess, ProcessDescription, ProcessFacts, ProcessTag, layout,
};
use ringtap_testkit::alloc::count;

use crate::build::{ipv4, ipv4_part, tcp, udp};
use crate::{SECOND, START, SYN, small};

use PacketEnd::{Destination, Source};

type Tag = [u8; 56];

fn tag(pid: u32) -> Tag {
    let facts = ProcessFacts {
        pid,
        start: 9,
        comm: b"client",
        ..ProcessFacts::default()
    };
    facts.encode()
}

/// The same of a process that only listens.
fn listening(pid: u32) -> Tag {
    let mut tag = tag(pid);
    tag[3] |= layout::LISTENS;
    tag
}

/// A packet, its time, and its process.
struct Sent {
    time: u64,
    data: Vec<u8>,
    process: Option<(Tag, PacketEnd)>,
}

fn sent(time: u64, data: Vec<u8>, process: Option<(Tag, PacketEnd)>) -> Sent {
    Sent {
        time,
        data,
        process,
    }
}

fn push(meter: &mut Meter, sent: &Sent, sink: &mut impl FnMut(&FlowRecord)) {
    let packet = Packet {
        data: &sent.data,
        len: u32::try_from(sent.data.len()).expect("short"),
        time_ns: START + sent.time,
        link: LinkType::RAW,
        input: 3,
    };
    let Some((bytes, end)) = &sent.process else {
        return meter.push(&packet, sink);
    };
    let tag = ProcessTag::parse(bytes).expect("a tag");
    let process = PacketProcess {
        pid: tag.pid(),
        tid: 0,
        tag: Some(tag),
    };
    meter.push_of(&packet, &process, *end, sink);
}

/// Returns the source's last byte, its process and that of the destination, 0 for none, of each record.
fn metered(options: &MeterOptions, packets: &[Sent]) -> Vec<(u8, u32, u32)> {
    let mut meter = Meter::new(options).expect("valid options");
    let mut rows = Vec::new();
    let mut sink = |record: &FlowRecord| rows.push(row(record));
    for packet in packets {
        push(&mut meter, packet, &mut sink);
    }
    meter.flush(&mut sink);
    rows
}

fn row(record: &FlowRecord) -> (u8, u32, u32) {
    let last = match record.key.source {
        std::net::IpAddr::V4(address) => address.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    };
    let pid = |process: &Option<_>| {
        let process: &Option<std::sync::Arc<ringtap_flow::Process>> = process;
        process.as_ref().map_or(0, |process| process.pid)
    };
    (
        last,
        pid(&record.source_process),
        pid(&record.destination_process),
    )
}

fn with_processes() -> MeterOptions {
    small().processes(100)
}

fn there() -> Vec<u8> {
    ipv4(1, 2, 17, &udp(1000, 53, b"q"))
}

fn back() -> Vec<u8> {
    ipv4(2, 1, 17, &udp(53, 1000, b"a"))
}

#[test]
fn each_end_has_the_process_that_its_packets_name() {
    let packets = [
        sent(0, there(), Some((tag(10), Source))),
        sent(1, back(), Some((tag(10), Destination))),
        sent(2, back(), Some((tag(20), Source))),
        sent(3, there(), None),
    ];
    let rows = metered(&with_processes(), &packets);
    assert_eq!(rows, [(1, 10, 0), (2, 20, 10)]);
    let rows = metered(&with_processes().both_ways(true), &packets);
    assert_eq!(rows, [(1, 10, 20)]);
    // The initiator has the greater address.
    let answers_first = [
        sent(0, back(), Some((tag(20), Source))),
        sent(1, there(), Some((tag(20), Destination))),
        sent(2, there(), Some((tag(10), Source))),
    ];
    let rows = metered(&with_processes().both_ways(true), &answers_first);
    assert_eq!(rows, [(2, 20, 10)]);
    let rows = metered(&small(), &packets);
    assert_eq!(rows, [(1, 0, 0), (2, 0, 0)], "nobody asked for processes");
}

#[test]
fn the_last_process_counts_and_a_listening_one_only_as_long_as_there_is_no_other() {
    let request = || ipv4(1, 2, 6, &tcp(1000, 80, SYN, 7, b""));
    let data = |byte: u32| ipv4(1, 2, 6, &tcp(1000, 80, 16, byte, b"x"));
    let packets = [
        sent(0, request(), Some((listening(1), Destination))),
        sent(1, data(8), Some((tag(2), Destination))),
        sent(2, data(9), Some((tag(3), Destination))),
        sent(3, request(), Some((listening(1), Destination))),
    ];
    assert_eq!(metered(&with_processes(), &packets), [(1, 0, 3)]);
    assert_eq!(metered(&with_processes(), &packets[..1]), [(1, 0, 1)]);
}

#[test]
fn the_next_record_of_a_flow_has_the_processes_of_its_own_packets() {
    let packets = [
        sent(0, there(), Some((tag(1), Source))),
        sent(100 * SECOND, there(), Some((tag(2), Source))),
        sent(200 * SECOND, there(), None),
    ];
    let rows = metered(&with_processes(), &packets);
    assert_eq!(rows, [(1, 1, 0), (1, 2, 0), (1, 0, 0)]);
}

#[test]
fn fragments_have_the_process_of_the_first_one() {
    let payload = udp(1000, 53, &[7; 32]);
    let (first, rest) = payload.split_at(16);
    let packets = [
        sent(
            0,
            ipv4_part(1, 2, 17, 9, 0x2000, first),
            Some((tag(1), Source)),
        ),
        sent(1, ipv4_part(1, 2, 17, 9, 2, rest), None),
    ];
    assert_eq!(metered(&with_processes(), &packets), [(1, 1, 0)]);
    // Fragments that waited name nobody.
    let late = [
        sent(0, ipv4_part(1, 2, 17, 9, 2, rest), Some((tag(2), Source))),
        sent(
            1,
            ipv4_part(1, 2, 17, 9, 0x2000, first),
            Some((tag(1), Source)),
        ),
    ];
    assert_eq!(metered(&with_processes(), &late), [(1, 1, 0)]);
}

/// More processes than the table has places for, each of a flow that ends soon.
#[test]
fn many_processes_pass_through_a_small_table() {
    let options = small().processes(8).inactive(SECOND_LONG);
    let flow = |port: u16| ipv4(1, 2, 17, &udp(port, 53, b"q"));
    let mut meter = Meter::new(&options).expect("valid options");
    let mut found = Vec::new();
    let mut sink = |record: &FlowRecord| {
        found.push((u32::from(record.key.source_port), row(record).1));
    };
    for pid in 1..=200_u16 {
        let time = u64::from(pid) * SECOND;
        let packet = sent(time, flow(pid), Some((tag(pid.into()), Source)));
        push(&mut meter, &packet, &mut sink);
    }
    meter.flush(&mut sink);
    assert_eq!(meter.counters().processes_dropped, 0);
    assert_eq!(found.len(), 200);
    assert!(found.iter().all(|(port, pid)| port == pid), "{found:?}");
}

const SECOND_LONG: std::time::Duration = std::time::Duration::from_secs(1);

#[test]
fn what_finds_no_room_is_counted_and_nobody_is_named_wrongly() {
    let options = small().processes(8);
    let packets: Vec<_> = (1..=20_u16)
        .map(|pid| {
            let data = ipv4(1, 2, 17, &udp(pid, 53, b"q"));
            sent(pid.into(), data, Some((tag(pid.into()), Source)))
        })
        .collect();
    let mut meter = Meter::new(&options).expect("valid options");
    let mut named = 0;
    let mut sink = |record: &FlowRecord| {
        let pid = row(record).1;
        assert!(pid == 0 || pid == u32::from(record.key.source_port));
        named += u32::from(pid != 0);
    };
    for packet in &packets {
        push(&mut meter, packet, &mut sink);
    }
    meter.flush(&mut sink);
    assert_eq!((named, meter.counters().processes_dropped), (8, 12));
}

#[test]
fn packets_of_known_processes_allocate_nothing() {
    for both_ways in [false, true] {
        let options = with_processes().flows(1000).both_ways(both_ways);
        let mut meter = Meter::new(&options).expect("valid options");
        let mut sink = |record: &FlowRecord| drop(record.source_process.clone());
        let packets: Vec<_> = (0..300_u16)
            .map(|n| {
                let data = ipv4(1, 2, 17, &udp(1000 + n, 53, b"q"));
                sent(n.into(), data, Some((tag((n % 50).into()), Source)))
            })
            .collect();
        for packet in &packets[..60] {
            push(&mut meter, packet, &mut sink);
        }
        let ((), counts) = count(|| {
            for packet in packets.iter().chain(&packets) {
                push(&mut meter, packet, &mut sink);
            }
            meter.flush(&mut sink);
        });
        assert_eq!(counts.allocations, 0);
    }
}

#[test]
fn a_description_adds_the_container_to_later_records() {
    let mut meter = Meter::new(&with_processes()).expect("valid options");
    let bytes = tag(5);
    let process = ProcessTag::parse(&bytes).expect("a tag");
    let mut found = Vec::new();
    let mut sink = |record: &FlowRecord| {
        let process = record.source_process.as_deref().expect("a process");
        found.push((process.name.clone(), process.container.clone()));
    };
    push(
        &mut meter,
        &sent(0, there(), Some((bytes, Source))),
        &mut sink,
    );
    let description = ProcessDescription {
        cgroup: format!(
            "/machine.slice/libpod-{}.scope",
            "0123456789abcdef".repeat(4)
        ),
        ..ProcessDescription::default()
    };
    meter.describe(&process, description);
    meter.flush(&mut sink);
    let [(name, container)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((name.as_str(), container.len()), ("client", 64));
}
