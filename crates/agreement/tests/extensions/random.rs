//! Random nested conditions of extensions: all engines must agree.

use ringtap_filter::program::plain;
use ringtap_filter::{ErrorKind, compile};
use ringtap_jit::Native;

use crate::machines::{names, options};
use crate::table;

/// Bytes added to each packet, so that no load is beyond its end. The optimiser leaves out loads
/// that decide nothing, which makes a difference on short packets only.
const PADDING: usize = 300;

struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let [low, high, ..] = self.0.to_le_bytes();
        usize::from(u16::from_le_bytes([low, high])) % limit
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const SIMPLE: [&str; 17] = [
    "tcp",
    "udp port 53",
    "ip",
    "ip6",
    "arp",
    "tcp port 443",
    "host 192.0.2.1",
    "ether src 02:00:00:00:00:01",
    "port in { 53, 443, 1000-60000 }",
    "net in { 10.0.0.0/8, 2001:db8::/32 }",
    "tcp[2:2] in { 443, 80 }",
    "udp[2:2] = 4789",
    "tcp[tcpflags] & tcp-syn != 0",
    "icmp6",
    "ip6 proto 0",
    "len > 400",
    "ip proto in { 6, 17, 47 }",
];

const TUNNELS: [&str; 10] = [
    "vxlan",
    "vxlan 100",
    "geneve",
    "geneve 11",
    "gtpu",
    "gre",
    "gre 5",
    "mpls",
    "vlan",
    "pppoes 39",
];

fn condition(choices: &mut Choices, depth: usize) -> String {
    if depth == 0 {
        return choices.one(&SIMPLE).to_owned();
    }
    match choices.below(6) {
        0 => choices.one(&SIMPLE).to_owned(),
        1 => {
            let tunnel = choices.one(&TUNNELS);
            format!("{tunnel} inner ({})", condition(choices, depth - 1))
        }
        2 => format!("deep ({})", condition(choices, depth - 1)),
        3 => format!("not ({})", condition(choices, depth - 1)),
        _ => {
            let junction = choices.one(&["and", "or"]);
            let (left, right) = (condition(choices, depth - 1), condition(choices, depth - 1));
            format!("({left}) {junction} ({right})")
        }
    }
}

pub(crate) fn agree() {
    const EXPRESSIONS: u64 = 250;
    let packets: Vec<Vec<u8>> = table::packets()
        .into_iter()
        .map(|packet| [packet, vec![0; PADDING]].concat())
        .collect();
    let names = names();
    let (mut agreed, mut refused, mut taken) = (0, 0, 0);
    for seed in 1..=EXPRESSIONS {
        let mut choices = Choices(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let expression = condition(&mut choices, 3);
        let compiled = |optimize| {
            let mut options = options();
            options.optimize = optimize;
            compile(&expression, &options, &names)
        };
        let (optimised, unoptimised) = match (compiled(true), compiled(false)) {
            (Ok(optimised), Ok(unoptimised)) => (optimised, unoptimised),
            (Err(error), unoptimised) => {
                match error.kind {
                    ErrorKind::TooManyPlaces
                    | ErrorKind::TooLarge
                    | ErrorKind::NotOnLinkType { .. }
                    | ErrorKind::BehindLabels(_)
                    | ErrorKind::MovesInDeep(_) => {}
                    ErrorKind::RejectsAll => {
                        let program = unoptimised.expect("only the optimiser refuses");
                        let accepts = |data: &Vec<u8>| plain::run(&program, data, 1_000, None) > 0;
                        assert!(!packets.iter().any(accepts));
                    }
                    _ => panic!("{}", error.render(&expression)),
                }
                refused += 1;
                continue;
            }
            (Ok(_), Err(error)) => match error.kind {
                ErrorKind::TooManyPlaces | ErrorKind::TooLarge => continue,
                _ => panic!("{}", error.render(&expression)),
            },
        };
        let native = Native::compile(&optimised).expect("native code");
        for data in &packets {
            let len = u32::try_from(data.len()).expect("short");
            let verdict = plain::run(&unoptimised, data, len, None);
            let others = [
                plain::run(&optimised, data, len, None),
                unoptimised.run(data, len),
                optimised.run(data, len),
                native.run(data, len),
            ];
            assert_eq!(others, [verdict; 4], "{expression} on {data:02x?}");
            taken += usize::from(verdict != 0);
        }
        agreed += 1;
    }
    println!("{agreed} expressions agreed, {refused} refused, {taken} packets taken");
    assert!(agreed > 150 && taken > 5_000, "{agreed}, {taken}");
}
