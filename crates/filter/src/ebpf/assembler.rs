//! The eBPF assembler: collects instructions and resolves labels.

use super::Helper;
use super::insn::{
    AluOp, AtomicOp, Cond, Insn, LONG_JUMP, Operand, Reg, SHORT_JUMP, Size, Width, Word, words,
};

/// A place in the code that jumps can name before its address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(usize);

/// An error in the code that prevents assembling it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A jump names a label that was never placed.
    #[error("statement {statement} jumps to a label that is placed nowhere")]
    Unplaced {
        /// Index of the jump among the instructions added.
        statement: usize,
    },
    /// A jump goes further than 32767 instructions, and 32-bit jumps were not allowed.
    #[error(
        "statement {statement} jumps over {distance} instructions; more than 32767 need Linux 6.6"
    )]
    TooFar {
        /// Index of the jump among the instructions added.
        statement: usize,
        /// Instructions jumped over.
        distance: i64,
    },
}

/// The longest 16-bit jump where 32-bit jumps are allowed, in instructions. The verifier expands
/// divisions, context accesses and some calls, and rejects a program in which a jump then no longer
/// reaches its target.
const SAFE_DISTANCE: i64 = 4_000;

/// Collects instructions; [`Assembler::finish`] encodes them.
///
/// ```
/// use ringtap_filter::ebpf::{Assembler, Cond, Reg, Size, Width};
///
/// // Drops what is shorter than 60 bytes, passes the rest (XDP).
/// let mut asm = Assembler::new();
/// let short = asm.label();
/// asm.load(Size::W, Reg::R2, Reg::R1, 4); // data_end
/// asm.load(Size::W, Reg::R3, Reg::R1, 0); // data
/// asm.mov64(Reg::R0, 1);
/// asm.add64(Reg::R3, 60);
/// asm.jump_if(Cond::Gt, Width::W64, Reg::R3, Reg::R2, short);
/// asm.mov64(Reg::R0, 2);
/// asm.place(short);
/// asm.exit();
/// assert_eq!(asm.finish()?.len(), 7);
/// # Ok::<(), ringtap_filter::ebpf::AssembleError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Assembler {
    insns: Vec<Insn>,
    /// For each label, the number of instructions before it.
    labels: Vec<Option<usize>>,
    /// Names of sections of code, each with the number of instructions before it.
    marks: Vec<(usize, &'static str)>,
    long_jumps: bool,
}

