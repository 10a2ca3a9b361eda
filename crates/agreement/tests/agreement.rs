//! Compares ringtap with the installed libpcap, and all engines with the plain interpreter. The
//! expressions of the corpus (`testdata/filter/agreement/`) must be accepted and rejected alike,
//! and on the same packets the programs must return the same lengths.
//!
//! A run tests all expressions on a few hundred packets, and a sample of them in native code and in
//! the kernel. `cargo xtask agree --full` (`RINGTAP_AGREEMENT=full`) tests all of them everywhere.

use std::process::ExitCode;
use std::sync::{Arc, LazyLock};

use ringtap_agreement::Random;
use ringtap_agreement::engine::{Checked, ENGINES, Engine};
use ringtap_agreement::judge::{self, Finding, Judge, Leniency};
use ringtap_agreement::packets::{Packet, guided, made, real, spread};
use ringtap_filter::{Insn, Program, compile};
use ringtap_testkit::expressions::{self, Case, Expected, LinkTypes};
use ringtap_testkit::{Need, generate, suite, test, versions};

/// The return values of the corpus' programs for an accepted packet, in turn: tcpdump's default,
/// and lengths at which the kernel cuts packets.
const SNAPLENS: [u32; 3] = [262_144, 96, 1_500];
/// The number of walks through a program, which make packets that it rejects or accepts.
const WALKS: usize = 6;

fn main() -> ExitCode {
    let mut tests = vec![
        test(
            "listings_equal_those_of_tcpdump",
            &[Need::Tool("tcpdump")],
            listings,
        ),
        test(
            "link_types_are_named_as_libpcap_names_them",
            &[Need::LibpcapDev],
            link_types,
        ),
        test(
            "the_corpus_is_as_large_as_promised",
            &[],
            size_of_the_corpus,
        ),
        test(
            "random_expressions",
            &[Need::LibpcapDev],
            random_expressions,
        ),
    ];
    let types = LinkTypes::load();
    let names: std::collections::HashMap<u32, &str> = types
        .all()
        .into_iter()
        .map(|(name, dlt)| (dlt, name))
        .collect();
    let corpus = Arc::new(expressions::by_link_type());
    for dlt in corpus.keys().copied() {
        let corpus = Arc::clone(&corpus);
        let name = format!("agrees_on_{}", names[&dlt]);
        tests.push(test(name, &[Need::LibpcapDev], move || {
            agree(dlt, &corpus[&dlt]);
        }));
    }
    for engine in ENGINES {
        let needs: &[Need] = match engine.is_kernel {
            true => &[Need::Root, Need::Kernel(5, 18)],
            false => &[],
        };
        let corpus = Arc::clone(&corpus);
        let name = format!("engine_agrees: {}", engine.name);
        tests.push(test(name, needs, move || engine_agrees(*engine, &corpus)));
    }
    suite(tests)
}

/// Returns whether this is a full run.
fn is_full() -> bool {
    std::env::var("RINGTAP_AGREEMENT").is_ok_and(|value| value == "full")
}

/// Returns the packets of a link type: generated ones, and real ones if the corpus has some.
fn packets_of(dlt: u32) -> Vec<Packet> {
    const MADE: usize = 150;
    const REAL: usize = 150;
    static OF_CORPUS: LazyLock<std::collections::BTreeMap<u32, Vec<Packet>>> =
        LazyLock::new(|| real::by_link_type(if is_full() { usize::MAX } else { 12 }));
    let real = OF_CORPUS.get(&dlt).cloned().unwrap_or_default();
    let made = made::generated(dlt);
    if is_full() {
        return [made, real].concat();
    }
    [spread(made, MADE), spread(real, REAL)].concat()
}

/// Compares all expressions of a link type.
fn agree(dlt: u32, cases: &[Case]) {
    let mut judge = Judge::new(dlt, packets_of(dlt), WALKS);
    let mut tally = Tally::default();
    for (at, case) in cases.iter().enumerate() {
        let mut random = Random(at as u64);
        let snaplen = SNAPLENS[at % SNAPLENS.len()];
        let finding = judge.judge(&case.expression, snaplen, &mut random);
        tally.count(case, finding, judge.is_newer());
    }
    tally.finish(&format!("DLT {dlt}"));
}

