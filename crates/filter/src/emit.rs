//! Decision graph to instructions.

mod cells;
mod select;

use std::collections::HashMap;

use crate::error::ErrorKind;
use crate::ir::{ACCEPT, Graph, NodeId, REJECT, Values};
use crate::program::Program;
use crate::program::assemble::{Assembler, Label};
use crate::program::opcode as op;

/// Instructions for a graph; `accept` is the number of bytes that an accepted packet keeps. With
/// `reuse`, values that are in a register on every way to a node are not loaded again.
pub(crate) fn emit(
    graph: &Graph,
    values: &Values,
    accept: u32,
    reuse: bool,
) -> Result<Program, ErrorKind> {
    let blocks = select::blocks(graph, values, reuse)?;
    let mut asm = Assembler::default();
    let mut labels: HashMap<NodeId, Label> = HashMap::new();
    let unset = cells::maybe_unset(graph, values);
    if unset.clone().next().is_some() {
        asm.push(op::LD | op::IMM, 0);
    }
    for cell in unset {
        asm.push(op::ST, cell);
    }
    for (at, block) in blocks.iter().enumerate() {
        let [here, yes, no] = [block.id, block.yes, block.no]
            .map(|id| *labels.entry(id).or_insert_with(|| asm.label()));
        asm.place(here);
        for insn in &block.body {
            asm.push(insn.code, insn.k);
        }
        let next = blocks.get(at + 1).map_or(ACCEPT, |next| next.id);
        match block.jump {
            Some((code, k)) => asm.branch(code, k, yes, no),
            None if next == block.yes => {}
            None => asm.goto(yes),
        }
    }
    for (end, k) in [(ACCEPT, accept), (REJECT, 0)] {
        if let Some(&label) = labels.get(&end) {
            asm.place(label);
        } else if graph.root() != end {
            continue;
        }
        asm.push(op::RET | op::K, k);
    }
    let insns = asm.finish().map_err(|_| ErrorKind::TooLarge)?;
    // Valid by construction; if it were not, the text of the error would be of no help to anybody.
    Program::new(insns).map_err(|_| ErrorKind::TooLarge)
}