/// Code with the names of its sections, each with the index of its first word. The sections are in
/// order, with at most one per index.
pub type MarkedCode = (Vec<u64>, Vec<(usize, &'static str)>);

impl Assembler {
    /// Returns an assembler without instructions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows 32-bit jumps (Linux 6.6) where 16 bits are not enough.
    pub fn allow_long_jumps(&mut self, allow: bool) {
        self.long_jumps = allow;
    }

    /// Returns a label to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Places a label before the next instruction.
    pub fn place(&mut self, label: Label) {
        if let Some(place) = self.labels.get_mut(label.0) {
            *place = Some(self.insns.len());
        }
    }

    /// Names the section of code that begins with the next instruction and ends at the next mark.
    pub fn mark(&mut self, name: &'static str) {
        self.marks.push((self.insns.len(), name));
    }

    /// Returns the instructions added so far.
    #[must_use]
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// Adds an instruction.
    pub fn push(&mut self, insn: Insn) {
        self.insns.push(insn);
    }

    /// Adds 64-bit arithmetic.
    pub fn alu64(&mut self, op: AluOp, dst: Reg, operand: impl Into<Operand>) {
        self.push(Insn::Alu {
            width: Width::W64,
            op,
            dst,
            operand: operand.into(),
        });
    }

    /// Adds 32-bit arithmetic.
    pub fn alu32(&mut self, op: AluOp, dst: Reg, operand: impl Into<Operand>) {
        self.push(Insn::Alu {
            width: Width::W32,
            op,
            dst,
            operand: operand.into(),
        });
    }

    /// Adds `dst = operand`, 64 bits.
    pub fn mov64(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu64(AluOp::Mov, dst, operand);
    }

    /// Adds `dst = operand`, 32 bits; the upper bits become zero.
    pub fn mov32(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu32(AluOp::Mov, dst, operand);
    }

    /// Adds `dst += operand`, 64 bits.
    pub fn add64(&mut self, dst: Reg, operand: impl Into<Operand>) {
        self.alu64(AluOp::Add, dst, operand);
    }

    /// Adds `dst = *(size *)(src + offset)`.
    pub fn load(&mut self, size: Size, dst: Reg, src: Reg, offset: i16) {
        self.push(Insn::Load {
            size,
            dst,
            src,
            offset,
        });
    }

    /// Adds `*(size *)(dst + offset) = src`.
    pub fn store(&mut self, size: Size, dst: Reg, offset: i16, src: Reg) {
        self.push(Insn::Store {
            size,
            dst,
            offset,
            src,
        });
    }

    /// Adds `*(size *)(dst + offset) = imm`.
    pub fn store_imm(&mut self, size: Size, dst: Reg, offset: i16, imm: i32) {
        self.push(Insn::StoreImm {
            size,
            dst,
            offset,
            imm,
        });
    }

    /// Adds an atomic operation on `*(size *)(dst + offset)`.
    pub fn atomic(&mut self, size: Size, op: AtomicOp, dst: Reg, offset: i16, src: Reg) {
        self.push(Insn::Atomic {
            size,
            op,
            dst,
            offset,
            src,
        });
    }

    /// Converts the low bytes of `dst` from network to host order; a single byte is unchanged.
    pub fn from_network(&mut self, dst: Reg, size: Size) {
        if size != Size::B {
            self.push(Insn::BigEndian { dst, size });
        }
    }

    /// Adds an unconditional jump.
    pub fn jump(&mut self, to: Label) {
        self.push(Insn::Jump { to });
    }

    /// Adds a jump that is taken if `dst cond operand`.
    pub fn jump_if(
        &mut self,
        cond: Cond,
        width: Width,
        dst: Reg,
        operand: impl Into<Operand>,
        to: Label,
    ) {
        self.push(Insn::JumpIf {
            cond,
            width,
            dst,
            operand: operand.into(),
            to,
        });
    }

    /// Adds a call of a helper.
    pub fn call(&mut self, helper: Helper) {
        self.push(Insn::Call { helper });
    }

    /// Adds the end of the program.
    pub fn exit(&mut self) {
        self.push(Insn::Exit);
    }

    /// Returns the code in the encoding of the running machine. Unreachable instructions are left
    /// out, because the verifier rejects programs that have some.
    ///
    /// # Errors
    /// Returns an error if a label was not placed or is too far away.
    pub fn finish(&self) -> Result<Vec<u64>, AssembleError> {
        Ok(self.finish_marked()?.0)
    }

    /// Like [`Assembler::finish`], with the sections named by [`Assembler::mark`].
    ///
    /// # Errors
    /// The same as for [`Assembler::finish`].
    pub fn finish_marked(&self) -> Result<MarkedCode, AssembleError> {
        let reached = self.reached();
        if reached.iter().all(|reached| *reached) {
            return self.assemble();
        }
        let added: Vec<usize> = (0..reached.len()).filter(|at| reached[*at]).collect();
        let added = |statement: usize| added.get(statement).copied().unwrap_or(statement);
        self.only(&reached).assemble().map_err(|error| match error {
            AssembleError::Unplaced { statement } => AssembleError::Unplaced {
                statement: added(statement),
            },
            AssembleError::TooFar {
                statement,
                distance,
            } => AssembleError::TooFar {
                statement: added(statement),
                distance,
            },
        })
    }

    /// Returns which instructions are reachable.
    fn reached(&self) -> Vec<bool> {
        let mut reached = vec![false; self.insns.len()];
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            let Some(insn) = self.insns.get(at) else {
                continue;
            };
            if std::mem::replace(&mut reached[at], true) {
                continue;
            }
            if !matches!(insn, Insn::Jump { .. } | Insn::Exit) {
                open.push(at + 1);
            }
            let to = target(insn).and_then(|to| self.labels.get(to.0).copied().flatten());
            open.extend(to);
        }
        reached
    }

    /// Returns only the instructions to keep, with their labels moved.
    fn only(&self, stay: &[bool]) -> Self {
        let mut places = Vec::with_capacity(stay.len() + 1);
        let mut insns = Vec::new();
        for (insn, stay) in self.insns.iter().zip(stay) {
            places.push(insns.len());
            if *stay {
                insns.push(*insn);
            }
        }
        places.push(insns.len());
        let place = |label: &Option<usize>| label.and_then(|at| places.get(at).copied());
        Self {
            insns,
            labels: self.labels.iter().map(place).collect(),
            marks: self
                .marks
                .iter()
                .map(|&(at, name)| (places.get(at).copied().unwrap_or_default(), name))
                .collect(),
            long_jumps: self.long_jumps,
        }
    }

    fn assemble(&self) -> Result<MarkedCode, AssembleError> {
        let mut is_long = vec![false; self.insns.len()];
        // Each round makes at least one more jump long, or is the last.
        loop {
            let starts = self.starts(&is_long);
            let mut grown = false;
            for (at, insn) in self.insns.iter().enumerate() {
                let Some(to) = target(insn) else { continue };
                let distance = self.distance(at, to, &starts)?;
                let bound = if self.long_jumps {
                    SAFE_DISTANCE
                } else {
                    i16::MAX.into()
                };
                if is_long[at] || distance.abs() <= bound {
                    continue;
                }
                if !self.long_jumps {
                    return Err(AssembleError::TooFar {
                        statement: at,
                        distance,
                    });
                }
                (is_long[at], grown) = (true, true);
            }
            if !grown {
                return Ok((self.encode(&is_long, &starts)?, self.marked(&starts)));
            }
        }
    }

    /// Returns the marks by words: the last one at each place, and none after the end.
    fn marked(&self, starts: &[usize]) -> Vec<(usize, &'static str)> {
        let mut marked: Vec<(usize, &'static str)> = Vec::with_capacity(self.marks.len());
        for &(at, name) in self.marks.iter().filter(|(at, _)| *at < self.insns.len()) {
            let word = starts.get(at).copied().unwrap_or_default();
            marked.retain(|&(before, _)| before != word);
            marked.push((word, name));
        }
        marked
    }

    /// Returns the index of each instruction's first word, and of the end.
    fn starts(&self, is_long: &[bool]) -> Vec<usize> {
        let mut next = 0;
        let mut starts = Vec::with_capacity(self.insns.len() + 1);
        for (insn, &long) in self.insns.iter().zip(is_long) {
            starts.push(next);
            next += size(insn, long);
        }
        starts.push(next);
        starts
    }

    /// Returns the words from after a jump to its target; for a long conditional jump, from its last word.
    fn distance(&self, at: usize, to: Label, starts: &[usize]) -> Result<i64, AssembleError> {
        let place = self.labels.get(to.0).copied().flatten();
        let target = place.and_then(|place| starts.get(place).copied());
        let target = target.ok_or(AssembleError::Unplaced { statement: at })?;
        Ok(signed(target) - signed(starts[at + 1]))
    }

    fn encode(&self, is_long: &[bool], starts: &[usize]) -> Result<Vec<u64>, AssembleError> {
        let mut code = Vec::with_capacity(starts.last().copied().unwrap_or_default());
        for (at, insn) in self.insns.iter().enumerate() {
            let (mut first, second) = words(insn);
            if let Some(to) = target(insn) {
                let distance = self.distance(at, to, starts)?;
                let too_far = |_| AssembleError::TooFar {
                    statement: at,
                    distance,
                };
                if is_long[at] {
                    around_long_jump(insn, first, &mut code);
                    first = Word {
                        code: LONG_JUMP,
                        imm: i32::try_from(distance).map_err(too_far)?,
                        ..Word::default()
                    };
                } else {
                    first.offset = i16::try_from(distance).map_err(too_far)?;
                }
            }
            code.push(first.encode());
            code.extend(second.map(Word::encode));
        }
        Ok(code)
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn target(insn: &Insn) -> Option<Label> {
    match *insn {
        Insn::Jump { to } | Insn::JumpIf { to, .. } => Some(to),
        _ => None,
    }
}

/// Returns the number of words of an instruction.
fn size(insn: &Insn, long: bool) -> usize {
    match insn {
        Insn::LoadImm64 { .. } | Insn::LoadMap { .. } | Insn::LoadMapValue { .. } => 2,
        Insn::JumpIf { .. } if long => 3,
        _ => 1,
    }
}

/// Adds a jump around the following long jump, unless the condition holds. The condition is not
/// inverted: the verifier follows the path without a jump first, and finishes long programs only if
/// that is the straight one.
fn around_long_jump(insn: &Insn, short: Word, code: &mut Vec<u64>) {
    if let Insn::JumpIf { .. } = insn {
        code.push(Word { offset: 1, ..short }.encode());
        let over = Word {
            code: SHORT_JUMP,
            offset: 1,
            ..Word::default()
        };
        code.push(over.encode());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::listing;

    /// Returns words as the instruction set's document lays them out on a little-endian machine.
    fn little(code: &[u64]) -> Vec<[u8; 8]> {
        code.iter().map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn marks_count_words_of_what_stays() {
        let mut asm = Assembler::new();
        let over = asm.label();
        asm.mark("a");
        asm.push(Insn::LoadImm64 {
            dst: Reg::R0,
            value: 1,
        });
        asm.jump(over);
        asm.mark("never");
        asm.mov32(Reg::R0, 1);
        asm.place(over);
        asm.mark("b");
        asm.exit();
        asm.mark("behind");
        let (code, marks) = asm.finish_marked().expect("whole");
        assert_eq!((code.len(), marks), (4, vec![(0, "a"), (3, "b")]));
    }

    #[test]
    fn what_nothing_leads_to_is_left_out() {
        let mut asm = Assembler::new();
        let (over, never) = (asm.label(), asm.label());
        asm.jump(over);
        asm.place(never);
        asm.mov32(Reg::R0, 1);
        asm.exit();
        asm.place(over);
        asm.mov32(Reg::R0, 2);
        asm.exit();
        let code = asm.finish().expect("labels are placed");
        let statements: Vec<_> = listing(&code)
            .lines()
            .map(|line| line[6..].to_owned())
            .collect();
        assert_eq!(statements, ["goto pc+0", "w0 = 2", "exit"]);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn encodes_every_form() {
        let mut asm = Assembler::new();
        asm.mov64(Reg::R6, Reg::R1);
        asm.alu32(AluOp::And, Reg::R8, 0xf);
        asm.load(Size::H, Reg::R8, Reg::R7, 12);
        asm.from_network(Reg::R8, Size::H);
        asm.store(Size::Dw, Reg::R10, -8, Reg::R9);
        asm.store_imm(Size::W, Reg::R10, -16, -1);
        asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R10, -8, Reg::R2);
        asm.push(Insn::LoadImm64 {
            dst: Reg::R3,
            value: 0x1122_3344_5566_7788,
        });
        asm.push(Insn::LoadMap {
            dst: Reg::R1,
            fd: 5,
        });
        asm.push(Insn::LoadMapValue {
            dst: Reg::R1,
            fd: 5,
            offset: 16,
        });
        asm.call(Helper::KtimeGetTaiNs);
        asm.exit();
        let expected = [
            [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
            [0x54, 0x08, 0, 0, 0xf, 0, 0, 0],
            [0x69, 0x78, 12, 0, 0, 0, 0, 0],
            [0xdc, 0x08, 0, 0, 16, 0, 0, 0],
            [0x7b, 0x9a, 0xf8, 0xff, 0, 0, 0, 0],
            [0x62, 0x0a, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff],
            [0xdb, 0x2a, 0xf8, 0xff, 0xe1, 0, 0, 0],
            [0x18, 0x03, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0x00, 0x00, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x18, 0x11, 0, 0, 5, 0, 0, 0],
            [0x00, 0x00, 0, 0, 0, 0, 0, 0],
            [0x18, 0x21, 0, 0, 5, 0, 0, 0],
            [0x00, 0x00, 0, 0, 16, 0, 0, 0],
            [0x85, 0x00, 0, 0, 208, 0, 0, 0],
            [0x95, 0x00, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(little(&asm.finish().expect("no jumps")), expected);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn resolves_labels_over_wide_instructions() {
        let mut asm = Assembler::new();
        let (back, out) = (asm.label(), asm.label());
        asm.place(back);
        asm.jump_if(Cond::Set, Width::W32, Reg::R8, 1, out);
        asm.push(Insn::LoadImm64 {
            dst: Reg::R0,
            value: 1,
        });
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, Reg::R9, back);
        asm.place(out);
        asm.exit();
        let code = little(&asm.finish().expect("both placed"));
        assert_eq!(code[0], [0x46, 0x08, 3, 0, 1, 0, 0, 0]);
        assert_eq!(code[3], [0x5d, 0x90, 0xfc, 0xff, 0, 0, 0, 0]);
    }

    #[test]
    fn reports_missing_labels() {
        let mut asm = Assembler::new();
        let (nowhere, here) = (asm.label(), asm.label());
        asm.jump(here);
        asm.exit();
        asm.place(here);
        asm.jump(nowhere);
        assert_eq!(asm.finish(), Err(AssembleError::Unplaced { statement: 2 }));
    }

    #[test]
    fn far_jumps_are_refused_or_made_long() {
        let mut asm = Assembler::new();
        let far = asm.label();
        asm.jump_if(Cond::Eq, Width::W32, Reg::R0, 7, far);
        asm.jump_if(Cond::Set, Width::W64, Reg::R0, Reg::R1, far);
        asm.jump_if(Cond::Ne, Width::W32, Reg::R0, 7, far);
        for _ in 0..40_000 {
            asm.mov64(Reg::R0, 0);
        }
        asm.place(far);
        asm.exit();
        let refused = AssembleError::TooFar {
            statement: 0,
            distance: 40_002,
        };
        assert_eq!(asm.finish(), Err(refused));
        asm.allow_long_jumps(true);
        let code = asm.finish().expect("long jumps are allowed");
        let text = listing(&code[..6]);
        let expected = "   0: if w0 == 0x7 goto pc+1\n   1: goto pc+1\n   2: gotol pc+40006\n   \
                        3: if r0 & r1 goto pc+1\n   4: goto pc+1\n   5: gotol pc+40003\n";
        assert_eq!(text, expected);
    }
}
