//! The model against exact counts, on the corpus: sums, rows and traffic over time are those of all packets.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;

use ringtap_flow::schema::Place;
use ringtap_flow::{FlowRecord, FlowSink, LinkType, Meter, MeterOptions, Packet, Reported};
use ringtap_look::api::TopRow;
use ringtap_look::{
    Atlas, FlowFilter, FlowQuery, FlowSort, Kind, Look, LookOptions, Measure, News, Split, Tick,
    WhenFull, Window, queue,
};
use ringtap_savefile::{Item, ReadOptions, Reader};
use ringtap_testkit::{Need, corpus, suite, test};

const SECOND: u64 = 1_000_000_000;
/// The most packets of a file.
const PACKETS: usize = 20_000;

fn main() -> ExitCode {
    suite(vec![
        test("counts_are_exact_on_the_corpus", &[Need::Corpus], counts),
        test("places_have_the_traffic_of_their_hosts", &[], places),
    ])
}

/// A packet in memory.
struct Held {
    data: Vec<u8>,
    len: u32,
    time_ns: u64,
    link: LinkType,
}

fn packets(file: &Path) -> Vec<Held> {
    let mut held = Vec::new();
    let Ok(mut reader) = Reader::open(file, &ReadOptions::default()) else {
        return held;
    };
    while held.len() < PACKETS {
        let types: Vec<LinkType> = reader.interfaces().iter().map(|it| it.link_type).collect();
        match reader.next() {
            Ok(Some(Item::Run(run))) => held.extend(run.packets().map(|packet| Held {
                data: packet.data.to_vec(),
                len: packet.len,
                time_ns: u64::try_from(packet.timestamp.as_nanos()).unwrap_or(0),
                link: types[packet.interface as usize],
            })),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => break,
        }
    }
    held
}

/// Gives a meter all packets; `each_second` is called before the first packet of each second.
fn meter<S: FlowSink>(
    options: &MeterOptions,
    packets: &[Held],
    sink: &mut S,
    mut each_second: impl FnMut(&mut Meter, &mut S, u64),
) -> Meter {
    let mut meter = Meter::new(options).expect("valid options");
    let mut due = 0;
    for packet in packets {
        if packet.time_ns >= due {
            each_second(&mut meter, sink, packet.time_ns);
            due = (packet.time_ns / SECOND + 1) * SECOND;
        }
        let packet = Packet {
            data: &packet.data,
            len: packet.len,
            time_ns: packet.time_ns,
            link: packet.link,
            input: 1,
        };
        meter.push(&packet, sink);
    }
    meter.settle(sink);
    meter
}

/// Exact sums of all packets.
#[derive(Default)]
struct Exact {
    /// Bytes sent and received.
    hosts: HashMap<IpAddr, (u64, u64)>,
    protocols: HashMap<u8, u64>,
    bytes: u64,
    packets: u64,
}

fn exact(packets: &[Held]) -> Exact {
    let mut exact = Exact::default();
    let options = MeterOptions::default().flows(1 << 16);
    let mut sink = |record: &FlowRecord| {
        let (key, bytes) = (&record.key, record.bytes());
        exact.bytes += bytes;
        exact.packets += record.packets();
        *exact.protocols.entry(key.protocol).or_default() += bytes;
        exact.hosts.entry(key.source).or_default().0 += bytes;
        if key.source != key.destination {
            exact.hosts.entry(key.destination).or_default().1 += bytes;
        }
    };
    meter(&options, packets, &mut sink, |_, _, _| {}).flush(&mut sink);
    exact
}

/// The model of the same packets, fed over its queue.
fn look(packets: &[Held]) -> Look {
    let look = Mutex::new(Look::new(LookOptions::default()));
    let (mut feed, inlet) = queue(WhenFull::Wait);
    let options = MeterOptions::default()
        .flows(1 << 16)
        .both_ways(true)
        .measure_tcp(true)
        .interim(true);
    let tick = |meter: &Meter, now_ns: u64| Tick {
        now_ns,
        counters: meter.counters(),
        ..Tick::default()
    };
    thread::scope(|scope| {
        scope.spawn(|| inlet.run(&look, |_| {}));
        let mut meter = meter(&options, packets, &mut feed, |meter, feed, time_ns| {
            meter.interim(0, feed);
            feed.tick(tick(meter, time_ns));
        });
        // Fragments that wait for their first one are counted, too.
        meter.flush(&mut feed);
        feed.tick(tick(&meter, meter.now_ns()));
        drop(feed);
    });
    look.into_inner().expect("no panic")
}

/// Knows hosts by their last byte.
#[derive(Debug)]
struct Known;

impl Atlas for Known {
    fn place(&self, address: IpAddr, mac: Option<[u8; 6]>) -> Place<'_> {
        let last = match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(_) => 0,
        };
        Place {
            as_number: (last < 100).then_some(64_500 + u32::from(last / 10)),
            as_name: (last < 10).then_some("One\u{1b} Net"),
            country: (last < 100).then_some(if last < 50 { "DE" } else { "FR" }),
            vendor: mac.map(|_| "Maker"),
        }
    }
}

