//! Agreement with the installed libpcap: the same expressions are accepted, and on the same packets
//! the programs return the same lengths.
//!
//! The expressions are data: `testdata/filter/agreement/`. What is not compiled yet must be refused as such, and is counted.

#[path = "../common/generate.rs"]
mod generate;
#[path = "../common/packets.rs"]
mod packets;

use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;

use packets::Packet;
use ringtap_filter::program::Reason;
use ringtap_filter::{CompileOptions, ErrorKind, Insn, LinkType, Program, Tables, compile};
use ringtap_testkit::expressions::Expected;
use ringtap_testkit::libpcap::{self, Compile, Oracle};
use ringtap_testkit::{Need, corpus, suite, test};

fn main() -> ExitCode {
    let corpus = &[Need::LibpcapDev, Need::Corpus];
    let mut tests = vec![test(
        "listings_equal_those_of_tcpdump",
        &[Need::Tool("tcpdump")],
        listings,
    )];
    for (name, run) in [
        ("ethernet_unoptimised", ethernet_unoptimised as fn()),
        ("ethernet_optimised", ethernet_optimised),
        ("other_link_types_unoptimised", others_unoptimised),
        ("other_link_types_optimised", others_optimised),
    ] {
        tests.push(test(name, &[Need::LibpcapDev], run));
    }
    tests.push(test(
        "ethernet_on_the_corpus",
        corpus,
        ethernet_on_the_corpus,
    ));
    tests.push(test(
        "random_expressions",
        &[Need::LibpcapDev],
        random_expressions,
    ));
    suite(tests)
}

/// DLT values; those above 14 are the same numbers in files.
const OTHERS: [u32; 10] = [0, 9, 12, 50, 51, 108, 113, 228, 229, 276];

fn ethernet_unoptimised() {
    agree(1, false, &packets::generated(1));
}

fn ethernet_optimised() {
    agree(1, true, &packets::generated(1));
}

fn others_unoptimised() {
    for dlt in OTHERS {
        agree(dlt, false, &packets::generated(dlt));
    }
}

fn others_optimised() {
    for dlt in OTHERS {
        agree(dlt, true, &packets::generated(dlt));
    }
}

/// Real packets, a few of each file, without repetitions.
fn ethernet_on_the_corpus() {
    const OF_EACH_FILE: usize = 12;
    let mut oracle = Oracle::start().expect("oracle");
    let mut seen = HashSet::new();
    let mut packets: Vec<Packet> = Vec::new();
    for file in corpus::files() {
        let Ok(capture) = oracle.read(&file) else {
            continue;
        };
        if capture.dlt != 1 {
            continue;
        }
        for packet in capture.packets.into_iter().take(OF_EACH_FILE) {
            if seen.insert(packet.data.clone()) {
                packets.push((packet.data, packet.len));
            }
        }
    }
    assert!(
        packets.len() > 1000,
        "the corpus has {} packets",
        packets.len()
    );
    agree(1, true, &packets);
}

/// The parts of the corpus that are tried here.
const FILES: [&str; 11] = [
    "basics.txt",
    "encapsulation.txt",
    "bytes.txt",
    "everyday.txt",
    "hardware.txt",
    "hosts.txt",
    "llc.txt",
    "networks.txt",
    "ports.txt",
    "protocols.txt",
    "syntax.txt",
];

/// The expressions of the committed corpus for a link type.
fn expressions(dlt: u32) -> Vec<String> {
    let cases = ringtap_testkit::expressions::cases().into_iter();
    cases
        .filter(|case| !matches!(case.expected, Expected::Known(_)))
        .filter(|case| case.dlts.contains(&dlt) && FILES.iter().any(|f| case.place.starts_with(f)))
        .map(|case| case.expression)
        .collect()
}

/// Names as this system has them, which is where libpcap looks them up.
fn names() -> Tables {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut tables = Tables::new();
    tables.add_hosts(&read("/etc/hosts"));
    tables.add_networks(&read("/etc/networks"));
    tables.add_services(&read("/etc/services"));
    tables.add_protocols(&read("/etc/protocols"));
    tables.add_ethers(&read("/etc/ethers"));
    tables
}

/// Compares acceptance and verdicts of the committed expressions on one link type.
fn agree(dlt: u32, optimize: bool, packets: &[Packet]) {
    let mut comparison = Comparison::new(dlt, optimize, packets);
    for expression in expressions(dlt) {
        comparison.check(&expression);
    }
    comparison.finish();
}

