//! TLS: hellos whole and in pieces.

use ringtap_inspect::{InspectOptions, Inspector, NameSource, Protocol, Text, Verdict};

use crate::hello::{Hello, Talk, server_hello};
use crate::inspector;

/// Hellos with their published fingerprints: of FoxIO's tests, and of the page of JA4 itself.
pub(crate) fn published_fingerprints() {
    let chrome = Hello {
        ciphers: vec![
            0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014,
            0x009c, 0x009d, 0x002f, 0x0035,
        ],
        extensions: vec![
            0xfe0d, 0x0010, 0x0017, 0x0033, 0x44cd, 0xff01, 0x000a, 0x000d, 0x0023, 0x002b, 0x000b,
            0xca34, 0x002d, 0x0000, 0x0005, 0x001b, 0x0012,
        ],
        name: "example.org",
        protocols: vec!["h2", "http/1.1"],
        signatures: vec![
            0xdada, 0x0904, 0x0905, 0x0906, 0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806,
            0x0601,
        ],
        versions: vec![0x0304, 0x0303],
        padding: 32,
    };
    let older = Hello {
        extensions: vec![
            0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012,
            0x002b, 0xff01, 0x000b, 0x000a, 0x0015, 0x8a8a,
        ],
        signatures: vec![
            0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601,
        ],
        ..chrome.clone()
    };
    let bare = Hello {
        ciphers: vec![0x1301],
        versions: vec![0x0303],
        ..Hello::default()
    };
    let cases = [
        (chrome, "t13d1517h2_8daaf6152771_cb7bf5808d99"),
        (older, "t13d1516h2_8daaf6152771_e5627efa2ab1"),
        (bare, "t12i010000_0f2cb44170f4_000000000000"),
    ];
    for (hello, expected) in cases {
        let mut talk = Talk::tcp(443);
        talk.say(&mut inspector(), true, 1, &hello.records(16_384));
        let found = talk.entry.fields().tls_ja4.map(|ja4| ja4.to_string());
        assert_eq!(found.as_deref(), Some(expected));
    }
}

/// Whether everything is in an entry that a browser's hello says.
fn check(talk: &Talk, what: &str) {
    let fields = talk.entry.fields();
    assert_eq!(fields.protocol, Some(Protocol::Tls), "{what}");
    assert_eq!(fields.name.map(Text::as_str), Some("example.org"), "{what}");
    assert_eq!(fields.name_source, Some(NameSource::Sni), "{what}");
    assert_eq!(fields.tls_alpn.map(Text::as_str), Some("h2"), "{what}");
    assert_eq!(fields.tls_version, Some(0x0304), "{what}");
    let ja4 = fields
        .tls_ja4
        .map(|ja4| ja4.to_string())
        .unwrap_or_default();
    assert!(ja4.starts_with("t13d0514h2_"), "{what}: {ja4}");
}

/// Every cut of a hello into two segments, and cuts into three, in any order and again.
pub(crate) fn segments() {
    let data = Hello::browser("example.org").records(16_384);
    let len = data.len();
    let mut inspector = inspector();
    let mut say = |orders: &[std::ops::Range<usize>], what: &str| {
        let mut talk = Talk::tcp(443);
        for range in orders {
            let sequence = u32::MAX - 300 + 1;
            let sequence = sequence.wrapping_add(u32::try_from(range.start).expect("short"));
            talk.say(&mut inspector, true, sequence, &data[range.clone()]);
        }
        check(&talk, what);
        inspector.forget(talk.flow, &mut talk.state);
    };
    for cut in 5..len {
        say(&[0..cut, cut..len], &format!("cut at {cut}"));
        say(
            &[cut..len, 0..cut],
            &format!("cut at {cut}, later part first"),
        );
    }
    let (a, b) = (700, 1100);
    say(&[0..a, b..len, a..b], "a gap is filled");
    say(&[0..a, b..len, 0..a, a - 50..b + 50], "pieces overlap");
    say(&[a..b, 0..a, b..len], "the middle comes first");
}

/// A hello of 11 KB in segments of 512 bytes, which are more than are looked at of other flows.
pub(crate) fn huge() {
    let hello = Hello {
        padding: 11_000,
        ..Hello::browser("example.org")
    };
    let mut inspector = inspector();
    let mut talk = Talk::tcp(443);
    for (index, piece) in hello.records(16_384).chunks(512).enumerate() {
        let sequence = u32::try_from(index * 512).expect("short");
        talk.say(&mut inspector, true, sequence, piece);
    }
    check(&talk, "a hello of 11 KB");
    // A hello that never ends is given up.
    let mut talk = Talk::new(2, true, (50_000, 443));
    for piece in 0..64 {
        talk.say(&mut inspector, true, piece, &hello.records(16_384)[..1]);
    }
    assert!(!talk.state.wants(true));
}

pub(crate) fn records() {
    for most in [1, 3, 4, 5, 100, 1000] {
        let data = Hello::browser("example.org").records(most);
        let options = InspectOptions::default().payloads(15).buffer_bytes(16_384);
        let mut inspector = Inspector::new(&options).expect("valid options");
        let mut talk = Talk::tcp(443);
        for (index, piece) in data.chunks(1400).enumerate() {
            let sequence = u32::try_from(index * 1400).expect("short");
            talk.say(&mut inspector, true, sequence, piece);
        }
        check(&talk, &format!("records of {most} bytes"));
    }
}

