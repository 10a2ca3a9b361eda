//! Searches with an index must miss nothing: if a program accepts a packet, its keys meet the need
//! of the expression, or the keys were reported as unknown.

use std::collections::HashMap;
use std::process::ExitCode;

use ringtap_agreement::Random;
use ringtap_agreement::packets::{Packet, guided, made, spread};
use ringtap_filter::search::{Followed, KeyReader, Need, need};
use ringtap_filter::{CompileOptions, LinkType, Tables, compile};
use ringtap_testkit::{expressions, generate, suite, test};

/// The number of walks through a program, which make packets that it accepts and similar ones.
const WALKS: usize = 8;

fn main() -> ExitCode {
    suite(vec![
        test("expressions_of_the_corpus", &[], corpus),
        test("random_expressions", &[], random),
        test("moved_places", &[], moved),
        test("what_is_needed", &[], what_is_needed),
    ])
}

/// Checks the expressions of one link type after the other, on packets of that type.
#[derive(Default)]
struct Checker {
    types: HashMap<u32, (Option<KeyReader>, Vec<Packet>)>,
    /// Accepted packets with known keys, of expressions that need something.
    accepted: usize,
    /// Rejected packets that do not meet the need: those that an index saves.
    saved: usize,
    /// Packets of such expressions with unknown keys.
    lost: usize,
}

impl Checker {
    fn check(&mut self, expression: &str, dlt: u32, random: &mut Random) {
        let tables = Tables::new();
        let extensions = expression.contains(['{']) || expression.contains("inner");
        let mut options = CompileOptions::new(LinkType::from_dlt(dlt).expect("a link type"));
        options.from_file = true;
        options.netmask = Some(0xffff_ff00);
        options.extensions = extensions;
        let Ok(need) = need(expression, extensions, &tables) else {
            assert!(
                compile(expression, &options, &tables).is_err(),
                "{expression:?}"
            );
            return;
        };
        if need == Need::Nothing {
            return;
        }
        let (reader, made) = self.types.entry(dlt).or_insert_with(|| {
            let packets = spread(made::generated(dlt), 40);
            (KeyReader::new(&options), packets)
        });
        for optimize in [false, true] {
            options.optimize = optimize;
            let Ok(program) = compile(expression, &options, &tables) else {
                continue;
            };
            let guided = guided::packets(program.insns(), WALKS, random);
            let guided: Vec<Packet> = guided.into_iter().flat_map(with_whole).collect();
            for (data, len) in guided.iter().chain(&*made) {
                let mut keys = Vec::new();
                let reader = reader.as_mut().expect("a filter was compiled");
                if reader.read(data, *len, |key| keys.push(key)) == Followed::No {
                    self.lost += 1;
                    continue;
                }
                let meets = need.is_met_by(&keys);
                if program.run(data, *len) != 0 {
                    self.accepted += 1;
                    assert!(
                        meets,
                        "DLT {dlt}: {expression:?} needs {need:?}: {data:02x?}"
                    );
                } else {
                    self.saved += usize::from(!meets);
                }
            }
        }
    }
}

impl Checker {
    /// Checks that more than `least` packets with known keys were accepted.
    fn assert_useful(&self, least: usize) {
        let Self {
            accepted,
            saved,
            lost,
            ..
        } = self;
        eprintln!("{accepted} accepted, {saved} saved, {lost} lost");
        assert!(*accepted > least, "only {accepted} packets were of use");
    }
}

/// Returns the packet, and the same with this many bytes after it that no header is cut.
fn with_whole(packet: Packet) -> [Packet; 2] {
    let mut whole = packet.clone();
    whole.0.resize(whole.0.len().max(400), 0x45);
    whole.1 = whole.1.max(400);
    [packet, whole]
}

fn corpus() {
    let mut checker = Checker::default();
    let mut random = Random(8);
    for (dlt, cases) in expressions::by_link_type() {
        // From the whole list, a different part for each type.
        for case in cases.iter().skip(dlt as usize % 5).step_by(5) {
            checker.check(&case.expression, dlt, &mut random);
        }
    }
    checker.assert_useful(5_000);
    let Checker {
        accepted, saved, ..
    } = checker;
    assert!(saved > accepted, "only {saved} packets would be saved");
}