/// Random expressions, the same in every run.
fn random_expressions() {
    const EXPRESSIONS: u64 = 1500;
    let packets = packets::generated(1);
    let few: Vec<Packet> = packets.into_iter().step_by(7).collect();
    for optimize in [true, false] {
        let mut comparison = Comparison::new(1, optimize, &few);
        for seed in 0..EXPRESSIONS {
            let bytes = pseudo_random(seed);
            comparison.check(&generate::expression(&mut generate::Choices::new(&bytes)));
        }
        comparison.finish();
    }
}

/// Bytes of choices for a seed (the mixing function of SplitMix64).
fn pseudo_random(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..8).flat_map(|_| word().to_le_bytes()).collect()
}

/// One link type and one set of packets.
struct Comparison<'a> {
    how: Compile,
    options: CompileOptions,
    names: Tables,
    oracle: Oracle,
    packets: &'a [Packet],
    tally: Tally,
}

impl<'a> Comparison<'a> {
    fn new(dlt: u32, optimize: bool, packets: &'a [Packet]) -> Self {
        let mut oracle = Oracle::start().expect("oracle");
        let views: Vec<(u32, &[u8])> = packets
            .iter()
            .map(|(data, len)| (*len, &data[..]))
            .collect();
        oracle.set_packets(views).expect("packets");
        let netmask = Some(0xffff_ff00);
        let mut options = CompileOptions::new(LinkType(dlt));
        options.netmask = netmask;
        options.optimize = optimize;
        options.ancillary = true;
        let how = Compile {
            dlt,
            netmask,
            optimize,
            ..Compile::default()
        };
        Self {
            how,
            options,
            names: names(),
            oracle,
            packets,
            tally: Tally::default(),
        }
    }

    fn check(&mut self, expression: &str) {
        let theirs = self.oracle.compile(expression, self.how);
        let tally = &mut self.tally;
        match (theirs, compile(expression, &self.options, &self.names)) {
            (_, Err(error)) if matches!(error.kind, ErrorKind::Unsupported(_)) => {
                tally.unsupported += 1;
            }
            (Err(libpcap::OracleError::Refused(_)), Err(_)) => tally.refused += 1,
            (Err(theirs), Ok(_)) => tally.fail(expression, format!("accepted, but {theirs}")),
            (Ok(_), Err(ours)) => {
                tally.fail(expression, format!("refused: {}", ours.render(expression)));
            }
            (Err(theirs), Err(_)) => panic!("{theirs}"),
            (Ok(theirs), Ok(ours)) => self.compare(expression, &theirs, &ours),
        }
    }

    /// Verdicts on all packets.
    fn compare(&mut self, expression: &str, theirs: &[libpcap::Insn], ours: &Program) {
        let tally = &mut self.tally;
        if reads_what_was_never_stored(theirs) {
            tally.unset += 1;
            return;
        }
        tally.compiled += 1;
        tally.size.0 += theirs.len();
        tally.size.1 += ours.insns().len();
        tally.larger += usize::from(ours.insns().len() > theirs.len());
        let mut verdicts = vec![self.oracle.verdicts(theirs).expect("verdicts")];
        if self.how.optimize && difference(&verdicts, ours, self.packets).is_some() {
            // libpcap's optimiser leaves loads out or moves them, so that its two programs
            // differ on packets that are cut there: either is agreement.
            let plain = Compile {
                optimize: false,
                ..self.how
            };
            let plain = self
                .oracle
                .compile(expression, plain)
                .expect("compiles unoptimised");
            verdicts.push(self.oracle.verdicts(&plain).expect("verdicts"));
            tally.two_minds += 1;
        }
        let Some(at) = difference(&verdicts, ours, self.packets) else {
            return;
        };
        let (data, len) = &self.packets[at];
        if self.how.optimize && is_dead_load(theirs, ours, &self.packets[at]) {
            tally.dead_loads += 1;
            return;
        }
        let [theirs, ours] = [verdicts[0][at], ours.run(data, *len)];
        let caplen = data.len();
        let message = format!("libpcap {theirs}, ringtap {ours} on {caplen} of {len}: {data:02x?}");
        tally.fail(expression, message);
    }

    fn finish(self) {
        self.tally
            .finish(self.how.dlt, self.how.optimize, self.packets.len());
    }
}

/// The first packet on which ours returns what none of libpcap's programs returns.
fn difference(verdicts: &[Vec<u32>], ours: &Program, packets: &[Packet]) -> Option<usize> {
    assert!(
        verdicts
            .iter()
            .all(|verdicts| verdicts.len() == packets.len())
    );
    packets.iter().enumerate().find_map(|(at, (data, len))| {
        let verdict = ours.run(data, *len);
        verdicts
            .iter()
            .all(|verdicts| verdict != verdicts[at])
            .then_some(at)
    })
}

