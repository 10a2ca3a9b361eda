//! The cost of a program, and the data that it needs.

use std::ops::RangeInclusive;

use super::trace::{branch_targets, has_loop, is_branch, jump_target};
use crate::program::{Insn, Program, opcode as op};

/// The cost of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cost {
    /// Number of instructions.
    pub instructions: usize,
    /// Instructions executed on the shortest path to a verdict.
    pub shortest: usize,
    /// Instructions executed on the longest path; `None` if there is a loop.
    pub longest: Option<usize>,
    /// Packet bytes that are read at constant offsets.
    pub bytes: Vec<RangeInclusive<u32>>,
    /// Whether packet bytes are read at offsets computed from other bytes.
    pub computed_offsets: bool,
    /// Metadata that the program asks the kernel for, such as the VLAN tag.
    pub ancillary: Vec<&'static str>,
    /// Whether the program has a loop, which the kernel rejects.
    pub has_loop: bool,
    /// Whether the program asks for the packet's process, which only ringtap's own programs know.
    pub asks_for_process: bool,
}

impl Cost {
    /// Computes the cost of a program.
    #[must_use]
    pub fn of(program: &Program) -> Self {
        let insns = program.insns();
        let has_loop = has_loop(insns);
        Self {
            instructions: insns.len(),
            shortest: distance(insns, usize::min),
            longest: (!has_loop).then(|| distance(insns, usize::max)),
            bytes: bytes(insns),
            computed_offsets: insns.iter().any(|insn| is_load(insn, op::IND)),
            ancillary: ancillary(insns),
            has_loop,
            asks_for_process: program.asks_for_process(),
        }
    }

    /// Returns whether the kernel accepts the program: at most 4,096 instructions, no loop, and no
    /// question about the packet's process.
    #[must_use]
    pub fn fits_kernel(&self) -> bool {
        self.instructions <= op::KERNEL_MAX_INSNS && !self.has_loop && !self.asks_for_process
    }
}

/// Returns the number of instructions from the first one to a return, by the better of two paths at
/// each branch. Jumps backwards count as endless.
fn distance(insns: &[Insn], better: fn(usize, usize) -> usize) -> usize {
    let mut distances = vec![usize::MAX; insns.len()];
    for (at, insn) in insns.iter().enumerate().rev() {
        let behind = |target: usize| {
            let known = distances.get(target).filter(|_| target > at);
            known.map_or(usize::MAX, |distance| distance.saturating_add(1))
        };
        distances[at] = match insn.code & 7 {
            op::RET => 1,
            _ if is_branch(insn) => {
                let [yes, no] = branch_targets(insn, at).map(behind);
                better(yes, no)
            }
            op::JMP => behind(jump_target(insn, at)),
            _ => behind(at + 1),
        };
    }
    distances.first().copied().unwrap_or(0)
}

fn is_load(insn: &Insn, mode: u16) -> bool {
    matches!(insn.code & 7, op::LD | op::LDX) && insn.code & 0xe0 == mode
}

/// Returns the bytes at constant offsets, with neighbours joined.
fn bytes(insns: &[Insn]) -> Vec<RangeInclusive<u32>> {
    let loads = insns.iter().filter_map(|insn| {
        if is_load(insn, op::MSH) {
            return Some(insn.k..=insn.k);
        }
        if !is_load(insn, op::ABS) || insn.k >= op::SKF_AD_OFF {
            return None;
        }
        let more = match insn.code & 0x18 {
            op::W => 3,
            op::H => 1,
            _ => 0,
        };
        Some(insn.k..=insn.k.saturating_add(more))
    });
    super::step::joined(loads.collect())
}

fn ancillary(insns: &[Insn]) -> Vec<&'static str> {
    let loads = insns
        .iter()
        .filter(|insn| is_load(insn, op::ABS) && insn.code & 7 == op::LD);
    let numbers = loads.filter_map(|insn| insn.k.checked_sub(op::SKF_AD_OFF));
    let mut names: Vec<_> = numbers.map(super::number::ancillary).collect();
    names.sort_unstable();
    names.dedup();
    names
}
