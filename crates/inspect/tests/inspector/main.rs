//! Conversations made up byte by byte, and what the inspector finds in them.

mod hello;
mod names;
mod plain;
mod quic;
mod tls;

use std::process::ExitCode;

use ringtap_inspect::{
    Basis, InspectOptions, Inspector, NameSource, OptionError, Protocol, Transport, escape,
    protocol_of,
};
use ringtap_testkit::{alloc, suite, test};

use hello::{Hello, Talk};

#[global_allocator]
static ALLOCATOR: alloc::Counting = alloc::Counting;

fn main() -> ExitCode {
    suite(vec![
        test(
            "hellos_have_the_published_fingerprint",
            &[],
            tls::published_fingerprints,
        ),
        test("hellos_survive_segments", &[], tls::segments),
        test("hellos_may_be_huge", &[], tls::huge),
        test("hellos_survive_records", &[], tls::records),
        test(
            "servers_choose_version_cipher_and_protocol",
            &[],
            tls::server,
        ),
        test("servers_may_warn_before_their_hello", &[], tls::warnings),
        test("the_oldest_buffer_is_given_up", &[], tls::evictions),
        test("long_names_are_cut", &[], tls::long_names),
        test("tls_may_follow_plain_text", &[], tls::after_plain_text),
        test("names_come_from_answers", &[], names::learnt),
        test("dns_over_tcp_may_span_segments", &[], names::over_tcp),
        test("quic_is_read_with_the_published_keys", &[], quic::versions),
        test("damaged_quic_shows_its_version", &[], quic::damaged),
        test("names_expire", &[], names::expire),
        test("the_table_of_names_is_bounded", &[], names::bounded),
        test("answers_have_a_latency", &[], names::latency),
        test("requests_are_read", &[], plain::requests),
        test("requests_may_span_segments", &[], plain::spanning_requests),
        test("first_bytes_have_a_protocol", &[], plain::first_bytes),
        test("fields_of_small_protocols", &[], plain::small_fields),
        test("names_that_hosts_give_of_themselves", &[], plain::own_names),
        test("rtp_takes_two_packets", &[], plain::rtp),
        test("options_are_checked", &[], options),
        test("protocols_have_numbers_and_names", &[], protocols),
        test("text_is_made_printable", &[], escapes),
        test("random_payloads_do_no_harm", &[], random_payloads),
        test(
            "nothing_is_allocated_per_payload",
            &[],
            nothing_is_allocated,
        )
        .serial(),
    ])
}

fn inspector() -> Inspector {
    Inspector::new(&InspectOptions::default()).expect("valid options")
}

fn options() {
    let with = |change: fn(&mut InspectOptions)| {
        let mut options = InspectOptions::default();
        change(&mut options);
        Inspector::new(&options).map(|_| ())
    };
    assert_eq!(with(|_| {}), Ok(()));
    assert_eq!(with(|it| it.names = 0), Ok(()));
    assert_eq!(with(|it| it.payloads = 0), Err(OptionError::Payloads(0)));
    assert_eq!(with(|it| it.payloads = 16), Err(OptionError::Payloads(16)));
    assert_eq!(with(|it| it.buffers = 0), Err(OptionError::Buffers));
    assert_eq!(
        with(|it| it.buffer_bytes = 511),
        Err(OptionError::BufferBytes(511))
    );
    assert_eq!(
        with(|it| it.names = 1 << 25),
        Err(OptionError::Names(1 << 25))
    );
}

