//! Decodes instructions: `sock_filter` words in, typed [`Op`]s with absolute targets out.
//!
//! `ringtap-filter` has validated the program. An instruction that still cannot be decoded is an
//! error here, and never undefined behaviour later.

use ringtap_filter::Insn;
use ringtap_filter::program::opcode as bpf;

use crate::error::NativeError;

/// The second operand of an operation or a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// The instruction's constant.
    K(u32),
    /// The index register.
    X,
}

/// The number of bytes that a packet load reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Byte,
    Half,
    Word,
}

impl Width {
    /// Returns the number of bytes.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// Arithmetic on the accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Or,
    And,
    Xor,
    Shl,
    Shr,
}

/// The test of a conditional jump, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

/// One instruction; jump targets are indices into the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `A = K`
    Const(u32),
    /// `A = len`
    Len,
    /// `A = M[i]`
    FromScratch(usize),
    /// `A = packet[k..]`
    Packet { offset: u32, width: Width },
    /// `A = packet[X + k..]`
    PacketAtX { offset: u32, width: Width },
    /// `A =` the metadata word at this byte offset
    Ancillary { offset: u32 },
    /// `A ^= X`, which is an ancillary load
    AncillaryXor,
    /// `X = K`
    IndexConst(u32),
    /// `X = len`
    IndexLen,
    /// `X = M[i]`
    IndexFromScratch(usize),
    /// `X = 4 * (packet[k] & 15)`
    IndexHeaderLength { offset: u32 },
    /// `M[i] = A`
    Store(usize),
    /// `M[i] = X`
    StoreIndex(usize),
    /// `A = A op operand`
    Alu(Alu, Operand),
    /// `A = -A`
    Negate,
    /// `X = A`
    ToIndex,
    /// `A = X`
    FromIndex,
    /// Continue at the target.
    Jump(usize),
    /// Continue at an earlier instruction, or at this one, up to
    /// [`MAX_ROUNDS`](ringtap_filter::program::MAX_ROUNDS) times, as in the interpreter.
    Back(usize),
    /// Continue at one of two targets.
    Branch {
        test: Test,
        operand: Operand,
        yes: usize,
        no: usize,
    },
    /// The verdict is the constant.
    Return(u32),
    /// The verdict is `A`.
    ReturnA,
}

impl Op {
    /// Returns the indices of the instructions that may follow this one, whose index is `at`.
    pub(crate) fn next(self, at: usize) -> impl Iterator<Item = usize> {
        let (one, other) = match self {
            Self::Return(_) | Self::ReturnA => (None, None),
            Self::Jump(target) | Self::Back(target) => (Some(target), None),
            Self::Branch { yes, no, .. } => (Some(yes), Some(no)),
            _ => (Some(at + 1), None),
        };
        one.into_iter().chain(other)
    }
}

/// The longest program that is translated, in instructions: the same as the kernel's limit. It
/// bounds the compile time of hostile programs.
pub const MAX_INSNS: usize = bpf::KERNEL_MAX_INSNS;

/// Words of scratch memory.
pub(crate) const SCRATCH_WORDS: usize = 16;

/// Decodes a complete program.
///
/// # Errors
///
/// [`NativeError::Process`] at the first load that asks for the packet's process;
/// [`NativeError::Instruction`] at the first instruction that classic BPF does not define, that
/// jumps out of the program, or that uses scratch memory out of range; [`NativeError::TooLong`] and
/// [`NativeError::NoReturn`] for the program as a whole.
pub(crate) fn decode(program: &[Insn]) -> Result<Vec<Op>, NativeError> {
    if program.len() > MAX_INSNS {
        return Err(NativeError::TooLong(program.len()));
    }
    let decoded: Result<Vec<Op>, NativeError> = program
        .iter()
        .enumerate()
        .map(|(at, insn)| decode_one(at, insn, program.len()).ok_or_else(|| refused(at, insn)))
        .collect();
    let ops = decoded?;
    match ops.last() {
        Some(Op::Return(_) | Op::ReturnA) => Ok(ops),
        _ => Err(NativeError::NoReturn),
    }
}

fn decode_one(at: usize, insn: &Insn, len: usize) -> Option<Op> {
    let k = insn.k;
    match insn.code & 7 {
        bpf::LD => decode_load(insn),
        bpf::LDX => decode_load_index(insn),
        bpf::ST if insn.code == bpf::ST => Some(Op::Store(scratch(k)?)),
        bpf::STX if insn.code == bpf::STX => Some(Op::StoreIndex(scratch(k)?)),
        bpf::ALU => decode_alu(insn),
        bpf::JMP => decode_jump(at, insn, len),
        bpf::RET if insn.code == bpf::RET => Some(Op::Return(k)),
        bpf::RET if insn.code == bpf::RET | bpf::A => Some(Op::ReturnA),
        bpf::MISC if insn.code == bpf::MISC => Some(Op::ToIndex),
        bpf::MISC if insn.code == bpf::MISC | bpf::TXA => Some(Op::FromIndex),
        _ => None,
    }
}

