//! Checks each pass of the optimiser alone: the programs before and after it must decide alike.
//! Only tests and fuzzing use this module.

use crate::ir::{Graph, Pass, ROUNDS, Values};
use crate::program::opcode as op;
use crate::{CompileOptions, Decision, Program, Resolver, decision, emit};

/// Return values of the programs: for an accepted packet, for a rejected one, and for one rejected
/// by a load beyond its end or by a division by zero.
const ACCEPTED: u32 = 2;
const REJECTED: u32 = 1;
const FAILED: u32 = 0;

/// Compares the programs before and after each pass, and after all passes in their order, on all
/// packets (captured bytes, length on the wire). Returns how many passes changed the graph.
///
/// # Errors
/// Returns the difference as text. Expressions that do not compile are no error.
pub fn check(
    expression: &str,
    options: &CompileOptions,
    resolver: &dyn Resolver,
    packets: &[(Vec<u8>, u32)],
) -> Result<usize, String> {
    let Ok(Decision { graph, values, .. }) = decision(expression, options, resolver) else {
        return Ok(0);
    };
    let comparison = Comparison { values, packets };
    let mut changed = 0;
    for pass in Pass::ALL {
        changed += usize::from(comparison.pass(pass, &mut graph.clone())?);
    }
    let mut graph = graph;
    for round in ROUNDS {
        for pass in [round, round, round].concat() {
            changed += usize::from(comparison.pass(pass, &mut graph)?);
        }
    }
    let (Some(plain), Some(reusing)) = (
        comparison.emit(&graph, false),
        comparison.emit(&graph, true),
    ) else {
        return Ok(changed);
    };
    comparison.compare("selection of instructions", &plain, &reusing, true)?;
    Ok(changed)
}

struct Comparison<'a> {
    values: Values,
    packets: &'a [(Vec<u8>, u32)],
}

