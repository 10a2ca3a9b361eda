//! The kernel's rules for classic BPF, applied to foreign programs and to ringtap's own.

use super::opcode as op;
use super::{Insn, MAX_INSNS};

/// The reason why instructions are not a valid program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instruction {at}: {reason}")]
pub struct InvalidProgram {
    /// Index of the offending instruction.
    pub at: usize,
    /// The rule that it breaks.
    pub reason: Reason,
}

/// A rule that a program breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// There are no instructions.
    #[error("the program is empty")]
    Empty,
    /// More instructions than [`MAX_INSNS`].
    #[error("the program has {0} instructions, more than {MAX_INSNS}")]
    TooLong(usize),
    /// The opcode does not exist.
    #[error("unknown opcode {0:#06x}")]
    UnknownOpcode(u16),
    /// A jump leaves the program.
    #[error("jump to instruction {0}, beyond the end")]
    JumpOutside(u64),
    /// A scratch memory slot that does not exist.
    #[error("scratch memory has 16 words, none with index {0}")]
    ScratchIndex(u32),
    /// A load from a scratch slot that some path has not stored.
    #[error("scratch memory word {0} is loaded before it is stored on every path")]
    ScratchUnset(u32),
    /// Division or remainder by the constant 0.
    #[error("division by the constant 0")]
    DivisionByZero,
    /// A shift by a constant of 32 or more.
    #[error("shift by {0} bits; 31 is the most")]
    Shift(u32),
    /// An ancillary load that the kernel does not have.
    #[error("unknown ancillary load at offset {0:#x}")]
    UnknownAncillary(u32),
    /// The last instruction does not return.
    #[error("the program does not end with a return")]
    NoReturn,
}

/// The rules of the kernel that a program need not keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Except {
    /// A `ja` may lead backwards.
    pub(super) loops: bool,
    /// Loads may ask for the packet's process.
    pub(super) processes: bool,
}

/// Checks all rules.
pub(super) fn validate(insns: &[Insn], except: Except) -> Result<(), InvalidProgram> {
    let invalid = |at, reason| InvalidProgram { at, reason };
    let Some(last) = insns.last() else {
        return Err(invalid(0, Reason::Empty));
    };
    if insns.len() > MAX_INSNS {
        return Err(invalid(MAX_INSNS, Reason::TooLong(insns.len())));
    }
    for (at, insn) in insns.iter().enumerate() {
        check_insn(insn, at, insns.len(), except).map_err(|reason| invalid(at, reason))?;
    }
    if last.code & 7 != op::RET {
        return Err(invalid(insns.len() - 1, Reason::NoReturn));
    }
    check_scratch(insns)
}

/// Checks the rules that concern one instruction alone.
fn check_insn(insn: &Insn, at: usize, len: usize, except: Except) -> Result<(), Reason> {
    let Insn { code, k, .. } = *insn;
    let unknown = Err(Reason::UnknownOpcode(code));
    match code & 7 {
        op::LD => match (code & 0xe0, code & 0x18) {
            (op::IMM | op::LEN, op::W) => Ok(()),
            (op::MEM, op::W) => check_slot(k),
            (op::ABS, op::W | op::H | op::B) => check_ancillary(k, except),
            (op::IND, op::W | op::H | op::B) => Ok(()),
            _ => unknown,
        },
        op::LDX => match (code & 0xe0, code & 0x18) {
            (op::IMM | op::LEN, op::W) | (op::MSH, op::B) => Ok(()),
            (op::MEM, op::W) => check_slot(k),
            _ => unknown,
        },
        op::ST | op::STX if code & !7 == 0 => check_slot(k),
        op::ALU => check_alu(code, k),
        op::JMP if except.loops && loop_target(insn, at).is_some() => Ok(()),
        op::JMP => check_jump(insn, at, len),
        op::RET if matches!(code & !7, op::K | op::A) => Ok(()),
        op::MISC if matches!(code & !7, op::TAX | op::TXA) => Ok(()),
        _ => unknown,
    }
    .and(if code > 0xff {
        Err(Reason::UnknownOpcode(code))
    } else {
        Ok(())
    })
}

