use super::*;

fn stream(domain: u32) -> Stream {
    from(([192, 0, 2, 1], 2055).into(), domain)
}

fn from(exporter: SocketAddr, domain: u32) -> Stream {
    Stream {
        exporter,
        version: 9,
        domain,
        agent: None,
    }
}

/// Returns one of many exporters, each in a network of its own.
fn other(number: u32) -> Stream {
    let [_, a, b, c] = number.to_be_bytes();
    from(([10 + a, b, c, 1], 2055).into(), 0)
}

fn start() -> Instant {
    Instant::now()
}

/// Sends a datagram with this number of templates and fields.
fn send(exporters: &mut Exporters, stream: Stream, now: Instant, templates: u16, fields: usize) {
    exporters.datagram(stream, now);
    let templates = (0..templates).map(|id| ((false, 256 + id), fields));
    exporters.templates(stream, templates);
    assert!(exporters.bytes <= ALL_BYTES + PEER_BYTES);
    assert!(exporters.peers.len() <= PEERS);
}

/// Makes an exporter established: it has sent records for a while.
fn establish(exporters: &mut Exporters, stream: Stream, now: Instant) {
    send(exporters, stream, now, 4, 30);
    exporters.record(stream);
    send(exporters, stream, now + TRIAL, 4, 30);
    assert!(exporters.peers[&stream.peer()].is_established);
}

fn knows(exporters: &Exporters, stream: Stream, templates: usize) -> bool {
    let known = exporters.known(stream);
    known.is_some_and(|source| source.templates.len() == templates)
}

#[test]
fn gaps_are_counted() {
    let (mut exporters, now) = (Exporters::default(), start());
    let mut message =
        |domain, number, counts| exporters.message(stream(domain), now, number, counts);
    assert_eq!(message(1, 500, Some(1)), 0, "the first");
    assert_eq!(message(1, 501, Some(30)), 0);
    assert_eq!(message(1, 541, Some(1)), 10);
    assert_eq!(message(2, 7, Some(1)), 0, "another stream");
    assert_eq!(message(1, 0, Some(1)), 0, "started again");
    assert_eq!(message(1, 1, None), 0);
    assert_eq!(message(1, 9, Some(1)), 0, "not known");
    assert_eq!(message(1, u32::MAX, Some(2)), 0);
    assert_eq!(message(1, 3, Some(1)), 2, "numbers wrap");
}

#[test]
fn ids_of_one_address_cost_that_address_only() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(([198, 51, 100, 7], 2055).into(), 3);
    send(&mut exporters, good, now, 4, 30);
    exporters.set_sampling(good, 10);
    for domain in 0..10_000 {
        send(&mut exporters, stream(domain), now, 1, 8);
    }
    assert!(knows(&exporters, good, 4));
    assert_eq!(exporters.sampling(good), 10);
    let forgotten = exporters.forgotten;
    let expected = 10_000 - PEER_SOURCES as u64;
    assert_eq!(
        (forgotten.sources, forgotten.templates),
        (expected, expected)
    );
    assert_eq!(forgotten.exporters, 0);
    let report = exporters.report(1);
    assert_eq!(report[0].exporter, "192.0.2.1");
    assert_eq!(report[0].counters.sources_forgotten, expected);
    assert_eq!(exporters.report(9)[1].counters.sources_forgotten, 0);
}

#[test]
fn templates_of_one_address_cost_that_address_only() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(([198, 51, 100, 7], 2055).into(), 3);
    send(&mut exporters, good, now, 4, 30);
    for domain in 0..20 {
        send(&mut exporters, stream(domain), now, 4_000, FIELDS);
        let held = &exporters.peers[&stream(0).peer()];
        assert!(held.is_within_quota(), "{} bytes", held.bytes);
    }
    send(&mut exporters, stream(0), now, 10_000, 1);
    assert!(knows(&exporters, good, 4));
    assert_eq!(exporters.forgotten.templates, 20 * 4_000 + 10_000);
}

