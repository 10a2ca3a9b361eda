//! Balancing: comparisons of one value with many numbers become a binary search.
//!
//! Tests of one value that lead only to each other and out again just map each number to a target.
//! So they are built again from that map. Neighbouring numbers with the same target become a range,
//! which needs two tests. If more than a few tests remain, a test for the middle comes first. All
//! of them load the same value, so no load is made earlier or left out.

use super::graph::{Graph, Node, NodeId, Step};
use super::range_facts::limit;
use super::{Relation, Test, ValueId, Values};

/// The most tests that are made one after the other. A lower limit would make programs longer than
/// libpcap's, and processors predict branches worse in a search than in a row.
const MOST_IN_ROW: usize = 10;

/// The most steps for all regions together; regions that would take longer stay as they are.
const MOST_STEPS: usize = 1 << 26;

/// Numbers from `first` up to the next piece, and their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    first: u64,
    target: NodeId,
}

/// Tests of one value that can be reached only through the first of them.
struct Region {
    /// The index of the first test.
    root: usize,
    value: ValueId,
    pieces: Vec<Piece>,
    /// Numbers that the value is compared with, in ascending order.
    numbers: Vec<(u64, ValueId)>,
}

/// Rebuilds all regions that become smaller or are large. Returns whether there are any.
pub(super) fn balance(graph: &mut Graph, values: &Values) -> bool {
    if !promises_any(graph, values) {
        return false;
    }
    let mut regions = Finder::new(graph, values).regions();
    if regions.is_empty() {
        return false;
    }
    // Regions are stored from the last node to the first.
    graph.rebuild(|graph, renamed, at, node| {
        let Some(mut region) = regions.pop_if(|region| region.root == at) else {
            let (yes, no) = (renamed.of(node.yes), renamed.of(node.no));
            return graph.intern(Node { yes, no, ..node });
        };
        for piece in &mut region.pieces {
            piece.target = renamed.of(piece.target);
        }
        region.search(graph, &region.pieces)
    });
    true
}

/// Returns the test and its number if the node compares a value with a number, not with bits.
fn compared(graph: &Graph, values: &Values, node: &Node) -> Option<(Test, u32)> {
    let test = graph.test(node.test()?);
    let number = values.number_of(test.right)?;
    let has_order = test.relation != Relation::AnyBit;
    (has_order && values.number_of(test.left).is_none()).then_some((test, number))
}

/// Returns whether any comparison leads to another of the same value, which is rare in short expressions.
fn promises_any(graph: &Graph, values: &Values) -> bool {
    let left_of = |node: &Node| compared(graph, values, node).map(|(test, _)| test.left);
    graph.nodes().iter().any(|node| {
        let targets = [node.yes, node.no].into_iter();
        left_of(node).is_some_and(|left| {
            let mut after = targets.filter_map(|id| graph.node(id));
            after.any(|node| left_of(node) == Some(left))
        })
    })
}

struct Finder<'a> {
    graph: &'a Graph,
    values: &'a Values,
    /// The number of edges to each node from reachable nodes.
    ways: Vec<u32>,
    /// How many of them come from the current region.
    from_inside: Vec<u32>,
    /// Whether a node is in a region already.
    taken: Vec<bool>,
    steps: usize,
}

