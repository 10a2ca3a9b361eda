//! Which cells can be looked at on a way on which nothing was put into them.

use std::collections::HashMap;

use crate::ir::{Graph, NodeId, Step, Value, ValueId, Values};
use crate::program::opcode as op;

/// A bit for each cell.
type Cells = u16;

/// The words of scratch memory that must be made 0 before the first node.
pub(super) fn maybe_unset(graph: &Graph, values: &Values) -> impl Iterator<Item = u32> + Clone {
    let mut set_before: HashMap<NodeId, Cells> = HashMap::new();
    let mut used_by = HashMap::new();
    let mut unset = 0;
    let order = if values.cells() > 0 {
        graph.order()
    } else {
        Vec::new()
    };
    // Every node comes before its successors.
    for id in order {
        let Some(node) = graph.node(id) else { continue };
        let mut set = set_before.get(&id).copied().unwrap_or(0);
        match node.step {
            Step::Test(test) => {
                let test = graph.test(test);
                let used = used(test.left, values, &mut used_by);
                unset |= (used | self::used(test.right, values, &mut used_by)) & !set;
            }
            Step::Set(cell, value) => {
                unset |= used(value, values, &mut used_by) & !set;
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

fn bit(cell: u32) -> Cells {
    1_u16.checked_shl(cell).unwrap_or(0)
}

/// The cells that a value is computed from.
fn used(id: ValueId, values: &Values, known: &mut HashMap<ValueId, Cells>) -> Cells {
    if let Some(&cells) = known.get(&id) {
        return cells;
    }
    let cells = match values.get(id) {
        Value::Cell(cell) => bit(cell.0),
        Value::Load {
            index: Some(inner), ..
        }
        | Value::Negate(inner) => used(inner, values, known),
        Value::Binary(_, left, right) => used(left, values, known) | used(right, values, known),
        Value::Constant(_)
        | Value::Folded(_)
        | Value::Length
        | Value::Load { index: None, .. }
        | Value::HeaderLength { .. }
        | Value::Chain(_)
        | Value::Ancillary { .. } => 0,
    };
    known.insert(id, cells);
    cells
}