#[derive(Default)]
struct Tally {
    alike: usize,
    refused: usize,
    known: usize,
    two_minds: usize,
    dead_loads: usize,
    contradictions: usize,
    undefined: usize,
    dropped: usize,
    lost_zeros: usize,
    wrapped: usize,
    overwritten: usize,
    newer: usize,
    older: usize,
    verdicts: usize,
    failures: Vec<String>,
}

impl Tally {
    /// Counts a finding. A newer libpcap may have fixed known differences from 1.10.
    fn count(&mut self, case: &Case, finding: Finding, is_newer: bool) {
        let is_known = matches!(case.expected, Expected::Known(_));
        let mut fail = |what: &str| {
            let line = format!("{}: {:?}: {what}", case.place, case.expression);
            self.failures.push(line);
        };
        match finding {
            // An older libpcap differs here, a newer one agrees with ringtap.
            Finding::Newer if case.expected == Expected::Newer => self.newer += 1,
            _ if case.expected == Expected::Newer && !is_newer => {
                fail("said to be newer, and is not");
            }
            Finding::Different(_) | Finding::Overwritten if is_known => self.known += 1,
            _ if is_known && is_newer => self.known += 1,
            Finding::Different(how) => fail(&how),
            _ if is_known => fail("said to be different, and is not"),
            Finding::RefusedAlike => self.refused += 1,
            Finding::Overwritten => self.overwritten += 1,
            Finding::Newer if case.expected == Expected::Refused => fail("accepted"),
            Finding::Newer => self.newer += 1,
            Finding::Older(_) if case.expected == Expected::Refused => fail("accepted"),
            Finding::Older(_) => self.older += 1,
            Finding::Alike(_) if case.expected == Expected::Refused => fail("both accept it"),
            Finding::Alike(alike) => {
                self.undefined += usize::from(alike.leniency.undefined);
                self.lost_zeros += usize::from(alike.leniency.lost_zero);
                self.wrapped += usize::from(alike.leniency.wrapped);
                self.dropped += usize::from(alike.leniency.dropped_arithmetic);
                let Leniency {
                    two_minds,
                    dead_load,
                    contradiction,
                    ..
                } = alike.leniency;
                self.alike += 1;
                self.verdicts += alike.packets;
                self.two_minds += usize::from(two_minds);
                self.dead_loads += usize::from(dead_load);
                self.contradictions += usize::from(contradiction);
            }
        }
    }

    fn finish(self, what: &str) {
        const SHOWN: usize = 30;
        println!(
            "{what}: {} expressions agree on {} packets, {} are refused alike, {} differ as known; \
             libpcap is of two minds on {}, {} have dead loads, in {} only one sees the contradiction, libpcap has no defined verdict on {}, drops bad arithmetic in {}, \
             overwrites a length in {}, takes zero for another number in {}, leaves an index to wrap around in {}, and is not yet or no longer the version that ringtap follows in {} and {}",
            self.alike,
            self.verdicts,
            self.refused,
            self.known,
            self.two_minds,
            self.dead_loads,
            self.contradictions,
            self.undefined,
            self.dropped,
            self.overwritten,
            self.lost_zeros,
            self.wrapped,
            self.newer,
            self.older
        );
        let shown = if is_full() { usize::MAX } else { SHOWN };
        for failure in self.failures.iter().take(shown) {
            println!("  {failure}");
        }
        let count = self.failures.len();
        assert!(count == 0, "{what}: {count} disagreements");
    }
}

