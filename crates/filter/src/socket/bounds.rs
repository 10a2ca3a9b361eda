//! Computes upper bounds of X at each instruction.

use crate::language::ast::Operator;
use crate::program::Insn;
use crate::program::opcode as op;

/// Upper bounds of all values of a program.
#[derive(Clone, Copy, Debug)]
struct State {
    a: u32,
    x: u32,
    memory: [u32; op::MEMWORDS as usize],
}

impl State {
    fn join(&mut self, other: &Self) {
        self.a = self.a.max(other.a);
        self.x = self.x.max(other.x);
        for (mine, theirs) in self.memory.iter_mut().zip(other.memory) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// Returns the upper bound of X before each instruction. Jumps only go forward, so one pass is
/// enough.
pub(super) fn of_x(insns: &[Insn]) -> Vec<u32> {
    let start = State {
        a: 0,
        x: 0,
        memory: [0; op::MEMWORDS as usize],
    };
    let mut entries: Vec<Option<State>> = vec![None; insns.len()];
    if let Some(first) = entries.first_mut() {
        *first = Some(start);
    }
    let mut bounds = Vec::with_capacity(insns.len());
    for (at, insn) in insns.iter().enumerate() {
        let Some(mut state) = entries[at] else {
            bounds.push(0);
            continue;
        };
        bounds.push(state.x);
        step(insn, &mut state);
        let mut reach = |offset: usize| {
            if let Some(entry) = entries.get_mut(at + 1 + offset) {
                match entry {
                    Some(there) => there.join(&state),
                    None => *entry = Some(state),
                }
            }
        };
        match (insn.code & 7, insn.code & 0xf0) {
            (op::RET, _) => {}
            (op::JMP, op::JA) => reach(insn.k as usize),
            (op::JMP, _) => {
                reach(usize::from(insn.jt));
                reach(usize::from(insn.jf));
            }
            _ => reach(0),
        }
    }
    bounds
}

fn step(insn: &Insn, state: &mut State) {
    let slot = (insn.k % op::MEMWORDS) as usize;
    match insn.code & 7 {
        op::LD => {
            state.a = match insn.code & 0xe0 {
                op::IMM => insn.k,
                op::MEM => state.memory[slot],
                op::ABS if insn.k >= op::SKF_AD_OFF => u32::MAX,
                op::ABS | op::IND => match insn.code & 0x18 {
                    op::B => 0xff,
                    op::H => 0xffff,
                    _ => u32::MAX,
                },
                _ => u32::MAX,
            }
        }
        op::LDX => {
            state.x = match insn.code & 0xe0 {
                op::IMM => insn.k,
                op::MEM => state.memory[slot],
                op::MSH => 60,
                _ => u32::MAX,
            }
        }
        op::ST => state.memory[slot] = state.a,
        op::STX => state.memory[slot] = state.x,
        op::ALU => {
            let (operand, exact) = match insn.code & op::X {
                0 => (insn.k, true),
                _ => (state.x, false),
            };
            state.a = arithmetic(insn.code & 0xf0, state.a, operand, exact);
        }
        op::MISC if insn.code & 0xf8 == op::TAX => state.x = state.a,
        op::MISC => state.a = state.x,
        _ => {}
    }
}

/// Returns the upper bound of a result, for operands of at most `a` and `b` (exactly `b` if
/// `exact`).
fn arithmetic(operation: u16, a: u32, b: u32, exact: bool) -> u32 {
    let all_ones = |n: u32| u32::MAX.checked_shr(n.leading_zeros()).unwrap_or(0);
    match operation {
        op::ADD => a.saturating_add(b),
        op::MUL => a.saturating_mul(b),
        op::AND => a.min(b),
        op::OR | op::XOR => all_ones(a | b),
        op::DIV if exact => crate::ir::apply(Operator::Divide, a, b).unwrap_or(a),
        op::RSH if exact => a.checked_shr(b).unwrap_or(0),
        op::DIV | op::RSH => a,
        op::MOD => a.min(b.saturating_sub(1)),
        op::LSH if exact && a.leading_zeros() >= b => a.checked_shl(b).unwrap_or(0),
        _ => u32::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_length_and_masks_bound_x() {
        let insns = [
            Insn::new(op::LDX | op::MSH | op::B, 14),
            Insn::new(op::LD | op::H | op::ABS, 0),
            Insn::new(op::ALU | op::AND, 0xf),
            Insn::new(op::ALU | op::LSH, 2),
            Insn::new(op::ALU | op::ADD | op::X, 0),
            Insn::new(op::MISC | op::TAX, 0),
            Insn::new(op::ALU | op::NEG, 0),
            Insn::new(op::MISC | op::TAX, 0),
            Insn::new(op::RET, 0),
        ];
        assert_eq!(of_x(&insns), [0, 60, 60, 60, 60, 60, 120, 120, u32::MAX]);
    }

    /// Where two paths meet, the larger bound holds.
    #[test]
    fn joins_take_the_larger() {
        let insns = [
            Insn::new(op::LD | op::LEN, 0),
            Insn::jump(op::JMP | op::JEQ, 1, 0, 1),
            Insn::new(op::LDX | op::IMM, 9),
            Insn::new(op::RET, 0),
        ];
        assert_eq!(of_x(&insns), [0, 0, 0, 9]);
    }
}
