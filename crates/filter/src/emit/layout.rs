//! Blocks to a sequence of instructions: offsets, and detours for jumps that are too long.
//!
//! A conditional jump reaches 255 instructions far. A branch that leads further goes to a `ja`
//! directly behind, which reaches everywhere. Adding a `ja` can make other branches too long, so
//! the marks are collected until no more are needed; marks are never taken away, which ends it.

use std::collections::HashMap;

use super::select::Block;
use crate::error::ErrorKind;
use crate::ir::{ACCEPT, NodeId, REJECT};
use crate::program::opcode as op;
use crate::program::{Insn, MAX_INSNS};

/// Which branches of a block need a `ja`.
#[derive(Clone, Copy, Default)]
struct Detours {
    yes: bool,
    no: bool,
}

impl Detours {
    fn count(self) -> usize {
        usize::from(self.yes) + usize::from(self.no)
    }
}

/// All instructions: the blocks, then the returns that are used.
pub(super) fn assemble(
    blocks: &[Block],
    root: NodeId,
    accept: u32,
) -> Result<Vec<Insn>, ErrorKind> {
    let used = |end: NodeId| end == root || blocks.iter().any(|b| b.yes == end || b.no == end);
    let ends = [(ACCEPT, accept), (REJECT, 0)];
    let returns: Vec<(NodeId, u32)> = ends.into_iter().filter(|&(end, _)| used(end)).collect();
    let mut detours = vec![Detours::default(); blocks.len()];
    loop {
        let positions = positions(blocks, &detours, &returns);
        if positions
            .values()
            .max()
            .is_some_and(|&last| last >= MAX_INSNS)
        {
            return Err(ErrorKind::TooLarge);
        }
        let mut settled = true;
        for (block, detours) in blocks.iter().zip(&mut detours) {
            let jump = positions[&block.id] + block.body.len();
            let far = |target: &NodeId| positions[target] - jump - 1 > usize::from(u8::MAX);
            let wanted = Detours {
                yes: far(&block.yes),
                no: far(&block.no),
            };
            settled &= (!wanted.yes || detours.yes) && (!wanted.no || detours.no);
            detours.yes |= wanted.yes;
            detours.no |= wanted.no;
        }
        if settled {
            return Ok(write(blocks, &detours, &returns, &positions));
        }
    }
}

/// Where each block and return begins.
fn positions(
    blocks: &[Block],
    detours: &[Detours],
    returns: &[(NodeId, u32)],
) -> HashMap<NodeId, usize> {
    let mut positions = HashMap::new();
    let mut at = 0;
    for (block, detours) in blocks.iter().zip(detours) {
        positions.insert(block.id, at);
        at += block.body.len() + 1 + detours.count();
    }
    for &(end, _) in returns {
        positions.insert(end, at);
        at += 1;
    }
    positions
}

fn write(
    blocks: &[Block],
    detours: &[Detours],
    returns: &[(NodeId, u32)],
    positions: &HashMap<NodeId, usize>,
) -> Vec<Insn> {
    let mut insns = Vec::new();
    // Distances were made to fit above: a branch is near, or has its detour.
    let near = |distance: usize| u8::try_from(distance).unwrap_or(u8::MAX);
    for (block, detours) in blocks.iter().zip(detours) {
        insns.extend_from_slice(&block.body);
        let after = insns.len() + 1;
        let (yes, no) = (positions[&block.yes], positions[&block.no]);
        let jt = if detours.yes { 0 } else { near(yes - after) };
        let jf = match detours.no {
            true => near(usize::from(detours.yes)),
            false => near(no - after),
        };
        insns.push(Insn::jump(block.jump.0, block.jump.1, jt, jf));
        for target in [detours.yes.then_some(yes), detours.no.then_some(no)]
            .into_iter()
            .flatten()
        {
            let distance = target - insns.len() - 1;
            let k = u32::try_from(distance).unwrap_or(u32::MAX);
            insns.push(Insn::new(op::JMP | op::JA, k));
        }
    }
    insns.extend(returns.iter().map(|&(_, k)| Insn::new(op::RET | op::K, k)));
    insns
}