/// Checks programs of the corpus in one engine: each in a full run, otherwise a sample.
fn engine_agrees(engine: Engine, corpus: &std::collections::BTreeMap<u32, Vec<Case>>) {
    const SAMPLE: usize = 40;
    let step = if is_full() { 1 } else { SAMPLE };
    let names = judge::system_names();
    let (mut programs, mut verdicts, mut not_taken) = (0, 0, 0);
    let mut failures = Vec::new();
    // Most programs belong to several expressions or link types.
    let mut seen = std::collections::HashSet::new();
    let pairs = corpus
        .iter()
        .flat_map(|(dlt, cases)| cases.iter().map(|case| (*dlt, case)));
    for (at, (dlt, case)) in pairs.enumerate().filter(|(at, _)| at % step == 0) {
        for optimize in [true, false] {
            let snaplen = SNAPLENS[case.expression.len() % SNAPLENS.len()];
            let options = judge::options(dlt, snaplen, optimize);
            let Ok(program) = compile(&case.expression, &options, &names) else {
                continue;
            };
            if !seen.insert(program.insns().to_vec()) {
                continue;
            }
            let packets = guided::packets(program.insns(), 8, &mut Random(at as u64));
            programs += 1;
            match (engine.check)(&program, &packets) {
                Ok(Checked::Compared(count)) => verdicts += count,
                Ok(Checked::NotTaken) => not_taken += 1,
                Err(how) => failures.push(format!("{} on DLT {dlt}: {how}", case.place)),
            }
        }
    }
    println!(
        "{}: {programs} programs, {verdicts} verdicts, {not_taken} programs not taken, {} failures",
        engine.name,
        failures.len()
    );
    for failure in failures.iter().take(10) {
        println!("  {failure}");
    }
    assert!(failures.is_empty(), "{} failures", failures.len());
    assert!(
        verdicts > programs,
        "{verdicts} verdicts of {programs} programs"
    );
}

/// Tests random expressions, the same in every run, on one link type after the other.
fn random_expressions() {
    const LINK_TYPES: u64 = 51;
    let count = if is_full() { 100_000 } else { 3_000 };
    let mut judges = std::collections::HashMap::new();
    let mut tally = Tally::default();
    for seed in 0..count {
        let mut random = Random(seed);
        let mut bytes: Vec<u8> = (0..8).flat_map(|_| random.word().to_le_bytes()).collect();
        bytes[0] = u8::try_from(seed % LINK_TYPES).unwrap_or_default();
        let mut choices = generate::Choices::new(&bytes);
        let link = generate::link_type(&mut choices);
        let expression = generate::expression_for(link, &mut choices);
        let judge = judges
            .entry(link.dlt)
            .or_insert_with(|| Judge::new(link.dlt, spread(made::generated(link.dlt), 40), WALKS));
        let finding = judge.judge(&expression, SNAPLENS[0], &mut random);
        if matches!(finding, Finding::Different(_)) && judge::is_murky(&expression, link.dlt) {
            continue;
        }
        let case = Case {
            expression,
            dlts: [link.dlt].into(),
            expected: Expected::Agreement,
            place: format!("seed {seed} on DLT {}", link.dlt),
        };
        tally.count(&case, finding, judge.is_newer());
    }
    tally.finish("random expressions");
}

fn size_of_the_corpus() {
    let cases = expressions::cases();
    let distinct: std::collections::HashSet<_> =
        cases.iter().map(|case| &case.expression).collect();
    let link_types = expressions::by_link_type().len();
    println!("{} expressions, {link_types} link types", distinct.len());
    assert!(distinct.len() >= 3_000 && link_types >= 40);
}

fn link_types() {
    let mut oracle = ringtap_testkit::libpcap::Oracle::start().expect("the helper starts");
    let version = oracle.version().expect("a version");
    for (name, dlt) in LinkTypes::load().all() {
        if versions::is_name_newer(dlt) && !versions::is_newer(version) {
            continue;
        }
        let (theirs, _) = oracle.link_type(dlt).expect(name);
        assert_eq!(name, theirs, "{dlt}");
    }
}

/// Compares the same program printed in all three forms. The programs are libpcap's, so that
/// instructions that our compiler does not generate are covered, too.
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

/// Parses a program from the numbers that `tcpdump -ddd` prints.
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
