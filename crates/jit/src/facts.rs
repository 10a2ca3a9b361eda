//! Packet lengths known at each instruction, computed before code generation, so that a packet's
//! length is compared as rarely as possible.
//!
//! Two facts are combined:
//!
//! - **Backward** ([`Bounds`] as *required*): a captured length below which the verdict is zero on
//!   every path, because each path either loads beyond it or rejects anyway.
//! - **Forward** (*proven*): a captured length that every path to here has already established.
//!
//! A load whose end is proven needs no check. Any other load compares with all that is required
//! from there on, not only with its own end. This rejects earlier than the interpreter does, but
//! the verdict is the same, and a program has no other effect.
//!
//! Both facts have two measures: from the packet's start, and from `X`.

use crate::op::{Alu, Op, Operand};

/// Captured lengths in bytes: absolute, and beyond the index register.
///
/// 64 bits hold every sum of two 32-bit numbers and a width, so nothing wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// From the packet's first byte.
    pub(crate) start: u64,
    /// From the byte that `X` points at.
    pub(crate) index: u64,
}

impl Bounds {
    /// No length.
    pub(crate) const NONE: Self = Self { start: 0, index: 0 };
    /// More than the length of any packet: as *required*, the verdict is certainly zero.
    const NEVER: Self = Self {
        start: u64::MAX,
        index: u64::MAX,
    };

    fn meet(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            index: self.index.min(other.index),
        }
    }

    /// Returns the larger of each measure.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            start: self.start.max(other.start),
            index: self.index.max(other.index),
        }
    }

    /// Returns whether these lengths, if proven, include the others.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.start >= other.start && self.index >= other.index
    }

    /// Drops the length relative to `X`, after `X` got a new value.
    fn without_index(self) -> Self {
        Self { index: 0, ..self }
    }
}

/// The facts at one instruction, before it executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// With fewer captured bytes than this, the verdict is zero.
    pub(crate) required: Bounds,
    /// At least this many bytes are captured.
    pub(crate) proven: Bounds,
}

impl Facts {
    /// Returns whether the verdict is zero on every path from here.
    pub(crate) fn rejects(&self) -> bool {
        self.required == Bounds::NEVER
    }
}

/// Largest value of `X` after a header-length load.
const MAX_HEADER_LENGTH: u64 = 60;

/// Computes the facts of every instruction, in one backward and one forward pass.
pub(crate) fn analyse(ops: &[Op]) -> Vec<Facts> {
    let required = required(ops);
    let proven = proven(ops, &required);
    required
        .into_iter()
        .zip(proven)
        .map(|(required, proven)| Facts {
            required,
            proven: proven.unwrap_or(Bounds::NONE),
        })
        .collect()
}

/// Returns the offset after the last byte of a load.
pub(crate) fn end(offset: u32, bytes: u64) -> u64 {
    u64::from(offset) + bytes
}

fn required(ops: &[Op]) -> Vec<Bounds> {
    let mut all = vec![Bounds::NONE; ops.len()];
    for at in (0..ops.len()).rev() {
        all[at] = match ops[at] {
            Op::Return(0) => Bounds::NEVER,
            Op::Return(_) | Op::ReturnA | Op::Back(_) => Bounds::NONE,
            Op::Jump(target) => all[target],
            Op::Branch { yes, no, .. } => all[yes].meet(all[no]),
            op => required_before(op, all[at + 1]),
        };
    }
    all
}

fn required_before(op: Op, after: Bounds) -> Bounds {
    if after == Bounds::NEVER {
        return after;
    }
    let before = match op {
        Op::Packet { offset, width } => Bounds {
            start: after.start.max(end(offset, width.bytes())),
            ..after
        },
        Op::PacketAtX { offset, width } => {
            let end = end(offset, width.bytes());
            // X is not negative, so a length required from X is also required from the start.
            Bounds {
                start: after.start.max(end),
                index: after.index.max(end),
            }
        }
        Op::IndexHeaderLength { offset } => Bounds {
            start: after.start.max(end(offset, 1)),
            index: 0,
        },
        Op::IndexConst(k) => {
            let beyond = if after.index == 0 {
                0
            } else {
                u64::from(k) + after.index
            };
            Bounds {
                start: after.start.max(beyond),
                index: 0,
            }
        }
        Op::IndexLen | Op::IndexFromScratch(_) | Op::ToIndex => after.without_index(),
        Op::Alu(Alu::Div | Alu::Mod, Operand::K(0)) => Bounds::NEVER,
        _ => after,
    };
    // Captured lengths have 32 bits.
    if before.start > u64::from(u32::MAX) {
        Bounds::NEVER
    } else {
        before
    }
}

