//! Tests as ranges of numbers.

use super::opcode as op;

/// How a test compares a value with a number: whether it less `from` is at most `width`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) from: u32,
    pub(super) width: u32,
}

impl Range {
    /// Where the test of a conditional jump is one; nothing where it is never true.
    pub(super) fn of(code: u16, k: u32) -> Option<Self> {
        let end = |from: u32| Self {
            from,
            width: u32::MAX - from,
        };
        Some(match code & 0xf0 {
            op::JEQ => Self { from: k, width: 0 },
            op::JGT => end(k.checked_add(1)?),
            op::JGE => end(k),
            // Of the value under a mask.
            _ => end(1),
        })
    }

    /// All other numbers.
    pub(super) fn others(self) -> Option<Self> {
        let from = self.from.wrapping_add(self.width).wrapping_add(1);
        let width = (u32::MAX - self.width).checked_sub(1)?;
        Some(Self { from, width })
    }

    /// The numbers of both, where neither goes on at 0 behind the largest number.
    pub(super) fn and(self, other: Self) -> Option<Self> {
        let (a, b) = (
            self.from.checked_add(self.width)?,
            other.from.checked_add(other.width)?,
        );
        let from = self.from.max(other.from);
        let width = a.min(b).checked_sub(from)?;
        Some(Self { from, width })
    }
}
