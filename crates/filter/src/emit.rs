//! Decision graph to instructions.

mod cells;
mod chain;
mod layout;
mod scratch;
mod select;

use crate::error::ErrorKind;
use crate::ir::{ACCEPT, Graph, REJECT, Values};
use crate::program::Program;
use crate::program::assemble::Assembler;
use crate::program::opcode as op;
use scratch::Scratch;
use select::Blocks;

/// Emits the instructions of a graph. `accept` is the number of bytes kept of an accepted packet.
/// With `reuse`, equal blocks are merged, and a value that a register or scratch memory holds on
/// every path to the node is not computed again.
pub(crate) fn emit(
    graph: &Graph,
    values: &Values,
    accept: u32,
    reuse: bool,
) -> Result<Program, ErrorKind> {
    let blocks = select(graph, values, reuse)?;
    const LINES_OF_A_BLOCK: usize = 4;
    let mut asm = Assembler::with_capacity(blocks.list.len() * LINES_OF_A_BLOCK + 4);
    let ends = [(ACCEPT, accept), (REJECT, 0)];
    let loaded = blocks.words_loaded();
    let unset = cells::maybe_unset(graph, values).filter(|&cell| loaded >> cell & 1 != 0);
    if unset.clone().next().is_some() {
        asm.push(op::LD | op::IMM, 0);
    }
    for cell in unset {
        asm.push(op::ST, cell);
    }
    let labels = layout::lay_out(&blocks, graph, reuse, &mut asm);
    for (end, k) in ends {
        if labels.is_used(end) || graph.root() == end {
            asm.place(labels.of(end));
            asm.push(op::RET | op::K, k);
        }
    }
    let insns = asm.finish().map_err(|_| ErrorKind::TooLarge)?;
    // The program is valid by construction; if it were not, the validator's error would not help
    // the user.
    Program::compiled(insns).map_err(|_| ErrorKind::TooLarge)
}

/// Selects the blocks of a graph. Scratch memory is used if that makes the program shorter.
fn select(graph: &Graph, values: &Values, reuse: bool) -> Result<Blocks, ErrorKind> {
    let order = graph.order();
    if !reuse {
        return select::blocks(graph, values, &order, false, &mut Scratch::default());
    }
    let mut counting = Scratch::counting(values);
    let blocks = select::blocks(graph, values, &order, true, &mut counting)?;
    let Some(mut keeping) = counting.of_repeated(values) else {
        return Ok(blocks);
    };
    let kept = select::blocks(graph, values, &order, true, &mut keeping);
    Ok(match kept {
        Ok(kept) if kept.size() < blocks.size() => kept,
        _ => blocks,
    })
}
