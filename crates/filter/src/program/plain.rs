//! The plain interpreter, which defines what a program means, one instruction after the other.
//!
//! Tests compare everything else that runs programs with it: the interpreter behind
//! [`Program::run`], native code, and lowered programs. It follows the tables of bpf(4) and the
//! kernel's `Documentation/networking/filter.rst` row by row, and is not optimised. No shipped code
//! calls it.

use super::opcode as op;
use super::{Ancillary, Insn, MAX_ROUNDS, Program};

/// Runs a program over the captured bytes of one packet, with its length on the wire, as
/// [`Program::run`] without the kernel's `metadata` and as [`Program::run_with`] with it. Returns
/// the number of bytes accepted, 0 for a rejected packet.
#[must_use]
pub fn run(program: &Program, data: &[u8], len: u32, metadata: Option<&Ancillary>) -> u32 {
    let (mut a, mut x, mut memory) = (0, 0, [0; op::MEMWORDS as usize]);
    let (mut at, mut rounds) = (0, 0);
    loop {
        let Insn { code, jt, jf, k } = program.insns[at];
        let operand = if code & op::X == 0 { k } else { x };
        at += 1;
        match code & 7 {
            op::LD | op::LDX => {
                let value = match code & 0xe0 {
                    op::IMM => Some(k),
                    op::LEN => Some(len),
                    op::MEM => Some(memory[k as usize]),
                    op::ABS if k >= op::SKF_AD_OFF => {
                        metadata.map(|metadata| metadata.load(k - op::SKF_AD_OFF, a, x))
                    }
                    op::ABS => number(data, k, code),
                    op::IND => x.checked_add(k).and_then(|k| number(data, k, code)),
                    // MSH: the length of an IPv4 header.
                    _ => number(data, k, op::B).map(|byte| 4 * (byte & 0xf)),
                };
                match (code & 7, value) {
                    (op::LD, Some(value)) => a = value,
                    (_, Some(value)) => x = value,
                    (_, None) => return 0,
                }
            }
            op::ST => memory[k as usize] = a,
            op::STX => memory[k as usize] = x,
            op::ALU => match arithmetic(code & 0xf0, a, operand) {
                Some(result) => a = result,
                None => return 0,
            },
            op::JMP if code & 0xf0 == op::JA && k.cast_signed() < 0 => {
                rounds += 1;
                if rounds > MAX_ROUNDS {
                    return 0;
                }
                at -= k.wrapping_neg() as usize;
            }
            op::JMP => {
                at += match code & 0xf0 {
                    op::JA => k as usize,
                    test if holds(test, a, operand) => jt.into(),
                    _ => jf.into(),
                };
            }
            op::RET if code & 0x18 == op::A => return a,
            op::RET => return k,
            _ if code & 0xf8 == op::TAX => x = a,
            _ => a = x,
        }
    }
}

/// Returns the number of 4, 2 or 1 bytes at an offset, in network order; `None` if one is beyond
/// the captured bytes.
fn number(data: &[u8], offset: u32, code: u16) -> Option<u32> {
    let size = match code & 0x18 {
        op::W => 4,
        op::H => 2,
        _ => 1,
    };
    let from = offset as usize;
    let bytes = data.get(from..from.checked_add(size)?)?.iter();
    Some(bytes.fold(0, |number, &byte| number << 8 | u32::from(byte)))
}

/// Returns the result of an operation, unsigned and cut to 32 bits; `None` for a division by zero.
fn arithmetic(operation: u16, a: u32, operand: u32) -> Option<u32> {
    match operation {
        op::ADD => Some(a.wrapping_add(operand)),
        op::SUB => Some(a.wrapping_sub(operand)),
        op::MUL => Some(a.wrapping_mul(operand)),
        op::DIV => a.checked_div(operand),
        op::MOD => a.checked_rem(operand),
        op::OR => Some(a | operand),
        op::AND => Some(a & operand),
        op::XOR => Some(a ^ operand),
        op::LSH => Some(a.checked_shl(operand).unwrap_or(0)),
        op::RSH => Some(a.checked_shr(operand).unwrap_or(0)),
        // NEG.
        _ => Some(a.wrapping_neg()),
    }
}

/// Returns the outcome of a test, unsigned.
fn holds(test: u16, a: u32, operand: u32) -> bool {
    match test {
        op::JEQ => a == operand,
        op::JGT => a > operand,
        op::JGE => a >= operand,
        // JSET: any bit in common.
        _ => a & operand != 0,
    }
}