/// Flows of 20 bytes; the first two are within a system, the third is between two, the fourth has one end that is
/// not known.
fn places() {
    let mut look = Look::new(LookOptions::default());
    look.set_atlas(Arc::new(Known));
    let ends = [(1, 2), (1, 2), (1, 60), (1, 200)];
    for (number, (from, to)) in (0_u16..).zip(ends) {
        let mut record = FlowRecord::default();
        record.key.source = IpAddr::from([192, 0, 2, from]);
        record.key.destination = IpAddr::from([192, 0, 2, to]);
        record.key.protocol = 17;
        record.key.source_port = number;
        record.forward.packets = 1;
        record.forward.bytes = 20;
        record.forward.first_ns = 1_700_000_000 * SECOND;
        record.forward.last_ns = record.forward.first_ns;
        look.news(&News {
            record,
            reported: Reported::default(),
            has_ended: true,
        });
    }
    let rows = |kind| {
        let top = look.top(kind, Window::All, Measure::Bytes, 10);
        let row = |row: &TopRow| (row.key.clone(), row.bytes, row.bytes_out, row.flows);
        top.rows.iter().map(row).collect::<Vec<_>>()
    };
    let row = |key: &str, bytes, out, flows| (key.to_owned(), bytes, out, flows);
    let systems = [row("64500", 80, 80, 4), row("64506", 20, 0, 1)];
    assert_eq!(rows(Kind::AutonomousSystems), systems);
    let countries = [row("DE", 80, 80, 4), row("FR", 20, 0, 1)];
    assert_eq!(rows(Kind::Countries), countries);
    let named = look.top(Kind::AutonomousSystems, Window::All, Measure::Bytes, 1);
    assert_eq!(named.rows[0].name.as_deref(), Some("One Net"));
    let filtered = look.top_of_flows(Kind::Countries, &FlowFilter::default(), Measure::Bytes, 9);
    assert_eq!(filtered.rows[0].bytes, 80);
    let host = look.host(IpAddr::from([192, 0, 2, 1]), Window::Minutes);
    let host = host.expect("a host");
    assert_eq!(host.autonomous_system.as_deref(), Some("AS64500 One Net"));
    assert_eq!(host.country.as_deref(), Some("DE"));
    let series = host.series.expect("traffic over time");
    let sum: u64 = series.series[0].bytes.iter().flatten().sum();
    assert_eq!((series.series[0].name.as_str(), sum), ("sent", 80));
}

fn counts() {
    let (mut all, mut with_errors) = (0, 0);
    for file in corpus::files() {
        let name = corpus::name(&file);
        let packets = packets(&file);
        let (exact, look) = (exact(&packets), look(&packets));
        all += exact.packets;
        let totals = look.status().totals;
        assert_eq!(totals.packets, packets.len() as u64, "{name}");
        assert_eq!(totals.bytes, exact.bytes, "{name}");
        with_errors += check_hosts(&name, &look, &exact);
        let protocols = look.top(Kind::Protocols, Window::All, Measure::Bytes, 1000);
        let sum: u64 = protocols.rows.iter().map(|row| row.bytes).sum();
        assert_eq!(sum, exact.bytes, "{name}: protocols");
        assert_eq!(protocols.rows.len(), exact.protocols.len(), "{name}");
        check_series(&name, &look, &packets, &exact);
        check_flows(&name, &look, &exact);
    }
    assert!(all > 40_000, "{all} packets of IP");
    println!("{all} packets; {with_errors} rows with an error");
}

/// Each row is right within its error; returns how many have one.
fn check_hosts(name: &str, look: &Look, exact: &Exact) -> usize {
    let top = look.top(Kind::Hosts, Window::All, Measure::Bytes, usize::MAX);
    for row in &top.rows {
        let address: IpAddr = row.key.parse().expect("an address");
        let (sent, received) = exact.hosts[&address];
        let bytes = sent + received;
        assert!(
            row.bytes <= bytes && bytes <= row.bytes + row.error,
            "{name}: {address}: {bytes} is not {} to {} more",
            row.bytes,
            row.error
        );
        if row.error == 0 {
            assert_eq!(
                (row.bytes_out, row.bytes_in),
                (sent, received),
                "{name}: {address}"
            );
        }
    }
    top.rows.iter().filter(|row| row.error > 0).count()
}

/// The sum over time is that of all packets, where all of them are within the history.
fn check_series(name: &str, look: &Look, packets: &[Held], exact: &Exact) {
    let times = packets.iter().map(|packet| packet.time_ns);
    let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    let is_within = last - first <= 15 * 86_400 * SECOND && first >= SECOND;
    for split in [Split::Total, Split::Protocol, Split::Application] {
        let ms = |time: u64| Some(time / 1_000_000);
        let series = look.series(split, ms(first), ms(last));
        let bytes = series.series.iter().flat_map(|line| &line.bytes).flatten();
        let bytes: u64 = bytes.sum();
        assert!(
            !is_within || bytes == exact.bytes,
            "{name}: {split:?}: {bytes}"
        );
    }
}

/// All flows are listed, with the counters of all packets, unless one took the place of another between the
/// same ends.
fn check_flows(name: &str, look: &Look, exact: &Exact) {
    let flows = look.flow_list(&FlowQuery {
        filter: FlowFilter::default(),
        sort: FlowSort::Bytes,
        ascending: false,
        offset: 0,
        limit: usize::MAX,
        ended: true,
    });
    let packets = flows
        .flows
        .iter()
        .map(|flow| flow.packets + flow.reverse_packets);
    let bytes = flows
        .flows
        .iter()
        .map(|flow| flow.bytes + flow.reverse_bytes);
    let (packets, bytes): (u64, u64) = (packets.sum(), bytes.sum());
    assert!(packets <= exact.packets && bytes <= exact.bytes, "{name}");
    if flows.total == look.status().totals.flows {
        assert_eq!(
            (packets, bytes),
            (exact.packets, exact.bytes),
            "{name}: flows"
        );
    }
}
