//! DNS: the passive table of names, and answers.

use std::net::IpAddr;

use ringtap_inspect::{InspectOptions, Inspector, NameSource, Protocol, Text};

use crate::hello::Talk;
use crate::inspector;

const SECOND: u64 = 1_000_000_000;

fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').map(|label| {
        let len = u8::try_from(label.len()).expect("short");
        [&[len], label.as_bytes()].concat()
    });
    [labels.collect::<Vec<_>>().concat(), vec![0]].concat()
}

fn message(id: u16, flags: u16, asked: &str, kind: u16, answers: &[Vec<u8>]) -> Vec<u8> {
    let count = u16::try_from(answers.len()).expect("few");
    let header: Vec<u8> = [id, flags, 1, count, 0, 0]
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect();
    let question = [name(asked), kind.to_be_bytes().to_vec(), vec![0, 1]].concat();
    [header, question, answers.concat()].concat()
}

/// A question.
pub(crate) fn query(id: u16, asked: &str, kind: u16) -> Vec<u8> {
    message(id, 0x0100, asked, kind, &[])
}

/// An answer with a chain of two names and these addresses.
pub(crate) fn response(id: u16, asked: &str, kind: u16, answers: &[([u8; 4], u32)]) -> Vec<u8> {
    let alias = name("edge.example.net");
    let len = u16::try_from(alias.len()).expect("short");
    let chain = [
        &[0xc0, 12, 0, 5, 0, 1, 0, 0, 1, 0][..],
        &len.to_be_bytes(),
        &alias,
    ]
    .concat();
    let mut records = vec![chain];
    for (address, seconds) in answers {
        let owner = name("edge.example.net");
        let head = [&[0, 1, 0, 1][..], &seconds.to_be_bytes(), &[0, 4]].concat();
        records.push([owner, head, address.to_vec()].concat());
    }
    message(id, 0x8180, asked, kind, &records)
}

fn ask(inspector: &mut Inspector, asked: &str, answers: &[([u8; 4], u32)], time_ns: u64) -> Talk {
    let mut talk = Talk::udp(53);
    talk.time_ns = time_ns;
    talk.say(inspector, true, 0, &query(7, asked, 1));
    talk.time_ns = time_ns + 3_000_000;
    talk.say(inspector, false, 0, &response(7, asked, 1, answers));
    talk
}

pub(crate) fn learnt() {
    let mut inspector = inspector();
    let (a, b) = ([198, 51, 100, 1], [198, 51, 100, 2]);
    ask(
        &mut inspector,
        "www.example.org",
        &[(a, 300), (b, 300)],
        SECOND,
    );
    // The name that was asked for counts, not the one at the end of the chain.
    let find = |inspector: &Inspector, address: [u8; 4]| {
        inspector
            .name_of(IpAddr::from(address), 2 * SECOND)
            .map(str::to_owned)
    };
    assert_eq!(find(&inspector, a).as_deref(), Some("www.example.org"));
    assert_eq!(find(&inspector, b).as_deref(), Some("www.example.org"));
    assert_eq!(find(&inspector, [198, 51, 100, 3]), None);
    // The last name asked for wins.
    ask(&mut inspector, "other.example.org", &[(b, 300)], SECOND);
    assert_eq!(find(&inspector, a).as_deref(), Some("www.example.org"));
    assert_eq!(find(&inspector, b).as_deref(), Some("other.example.org"));
    assert_eq!(inspector.counters().names, 3);
    // A flow without a name of its own takes that of its responder.
    let mut talk = Talk::tcp(22);
    talk.responder = IpAddr::from(a);
    talk.time_ns = 2 * SECOND;
    talk.say(&mut inspector, true, 1, b"SSH-2.0-a\r\n");
    talk.say(&mut inspector, false, 1, b"SSH-2.0-b\r\n");
    let fields = talk.entry.fields();
    assert_eq!(fields.name.map(Text::as_str), Some("www.example.org"));
    assert_eq!(fields.name_source, Some(NameSource::Dns));
}

pub(crate) fn expire() {
    let mut inspector = inspector();
    let (short, long, forever) = ([198, 51, 100, 1], [198, 51, 100, 2], [198, 51, 100, 3]);
    let answers = [(short, 0), (long, 300), (forever, u32::MAX)];
    ask(&mut inspector, "www.example.org", &answers, 0);
    let has = |inspector: &Inspector, address: [u8; 4], seconds: u64| {
        inspector
            .name_of(IpAddr::from(address), seconds * SECOND)
            .is_some()
    };
    assert!(has(&inspector, short, 59) && !has(&inspector, short, 61));
    assert!(has(&inspector, long, 299) && !has(&inspector, long, 301));
    assert!(has(&inspector, forever, 86_399) && !has(&inspector, forever, 86_401));
    // The same answer again prolongs.
    ask(&mut inspector, "www.example.org", &answers, 200 * SECOND);
    assert!(has(&inspector, long, 499) && !has(&inspector, long, 501));
}