fn protocols() {
    for pair in Protocol::ALL.windows(2) {
        assert!(pair[0] < pair[1], "{pair:?} by number");
    }
    for protocol in Protocol::ALL {
        assert_eq!(Protocol::from_number(*protocol as u8), Some(*protocol));
    }
    assert_eq!(Protocol::from_number(0), None);
    let tcp = Transport::Tcp { sequence: 0 };
    assert_eq!(
        protocol_of(None, tcp, 50_000, 22),
        Some((Protocol::Ssh, Basis::Port))
    );
    assert_eq!(
        protocol_of(None, tcp, 22, 50_000),
        Some((Protocol::Ssh, Basis::Port))
    );
    assert_eq!(protocol_of(None, Transport::Udp, 50_000, 22), None);
    // Content counts, whatever the port.
    let mut talk = Talk::tcp(22);
    talk.say(
        &mut inspector(),
        true,
        1,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let found = protocol_of(Some(&talk.entry), tcp, 50_000, 22);
    assert_eq!(found, Some((Protocol::Http, Basis::Content)));
}

fn escapes() {
    let cases: [(&[u8], &str); 8] = [
        (b"", ""),
        (b"plain text", "plain text"),
        (b"a\\b", r"a\\b"),
        (b"\x1b[31m", r"\u{1b}[31m"),
        (b"\xff\xfe", r"\xff\xfe"),
        ("grün".as_bytes(), "grün"),
        ("a\u{202e}b".as_bytes(), r"a\u{202e}b"),
        (b"\0", r"\u{0}"),
    ];
    for (bytes, expected) in cases {
        let mut text = String::new();
        escape(bytes, &mut text).expect("a string takes all");
        assert_eq!(text, expected);
    }
}

/// Payloads for [`random_payloads`] and [`nothing_is_allocated`]: beginnings of all kinds.
fn beginnings() -> Vec<Vec<u8>> {
    let hello = Hello::browser("example.org");
    let mut all: Vec<Vec<u8>> = plain::FIRST_BYTES
        .iter()
        .map(|(_, _, _, data)| data.to_vec())
        .collect();
    all.push(hello.records(16_384));
    all.push(hello.records(100));
    all.push(hello::server_hello(0x1301, "h2"));
    all.push(names::query(7, "example.org", 1));
    all.push(names::response(
        7,
        "example.org",
        1,
        &[([192, 0, 2, 9], 300)],
    ));
    all
}

/// Random changes of payloads, as segments of few flows.
fn random_payloads() {
    let mut random = fastrand::Rng::with_seed(1);
    let options = InspectOptions::default()
        .buffers(3)
        .buffer_bytes(512)
        .names(64);
    let mut inspector = Inspector::new(&options).expect("valid options");
    let beginnings = beginnings();
    let mut talks: Vec<Talk> = Vec::new();
    for round in 0..60_000_u32 {
        if talks.len() < 8 {
            let ports = [53, 80, 443, 137, 5353, 67, 123, 9999];
            let port = ports[random.usize(..ports.len())];
            talks.push(Talk::new(round, random.bool(), (50_000, port)));
        }
        let at = random.usize(..talks.len());
        let mut data = beginnings[random.usize(..beginnings.len())].clone();
        for _ in 0..random.usize(..4) {
            let place = random.usize(..data.len());
            data[place] = random.u8(..);
        }
        let start = if random.bool() {
            0
        } else {
            random.usize(..data.len())
        };
        let end = random.usize(start..=data.len());
        let talk = &mut talks[at];
        let sequence = u32::try_from(start).expect("short");
        talk.say(&mut inspector, random.bool(), sequence, &data[start..end]);
        let fields = talk.entry.fields();
        let texts = [
            fields.name,
            fields.tls_sni,
            fields.http_path,
            fields.dns_name,
        ];
        for text in texts.into_iter().flatten() {
            assert!(!text.as_str().chars().any(char::is_control), "{text:?}");
        }
        if random.u8(..) < 16 {
            let mut talk = talks.swap_remove(at);
            inspector.forget(talk.flow, &mut talk.state);
        }
    }
    assert!(inspector.counters().buffers_overrun > 0);
}

fn nothing_is_allocated() {
    let mut inspector = inspector();
    let beginnings = beginnings();
    let ((), counts) = alloc::count(|| {
        for flow in 0..200_u32 {
            for port in [53, 80, 443, 9999] {
                talk_all(&mut inspector, flow, port, &beginnings);
            }
        }
    });
    assert_eq!(counts.allocations, 0);
    let found = inspector.name_of([192, 0, 2, 9].into(), 2_000_000_000);
    assert_eq!(found, Some("example.org"));
}

/// Every payload in two pieces, and as an answer.
fn talk_all(inspector: &mut Inspector, flow: u32, port: u16, beginnings: &[Vec<u8>]) {
    for data in beginnings {
        for is_tcp in [false, true] {
            let mut talk = Talk::new(flow, is_tcp, (50_000, port));
            let (first, second) = data.split_at(data.len() / 2);
            talk.say(inspector, true, 1, first);
            let sequence = 1 + u32::try_from(first.len()).expect("short");
            talk.say(inspector, true, sequence, second);
            talk.say(inspector, false, 1, data);
            assert_ne!(talk.entry.fields().name_source, Some(NameSource::Llmnr));
            inspector.forget(flow, &mut talk.state);
        }
    }
}