#[test]
fn templates_that_come_again_take_no_more() {
    let (mut exporters, now) = (Exporters::default(), start());
    send(&mut exporters, stream(1), now, 10, 30);
    let bytes = exporters.bytes;
    for _ in 0..1_000 {
        send(&mut exporters, stream(1), now, 10, 30);
    }
    assert_eq!(exporters.bytes, bytes);
    send(&mut exporters, stream(1), now, 10, 0);
    assert_eq!(exporters.bytes, SOURCE_BYTES, "they were withdrawn");
}

#[test]
fn made_up_addresses_cost_no_established_exporter() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(([198, 51, 100, 7], 2055).into(), 3);
    establish(&mut exporters, good, now);
    for number in 0..20_000 {
        send(&mut exporters, other(number), now + TRIAL, 10, 10 * FIELDS);
    }
    assert!(knows(&exporters, good, 4));
    assert!(exporters.forgotten.exporters > 10_000);
    assert_eq!(exporters.peers[&good.peer()].counters.sources_forgotten, 0);
}

#[test]
fn a_newcomer_with_records_outlives_those_without() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(([198, 51, 100, 7], 2055).into(), 3);
    send(&mut exporters, good, now, 4, 30);
    exporters.record(good);
    for number in 0..20_000 {
        send(&mut exporters, other(number), now, 4, 30);
    }
    assert!(knows(&exporters, good, 4));
}

#[test]
fn patient_floods_leave_established_exporters_and_places_for_newcomers() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(([198, 51, 100, 7], 2055).into(), 3);
    establish(&mut exporters, good, now);
    // Each as an honest exporter would, at the maximum size.
    for number in 0..3_900 {
        send(&mut exporters, other(number), now, 4, 30);
        exporters.record(other(number));
    }
    for number in 0..3_900 {
        let later = now + TRIAL;
        send(&mut exporters, other(number), later, 10, 10 * FIELDS);
        exporters.record(other(number));
    }
    assert!(exporters.established <= ESTABLISHED);
    assert!(knows(&exporters, good, 4));
    let newcomer = from(([203, 0, 113, 1], 2055).into(), 0);
    send(&mut exporters, newcomer, now + TRIAL, 4, 30);
    assert!(knows(&exporters, newcomer, 4));
}

#[test]
fn established_exporters_that_fall_silent_make_room() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(([198, 51, 100, 7], 2055).into(), 3);
    establish(&mut exporters, good, now);
    for number in 0..2 * 4_096 {
        send(&mut exporters, other(number), now + TRIAL + IDLE, 1, 1);
    }
    assert!(!knows(&exporters, good, 4));
    assert_eq!(exporters.established, 0);
}

#[test]
fn addresses_of_one_ipv6_network_are_one_exporter() {
    let (mut exporters, now) = (Exporters::default(), start());
    let good = from(
        ("2001:db8:0:7::1".parse::<IpAddr>().unwrap(), 2055).into(),
        3,
    );
    send(&mut exporters, good, now, 4, 30);
    let network = u128::from("2001:db8:0:8::".parse::<Ipv6Addr>().unwrap());
    for host in 0..10_000 {
        let address = Ipv6Addr::from_bits(network + host);
        send(&mut exporters, from((address, 2055).into(), 0), now, 1, 1);
    }
    assert_eq!(exporters.peers.len(), 2);
    assert!(knows(&exporters, good, 4));
    let names: Vec<String> = exporters
        .report(9)
        .into_iter()
        .map(|one| one.exporter)
        .collect();
    assert_eq!(names, ["2001:db8:0:8::/64", "2001:db8:0:7::/64"]);
}

#[test]
fn streams_are_told_by_the_first_header() {
    let mapped = SocketAddr::from(("::ffff:192.0.2.1".parse::<IpAddr>().unwrap(), 2055));
    let mut datagram = [0; 24];
    datagram[1] = 9;
    datagram[19] = 7;
    assert_eq!(Stream::of(mapped, &datagram), Some(stream(7)));
    assert_eq!(Stream::of(mapped, &datagram[..19]), None);
    datagram[1] = 10;
    datagram[15] = 8;
    assert_eq!(Stream::of(mapped, &datagram).unwrap().domain, 8);
    datagram[1] = 5;
    datagram[21] = 9;
    assert_eq!(Stream::of(mapped, &datagram).unwrap().domain, 9);
    datagram[1] = 8;
    assert_eq!(Stream::of(mapped, &datagram), None);
}