fn random() {
    let mut checker = Checker::default();
    let mut random = Random(88);
    for _ in 0..12_000 {
        let choices: Vec<u8> = (0..8).flat_map(|_| random.word().to_le_bytes()).collect();
        let mut choices = generate::Choices::new(&choices);
        let link = generate::link_type(&mut choices);
        let expression = generate::expression_for(link, &mut choices);
        checker.check(&expression, link.dlt, &mut random);
    }
    checker.assert_useful(1_000);
}

/// Tests headers that move later offsets, in every order and under every junction.
fn moved() {
    let mut checker = Checker::default();
    let mut random = Random(888);
    let moves = [
        "vlan", "vlan 5", "mpls", "pppoes", "geneve", "vxlan 7", "not vlan", "tcp",
    ];
    let tests = [
        "host 10.1.2.3",
        "src net 10.1.0.0/16",
        "port 53",
        "ip6 host fe80::1",
        "not port 53",
        "(udp or portrange 1-1024)",
        "not (vlan and not port 53)",
    ];
    for first in moves {
        for second in moves {
            for test in tests {
                for joined in [
                    format!("{first} and {second} and {test}"),
                    format!("({first} and {test}) or ({second} and {test})"),
                    format!("{test} and {first} and {second} and {test}"),
                    format!("({first} or {second}) and {test}"),
                    format!("not ({first} and {second}) and {test}"),
                    format!("not (not {first} or not ({second} and {test}))"),
                ] {
                    checker.check(&joined, 1, &mut random);
                }
            }
        }
    }
    checker.assert_useful(1_000);
}

fn what_is_needed() {
    let needed = |expression| need(expression, true, &Tables::new()).expect(expression);
    let ip4 = |address: [u8; 4], bits: u32| Need::Ip4 {
        address: u32::from_be_bytes(address),
        mask: u32::MAX << (32 - bits),
    };
    let port = |first, last| Need::Port { first, last };
    let host = || ip4([10, 0, 0, 1], 32);
    let cases = [
        ("", Need::Nothing),
        ("tcp", Need::Nothing),
        ("host 10.0.0.1", host()),
        ("src host 10.0.0.1 and udp", host()),
        ("arp host 10.0.0.1", host()),
        ("net 10", ip4([10, 0, 0, 0], 8)),
        ("not host 10.0.0.1", Need::Nothing),
        ("not not host 10.0.0.1", host()),
        ("host 10.0.0.1 or tcp", Need::Nothing),
        (
            "host 10.0.0.1 or port 7",
            Need::Any(vec![host(), port(7, 7)]),
        ),
        (
            "host 10.0.0.1 and port 7",
            Need::All(vec![host(), port(7, 7)]),
        ),
        (
            "not (not port 7 or not host 10.0.0.1)",
            Need::All(vec![port(7, 7), host()]),
        ),
        ("tcp portrange 7-9", port(7, 9)),
        (
            "port in { 7, 20-30 }",
            Need::Any(vec![port(7, 7), port(20, 30)]),
        ),
        ("vlan and host 10.0.0.1", host()),
        ("vlan or host 10.0.0.1", Need::Nothing),
        ("not vlan and host 10.0.0.1", Need::Nothing),
        ("host 10.0.0.1 and not vlan", host()),
        ("(vlan 5 and port 7) or host 10.0.0.1", Need::Nothing),
        (
            "host 10.0.0.1 or (vlan 5 and port 7)",
            Need::Any(vec![host(), port(7, 7)]),
        ),
        ("vxlan 3 inner (host 10.0.0.1)", Need::Nothing),
        ("ether host 1:2:3:4:5:6", Need::Nothing),
        ("ip[12:4] = 0x0a000001", Need::Nothing),
    ];
    for (expression, expected) in cases {
        assert_eq!(needed(expression), expected, "{expression}");
    }
}