/// Returns the reason why an instruction was not decoded.
fn refused(at: usize, insn: &Insn) -> NativeError {
    let load = insn.k.checked_sub(bpf::SKF_AD_OFF);
    let is_load = insn.code == bpf::LD | bpf::W | bpf::ABS;
    match load.is_some_and(bpf::is_process) && is_load {
        true => NativeError::Process { at },
        false => NativeError::Instruction {
            at,
            code: insn.code,
        },
    }
}

fn scratch(k: u32) -> Option<usize> {
    let word = usize::try_from(k).ok()?;
    (word < SCRATCH_WORDS).then_some(word)
}

fn decode_load(insn: &Insn) -> Option<Op> {
    let width = match insn.code & 0x18 {
        bpf::W => Width::Word,
        bpf::H => Width::Half,
        bpf::B => Width::Byte,
        _ => return None,
    };
    let (offset, mode) = (insn.k, insn.code & 0xe0);
    match (mode, width) {
        (bpf::ABS, _) => match offset.checked_sub(bpf::SKF_AD_OFF) {
            None => Some(Op::Packet { offset, width }),
            Some(bpf::SKF_AD_ALU_XOR_X) => Some(Op::AncillaryXor),
            Some(offset) => (offset <= bpf::SKF_AD_VLAN_TPID && offset % 4 == 0)
                .then_some(Op::Ancillary { offset }),
        },
        (bpf::IND, _) => Some(Op::PacketAtX { offset, width }),
        (bpf::IMM, Width::Word) => Some(Op::Const(insn.k)),
        (bpf::MEM, Width::Word) => Some(Op::FromScratch(scratch(insn.k)?)),
        (bpf::LEN, Width::Word) => Some(Op::Len),
        _ => None,
    }
}

fn decode_load_index(insn: &Insn) -> Option<Op> {
    match insn.code & !7 {
        bpf::IMM => Some(Op::IndexConst(insn.k)),
        bpf::MEM => Some(Op::IndexFromScratch(scratch(insn.k)?)),
        bpf::LEN => Some(Op::IndexLen),
        mode if mode == bpf::MSH | bpf::B => Some(Op::IndexHeaderLength { offset: insn.k }),
        _ => None,
    }
}

fn operand(insn: &Insn) -> Operand {
    if insn.code & bpf::X == 0 {
        Operand::K(insn.k)
    } else {
        Operand::X
    }
}

fn decode_alu(insn: &Insn) -> Option<Op> {
    let alu = match insn.code & 0xfff0 {
        bpf::ADD => Alu::Add,
        bpf::SUB => Alu::Sub,
        bpf::MUL => Alu::Mul,
        bpf::DIV => Alu::Div,
        bpf::OR => Alu::Or,
        bpf::AND => Alu::And,
        bpf::LSH => Alu::Shl,
        bpf::RSH => Alu::Shr,
        bpf::NEG => return Some(Op::Negate),
        bpf::MOD => Alu::Mod,
        bpf::XOR => Alu::Xor,
        _ => return None,
    };
    Some(Op::Alu(alu, operand(insn)))
}

fn decode_jump(at: usize, insn: &Insn, len: usize) -> Option<Op> {
    let target = |distance: usize| {
        let target = at.checked_add(1)?.checked_add(distance)?;
        (target < len).then_some(target)
    };
    let test = match insn.code & 0xfff0 {
        bpf::JA if insn.k.cast_signed() < 0 => {
            let target = (at + 1).checked_sub(insn.k.wrapping_neg() as usize)?;
            return Some(Op::Back(target));
        }
        bpf::JA => return Some(Op::Jump(target(usize::try_from(insn.k).ok()?)?)),
        bpf::JEQ => Test::Equal,
        bpf::JGT => Test::Greater,
        bpf::JGE => Test::GreaterOrEqual,
        bpf::JSET => Test::AnyBit,
        _ => return None,
    };
    Some(Op::Branch {
        test,
        operand: operand(insn),
        yes: target(usize::from(insn.jt))?,
        no: target(usize::from(insn.jf))?,
    })
}

/// Operations for tests.
#[cfg(test)]
pub(crate) mod made {
    use super::{Op, Operand, Test, Width};

    pub(crate) fn load(offset: u32) -> Op {
        Op::Packet {
            offset,
            width: Width::Half,
        }
    }

    pub(crate) fn equal(k: u32, yes: usize, no: usize) -> Op {
        Op::Branch {
            test: Test::Equal,
            operand: Operand::K(k),
            yes,
            no,
        }
    }
}
