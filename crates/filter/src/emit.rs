//! Decision graph to instructions: which registers hold what, then where jumps lead.

mod layout;
mod select;

use crate::error::ErrorKind;
use crate::ir::{Graph, Values};
use crate::program::Program;

/// Instructions for a graph; `accept` is the number of bytes that an accepted packet keeps. With
/// `reuse`, values that are in a register on every way to a node are not loaded again.
pub(crate) fn emit(
    graph: &Graph,
    values: &Values,
    accept: u32,
    reuse: bool,
) -> Result<Program, ErrorKind> {
    let blocks = select::blocks(graph, values, reuse)?;
    let insns = layout::assemble(&blocks, graph.root(), accept)?;
    // Valid by construction; if it were not, the text of the error would be of no help to anybody.
    Program::new(insns).map_err(|_| ErrorKind::TooLarge)
}