fn proven(ops: &[Op], required: &[Bounds]) -> Vec<Option<Bounds>> {
    let mut all: Vec<Option<Bounds>> = vec![None; ops.len()];
    if let Some(first) = all.first_mut() {
        *first = Some(Bounds::NONE);
    }
    // Facts from one round of a loop do not hold at the beginning of the next.
    for op in ops {
        if let Op::Back(target) = *op {
            all[target] = Some(Bounds::NONE);
        }
    }
    for at in 0..ops.len() {
        let Some(before) = all[at] else { continue };
        if required[at] == Bounds::NEVER {
            continue;
        }
        let op = ops[at];
        if matches!(op, Op::Back(_)) {
            continue;
        }
        let after = proven_after(op, before, required[at]);
        for next in op.next(at) {
            all[next] = Some(all[next].map_or(after, |known| known.meet(after)));
        }
    }
    all
}

fn proven_after(op: Op, before: Bounds, required: Bounds) -> Bounds {
    match op {
        Op::Packet { offset, width } => checked(before, end(offset, width.bytes()), required),
        Op::PacketAtX { offset, width } if before.index < end(offset, width.bytes()) => Bounds {
            start: before.start.max(required.index),
            index: required.index,
        },
        Op::IndexHeaderLength { offset } => {
            let Bounds { start, .. } = checked(before, end(offset, 1), required);
            Bounds {
                start,
                index: start.saturating_sub(MAX_HEADER_LENGTH),
            }
        }
        Op::IndexConst(k) => Bounds {
            start: before.start,
            index: before.start.saturating_sub(u64::from(k)),
        },
        Op::IndexLen | Op::IndexFromScratch(_) | Op::ToIndex => before.without_index(),
        _ => before,
    }
}

fn checked(before: Bounds, end: u64, required: Bounds) -> Bounds {
    if before.start < end {
        Bounds {
            start: required.start,
            ..before
        }
    } else {
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Width;
    use crate::op::made::{equal, load};

    /// Returns how often the program's code compares the packet's length.
    fn comparisons(ops: &[Op]) -> usize {
        let unproven = |(op, facts): (&Op, Facts)| match *op {
            Op::Packet { offset, width } => facts.proven.start < end(offset, width.bytes()),
            Op::PacketAtX { offset, width } => facts.proven.index < end(offset, width.bytes()),
            Op::IndexHeaderLength { offset } => facts.proven.start < end(offset, 1),
            _ => false,
        };
        ops.iter()
            .zip(analyse(ops))
            .filter(|&pair| unproven(pair))
            .count()
    }

    #[test]
    fn what_all_accepting_paths_need_is_compared_once() {
        let ops = [
            load(12),
            equal(1, 2, 6),
            load(20),
            equal(2, 4, 6),
            load(30),
            equal(3, 7, 6),
            Op::Return(0),
            Op::Return(1),
        ];
        assert_eq!(comparisons(&ops), 1);
        assert_eq!(analyse(&ops)[0].required.start, 32);
    }

    #[test]
    fn a_path_that_accepts_early_is_not_held_to_later_loads() {
        let ops = [
            load(12),
            equal(1, 4, 2),
            load(30),
            equal(2, 4, 5),
            Op::Return(1),
            Op::Return(0),
        ];
        assert_eq!(analyse(&ops)[0].required.start, 14);
        assert_eq!(comparisons(&ops), 2);
    }

    #[test]
    fn loads_beyond_the_same_x_share_a_comparison_until_x_changes() {
        let at_x = |offset| Op::PacketAtX {
            offset,
            width: Width::Half,
        };
        let mut ops = vec![
            Op::IndexHeaderLength { offset: 14 },
            at_x(16),
            at_x(14),
            Op::ReturnA,
        ];
        assert_eq!(comparisons(&ops), 2);
        ops.insert(2, Op::ToIndex);
        assert_eq!(comparisons(&ops), 3);
    }

    #[test]
    fn offsets_that_no_packet_reaches_reject() {
        let ops = [load(u32::MAX), Op::Return(1)];
        assert!(analyse(&ops)[0].rejects());
        let ops = [
            Op::PacketAtX {
                offset: u32::MAX,
                width: Width::Word,
            },
            Op::Return(1),
        ];
        assert!(analyse(&ops)[0].rejects());
    }
}
