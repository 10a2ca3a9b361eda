//! Removal of unread cells: stores to cells that are never read before the next store or the end.

use super::graph::{Graph, Step};
use super::{Value, ValueId, Values};
use crate::language::ast::Operator;

/// A bit for each cell.
pub(crate) type Cells = u16;

/// Leaves out stores to unread cells if computing the value cannot reject a packet. Returns whether
/// anything changed.
pub(super) fn leave_unread(graph: &mut Graph, values: &Values) -> bool {
    if values.cells() == 0 {
        return false;
    }
    let idle = idle(graph, values);
    if !idle.contains(&true) {
        return false;
    }
    graph.rebuild(|graph, renamed, at, mut node| {
        node.yes = renamed.of(node.yes);
        node.no = renamed.of(node.no);
        match idle[at] {
            true => node.yes,
            false => graph.intern(node),
        }
    });
    true
}

/// Returns which nodes can be left out.
fn idle(graph: &Graph, values: &Values) -> Vec<bool> {
    let used = used(values);
    // Cells that are read from a node on.
    let mut wanted: Vec<Cells> = Vec::with_capacity(graph.nodes().len());
    let mut idle = vec![false; graph.nodes().len()];
    // Successors come first.
    for (at, node) in graph.nodes().iter().enumerate() {
        let behind = |target: super::NodeId| target.index().map_or(0, |at| wanted[at]);
        let behind = behind(node.yes) | behind(node.no);
        wanted.push(match node.step {
            Step::Test(test) => {
                let test = graph.test(test);
                behind | used[test.left.index()] | used[test.right.index()]
            }
            Step::Set(cell, value) => {
                let bit = bit(cell.0);
                idle[at] = behind & bit == 0 && never_rejects(value, values);
                match idle[at] {
                    true => behind,
                    false => behind & !bit | used[value.index()],
                }
            }
        });
    }
    idle
}

/// Returns, for each value, the cells that it is computed from.
pub(crate) fn used(values: &Values) -> Vec<Cells> {
    let mut used: Vec<Cells> = Vec::with_capacity(values.count());
    // The operands of a value come before it.
    for id in values.all() {
        used.push(match values.get(id) {
            Value::Cell(cell) => bit(cell.0),
            Value::Load {
                index: Some(inner), ..
            }
            | Value::Negate(inner) => used[inner.index()],
            Value::Binary(_, left, right) => used[left.index()] | used[right.index()],
            _ => 0,
        });
    }
    used
}

/// Returns the bit of a cell.
pub(crate) fn bit(cell: u32) -> Cells {
    1_u16.checked_shl(cell).unwrap_or(0)
}

/// Returns whether a value is computed without a load or a division that may reject the packet.
fn never_rejects(id: ValueId, values: &Values) -> bool {
    match values.get(id) {
        Value::Constant(_) | Value::Folded(_) | Value::Length | Value::Cell(_) => true,
        Value::Binary(Operator::Add | Operator::And, left, right) => {
            never_rejects(left, values) && never_rejects(right, values)
        }
        _ => false,
    }
}