fn check_slot(k: u32) -> Result<(), Reason> {
    if k < op::MEMWORDS {
        Ok(())
    } else {
        Err(Reason::ScratchIndex(k))
    }
}

fn check_ancillary(k: u32, except: Except) -> Result<(), Reason> {
    match k.checked_sub(op::SKF_AD_OFF) {
        Some(ad) if except.processes && op::is_process(ad) => Ok(()),
        Some(ad) if ad > op::SKF_AD_VLAN_TPID || ad % 4 != 0 => Err(Reason::UnknownAncillary(k)),
        _ => Ok(()),
    }
}

fn check_alu(code: u16, k: u32) -> Result<(), Reason> {
    let immediate = code & op::X == 0;
    match code & 0xf0 {
        op::NEG if !immediate => Err(Reason::UnknownOpcode(code)),
        op::DIV | op::MOD if immediate && k == 0 => Err(Reason::DivisionByZero),
        op::LSH | op::RSH if immediate && k >= 32 => Err(Reason::Shift(k)),
        o if o <= op::XOR => Ok(()),
        _ => Err(Reason::UnknownOpcode(code)),
    }
}

fn check_jump(insn: &Insn, at: usize, len: usize) -> Result<(), Reason> {
    let outside = |offset: u64| {
        let target = at as u64 + 1 + offset;
        if target < len as u64 {
            Ok(())
        } else {
            Err(Reason::JumpOutside(target))
        }
    };
    match insn.code & 0xf0 {
        op::JA if insn.code & op::X == 0 => outside(u64::from(insn.k)),
        op::JEQ | op::JGT | op::JGE | op::JSET => {
            outside(u64::from(insn.jt)).and_then(|()| outside(u64::from(insn.jf)))
        }
        _ => Err(Reason::UnknownOpcode(insn.code)),
    }
}

/// Returns the target of a `ja` that jumps backwards, with its constant as a signed distance.
pub(super) fn loop_target(insn: &Insn, at: usize) -> Option<usize> {
    if insn.code != op::JMP | op::JA || insn.k.cast_signed() >= 0 {
        return None;
    }
    (at + 1).checked_sub(insn.k.wrapping_neg() as usize)
}

/// Checks that every load of a scratch word comes after a store of it on every path. One pass with
/// the set of stored words per instruction is enough. A jump backwards must have stored at least
/// the words that were stored when its target was passed.
fn check_scratch(insns: &[Insn]) -> Result<(), InvalidProgram> {
    let loads =
        |insn: &Insn| matches!(insn.code & 7, op::LD | op::LDX) && insn.code & 0xe0 == op::MEM;
    if !insns.iter().any(loads) {
        return Ok(());
    }
    let mut at_entry = vec![u16::MAX; insns.len()];
    at_entry[0] = 0;
    for (at, insn) in insns.iter().enumerate() {
        let mut stored = at_entry[at];
        let mut reach = |offset: usize, set: u16| {
            if let Some(entry) = at_entry.get_mut(at + 1 + offset) {
                *entry &= set;
            }
        };
        match (insn.code & 7, insn.code & 0xe0) {
            (op::ST | op::STX, _) => stored |= 1 << insn.k,
            (op::LD | op::LDX, op::MEM) if stored & (1 << insn.k) == 0 => {
                let reason = Reason::ScratchUnset(insn.k);
                return Err(InvalidProgram { at, reason });
            }
            _ => {}
        }
        match (insn.code & 7, insn.code & 0xf0) {
            (op::RET, _) => {}
            (op::JMP, op::JA) => match loop_target(insn, at) {
                Some(target) => check_loop(at_entry[target], stored, at)?,
                None => reach(insn.k as usize, stored),
            },
            (op::JMP, _) => {
                reach(usize::from(insn.jt), stored);
                reach(usize::from(insn.jf), stored);
            }
            _ => reach(0, stored),
        }
    }
    Ok(())
}