/// Whether a difference comes from a load behind the end of a cut packet that one of the programs
/// does not make, because its optimiser found that the test decides nothing: with bytes there, both
/// return the same.
fn is_dead_load(theirs: &[libpcap::Insn], ours: &Program, (data, len): &Packet) -> bool {
    let mut padded = data.clone();
    padded.resize(data.len() + 70_000, 0);
    libpcap::filter(theirs, data, *len).expect("a verdict") == 0
        && libpcap::filter(theirs, &padded, *len).expect("a verdict") == ours.run(&padded, *len)
}

/// Whether the verdict of libpcap's program depends on what was in its memory before: places in a
/// tunnel are looked at on ways on which no tunnel was found. The kernel refuses such programs.
fn reads_what_was_never_stored(theirs: &[libpcap::Insn]) -> bool {
    let insns = theirs.iter().map(|insn| Insn {
        code: insn.code,
        jt: insn.jt,
        jf: insn.jf,
        k: insn.k,
    });
    let invalid = Program::new(insns.collect()).err();
    invalid.is_some_and(|invalid| matches!(invalid.reason, Reason::ScratchUnset(_)))
}

#[derive(Default)]
struct Tally {
    /// Expressions on which libpcap's program reads memory that it never wrote.
    unset: usize,
    compiled: usize,
    refused: usize,
    unsupported: usize,
    larger: usize,
    /// Expressions whose two programs by libpcap differ somewhere.
    two_minds: usize,
    /// Expressions with a test that decides nothing and that only libpcap makes.
    dead_loads: usize,
    size: (usize, usize),
    failures: BTreeMap<String, String>,
}

impl Tally {
    fn fail(&mut self, expression: &str, message: String) {
        self.failures.insert(expression.to_owned(), message);
    }

    fn finish(self, dlt: u32, optimize: bool, packets: usize) {
        println!(
            "DLT {dlt}, optimised {optimize}: {} expressions compiled alike on {packets} packets, \
             {} refused alike, {} not supported yet; instructions: libpcap {}, ringtap {}, larger in {}; \
             libpcap of two minds on {}, dead loads in {}, memory never written in {}",
            self.compiled,
            self.refused,
            self.unsupported,
            self.size.0,
            self.size.1,
            self.larger,
            self.two_minds,
            self.dead_loads,
            self.unset
        );
        for (expression, message) in self.failures.iter().take(60) {
            println!("  {expression:?}: {message}");
        }
        assert!(
            self.failures.is_empty(),
            "{} disagreements",
            self.failures.len()
        );
    }
}

/// The same program printed in all three forms. The programs are libpcap's, so that forms which
/// our compiler does not generate are covered too.
fn listings() {
    type Form = fn(&Program) -> String;
    let forms: [(&str, Form); 3] = [
        ("-d", ringtap_filter::disasm::listing),
        ("-dd", ringtap_filter::disasm::c_array),
        ("-ddd", ringtap_filter::disasm::decimal),
    ];
    let expressions = [
        "host 10.0.0.1",
        "tcp port 80 or udp portrange 53-60",
        "len > 5 and ip[0] % 3 ^ 1 = 0",
        "inbound",
        "ifindex 3",
        "-ip[0] * 2 << 1 >> 2 / 3 | 5 - 1 = 0xffffffff",
        "vlan 5 and net 10",
        "ether[0:4] >= ether[4:2]",
    ];
    for expression in expressions {
        for (flag, form) in forms {
            let run = std::process::Command::new("tcpdump")
                .args(["-O", flag, "-y", "EN10MB", "--", expression])
                .output()
                .expect("tcpdump runs");
            let printed = String::from_utf8_lossy(&run.stdout).into_owned();
            let decimal = std::process::Command::new("tcpdump")
                .args(["-O", "-ddd", "-y", "EN10MB", "--", expression])
                .output()
                .expect("tcpdump runs");
            let program = parse_decimal(&String::from_utf8_lossy(&decimal.stdout));
            assert_eq!(form(&program), printed, "{flag} {expression}");
        }
    }
}

/// A program from the numbers that `tcpdump -ddd` prints.
fn parse_decimal(text: &str) -> Program {
    let insns = text.lines().skip(1).map(|line| {
        let mut numbers = line.split(' ').map(|n| n.parse::<i64>().expect("a number"));
        let mut next = || numbers.next().expect("four numbers");
        Insn {
            code: u16::try_from(next()).expect("16 bits"),
            jt: u8::try_from(next()).expect("8 bits"),
            jf: u8::try_from(next()).expect("8 bits"),
            k: u32::try_from(next() & 0xffff_ffff).expect("32 bits"),
        }
    });
    Program::new(insns.collect()).expect("libpcap's program is valid")
}