impl<'a> Finder<'a> {
    fn new(graph: &'a Graph, values: &'a Values) -> Self {
        let nodes = graph.nodes();
        let mut ways = vec![0; nodes.len()];
        if let Some(root) = graph.root().index() {
            ways[root] = 1;
        }
        for (at, node) in nodes.iter().enumerate().rev() {
            if ways[at] > 0 {
                for to in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
                    ways[to] += 1;
                }
            }
        }
        Self {
            graph,
            values,
            ways,
            from_inside: vec![0; nodes.len()],
            taken: vec![false; nodes.len()],
            steps: 0,
        }
    }

    /// Returns the regions worth rebuilding, from the last node to the first.
    fn regions(mut self) -> Vec<Region> {
        let mut regions = Vec::new();
        let mut members = Vec::new();
        for at in (0..self.ways.len()).rev() {
            if self.taken[at] || self.ways[at] == 0 {
                continue;
            }
            self.grow(at, &mut members);
            regions.extend(self.region(&members));
        }
        regions
    }

    /// Finds the indices of the nodes of the region that begins at a node.
    fn grow(&mut self, root: usize, members: &mut Vec<usize>) {
        members.clear();
        let nodes = self.graph.nodes();
        let Some((first, _)) = compared(self.graph, self.values, &nodes[root]) else {
            return;
        };
        members.push(root);
        let mut next = 0;
        while let Some(&at) = members.get(next) {
            next += 1;
            self.taken[at] = true;
            let node = &nodes[at];
            for to in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
                let test = compared(self.graph, self.values, &nodes[to]);
                if test.is_none_or(|(test, _)| test.left != first.left) {
                    continue;
                }
                self.from_inside[to] += 1;
                if self.from_inside[to] == self.ways[to] {
                    members.push(to);
                }
            }
        }
        // Nodes that are also reached from elsewhere begin a region of their own.
        for &at in &*members {
            let node = &nodes[at];
            for to in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
                if !self.taken[to] {
                    self.from_inside[to] = 0;
                }
            }
        }
    }

    /// Returns the region of these nodes if it should be rebuilt.
    fn region(&mut self, members: &[usize]) -> Option<Region> {
        let &root = members.first().filter(|_| members.len() > 1)?;
        let nodes = self.graph.nodes();
        let tests = members
            .iter()
            .filter_map(|&at| compared(self.graph, self.values, &nodes[at]));
        let mut numbers: Vec<(u64, ValueId)> = Vec::with_capacity(members.len());
        let mut cuts = vec![0];
        let mut value = None;
        for (test, number) in tests {
            value = Some(test.left);
            let number = u64::from(number);
            numbers.push((number, test.right));
            cuts.extend(match test.relation {
                Relation::GreaterEqual => [number, number],
                Relation::Greater => [number + 1, number + 1],
                Relation::Equal | Relation::AnyBit => [number, number + 1],
            });
        }
        let value = value?;
        let end = limit(value, self.values);
        cuts.retain(|&cut| cut < end);
        cuts.sort_unstable();
        cuts.dedup();
        numbers.sort_unstable();
        numbers.dedup_by_key(|(number, _)| *number);
        self.steps = self.steps.saturating_add(cuts.len() * members.len());
        if self.steps > MOST_STEPS {
            return None;
        }
        let mut pieces: Vec<Piece> = Vec::with_capacity(cuts.len());
        for first in cuts {
            let target = self.follow(root, members, first);
            if pieces.last().is_none_or(|last| last.target != target) {
                pieces.push(Piece { first, target });
            }
        }
        let region = Region {
            root,
            value,
            pieces,
            numbers,
        };
        // If everything leads to one target, no test is left to load the value.
        if region.pieces.len() < 2 {
            return None;
        }
        let row = region.row(&region.pieces);
        (row.tests() < members.len() || row.tests() > MOST_IN_ROW).then_some(region)
    }

    /// Returns the target of a number.
    fn follow(&self, root: usize, members: &[usize], number: u64) -> NodeId {
        let nodes = self.graph.nodes();
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let (mut at, mut left) = (root, members.len());
        loop {
            let node = &nodes[at];
            let holds = compared(self.graph, self.values, node)
                .is_some_and(|(test, with)| test.relation.holds(number, with));
            let target = if holds { node.yes } else { node.no };
            left = left.saturating_sub(1);
            match target.index() {
                // A node counted in full is reached only from inside.
                Some(to) if left > 0 && self.is_inside(to) => at = to,
                _ => return target,
            }
        }
    }

    fn is_inside(&self, at: usize) -> bool {
        self.from_inside[at] > 0 && self.from_inside[at] == self.ways[at]
    }
}

/// Tests in a row: single numbers, and where ranges begin.
#[derive(Debug, Default)]
struct Row {
    apart: Vec<(ValueId, NodeId)>,
    ranges: Vec<Piece>,
}

impl Row {
    /// Returns the number of tests.
    fn tests(&self) -> usize {
        self.apart.len() + self.ranges.len().saturating_sub(1)
    }
}

impl Region {
    /// Returns the tests that distinguish the pieces.
    fn row(&self, pieces: &[Piece]) -> Row {
        let mut row = Row::default();
        for &piece in pieces {
            if let [.., before, last] = row.ranges[..]
                && before.target == piece.target
                && last.first + 1 == piece.first
                && let Some(number) = self.number(last.first)
            {
                row.apart.push((number, last.target));
                row.ranges.pop();
            } else {
                row.ranges.push(piece);
            }
        }
        row
    }

    fn number(&self, number: u64) -> Option<ValueId> {
        let at = self.numbers.binary_search_by_key(&number, |&(n, _)| n);
        at.ok().map(|at| self.numbers[at].1)
    }

    /// Makes the tests for some of the pieces. The recursion depth is the logarithm of their
    /// number.
    fn search(&self, graph: &mut Graph, pieces: &[Piece]) -> NodeId {
        let row = self.row(pieces);
        if row.tests() > MOST_IN_ROW {
            return self.halves(graph, pieces, Self::search);
        }
        let rest = self.ranges(graph, &row.ranges);
        row.apart.iter().rev().fold(rest, |no, &(right, yes)| {
            let relation = Relation::Equal;
            self.test(graph, relation, right, (yes, no))
        })
    }

    /// Makes the tests for ranges only.
    fn ranges(&self, graph: &mut Graph, pieces: &[Piece]) -> NodeId {
        match pieces {
            [] => super::REJECT,
            [piece] => piece.target,
            _ => self.halves(graph, pieces, Self::ranges),
        }
    }

