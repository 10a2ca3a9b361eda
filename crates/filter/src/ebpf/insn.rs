//! Instructions and their encoding (RFC 9669, sections 3 to 5).

use super::{Helper, Label};

/// A register. R0 is a call's result; a call loses its arguments, R1 to R5; R6 to R9 survive calls. R10
/// points to the end of the stack of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the numbers")]
#[repr(u8)]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// The size of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Size {
    /// Four bytes.
    W = 0x00,
    /// Two bytes.
    H = 0x08,
    /// One byte.
    B = 0x10,
    /// Eight bytes.
    Dw = 0x18,
}

impl Size {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B => 1,
            Self::H => 2,
            Self::W => 4,
            Self::Dw => 8,
        }
    }
}

/// Whether an operation works on the low 32 bits (and clears the others) or on all 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Width {
    W32,
    W64,
}

/// Arithmetic operations, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
#[repr(u8)]
pub enum AluOp {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Neg = 0x80,
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// The condition of a jump. `S…` compare signed numbers; `Set` tests for any common bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
#[repr(u8)]
pub enum Cond {
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Set = 0x40,
    Ne = 0x50,
    Sgt = 0x60,
    Sge = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    Slt = 0xc0,
    Sle = 0xd0,
}

impl Cond {
    /// Returns the condition that holds if this one does not; `Set` has none.
    #[must_use]
    pub const fn inverse(self) -> Option<Self> {
        Some(match self {
            Self::Eq => Self::Ne,
            Self::Ne => Self::Eq,
            Self::Gt => Self::Le,
            Self::Le => Self::Gt,
            Self::Ge => Self::Lt,
            Self::Lt => Self::Ge,
            Self::Sgt => Self::Sle,
            Self::Sle => Self::Sgt,
            Self::Sge => Self::Slt,
            Self::Slt => Self::Sge,
            Self::Set => return None,
        })
    }
}

/// Atomic operations on memory. Those that fetch need Linux 5.12 and are fully ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AtomicOp {
    /// Adds; returns nothing and orders nothing.
    Add = 0x00,
    /// Adds; the source register becomes the old value.
    FetchAdd = 0x01,
    /// Ors; the source register becomes the old value.
    FetchOr = 0x41,
    /// Ands; the source register becomes the old value.
    FetchAnd = 0x51,
    /// Stores; the source register becomes the old value.
    Exchange = 0xe1,
    /// Stores if memory equals R0; R0 becomes the old value.
    CompareExchange = 0xf1,
}

/// The second operand: a register, or a constant that is sign-extended to the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// A register.
    Reg(Reg),
    /// A constant.
    Imm(i32),
}

impl From<Reg> for Operand {
    fn from(reg: Reg) -> Self {
        Self::Reg(reg)
    }
}

impl From<i32> for Operand {
    fn from(imm: i32) -> Self {
        Self::Imm(imm)
    }
}

/// One instruction. Jumps name labels; offsets are computed when the code is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields carry the instruction set's names")]
pub enum Insn {
    /// `dst = dst op operand`, or `Mov` and `Neg`.
    Alu {
        width: Width,
        op: AluOp,
        dst: Reg,
        operand: Operand,
    },
    /// Converts between host and big-endian order, on the low 16, 32 or 64 bits; the others become
    /// zero.
    BigEndian { dst: Reg, size: Size },
    /// `dst = *(size *)(src + offset)`.
    Load {
        size: Size,
        dst: Reg,
        src: Reg,
        offset: i16,
    },
    /// `*(size *)(dst + offset) = src`.
    Store {
        size: Size,
        dst: Reg,
        offset: i16,
        src: Reg,
    },
    /// `*(size *)(dst + offset) = imm`.
    StoreImm {
        size: Size,
        dst: Reg,
        offset: i16,
        imm: i32,
    },
    /// An atomic operation on `*(size *)(dst + offset)`, of 4 or 8 bytes.
    Atomic {
        size: Size,
        op: AtomicOp,
        dst: Reg,
        offset: i16,
        src: Reg,
    },
    /// `dst = value`; two words.
    LoadImm64 { dst: Reg, value: u64 },
    /// `dst = map`; the map's fd must be open when the program is loaded; two words.
    LoadMap { dst: Reg, fd: i32 },
    /// `dst =` address of an array map's first value plus `offset` bytes (Linux 5.2); two words.
    LoadMapValue { dst: Reg, fd: i32, offset: u32 },
    /// An unconditional jump.
    Jump { to: Label },
    /// Jumps if `dst cond operand`.
    JumpIf {
        cond: Cond,
        width: Width,
        dst: Reg,
        operand: Operand,
        to: Label,
    },
    /// Calls a helper.
    Call { helper: Helper },
    /// Calls a function of the running kernel (kfunc, Linux 5.13) by its type number in the
    /// kernel's BTF.
    CallKernel { id: u32 },
    /// Ends the program with R0 as its result.
    Exit,
}

