//! A quick check whether a pass could change anything, which is rare in short expressions.
//!
//! Conclusions lead from a test to a later one of the same value. Here, earlier values and tests
//! are kept as bits, several per bit if there are many. So a hint may be wrong, but a missing hint
//! is certain.

use super::graph::{Graph, Step};
use super::{Relation, Test, Value, Values};
use crate::language::ast::Operator;

/// The passes that may change something.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassHints {
    /// Threading by the facts that libpcap knows.
    pub(super) libpcap: bool,
    /// Threading by the ranges of values.
    pub(super) range: bool,
    /// Whether a value is tested more than once anywhere.
    pub(super) group: bool,
}

/// The tests and values before a node on some path.
#[derive(Clone, Copy, Default)]
struct Before {
    /// Values with known facts that also concern tests with other numbers.
    values: u64,
    tests: u64,
    reached: bool,
}

fn bit(at: usize) -> u64 {
    1 << (at % 64)
}

pub(super) fn look(graph: &Graph, values: &Values) -> PassHints {
    let nodes = graph.nodes();
    let mut before = vec![Before::default(); nodes.len()];
    let mut hints = PassHints::default();
    let mut tested = 0;
    if let Some(root) = graph.root().index() {
        before[root].reached = true;
    }
    for (at, node) in nodes.iter().enumerate().rev() {
        let mut here = before[at];
        if !here.reached {
            continue;
        }
        let mut told = 0;
        if let Step::Test(id) = node.step {
            let test = graph.test(id);
            let value = bit(test.left.index());
            let again = here.tests & bit(id.index()) != 0 || here.values & value != 0;
            let by_itself = node.yes == node.no || values.number_of(test.left).is_some();
            hints.group |= tested & value != 0;
            tested |= value;
            hints.libpcap |= again || by_itself;
            hints.range |= again || by_itself || values.fails(test.left);
            here.tests |= bit(id.index());
            match tells_when_true_only(&test, values) {
                true => told = value,
                false => here.values |= value,
            }
        }
        for (target, told) in [(node.yes, told), (node.no, 0)] {
            if let Some(to) = target.index() {
                before[to].values |= here.values | told;
                before[to].tests |= here.tests;
                before[to].reached = true;
            }
        }
    }
    hints
}

/// Returns whether only a true outcome says something about other tests of the value: a value that does not
/// equal one number can equal any other, unless there are few.
fn tells_when_true_only(test: &Test, values: &Values) -> bool {
    let few = matches!(
        values.get(test.left),
        Value::Binary(Operator::And, ..) | Value::HeaderLength { .. }
    );
    test.relation == Relation::Equal && !few
}
