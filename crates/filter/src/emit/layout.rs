//! Layout of blocks in the assembler: equal blocks are merged, and a block that equals the end of
//! another becomes a label in it.

use super::select::{Block, Blocks};
use crate::ir::{ACCEPT, Graph, Index, NodeId};
use crate::program::Insn;
use crate::program::assemble::{Assembler, Label};
use crate::program::opcode as op;

/// The labels of nodes and ends.
pub(super) struct Labels {
    labels: Vec<Label>,
    used: Vec<bool>,
}

impl Labels {
    pub(super) fn of(&self, id: NodeId) -> Label {
        self.labels[id.number()]
    }

    /// Returns whether anything jumps to a node.
    pub(super) fn is_used(&self, id: NodeId) -> bool {
        self.used[id.number()]
    }
}

/// How a block is laid out.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    /// The block is not emitted here: another one has its label or its body.
    elsewhere: bool,
    /// The block whose body comes directly before.
    after: Option<usize>,
    /// The label between body and jump, if something jumps there.
    jump: Option<Label>,
}

/// Writes all blocks.
pub(super) fn lay_out(blocks: &Blocks, graph: &Graph, merge: bool, asm: &mut Assembler) -> Labels {
    let mut labels = Labels {
        labels: (0..graph.ids()).map(|_| asm.label()).collect(),
        used: vec![false; graph.ids()],
    };
    let mut fates = vec![Fate::default(); blocks.list.len()];
    if merge {
        merge_equals(blocks, &mut fates, &mut labels, asm);
    }
    for (at, (block, fate)) in blocks.list.iter().zip(&fates).enumerate() {
        if fate.elsewhere {
            continue;
        }
        for block in fate
            .after
            .map(|at| &blocks.list[at])
            .into_iter()
            .chain([block])
        {
            asm.place(labels.of(block.id));
            for insn in &blocks.insns[block.from..block.to] {
                asm.insn(*insn);
            }
        }
        if let Some(label) = fate.jump {
            asm.place(label);
        }
        let (yes, no) = (labels.of(block.yes), labels.of(block.no));
        match block.jump.0 {
            ALWAYS if labels.of(following(blocks, &fates, at)) == yes => {}
            ALWAYS => asm.goto(yes),
            code => asm.branch(code, block.jump.1, yes, no),
        }
        labels.used[block.yes.number()] = true;
        labels.used[block.no.number()] = true;
    }
    labels
}

/// The code of an unconditional jump.
const ALWAYS: u16 = op::JMP | op::JA;

/// Returns the node that directly follows a block.
fn following(blocks: &Blocks, fates: &[Fate], at: usize) -> NodeId {
    let mut rest = blocks.list.iter().zip(fates).skip(at + 1);
    rest.find(|(_, fate)| !fate.elsewhere)
        .map_or(ACCEPT, |(block, fate)| match fate.after {
            Some(before) => blocks.list[before].id,
            None => block.id,
        })
}

/// A jump and the labels of its outcomes.
type Jump = (u16, u32, Label, Label);

/// A body as its last instruction and the number of the body before it; 0 is the empty one.
type Body = (u32, Insn);

/// Blocks that end with the same jump.
#[derive(Clone, Copy, Default)]
struct Tail {
    /// The index of the block without a body, if there is one.
    bare: Option<usize>,
    /// The place of a jump that follows a body.
    label: Option<Label>,
}

/// Finds equal blocks and ends, from the last to the first, so that the targets of a block are
/// settled before it. Equal code goes to the place of the last one, so that all jumps lead forward.
fn merge_equals(blocks: &Blocks, fates: &mut [Fate], labels: &mut Labels, asm: &mut Assembler) {
    let count = blocks.list.len();
    let (mut bodies, mut body_index) = (Vec::<Body>::with_capacity(count), Index::default());
    let (mut jumps, mut jump_index) = (Vec::<Jump>::with_capacity(count), Index::default());
    let mut wholes = Vec::<(u32, u32)>::with_capacity(count);
    let mut whole_index = Index::default();
    let mut tails: Vec<Tail> = Vec::with_capacity(count);
    let mut starts: Vec<Label> = Vec::with_capacity(count);
    for (at, block) in blocks.list.iter().enumerate().rev() {
        let insns = &blocks.insns[block.from..block.to];
        let body = insns.iter().fold(0, |body, &insn| {
            body_index.intern(&mut bodies, (body, insn)) + 1
        });
        let jump = jump_index.intern(&mut jumps, jump_of(block, labels));
        let whole = whole_index.intern(&mut wholes, (body, jump)) as usize;
        if let Some(&label) = starts.get(whole) {
            labels.labels[block.id.number()] = label;
            fates[at].elsewhere = true;
            continue;
        }
        tails.resize(jumps.len(), Tail::default());
        let tail = &mut tails[jump as usize];
        match (body, tail.label, tail.bare) {
            (0, Some(label), _) => {
                labels.labels[block.id.number()] = label;
                fates[at].elsewhere = true;
            }
            (0, None, _) => tail.bare = Some(at),
            (_, None, Some(bare)) => {
                fates[at].elsewhere = true;
                fates[bare].after = Some(at);
                tail.label = Some(labels.of(blocks.list[bare].id));
            }
            (_, None, None) => {
                fates[at].jump = Some(asm.label());
                tail.label = fates[at].jump;
            }
            (_, Some(_), _) => {}
        }
        starts.push(labels.of(block.id));
    }
}

fn jump_of(block: &Block, labels: &Labels) -> Jump {
    let (yes, no) = (labels.of(block.yes), labels.of(block.no));
    (block.jump.0, block.jump.1, yes, no)
}
