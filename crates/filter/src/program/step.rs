//! The executable form of a program: steps, each with the function that does its work.
//!
//! A function of a step ends with a call of the next step's function. Optimised builds turn these
//! calls into jumps: there is no loop or table in between, A and X stay in registers, and the
//! processor predicts the successor of each step separately. Nothing relies on that: a window
//! limits how many steps call each other (see [`go`]).

use std::ops::Range;

use super::Ancillary;
use super::opcode as op;

/// Does the work of one step and of all after it. Returns the bytes accepted, 0 to reject the packet. `rest`
/// are the steps after this one.
pub(super) type Work = fn(&Step, rest: &[Step], &mut Machine<'_>, a: u32, x: u32) -> u32;

/// One step, 24 bytes. The function defines what the operands mean; the targets of a test are in
/// `yes` and `no`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) work: Work,
    pub(super) k: u32,
    pub(super) second: u32,
    pub(super) third: u32,
    /// Steps to skip if a test holds.
    pub(super) yes: u16,
    /// Steps to skip if it does not.
    pub(super) no: u16,
}

impl Step {
    /// Returns the bytes accepted by a test that ends the program, stored in place of the steps to
    /// skip.
    pub(super) fn accepted(&self) -> u32 {
        u32::from(self.yes) | u32::from(self.no) << 16
    }

    /// Returns the groups of constants of a step with a list: the upper half of `third` is the
    /// first of them, the lower half their number.
    pub(super) fn list(&self) -> Range<usize> {
        let [first, count] = [self.third >> 16, self.third & 0xffff].map(|n| n as usize);
        first..first + count
    }

    /// Stores the bytes accepted, for [`accepted`](Self::accepted).
    pub(super) fn accepting(self, bytes: u32) -> Self {
        let [low, lower, high, higher] = bytes.to_le_bytes();
        Self {
            yes: u16::from_le_bytes([low, lower]),
            no: u16::from_le_bytes([high, higher]),
            ..self
        }
    }
}

/// The executable form of a valid program.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub(super) steps: Vec<Step>,
    /// The constants of all lists.
    pub(super) constants: Vec<[u32; LANES]>,
    /// Whether the program has more steps than a window, jumps backwards, or uses more than [`FEW`]
    /// words of scratch memory.
    pub(super) needs_far: bool,
}

/// The number of constants of a list that are compared at once, without a jump between them.
pub(super) const LANES: usize = 8;

/// The most steps that call each other.
pub(super) const WINDOW: usize = 256;

/// Words of fast scratch memory; words are numbered so that few programs need more.
pub(super) const FEW: usize = 4;

/// The state that steps work on, besides A and X.
pub(super) struct Machine<'a> {
    pub(super) data: &'a [u8],
    pub(super) program: &'a Decoded,
    pub(super) far: Option<&'a mut Far<'a>>,
    /// The packet's length on the wire, in bytes.
    pub(super) len: u32,
    pub(super) memory: [u32; FEW],
}

/// State that only few programs need.
#[derive(Default)]
pub(super) struct Far<'a> {
    pub(super) ancillary: Option<&'a Ancillary>,
    /// The first step after the window.
    pub(super) end: usize,
    /// Where to continue in another window, with A and X.
    pub(super) resume: Option<(usize, u32, u32)>,
    /// Jumps backwards so far.
    pub(super) rounds: u32,
    pub(super) memory: [u32; op::MEMWORDS as usize],
}

/// Continues after `skip` steps of `rest`. If that is beyond the window, the calls end, and [`Decoded::run`]
/// continues in the next window.
#[inline(always)]
pub(super) fn go(skip: usize, rest: &[Step], m: &mut Machine<'_>, a: u32, x: u32) -> u32 {
    if let Some(step) = rest.get(skip)
        && let Some(rest) = rest.get(skip + 1..)
    {
        (step.work)(step, rest, m, a, x)
    } else {
        m.leave(skip, rest.len(), a, x)
    }
}

impl Machine<'_> {
    /// Leaves a window with `left` remaining steps, for the step after `skip` more.
    #[cold]
    #[inline(never)]
    fn leave(&mut self, skip: usize, left: usize, a: u32, x: u32) -> u32 {
        if let Some(far) = &mut self.far {
            far.resume = Some((far.end - left + skip, a, x));
        }
        0
    }

    /// Returns a word of scratch memory.
    #[inline(always)]
    pub(super) fn recall(&self, word: u32) -> u32 {
        match self.memory.get(word as usize) {
            Some(value) => *value,
            None => self.recall_far(word),
        }
    }

    #[inline(always)]
    pub(super) fn store(&mut self, word: u32, value: u32) {
        match self.memory.get_mut(word as usize) {
            Some(memory) => *memory = value,
            None => self.store_far(word, value),
        }
    }

    #[cold]
    fn recall_far(&self, word: u32) -> u32 {
        let memory = self.far.as_ref().map(|far| &far.memory);
        memory.map_or(0, |memory| memory[(word % op::MEMWORDS) as usize])
    }

    #[cold]
    fn store_far(&mut self, word: u32, value: u32) {
        if let Some(far) = &mut self.far {
            far.memory[(word % op::MEMWORDS) as usize] = value;
        }
    }
}