fn check_loop(passed: u16, stored: u16, at: usize) -> Result<(), InvalidProgram> {
    let missing = passed & !stored;
    // Unreachable code counts as having all words.
    if missing == 0 || passed == u16::MAX {
        return Ok(());
    }
    let reason = Reason::ScratchUnset(missing.trailing_zeros());
    Err(InvalidProgram { at, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;

    const RET0: Insn = Insn::new(op::RET | op::K, 0);

    fn reason(insns: &[Insn]) -> Option<Reason> {
        Program::new(insns.to_vec()).err().map(|e| e.reason)
    }

    #[test]
    fn accepts_the_shortest_program() {
        assert_eq!(reason(&[RET0]), None);
    }

    #[test]
    fn each_rule_is_enforced() {
        let cases: [(&[Insn], Reason); 14] = [
            (&[], Reason::Empty),
            (&[Insn::new(op::LD | op::IMM, 1)], Reason::NoReturn),
            (&[Insn::new(0xff, 0), RET0], Reason::UnknownOpcode(0xff)),
            (&[Insn::new(0x106, 0), RET0], Reason::UnknownOpcode(0x106)),
            (
                &[Insn::new(op::LD | op::IMM | op::H, 0), RET0],
                Reason::UnknownOpcode(8),
            ),
            (
                &[Insn::new(op::RET | op::X, 0)],
                Reason::UnknownOpcode(0x0e),
            ),
            (
                &[Insn::new(op::JMP | op::JA, 1), RET0],
                Reason::JumpOutside(2),
            ),
            (
                &[Insn::jump(op::JMP | op::JEQ, 0, 0, 1), RET0],
                Reason::JumpOutside(2),
            ),
            (&[Insn::new(op::ST, 16), RET0], Reason::ScratchIndex(16)),
            (
                &[Insn::new(op::LD | op::MEM, 3), RET0],
                Reason::ScratchUnset(3),
            ),
            (
                &[Insn::new(op::ALU | op::DIV, 0), RET0],
                Reason::DivisionByZero,
            ),
            (
                &[Insn::new(op::ALU | op::MOD, 0), RET0],
                Reason::DivisionByZero,
            ),
            (&[Insn::new(op::ALU | op::LSH, 32), RET0], Reason::Shift(32)),
            (
                &[
                    Insn::new(op::LD | op::H | op::ABS, op::SKF_AD_OFF + 64),
                    RET0,
                ],
                Reason::UnknownAncillary(op::SKF_AD_OFF + 64),
            ),
        ];
        for (insns, expected) in cases {
            assert_eq!(reason(insns), Some(expected), "{insns:?}");
        }
    }

    /// Loops are for user space, stay inside the program, and keep the rule of scratch memory.
    #[test]
    fn loops_are_refused_unless_allowed() {
        let back = |distance: u32| Insn::new(op::JMP | op::JA, distance.wrapping_neg());
        let allowed = |insns: &[Insn]| Program::with_loops(insns.to_vec()).err();
        let insns = [Insn::new(op::LD | op::LEN, 0), back(2), RET0];
        assert!(matches!(reason(&insns), Some(Reason::JumpOutside(_))));
        assert_eq!(allowed(&insns), None);
        let outside = [Insn::new(op::LD | op::LEN, 0), back(3), RET0];
        assert!(allowed(&outside).is_some());
        // The second path to the jump has not stored a word that the first pass had.
        let unset = [
            Insn::jump(op::JMP | op::JEQ, 0, 0, 2),
            Insn::new(op::ST, 1),
            Insn::new(op::LD | op::MEM, 1),
            back(2),
            RET0,
        ];
        let reason = Reason::ScratchUnset(1);
        assert_eq!(allowed(&unset), Some(InvalidProgram { at: 3, reason }));
    }

    #[test]
    fn a_word_stored_on_one_branch_only_is_unset_after_the_join() {
        let insns = [
            Insn::new(op::LD | op::LEN, 0),
            Insn::jump(op::JMP | op::JEQ, 1, 0, 1),
            Insn::new(op::ST, 2),
            Insn::new(op::LD | op::MEM, 2),
            RET0,
        ];
        assert_eq!(
            Program::new(insns.to_vec()).err(),
            Some(InvalidProgram {
                at: 3,
                reason: Reason::ScratchUnset(2)
            })
        );
    }
}