const CLASS_LD: u8 = 0x00;
const CLASS_LDX: u8 = 0x01;
const CLASS_ST: u8 = 0x02;
const CLASS_STX: u8 = 0x03;
const CLASS_ALU32: u8 = 0x04;
const CLASS_JMP: u8 = 0x05;
const CLASS_JMP32: u8 = 0x06;
const CLASS_ALU64: u8 = 0x07;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
const MODE_IMM: u8 = 0x00;
const MODE_MEM: u8 = 0x60;
const MODE_ATOMIC: u8 = 0xc0;
const SOURCE_REG: u8 = 0x08;
/// `BPF_END` with the target order big-endian.
const TO_BE: u8 = 0xd0 | SOURCE_REG;
/// Source register fields of a 64-bit load of a map, or of a map's value.
const PSEUDO_MAP_FD: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
/// The source register field of a call of a kernel function.
const PSEUDO_KERNEL_CALL: u8 = 2;

/// One word of code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    pub(super) code: u8,
    pub(super) dst: u8,
    pub(super) src: u8,
    pub(super) offset: i16,
    pub(super) imm: i32,
}

impl Word {
    /// Encodes the word as the kernel's `struct bpf_insn`: the first register is in the low half of
    /// its byte on little-endian machines, in the high half on others.
    pub(super) fn encode(self) -> u64 {
        let registers = if cfg!(target_endian = "little") {
            self.src << 4 | self.dst
        } else {
            self.dst << 4 | self.src
        };
        let [o0, o1] = self.offset.to_ne_bytes();
        let [i0, i1, i2, i3] = self.imm.to_ne_bytes();
        u64::from_ne_bytes([self.code, registers, o0, o1, i0, i1, i2, i3])
    }

    pub(super) fn decode(word: u64) -> Self {
        let [code, registers, o0, o1, i0, i1, i2, i3] = word.to_ne_bytes();
        let (low, high) = (registers & 0xf, registers >> 4);
        let (dst, src) = if cfg!(target_endian = "little") {
            (low, high)
        } else {
            (high, low)
        };
        let offset = i16::from_ne_bytes([o0, o1]);
        Self {
            code,
            dst,
            src,
            offset,
            imm: i32::from_ne_bytes([i0, i1, i2, i3]),
        }
    }
}

fn operand(code: u8, dst: Reg, operand: Operand) -> Word {
    match operand {
        Operand::Reg(src) => Word {
            code: code | SOURCE_REG,
            dst: dst as u8,
            src: src as u8,
            ..Word::default()
        },
        Operand::Imm(imm) => Word {
            code,
            dst: dst as u8,
            imm,
            ..Word::default()
        },
    }
}

