//! Assembles instructions with labels into a program: computes offsets, and adds detours for jumps
//! that are too long.
//!
//! A conditional jump reaches 255 instructions. A longer one jumps to a `ja` directly after it, which reaches
//! everywhere. An added `ja` can make other branches too long, so marks are collected until no more are
//! needed. Marks are never removed, so this ends.

use super::opcode as op;
use super::{Insn, MAX_INSNS};

/// A label for a later instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label(usize);

/// An instruction, or a label.
#[derive(Clone, Copy, Debug)]
enum Line {
    Plain(Insn),
    /// A conditional jump and its two targets.
    Branch(u16, u32, Label, Label),
    Always(Label),
    Place(Label),
}

/// Instructions under construction. Jumps must lead forward.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    lines: Vec<Line>,
    labels: usize,
}

/// The program would be longer than [`MAX_INSNS`] instructions, or a jump leads to a label that was never
/// placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unassemblable;

/// The position of an unplaced label, which is valid as long as nothing jumps there.
const UNPLACED: usize = usize::MAX;

/// The outcomes of a branch that need a `ja`.
#[derive(Clone, Copy, Default)]
struct Detours {
    yes: bool,
    no: bool,
}

impl Assembler {
    /// Returns an assembler with room for this many lines.
    pub(crate) fn with_capacity(lines: usize) -> Self {
        Self {
            lines: Vec::with_capacity(lines),
            labels: 0,
        }
    }

    /// Returns a label to be placed later.
    pub(crate) fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Makes `label` name the next instruction.
    pub(crate) fn place(&mut self, label: Label) {
        self.lines.push(Line::Place(label));
    }

    /// Adds an instruction of a sequence that only jumps inside itself.
    pub(crate) fn insn(&mut self, insn: Insn) {
        self.lines.push(Line::Plain(insn));
    }

    /// Adds an instruction that continues with the next one, or returns.
    pub(crate) fn push(&mut self, code: u16, k: u32) {
        self.lines.push(Line::Plain(Insn::new(code, k)));
    }

    /// Adds a conditional jump.
    pub(crate) fn branch(&mut self, code: u16, k: u32, yes: Label, no: Label) {
        self.lines.push(Line::Branch(code, k, yes, no));
    }

    /// Adds an unconditional jump.
    pub(crate) fn goto(&mut self, target: Label) {
        self.lines.push(Line::Always(target));
    }

    /// Returns the instructions with all offsets.
    pub(crate) fn finish(&self) -> Result<Vec<Insn>, Unassemblable> {
        let mut detours = vec![Detours::default(); self.lines.len()];
        loop {
            let (starts, places) = self.positions(&detours)?;
            let mut settled = true;
            for ((line, detours), &start) in self.lines.iter().zip(&mut detours).zip(&starts) {
                let (yes, no) = match *line {
                    Line::Branch(_, _, yes, no) => (yes, no),
                    Line::Always(to) => (to, to),
                    _ => continue,
                };
                let (yes, no) = (places[yes.0], places[no.0]);
                if yes == UNPLACED || no == UNPLACED {
                    return Err(Unassemblable);
                }
                let far = |place: usize| place - start - 1 > usize::from(u8::MAX);
                let branch = matches!(line, Line::Branch(..));
                let wanted = Detours {
                    yes: branch && far(yes),
                    no: branch && far(no),
                };
                settled &= (!wanted.yes || detours.yes) && (!wanted.no || detours.no);
                detours.yes |= wanted.yes;
                detours.no |= wanted.no;
            }
            if settled {
                return Ok(self.write(&detours, &starts, &places));
            }
        }
    }

    /// Returns the positions of lines and labels.
    fn positions(&self, detours: &[Detours]) -> Result<(Vec<usize>, Vec<usize>), Unassemblable> {
        let mut starts = Vec::with_capacity(self.lines.len());
        let mut places = vec![UNPLACED; self.labels];
        let mut at = 0;
        for (line, detours) in self.lines.iter().zip(detours) {
            starts.push(at);
            match *line {
                Line::Place(label) => places[label.0] = at,
                Line::Branch(..) => at += 1 + usize::from(detours.yes) + usize::from(detours.no),
                Line::Plain(_) | Line::Always(_) => at += 1,
            }
            if at > MAX_INSNS {
                return Err(Unassemblable);
            }
        }
        Ok((starts, places))
    }

    fn write(&self, detours: &[Detours], starts: &[usize], places: &[usize]) -> Vec<Insn> {
        let mut insns: Vec<Insn> = Vec::with_capacity(self.lines.len());
        // The steps above made distances fit: a branch is near or has a detour.
        let near = |distance: usize| u8::try_from(distance).unwrap_or(u8::MAX);
        let jump = |insns: &mut Vec<Insn>, target: usize| {
            let distance = u32::try_from(target - insns.len() - 1).unwrap_or(u32::MAX);
            insns.push(Insn::new(op::JMP | op::JA, distance));
        };
        for ((line, detours), &start) in self.lines.iter().zip(detours).zip(starts) {
            match *line {
                Line::Place(_) => {}
                Line::Plain(insn) => insns.push(insn),
                Line::Always(label) => jump(&mut insns, places[label.0]),
                Line::Branch(code, k, yes, no) => {
                    let (yes, no) = (places[yes.0], places[no.0]);
                    let jt = if detours.yes {
                        0
                    } else {
                        near(yes - start - 1)
                    };
                    let jf = match detours.no {
                        true => u8::from(detours.yes),
                        false => near(no - start - 1),
                    };
                    insns.push(Insn::jump(code, k, jt, jf));
                    if detours.yes {
                        jump(&mut insns, yes);
                    }
                    if detours.no {
                        jump(&mut insns, no);
                    }
                }
            }
        }
        insns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    /// A branch over `distance` instructions either way takes the right one.
    #[test]
    fn branches_of_every_distance_arrive() {
        for distance in [0, 1, 254, 255, 256, 257, 5000] {
            let mut asm = Assembler::default();
            let (yes, no) = (asm.label(), asm.label());
            asm.push(op::LD | op::LEN, 0);
            asm.branch(op::JMP | op::JEQ, 7, yes, no);
            for _ in 0..distance {
                asm.push(op::ALU | op::ADD, 1);
            }
            asm.place(yes);
            asm.push(op::RET, 1);
            asm.place(no);
            asm.push(op::RET, 2);
            let program = Program::new(asm.finish().expect("fits")).expect("valid");
            assert_eq!(program.run(&[], 7), 1, "{distance}");
            assert_eq!(program.run(&[], 8), 2, "{distance}");
        }
    }

    #[test]
    fn too_long_is_an_error() {
        let mut asm = Assembler::default();
        for _ in 0..=MAX_INSNS {
            asm.push(op::RET, 0);
        }
        assert_eq!(asm.finish(), Err(Unassemblable));
    }
}