impl Comparison<'_> {
    /// Runs a pass. Returns whether it changed the graph.
    fn pass(&self, pass: Pass, graph: &mut Graph) -> Result<bool, String> {
        let before = self.emit(graph, false);
        let changed = pass.run(graph, &self.values);
        let after = self.emit(graph, false);
        if let (Some(before), Some(after)) = (before, after) {
            self.compare(&format!("{pass:?}"), &before, &after, pass.is_exact())?;
        }
        Ok(changed)
    }

    /// Returns the program, or `None` if it is too long.
    fn emit(&self, graph: &Graph, reuse: bool) -> Option<Program> {
        let program = emit::emit(graph, &self.values, ACCEPTED, reuse).ok()?;
        let mut insns = program.insns().to_vec();
        for insn in &mut insns {
            if insn.code == op::RET && insn.k == 0 {
                insn.k = REJECTED;
            }
        }
        Program::new(insns).ok()
    }

    fn compare(
        &self,
        what: &str,
        before: &Program,
        after: &Program,
        exact: bool,
    ) -> Result<(), String> {
        for (data, len) in self.packets {
            let verdicts = [before, after].map(|program| program.run(data, *len));
            let same = match verdicts {
                [FAILED, _] if !exact => true,
                [ACCEPTED, after] => after == ACCEPTED,
                [_, after] => after != ACCEPTED,
            };
            if !same {
                return Err(format!(
                    "{what}: {verdicts:?} on {data:02x?}, {len}\n{before:?}\n{after:?}"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ringtap_testkit::generate::{Choices, expression};

    use super::*;
    use crate::{LinkType, Tables};

    /// Returns packets with bytes that filters test for, at random places; some are cut short.
    fn packets(count: u64) -> Vec<(Vec<u8>, u32)> {
        const LENGTH: usize = 80;
        const TYPES: [[u8; 2]; 5] = [[8, 0], [8, 6], [0x86, 0xdd], [0x81, 0], [0, 60]];
        let packet = |seed: u64| {
            let mut random = pseudo_random(seed);
            let mut next = || random.next().unwrap_or(0);
            let mut data: Vec<u8> = (0..LENGTH)
                .map(|_| [0, 1, 10, 80, 255, next()][usize::from(next() % 6)])
                .collect();
            data[12..14].copy_from_slice(&TYPES[usize::from(next() % 5)]);
            data[14] = [0x45, 0x46, 0x60, next()][usize::from(next() % 4)];
            for at in [20, 23, 27] {
                data[at] = [6, 17, 1, 132, 44, next()][usize::from(next() % 6)];
            }
            data[20] &= if next() % 2 == 0 { 0 } else { 0xff };
            if next() % 2 == 0 {
                data.truncate(usize::from(next()) % LENGTH);
            }
            (data, u32::from(next()))
        };
        (0..count).map(packet).collect()
    }

    fn pseudo_random(seed: u64) -> impl Iterator<Item = u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[4]
        })
    }

    #[test]
    fn random_expressions_mean_the_same_after_each_pass() {
        let packets = packets(400);
        let mut changed = 0;
        for seed in 1..6000 {
            let link_types = [1, 0, 9, 12, 113];
            let link_type = LinkType(link_types[usize::try_from(seed % 5).unwrap_or(0)]);
            let options = CompileOptions::new(link_type);
            let bytes: Vec<u8> = pseudo_random(seed).take(64).collect();
            let expression = expression(&mut Choices::new(&bytes));
            match check(&expression, &options, &Tables::new(), &packets) {
                Ok(passes) => changed += passes,
                Err(difference) => panic!("{expression}: {difference}"),
            }
        }
        assert!(changed > 1000, "{changed} passes changed anything");
    }

    #[test]
    fn long_alternatives_mean_the_same_after_each_pass() {
        let packets = packets(300);
        let options = CompileOptions::new(LinkType::RAW);
        let mut changed = 0;
        for seed in 1..300 {
            let mut random = pseudo_random(seed);
            let mut pick = |list: &[&str]| {
                let at = random.next().map_or(0, usize::from) % list.len();
                list[at].to_owned()
            };
            let mut expression = pick(&["", "not "]) + "link[0] = 1";
            for _ in 0..seed % 40 {
                expression += &pick(&[" or ", " or ", " or ", " or not ", " and not ", " and "]);
                expression += &pick(&["link[0]", "link[0]", "link[0]", "link[0:2]", "link[30]"]);
                expression += &pick(&[" = ", " = ", " = ", " > ", " >= ", " < ", " & 3 = "]);
                expression += &pick(&[
                    "0", "1", "2", "9", "10", "11", "79", "80", "81", "254", "255", "256",
                ]);
            }
            match check(&expression, &options, &Tables::new(), &packets) {
                Ok(passes) => changed += passes,
                Err(difference) => panic!("{expression}: {difference}"),
            }
        }
        assert!(changed > 300, "{changed} passes changed anything");
    }

    /// Expressions found by fuzzing, with packets on which a pass was wrong.
    #[test]
    fn finds_mean_the_same_after_each_pass() {
        // A test was put before another because the two load one value, but it loads a second one,
        // for which the packet is too short.
        let found = ["!not len != len or !!not len >= ip[len:2]"];
        let mut packets = packets(100);
        packets.push((vec![0x60; 17], 76));
        for expression in found {
            for link_type in [LinkType::ETHERNET, LinkType::RAW] {
                let options = CompileOptions::new(link_type);
                check(expression, &options, &Tables::new(), &packets).expect(expression);
            }
        }
    }

    /// The payload's offset is computed before a test of the frame's type, so frames without a
    /// payload compute it for nothing. The pass leaves out stores that nothing reads.
    #[test]
    fn what_sets_a_cell_for_nobody_is_left_out() {
        let changes = |expression, link_type| {
            let options = CompileOptions::new(link_type);
            let decision = decision(expression, &options, &Tables::new()).expect(expression);
            let Decision {
                mut graph, values, ..
            } = decision;
            for pass in [
                Pass::ThreadLibpcapFacts,
                Pass::ThreadRangeFacts,
                Pass::ThreadRangeFacts,
            ] {
                pass.run(&mut graph, &values);
            }
            [(); 2].map(|()| Pass::LeaveUnread.run(&mut graph, &values))
        };
        assert_eq!(changes("pppoes", LinkType(127)), [true, false]);
        assert_eq!(changes("pppoes", LinkType::ETHERNET), [false, false]);
        assert_eq!(changes("ip", LinkType(105)), [true, false]);
    }

    #[test]
    fn the_corpus_means_the_same_after_each_pass() {
        let packets = packets(300);
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut changed = 0;
        for file in ["basics", "combinations", "ports"] {
            let path = folder.join(format!("../../testdata/filter/agreement/{file}.txt"));
            let text = std::fs::read_to_string(path).expect("a file of expressions");
            let options = CompileOptions::new(LinkType::ETHERNET);
            for expression in text.lines() {
                match check(expression, &options, &Tables::new(), &packets) {
                    Ok(passes) => changed += passes,
                    Err(difference) => panic!("{expression}: {difference}"),
                }
            }
        }
        assert!(changed > 1000, "{changed} passes changed anything");
    }
}