/// Returns the words of an instruction; jumps have no offsets yet.
pub(super) fn words(insn: &Insn) -> (Word, Option<Word>) {
    let word = match *insn {
        Insn::LoadImm64 { dst, value } => return wide(dst, 0, value),
        Insn::LoadMap { dst, fd } => {
            return wide(dst, PSEUDO_MAP_FD, u64::from(fd.cast_unsigned()));
        }
        Insn::LoadMapValue { dst, fd, offset } => {
            let value = u64::from(offset) << 32 | u64::from(fd.cast_unsigned());
            return wide(dst, PSEUDO_MAP_VALUE, value);
        }
        Insn::Alu {
            width,
            op,
            dst,
            operand: with,
        } => {
            let class = by_width(width, CLASS_ALU32, CLASS_ALU64);
            operand(class | op as u8, dst, with)
        }
        Insn::BigEndian { dst, size } => {
            let bits = i32::from_ne_bytes((size.bytes() * 8).to_ne_bytes());
            Word {
                imm: bits,
                ..operand(CLASS_ALU32 | TO_BE, dst, Operand::Imm(0))
            }
        }
        Insn::JumpIf {
            cond,
            width,
            dst,
            operand: with,
            ..
        } => {
            let class = by_width(width, CLASS_JMP32, CLASS_JMP);
            operand(class | cond as u8, dst, with)
        }
        Insn::Jump { .. } => Word {
            code: SHORT_JUMP,
            ..Word::default()
        },
        Insn::Call { helper } => Word {
            code: CLASS_JMP | CALL,
            imm: helper.number(),
            ..Word::default()
        },
        Insn::CallKernel { id } => Word {
            code: CLASS_JMP | CALL,
            src: PSEUDO_KERNEL_CALL,
            imm: id.cast_signed(),
            ..Word::default()
        },
        Insn::Exit => Word {
            code: CLASS_JMP | EXIT,
            ..Word::default()
        },
        Insn::Load { .. } | Insn::Store { .. } | Insn::StoreImm { .. } | Insn::Atomic { .. } => {
            memory_access(insn)
        }
    };
    (word, None)
}

/// Returns the class of an instruction that has a form for 32 and one for 64 bits.
fn by_width(width: Width, narrow: u8, wide: u8) -> u8 {
    match width {
        Width::W32 => narrow,
        Width::W64 => wide,
    }
}

fn memory_access(insn: &Insn) -> Word {
    let (code, size, (dst, src), offset, imm) = match *insn {
        Insn::Load {
            size,
            dst,
            src,
            offset,
        } => (CLASS_LDX | MODE_MEM, size, (dst, src), offset, 0),
        Insn::Store {
            size,
            dst,
            offset,
            src,
        } => (CLASS_STX | MODE_MEM, size, (dst, src), offset, 0),
        Insn::StoreImm {
            size,
            dst,
            offset,
            imm,
        } => (CLASS_ST | MODE_MEM, size, (dst, Reg::R0), offset, imm),
        Insn::Atomic {
            size,
            op,
            dst,
            offset,
            src,
        } => {
            let imm = i32::from(op as u8);
            (CLASS_STX | MODE_ATOMIC, size, (dst, src), offset, imm)
        }
        _ => return Word::default(),
    };
    Word {
        code: code | size as u8,
        dst: dst as u8,
        src: src as u8,
        offset,
        imm,
    }
}

/// `goto`, with a 16-bit distance.
pub(super) const SHORT_JUMP: u8 = CLASS_JMP;
/// `gotol`: a jump with a 32-bit distance as the constant (Linux 6.6).
pub(super) const LONG_JUMP: u8 = CLASS_JMP32;

fn wide(dst: Reg, src: u8, value: u64) -> (Word, Option<Word>) {
    let [low, high] = [value, value >> 32].map(|half| {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "each half is taken by itself"
        )]
        let half = half as u32;
        half.cast_signed()
    });
    let code = CLASS_LD | MODE_IMM | Size::Dw as u8;
    let first = Word {
        code,
        dst: dst as u8,
        src,
        offset: 0,
        imm: low,
    };
    (
        first,
        Some(Word {
            imm: high,
            ..Word::default()
        }),
    )
}