pub(crate) fn bounded() {
    let options = InspectOptions::default().names(64);
    let mut inspector = Inspector::new(&options).expect("valid options");
    for number in 0..1000_u32 {
        let [_, _, c, d] = number.to_be_bytes();
        let asked = format!("host-{number}.with-a-name-of-some-length.example.org");
        ask(&mut inspector, &asked, &[([10, 1, c, d], 3600)], SECOND);
        let found = inspector.name_of(IpAddr::from([10, 1, c, d]), 2 * SECOND);
        assert_eq!(found, Some(&asked[..]));
    }
    let mut left = 0;
    for number in 0..1000_u32 {
        let [_, _, c, d] = number.to_be_bytes();
        if let Some(found) = inspector.name_of(IpAddr::from([10, 1, c, d]), 2 * SECOND) {
            assert!(found.starts_with(&format!("host-{number}.")), "{found}");
            left += 1;
        }
    }
    assert!((16..=64).contains(&left), "{left}");
    let counters = inspector.counters();
    assert_eq!(counters.names, 1000);
    assert!(
        (900..1000).contains(&counters.names_evicted),
        "{counters:?}"
    );
    // Without a table nothing is learnt.
    let options = InspectOptions::default().names(0);
    let mut inspector = Inspector::new(&options).expect("valid options");
    let talk = ask(
        &mut inspector,
        "a.example.org",
        &[([10, 0, 0, 1], 60)],
        SECOND,
    );
    assert!(talk.state.is_done());
    assert_eq!(inspector.name_of(IpAddr::from([10, 0, 0, 1]), SECOND), None);
}

pub(crate) fn latency() {
    let mut inspector = inspector();
    let mut talk = ask(
        &mut inspector,
        "www.example.org",
        &[([10, 0, 0, 1], 60)],
        SECOND,
    );
    // Later questions of the same flow change nothing, but their answers are learnt.
    talk.say(&mut inspector, true, 0, &query(8, "b.example.org", 28));
    talk.say(
        &mut inspector,
        false,
        0,
        &response(8, "b.example.org", 1, &[([10, 0, 0, 2], 60)]),
    );
    let fields = talk.entry.fields();
    assert_eq!(fields.protocol, Some(Protocol::Dns));
    assert_eq!(fields.dns_name.map(Text::as_str), Some("www.example.org"));
    assert_eq!(fields.dns_type, Some(1));
    assert_eq!(fields.dns_rcode, Some(0));
    assert_eq!(fields.dns_answers, Some(2));
    assert_eq!(fields.dns_latency_ns, Some(3_000_000));
    let found = inspector.name_of(IpAddr::from([10, 0, 0, 2]), 2 * SECOND);
    assert_eq!(found, Some("b.example.org"));
    assert!(!talk.state.wants(true) && talk.state.wants(false));
    // An answer to another question has no latency.
    let mut talk = Talk::udp(53);
    talk.say(&mut inspector, true, 0, &query(1, "a.example.org", 1));
    talk.say(
        &mut inspector,
        false,
        0,
        &response(2, "a.example.org", 1, &[]),
    );
    let fields = talk.entry.fields();
    assert_eq!((fields.dns_latency_ns, fields.dns_rcode), (None, None));
}

/// A conversation over TCP, each message with its length in front, in all cuts into two segments.
pub(crate) fn over_tcp() {
    let with_length = |message: Vec<u8>| {
        let len = u16::try_from(message.len()).expect("short");
        [&len.to_be_bytes()[..], &message].concat()
    };
    let (a, b) = ([198, 51, 100, 1], [198, 51, 100, 2]);
    let asked = with_length(query(7, "www.example.org", 1));
    let answer = with_length(response(7, "www.example.org", 1, &[(a, 300), (b, 300)]));
    for cut in 1..answer.len() {
        let mut inspector = inspector();
        let mut talk = Talk::tcp(53);
        let mut say = |from_initiator, data: &[u8], cut: usize| {
            let cut = cut.min(data.len() - 1);
            let behind = u32::try_from(cut).expect("short");
            talk.say(&mut inspector, from_initiator, 1, &data[..cut]);
            talk.say(&mut inspector, from_initiator, 1 + behind, &data[cut..]);
        };
        say(true, &asked, cut);
        say(false, &answer, cut);
        let fields = talk.entry.fields();
        assert_eq!(fields.protocol, Some(Protocol::Dns), "cut at {cut}");
        assert_eq!(
            fields.dns_name.map(Text::as_str),
            Some("www.example.org"),
            "cut at {cut}"
        );
        let codes = (fields.dns_rcode, fields.dns_answers);
        assert_eq!(codes, (Some(0), Some(3)), "cut at {cut}");
        for address in [a, b] {
            let name = inspector.name_of(IpAddr::from(address), SECOND);
            assert_eq!(name, Some("www.example.org"), "cut at {cut}");
        }
    }
}