    /// Makes a test in the middle; `each` handles the two sides.
    fn halves(
        &self,
        graph: &mut Graph,
        pieces: &[Piece],
        each: fn(&Self, &mut Graph, &[Piece]) -> NodeId,
    ) -> NodeId {
        let (low, high) = pieces.split_at(pieces.len() / 2);
        let cut = high.first().map_or(0, |piece| piece.first);
        let high = each(self, graph, high);
        let low = each(self, graph, low);
        // A piece begins at a compared number or just after one.
        let at_least = (Relation::GreaterEqual, self.number(cut));
        let above = (Relation::Greater, self.number(cut.wrapping_sub(1)));
        match [at_least, above] {
            [(relation, Some(number)), _] | [_, (relation, Some(number))] => {
                self.test(graph, relation, number, (high, low))
            }
            _ => low,
        }
    }

    fn test(
        &self,
        graph: &mut Graph,
        relation: Relation,
        right: ValueId,
        (yes, no): (NodeId, NodeId),
    ) -> NodeId {
        let test = Test {
            left: self.value,
            relation,
            right,
        };
        let step = Step::Test(graph.intern_test(test));
        graph.intern(Node { step, yes, no })
    }
}

#[cfg(test)]
mod tests {
    use crate::program::opcode as op;
    use crate::{CompileOptions, LinkType, Program, Tables, compile};

    fn program(expression: &str, extensions: bool) -> Program {
        let mut options = CompileOptions::new(LinkType::RAW);
        options.extensions = extensions;
        compile(expression, &options, &Tables::new()).expect(expression)
    }

    /// Returns the number of conditional jumps that a byte passes in a program, and whether it is
    /// accepted.
    fn walk(program: &Program, byte: u8) -> (usize, bool) {
        let insns = program.insns();
        let (mut at, mut jumps) = (0, 0);
        while let Some(insn) = insns.get(at) {
            let byte = u32::from(byte);
            let holds = match insn.code {
                code if code == op::RET | op::K => return (jumps, insn.k != 0),
                code if code == op::JMP | op::JEQ => byte == insn.k,
                code if code == op::JMP | op::JGT => byte > insn.k,
                code if code == op::JMP | op::JGE => byte >= insn.k,
                _ => {
                    at += 1;
                    continue;
                }
            };
            jumps += 1;
            at += 1 + usize::from(if holds { insn.jt } else { insn.jf });
        }
        panic!("no return: {program:?}");
    }

    fn alternatives(numbers: impl Iterator<Item = u32>) -> String {
        let each: Vec<String> = numbers
            .map(|number| format!("link[0] = {number}"))
            .collect();
        each.join(" or ")
    }

    #[test]
    fn neighbouring_numbers_are_a_range() {
        let expected = [
            ("link[0] = 7 or link[0] = 5 or link[0] = 6", 2),
            ("link[0] = 5 or link[0] = 6", 2),
            ("link[0] = 255 or link[0] = 254 or link[0] = 253", 1),
            ("link[0] = 0 or link[0] = 1", 1),
            (
                "link[0] = 5 or link[0] = 6 or link[0] = 7 or link[0] = 9",
                3,
            ),
            ("link[0] > 4 and link[0] < 9 and link[0] != 6", 3),
        ];
        for (expression, jumps) in expected {
            let program = program(expression, false);
            // A load, the jumps, two returns.
            assert_eq!(
                program.insns().len(),
                jumps + 3,
                "{expression}: {program:?}"
            );
        }
    }

    #[test]
    fn many_numbers_are_searched_for() {
        let odd: Vec<u32> = (0..100).map(|n| n * 2 + 1).collect();
        let set: Vec<String> = odd.iter().map(u32::to_string).collect();
        let programs = [
            program(&alternatives(odd.iter().copied()), false),
            program(&alternatives(odd.iter().rev().copied()), false),
            program(&format!("link[0] in {{ {} }}", set.join(", ")), true),
        ];
        for program in &programs {
            for byte in 0..=u8::MAX {
                let (jumps, taken) = walk(program, byte);
                assert_eq!(taken, byte % 2 == 1 && byte < 200, "{byte}");
                assert!(jumps <= 4 + super::MOST_IN_ROW, "{jumps} for {byte}");
            }
        }
        assert_eq!(programs[0], programs[1]);
        assert_eq!(programs[0], programs[2]);
    }

    #[test]
    fn few_numbers_stay_in_their_order() {
        let numbers = [90, 10, 80, 20, 70, 30, 60, 40, 50, 100];
        let program = program(&alternatives(numbers.into_iter()), false);
        let asked: Vec<u32> = program.insns()[1..=numbers.len()]
            .iter()
            .map(|insn| insn.k)
            .collect();
        assert_eq!(asked, numbers);
    }
}
