//! Decodes instructions once into the interpreter's form: a step for each, with the most common
//! sequences fused into one (see [`fuse`]).
//!
//! Step `i` stands for instruction `i`. A fused step also does the work of the instructions after
//! it. Those keep their own steps for jumps that enter there, so fusing needs no analysis of
//! targets.

use super::Insn;
use super::fuse;
use super::opcode as op;
use super::step::{Decoded, FEW, LANES, Step, WINDOW};
use super::validate::loop_target;

/// The operation of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Ld(Load),
    Ldx(Load),
    LdAncillary,
    St,
    Stx,
    AluK(Alu),
    AluX(Alu),
    Neg,
    Ja,
    /// A jump backwards.
    JaBack,
    JumpK(Test),
    JumpX(Test),
    RetK,
    RetA,
    Tax,
    Txa,
}

/// The operand of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    Word,
    Half,
    Byte,
    WordAtX,
    HalfAtX,
    ByteAtX,
    Length,
    HeaderLength,
    Memory,
    Number,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Test {
    Equal,
    Greater,
    GreaterEqual,
    AnySet,
}

/// A decoded instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain {
    pub(super) op: Op,
    pub(super) k: u32,
    pub(super) jt: u8,
    pub(super) jf: u8,
}

impl Decoded {
    /// Decodes validated instructions.
    pub(super) fn new(insns: &[Insn]) -> Self {
        let mut words = Words::default();
        let plain: Vec<Plain> = insns
            .iter()
            .enumerate()
            .map(|(at, insn)| words.renumber(plain(insn, at)))
            .collect();
        let mut lists = Lists::default();
        let mut steps: Vec<Step> = Vec::with_capacity(plain.len());
        for at in 0..plain.len() {
            let step = lists
                .step(&plain, at)
                .unwrap_or_else(|| fuse::step(&plain, at));
            steps.push(step);
        }
        Self {
            steps,
            constants: lists.constants,
            needs_far: plain.len() > WINDOW
                || words.count > FEW
                || plain.iter().any(|p| p.op == Op::JaBack),
        }
    }
}

/// Words of scratch memory, numbered in the order of their first use.
#[derive(Default)]
struct Words {
    numbers: [Option<u8>; op::MEMWORDS as usize],
    count: usize,
}

impl Words {
    fn renumber(&mut self, plain: Plain) -> Plain {
        match plain.op {
            Op::St | Op::Stx | Op::Ld(Load::Memory) | Op::Ldx(Load::Memory) => {
                let number =
                    self.numbers[(plain.k % op::MEMWORDS) as usize].get_or_insert_with(|| {
                        self.count += 1;
                        self.count.to_le_bytes()[0] - 1
                    });
                Plain {
                    k: u32::from(*number),
                    ..plain
                }
            }
            _ => plain,
        }
    }
}

/// Runs of at least two `jeq` that go to the next when unequal and to one place when equal.
#[derive(Default)]
struct Lists {
    constants: Vec<[u32; LANES]>,
    last: Option<List>,
}

#[derive(Clone, Copy)]
pub(super) struct List {
    /// The first comparison.
    pub(super) begin: usize,
    /// The last one.
    pub(super) end: usize,
    /// The groups of constants, as [`Step::list`] has them.
    pub(super) groups: u32,
}

impl Lists {
    /// Returns the step of the list that begins at an instruction, or just after loads there.
    fn step(&mut self, plain: &[Plain], at: usize) -> Option<Step> {
        let ahead = match plain[at].op {
            Op::JumpK(Test::Equal) => 0,
            Op::Ld(_) => 1,
            Op::Ldx(Load::HeaderLength) => 2,
            _ => return None,
        };
        let list = self.begins(plain, at + ahead)?;
        fuse::among(plain, at, list)
    }

