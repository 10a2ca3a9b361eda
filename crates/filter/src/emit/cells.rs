//! Finds cells that may be read on a path on which nothing was stored in them.

use std::collections::HashMap;

use crate::ir::cells::{Cells, bit, used};
use crate::ir::{Graph, NodeId, Step, Values};
use crate::program::opcode as op;

/// Returns the words of scratch memory that must be set to 0 before the first node.
pub(super) fn maybe_unset(graph: &Graph, values: &Values) -> impl Iterator<Item = u32> + Clone {
    let mut set_before: HashMap<NodeId, Cells> = HashMap::new();
    let mut unset = 0;
    let (order, used) = match values.cells() {
        0 => (Vec::new(), Vec::new()),
        _ => (graph.order(), used(values)),
    };
    // Every node comes before its successors.
    for id in order {
        let Some(node) = graph.node(id) else { continue };
        let mut set = set_before.get(&id).copied().unwrap_or(0);
        match node.step {
            Step::Test(test) => {
                let test = graph.test(test);
                unset |= (used[test.left.index()] | used[test.right.index()]) & !set;
            }
            Step::Set(cell, value) => {
                unset |= used[value.index()] & !set;
                set |= bit(cell.0);
            }
        }
        for target in [node.yes, node.no] {
            set_before
                .entry(target)
                .and_modify(|there| *there &= set)
                .or_insert(set);
        }
    }
    (0..op::MEMWORDS).filter(move |&cell| unset & bit(cell) != 0)
}
