//! Payloads that are inspected: what records say of them, with one meter and with several, and what that costs.

use ringtap_flow::{Entry, FlowRecord, InspectOptions, LinkType, Meter, MeterOptions, Packet};
use ringtap_testkit::alloc::count;

use super::build::{ipv4, tcp, udp};
use super::{ACK, FIN, RST, SECOND, START, SYN, meter, small, spread};

fn inspecting(both_ways: bool) -> MeterOptions {
    small()
        .both_ways(both_ways)
        .inspect(Some(InspectOptions::default()))
}

/// An answer of DNS: example.org is 192.0.2.`host`.
fn answer(host: u8) -> Vec<u8> {
    let mut message = vec![0, 7, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    let question = b"\x07example\x03org\x00\x00\x01\x00\x01";
    message.extend_from_slice(question);
    message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4, 192, 0, 2, host]);
    message
}

fn question() -> Vec<u8> {
    let mut message = answer(0);
    message.truncate(12 + 17);
    message[2..8].copy_from_slice(&[1, 0, 0, 1, 0, 0]);
    message
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: www.example.net\r\nUser-Agent: x\r\n\r\n";

/// A name is asked for, and connections are made: to the host that was named, and to another by HTTP.
fn packets() -> Vec<(u64, Vec<u8>)> {
    let client = |destination, port, flags, sequence, data: &[u8]| {
        ipv4(1, destination, 6, &tcp(port, 80, flags, sequence, data))
    };
    vec![
        (0, ipv4(1, 53, 17, &udp(5000, 53, &question()))),
        (4, ipv4(53, 1, 17, &udp(53, 5000, &answer(9)))),
        (10, client(9, 7000, SYN, 1, b"")),
        (11, client(9, 7000, ACK, 2, b"\x00\x01\x02\x03")),
        (20, client(8, 7001, SYN, 1, b"")),
        (21, client(8, 7001, ACK, 2, REQUEST)),
        (
            22,
            ipv4(
                8,
                1,
                6,
                &tcp(80, 7001, ACK, 9, b"HTTP/1.1 404 Not Found\r\n\r\n"),
            ),
        ),
        (30, client(7, 7002, SYN, 1, b"")),
    ]
}

/// Port of the client, protocol and name, as words.
fn said(records: &[FlowRecord]) -> Vec<(u16, String)> {
    let words = |entry: &Entry| {
        let fields = entry.fields();
        let protocol = fields.protocol.map_or("-", |protocol| protocol.name());
        let name = fields.name.map_or("-", |name| name.as_str());
        let source = fields.name_source.map_or("-", |source| source.name());
        let status = fields.http_status.unwrap_or(0);
        format!("{protocol} {name} {source} {status}")
    };
    let mut rows: Vec<_> = records
        .iter()
        .map(|record| {
            let said = record.application.as_ref().map(words);
            (record.key.source_port, said.unwrap_or_default())
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn flows_have_the_names_that_were_asked_for() {
    let (records, counters) = meter(&inspecting(true), &packets());
    let expected = [
        (5000, "dns - - 0"),
        (7000, "- example.org dns 0"),
        (7001, "http www.example.net http 404"),
        (7002, ""),
    ]
    .map(|(port, words)| (port, words.to_owned()));
    assert_eq!(said(&records), expected);
    assert_eq!((counters.payloads, counters.names), (5, 1));
    // Without being asked, nothing is said.
    let (records, counters) = meter(&small(), &packets());
    assert!(records.iter().all(|record| record.application.is_none()));
    assert_eq!(counters.payloads, 0);
}

/// The answer of DNS and the flow to the host that it names are different meters'.
#[test]
fn names_reach_all_meters() {
    for both_ways in [false, true] {
        let options = inspecting(both_ways);
        let (one, _) = meter(&options, &packets());
        for meters in [2, 3, 7] {
            let (several, _) = spread(&options, meters, &packets());
            assert_eq!(said(&one), said(&several), "{meters} meters");
        }
    }
}

/// The packets of a long connection come so often that one of them meets the active timeout, or so rarely
/// that the timeout passes between them.
#[test]
fn a_name_is_in_every_record_of_a_long_flow() {
    for (both_ways, step) in [(false, 1), (true, 1), (false, 20), (true, 20)] {
        let options = inspecting(both_ways).active(std::time::Duration::from_secs(60));
        let client =
            |flags, sequence, data: &[u8]| ipv4(1, 2, 6, &tcp(7000, 80, flags, sequence, data));
        let mut packets = vec![(0, client(SYN, 1, b"")), (1, client(ACK, 2, REQUEST))];
        let later = (1..400 / step).map(|count| {
            let more = client(ACK, 60, b"\x00");
            (count * step * SECOND, more)
        });
        packets.extend(later);
        // Other ends that follow at once, and the same ones with a new connection, have nothing of it.
        packets.push((400 * SECOND, ipv4(1, 3, 6, &tcp(7000, 80, ACK, 2, b"\x00"))));
        packets.push((400 * SECOND + 1, client(RST, 61, b"")));
        packets.push((405 * SECOND, client(SYN, 1, b"")));
        let (records, _) = meter(&options, &packets);
        let said = said(&records);
        let named = said
            .iter()
            .filter(|row| row.1.starts_with("http www.example.net http"));
        let silent = said.iter().filter(|row| row.1.is_empty());
        assert_eq!(
            (named.count(), silent.count()),
            (said.len() - 2, 2),
            "{said:?}"
        );
        assert!(said.len() >= 8, "{said:?}");
    }
}

/// More long flows than the meter remembers between two of their records: each that goes on without its
/// name is counted.
#[test]
fn long_flows_that_are_forgotten_are_counted() {
    const FLOWS: u64 = 6000;
    let options = inspecting(false)
        .flows(8192)
        .active(std::time::Duration::from_secs(60))
        .inactive(std::time::Duration::from_secs(300));
    let packets_at = |time: u64, flags, data: &'static [u8]| {
        (0..FLOWS).map(move |flow| {
            let port = 1000 + u16::try_from(flow).unwrap_or(0);
            let segment = ipv4(1, 2, 6, &tcp(port, 80, flags, 1, data));
            (time * SECOND + flow, segment)
        })
    };
    let mut packets: Vec<_> = packets_at(0, ACK, REQUEST).collect();
    // The timeout ends all records, and then the flows go on.
    packets.push((100 * SECOND, ipv4(3, 2, 6, &tcp(7, 80, ACK, 1, b""))));
    packets.extend(packets_at(200, ACK, b"\x00"));
    let (records, counters) = meter(&options, &packets);
    let silent = said(&records).iter().filter(|row| row.1.is_empty()).count();
    assert_eq!(counters.cuts_dropped, silent as u64 - 1);
    assert!((1000..4000).contains(&silent), "{silent}");
}

#[test]
fn a_flow_that_ends_at_once_has_its_last_payload() {
    let options = inspecting(false).linger(std::time::Duration::ZERO);
    let packets = [(0, ipv4(1, 2, 6, &tcp(7000, 80, ACK | FIN, 1, REQUEST)))];
    let (records, _) = meter(&options, &packets);
    assert_eq!(
        said(&records),
        [(7000, "http www.example.net http 0".to_owned())]
    );
}

#[test]
fn payloads_of_a_flood_take_no_memory() {
    const PACKETS: u64 = 60_000;
    for both_ways in [false, true] {
        let options = inspecting(both_ways).flows(1000);
        let mut meter = Meter::new(&options).expect("valid options");
        let mut data = ipv4(1, 2, 6, &tcp(1, 80, ACK, 1, REQUEST));
        let (mut records, mut named) = (0, 0);
        let mut sink = |record: &FlowRecord| {
            records += 1;
            named += u64::from(record.application.is_some());
        };
        let ((), counts) = count(|| {
            for number in 0..PACKETS {
                let mixed = (number / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                data[12..20].copy_from_slice(&mixed.to_be_bytes());
                let packet = Packet {
                    data: &data,
                    len: u32::try_from(data.len()).unwrap_or(0),
                    time_ns: START + number * SECOND / 1000,
                    link: LinkType::RAW,
                    input: 0,
                };
                meter.push(&packet, &mut sink);
            }
            meter.flush(&mut sink);
        });
        assert_eq!(counts.allocations, 0);
        assert!(
            records >= PACKETS / 3 && named >= PACKETS / 3,
            "{named} of {records}"
        );
    }
}