    /// Returns the list that begins at an instruction. An instruction inside a list does not begin
    /// one.
    fn begins(&mut self, plain: &[Plain], at: usize) -> Option<List> {
        let jeq = |n: usize| {
            plain
                .get(n)
                .filter(|this| this.op == Op::JumpK(Test::Equal))
        };
        let mut before = jeq(at)?;
        if let Some(list) = self.last
            && at <= list.end
        {
            return self.last.filter(|list| list.begin == at);
        }
        let mut end = at;
        while let Some(this) = jeq(end + 1)
            && (before.jf, before.jt.checked_sub(1)) == (0, Some(this.jt))
        {
            before = this;
            end += 1;
        }
        if end == at {
            return None;
        }
        // A program of 65,535 instructions has at most half as many groups.
        let first = self.constants.len();
        self.constants
            .extend(plain[at..=end].chunks(LANES).map(lanes));
        let groups = u32::try_from((first << 16) | (self.constants.len() - first));
        self.last = Some(List {
            begin: at,
            end,
            groups: groups.ok()?,
        });
        self.last
    }
}

/// Returns constants that are compared side by side; missing ones repeat the last.
fn lanes(list: &[Plain]) -> [u32; LANES] {
    std::array::from_fn(|lane| {
        let plain = list.get(lane).or(list.last());
        plain.map_or(0, |plain| plain.k)
    })
}

fn plain(insn: &Insn, at: usize) -> Plain {
    let (op, k) = match loop_target(insn, at) {
        Some(back) => (Op::JaBack, u32::try_from(back).unwrap_or(u32::MAX)),
        None => (operation(insn), insn.k),
    };
    Plain {
        op,
        k,
        jt: insn.jt,
        jf: insn.jf,
    }
}

fn operation(insn: &Insn) -> Op {
    let code = insn.code;
    let immediate = code & op::X == 0;
    match code & 7 {
        op::LD => load(insn),
        op::LDX => Op::Ldx(match code & 0xe0 {
            op::IMM => Load::Number,
            op::LEN => Load::Length,
            op::MEM => Load::Memory,
            _ => Load::HeaderLength,
        }),
        op::ST => Op::St,
        op::STX => Op::Stx,
        op::ALU => arithmetic(code, immediate),
        op::JMP if code & 0xf0 == op::JA => Op::Ja,
        op::JMP if immediate => Op::JumpK(comparison(code)),
        op::JMP => Op::JumpX(comparison(code)),
        op::RET if code & 0x18 == op::A => Op::RetA,
        op::RET => Op::RetK,
        _ if code & 0xf8 == op::TAX => Op::Tax,
        _ => Op::Txa,
    }
}

fn load(insn: &Insn) -> Op {
    Op::Ld(match (insn.code & 0xe0, insn.code & 0x18) {
        (op::IMM, _) => Load::Number,
        (op::LEN, _) => Load::Length,
        (op::MEM, _) => Load::Memory,
        (op::ABS, _) if insn.k >= op::SKF_AD_OFF => return Op::LdAncillary,
        (op::ABS, op::W) => Load::Word,
        (op::ABS, op::H) => Load::Half,
        (op::ABS, _) => Load::Byte,
        (_, op::W) => Load::WordAtX,
        (_, op::H) => Load::HalfAtX,
        (_, _) => Load::ByteAtX,
    })
}

fn comparison(code: u16) -> Test {
    match code & 0xf0 {
        op::JEQ => Test::Equal,
        op::JGT => Test::Greater,
        op::JGE => Test::GreaterEqual,
        _ => Test::AnySet,
    }
}

fn arithmetic(code: u16, immediate: bool) -> Op {
    let alu = match code & 0xf0 {
        op::ADD => Alu::Add,
        op::SUB => Alu::Subtract,
        op::MUL => Alu::Multiply,
        op::DIV => Alu::Divide,
        op::OR => Alu::Or,
        op::AND => Alu::And,
        op::LSH => Alu::ShiftLeft,
        op::RSH => Alu::ShiftRight,
        op::MOD => Alu::Remainder,
        op::XOR => Alu::Xor,
        _ => return Op::Neg,
    };
    match immediate {
        true => Op::AluK(alu),
        false => Op::AluX(alu),
    }
}
