//! Which registers are read later, for every instruction of a program.

use super::Insn;
use super::decode::Place;
use super::opcode as op;
use super::step::{bit, reg};

/// All that instructions can read.
const EVERYTHING: u32 = u32::MAX;

/// The register of a word of scratch memory.
pub(super) fn word(k: u32) -> u8 {
    // Validated: below 16.
    reg::MEMORY + k.to_le_bytes()[0]
}

/// For each instruction, says of which registers the values at its beginning are read by it or later.
/// Where jumps lead backwards, all are said to be.
pub(super) fn before_each(insns: &[Insn], has_loop: bool, places: &mut [Place]) {
    if has_loop {
        for place in places {
            place.live = EVERYTHING;
        }
        return;
    }
    for (at, insn) in insns.iter().enumerate().rev() {
        let after = |distance: usize| places.get(at + 1 + distance).map_or(0, |place| place.live);
        let later = match (insn.code & 7, insn.code & 0xf0) {
            (op::RET, _) => 0,
            (op::JMP, op::JA) => after(insn.k as usize),
            (op::JMP, _) => after(insn.jt.into()) | after(insn.jf.into()),
            _ => after(0),
        };
        let (reads, writes) = effect(insn);
        places[at].live = later & !writes | reads;
    }
}

/// What an instruction reads and writes.
fn effect(insn: &Insn) -> (u32, u32) {
    const A: u32 = bit(reg::A);
    const X: u32 = bit(reg::X);
    let code = insn.code;
    let operand = if code & op::X == 0 { 0 } else { X };
    match code & 7 {
        class @ (op::LD | op::LDX) => {
            let reads = match code & 0xe0 {
                op::MEM => bit(word(insn.k)),
                op::IND => X,
                op::ABS if insn.k >= op::SKF_AD_OFF => A | X,
                _ => 0,
            };
            (reads, if class == op::LD { A } else { X })
        }
        op::ST => (A, bit(word(insn.k))),
        op::STX => (X, bit(word(insn.k))),
        op::ALU => (A | operand, A),
        op::JMP if code & 0xf0 == op::JA => (0, 0),
        op::JMP => (A | operand, 0),
        op::RET if code & 0x18 == op::A => (A, 0),
        op::RET => (0, 0),
        _ if code & 0xf8 == op::TAX => (A, X),
        _ => (X, A),
    }
}
