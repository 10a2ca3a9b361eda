//! Classic instructions in the form that the lowering uses.

use crate::ebpf::{AluOp, Cond, Reg, Size};
use crate::program::{Insn, opcode as op};

/// The registers of A and X.
pub(super) const A: Reg = Reg::R8;
pub(super) const X: Reg = Reg::R9;

/// The register that a load or store uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    A,
    X,
}

impl Target {
    pub(super) fn reg(self) -> Reg {
        if self == Self::A { A } else { X }
    }
}

/// The second operand of arithmetic and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    K(u32),
    X,
}

/// One instruction; jump targets are absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A load at a constant offset.
    Absolute {
        k: u32,
        size: Size,
    },
    /// A load at X plus a constant.
    Indirect {
        k: u32,
        size: Size,
    },
    /// Loads four times the low nibble of a byte to X.
    HeaderLength {
        k: u32,
    },
    /// A load of metadata, by its offset from `SKF_AD_OFF`.
    Ancillary {
        offset: u32,
    },
    Length(Target),
    Constant(Target, u32),
    Recall(Target, u32),
    Keep(Target, u32),
    Arithmetic {
        op: AluOp,
        with: With,
    },
    Negate,
    Jump {
        to: usize,
    },
    Test {
        cond: Cond,
        with: With,
        then: usize,
        otherwise: usize,
    },
    ReturnConstant(u32),
    ReturnA,
    AToX,
    XToA,
}

impl Step {
    /// Converts a validated instruction.
    pub(super) fn new(insn: &Insn, at: usize) -> Self {
        let Insn { code, k, .. } = *insn;
        let with = if code & op::X == 0 {
            With::K(k)
        } else {
            With::X
        };
        match code & 7 {
            op::LD => load(code, k),
            op::LDX => match code & 0xe0 {
                op::IMM => Self::Constant(Target::X, k),
                op::LEN => Self::Length(Target::X),
                op::MEM => Self::Recall(Target::X, k),
                _ => Self::HeaderLength { k },
            },
            op::ST => Self::Keep(Target::A, k),
            op::STX => Self::Keep(Target::X, k),
            op::ALU => match arithmetic(code) {
                Some(op) => Self::Arithmetic { op, with },
                None => Self::Negate,
            },
            op::JMP => {
                let target = |offset: u8| at + 1 + usize::from(offset);
                match condition(code) {
                    Some(cond) => {
                        let (then, otherwise) = (target(insn.jt), target(insn.jf));
                        Self::Test {
                            cond,
                            with,
                            then,
                            otherwise,
                        }
                    }
                    None => Self::Jump {
                        to: at + 1 + k as usize,
                    },
                }
            }
            op::RET if code & 0x18 == op::A => Self::ReturnA,
            op::RET => Self::ReturnConstant(k),
            _ if code & 0xf8 == op::TAX => Self::AToX,
            _ => Self::XToA,
        }
    }

    pub(super) fn reads_packet(self) -> bool {
        matches!(
            self,
            Self::Absolute { .. } | Self::Indirect { .. } | Self::HeaderLength { .. }
        )
    }

    pub(super) fn reads_length(self) -> bool {
        matches!(self, Self::Length(_))
    }

    /// Returns whether the step reads A (X).
    pub(super) fn reads(self, target: Target) -> bool {
        let reads_a = matches!(
            self,
            Self::Keep(Target::A, _)
                | Self::Arithmetic { .. }
                | Self::Negate
                | Self::Test { .. }
                | Self::ReturnA
                | Self::AToX
        );
        let reads_x = matches!(
            self,
            Self::Keep(Target::X, _)
                | Self::Indirect { .. }
                | Self::Arithmetic { with: With::X, .. }
                | Self::Test { with: With::X, .. }
                | Self::XToA
        );
        let reads_both = matches!(
            self,
            Self::Ancillary {
                offset: op::SKF_AD_ALU_XOR_X
            }
        );
        reads_both
            || if target == Target::A {
                reads_a
            } else {
                reads_x
            }
    }

    /// Returns whether the step changes A (X).
    pub(super) fn writes(self, target: Target) -> bool {
        let written = match self {
            Self::Absolute { .. }
            | Self::Indirect { .. }
            | Self::Ancillary { .. }
            | Self::Arithmetic { .. }
            | Self::Negate
            | Self::XToA => Target::A,
            Self::HeaderLength { .. } | Self::AToX => Target::X,
            Self::Length(target) | Self::Constant(target, _) | Self::Recall(target, _) => target,
            _ => return false,
        };
        written == target
    }

    /// Returns the possible next instructions after the one at `at`.
    pub(super) fn successors(self, at: usize) -> [Option<usize>; 2] {
        match self {
            Self::ReturnConstant(_) | Self::ReturnA => [None, None],
            Self::Jump { to } => [Some(to), None],
            Self::Test {
                then, otherwise, ..
            } => [Some(then), Some(otherwise)],
            _ => [Some(at + 1), None],
        }
    }
}

fn load(code: u16, k: u32) -> Step {
    let size = match code & 0x18 {
        op::W => Size::W,
        op::H => Size::H,
        _ => Size::B,
    };
    match code & 0xe0 {
        op::IMM => Step::Constant(Target::A, k),
        op::LEN => Step::Length(Target::A),
        op::MEM => Step::Recall(Target::A, k),
        op::IND => Step::Indirect { k, size },
        _ => match k.checked_sub(op::SKF_AD_OFF) {
            Some(offset) => Step::Ancillary { offset },
            None => Step::Absolute { k, size },
        },
    }
}

fn arithmetic(code: u16) -> Option<AluOp> {
    Some(match code & 0xf0 {
        op::ADD => AluOp::Add,
        op::SUB => AluOp::Sub,
        op::MUL => AluOp::Mul,
        op::DIV => AluOp::Div,
        op::OR => AluOp::Or,
        op::AND => AluOp::And,
        op::LSH => AluOp::Lsh,
        op::RSH => AluOp::Rsh,
        op::MOD => AluOp::Mod,
        op::XOR => AluOp::Xor,
        _ => return None,
    })
}

fn condition(code: u16) -> Option<Cond> {
    Some(match code & 0xf0 {
        op::JEQ => Cond::Eq,
        op::JGT => Cond::Gt,
        op::JGE => Cond::Ge,
        op::JSET => Cond::Set,
        _ => return None,
    })
}