/// A server that does not know the client's name for it warns before its hello, in the same segment or not.
pub(crate) fn warnings() {
    const WARNING: &[u8] = b"\x15\x03\x03\x00\x02\x01\x70";
    const FATAL: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";
    let hello = Hello::browser("example.org").records(16_384);
    let answer = server_hello(0x1302, "http/1.1");
    let mut inspector = inspector();
    for (flow, segments, expected) in [
        (1, vec![[WARNING, &answer].concat()], Some(0x1302)),
        (2, vec![WARNING.to_vec(), answer.clone()], Some(0x1302)),
        (3, vec![FATAL.to_vec(), answer.clone()], None),
    ] {
        let mut talk = Talk::new(flow, true, (50_000, 443));
        talk.say(&mut inspector, true, 1, &hello);
        let mut sequence = 1;
        for segment in segments {
            talk.say(&mut inspector, false, sequence, &segment);
            sequence += u32::try_from(segment.len()).expect("short");
        }
        assert_eq!(talk.entry.fields().tls_cipher, expected, "flow {flow}");
    }
}

pub(crate) fn server() {
    let mut inspector = inspector();
    let mut talk = Talk::tcp(443);
    let hello = Hello::browser("example.org").records(16_384);
    assert_eq!(talk.say(&mut inspector, true, 1, &hello), Verdict::More);
    assert!(!talk.state.wants(true) && talk.state.wants(false));
    let answer = server_hello(0x1302, "http/1.1");
    assert_eq!(talk.say(&mut inspector, false, 1, &answer), Verdict::Done);
    let fields = talk.entry.fields();
    assert_eq!(fields.tls_cipher, Some(0x1302));
    assert_eq!(fields.tls_version, Some(0x0304));
    assert_eq!(fields.tls_alpn.map(Text::as_str), Some("http/1.1"));
    assert!(!talk.entry.is_cut());
}

pub(crate) fn evictions() {
    let options = InspectOptions::default().buffers(4);
    let mut inspector = Inspector::new(&options).expect("valid options");
    let data = Hello::browser("example.org").records(16_384);
    let mut talks: Vec<Talk> = (0..6)
        .map(|flow| Talk::new(flow, true, (50_000, 443)))
        .collect();
    for talk in &mut talks {
        talk.say(&mut inspector, true, 0, &data[..1000]);
    }
    assert_eq!(inspector.counters().buffers_evicted, 2);
    for talk in &mut talks {
        talk.say(&mut inspector, true, 1000, &data[1000..]);
    }
    let named = |talk: &Talk| talk.entry.fields().name.is_some();
    let named: Vec<bool> = talks.iter().map(named).collect();
    assert_eq!(named, [false, false, true, true, true, true]);
    assert_eq!(inspector.counters().buffers_evicted, 2);
}

pub(crate) fn long_names() {
    const NAME: &str = concat!(
        "a123456789.b123456789.c123456789.d123456789.e123456789.f123456789.g123456789.h123456789.",
        "i123456789.j123456789.k123456789.l123456789.m123456789.n123456789.example.org",
    );
    let mut inspector = inspector();
    let mut talk = Talk::tcp(443);
    talk.say(
        &mut inspector,
        true,
        1,
        &Hello::browser(NAME).records(16_384),
    );
    talk.say(&mut inspector, false, 1, &server_hello(0x1301, "http/1.1"));
    assert!(talk.entry.is_cut());
    let fields = talk.entry.fields();
    let name = fields.tls_sni.expect("a name");
    assert!(name.is_cut() && NAME.starts_with(name.as_str()) && name.as_str().len() > 100);
    assert_eq!(fields.tls_cipher, Some(0x1301));
    assert!(fields.tls_ja4.is_some() && fields.tls_alpn.is_some());
}

/// A port, what is said before TLS, by whom, and the protocol of the flow.
type PlainStart = (u16, &'static [(bool, &'static [u8])], Protocol);

pub(crate) fn after_plain_text() {
    let hello = Hello::browser("example.org").records(16_384);
    let cases: [PlainStart; 3] = [
        (
            25,
            &[
                (false, b"220 mx.example.org ESMTP\r\n"),
                (true, b"EHLO client.example.org\r\n"),
                (false, b"250 STARTTLS\r\n"),
                (true, b"STARTTLS\r\n"),
                (false, b"220 go on\r\n"),
            ],
            Protocol::Smtp,
        ),
        (
            5432,
            &[(true, b"\x00\x00\x00\x08\x04\xd2\x16\x2f"), (false, b"S")],
            Protocol::Postgresql,
        ),
        (
            3128,
            &[
                (
                    true,
                    b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n",
                ),
                (false, b"HTTP/1.1 200 Connection established\r\n\r\n"),
            ],
            Protocol::Http,
        ),
    ];
    for (port, before, protocol) in cases {
        for cut in [hello.len(), 600] {
            let mut inspector = inspector();
            let mut talk = Talk::tcp(port);
            for (from_initiator, data) in before {
                talk.say(&mut inspector, *from_initiator, 1, data);
            }
            talk.say(&mut inspector, true, 1000, &hello[..cut]);
            talk.say(&mut inspector, true, 1600, &hello[cut..]);
            let fields = talk.entry.fields();
            assert_eq!(fields.protocol, Some(protocol));
            assert_eq!(fields.name.map(Text::as_str), Some("example.org"));
            assert!(fields.tls_ja4.is_some(), "{protocol} cut at {cut}");
        }
    }
}
