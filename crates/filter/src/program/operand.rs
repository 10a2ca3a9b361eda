//! The parts of the step functions: loads, comparisons, operations and continuations. Each is a
//! type, so that every combination gets a function of its own.

use super::step::{LANES, Machine, Step, go};

/// A value that is loaded.
pub(super) trait Load {
    /// Returns `None` if the packet ends before.
    fn load(k: u32, m: &Machine<'_>, x: u32) -> Option<u32>;
}

/// A comparison of A.
pub(super) trait Test {
    fn holds(a: u32, with: u32) -> bool;
}

/// A list of constants.
pub(super) trait Among {
    fn has(m: &Machine<'_>, step: &Step, number: u32) -> bool;
}

/// An operation of A and another number.
pub(super) trait Alu {
    /// Returns `None` for a division by zero.
    fn of(a: u32, b: u32) -> Option<u32>;
}

/// Defines types that implement a trait with one function.
macro_rules! define {
    (load, $($name:ident = |$k:ident, $m:ident, $x:ident| $value:expr;)*) => {$(
        pub(super) struct $name;
        impl Load for $name {
            #[inline(always)]
            fn load($k: u32, $m: &Machine<'_>, $x: u32) -> Option<u32> {
                $value
            }
        }
    )*};
    ($trait:ident::$function:ident -> $result:ty, $($name:ident = |$a:ident, $b:ident| $value:expr;)*) => {$(
        pub(super) struct $name;
        impl $trait for $name {
            #[inline(always)]
            fn $function($a: u32, $b: u32) -> $result {
                $value
            }
        }
    )*};
}

define! {
    load,
    Word = |k, m, _x| word(m.data, k as usize);
    Half = |k, m, _x| half(m.data, k as usize);
    Byte = |k, m, _x| byte(m.data, k as usize);
    WordAtX = |k, m, x| word(m.data, behind(x, k));
    HalfAtX = |k, m, x| half(m.data, behind(x, k));
    ByteAtX = |k, m, x| byte(m.data, behind(x, k));
    Length = |_k, m, _x| Some(m.len);
    HeaderLength = |k, m, _x| Some((byte(m.data, k as usize)? & 0xf) << 2);
    Memory = |k, m, _x| Some(m.recall(k));
    Number = |k, _m, _x| Some(k);
}

define! {
    Test::holds -> bool,
    Equal = |a, with| a == with;
    Greater = |a, with| a > with;
    GreaterEqual = |a, with| a >= with;
    AnySet = |a, with| a & with != 0;
}

define! {
    Alu::of -> Option<u32>,
    Add = |a, b| Some(a.wrapping_add(b));
    Subtract = |a, b| Some(a.wrapping_sub(b));
    Multiply = |a, b| Some(a.wrapping_mul(b));
    Divide = |a, b| a.checked_div(b);
    Remainder = |a, b| a.checked_rem(b);
    Or = |a, b| Some(a | b);
    And = |a, b| Some(a & b);
    Xor = |a, b| Some(a ^ b);
    ShiftLeft = |a, b| Some(a.checked_shl(b).unwrap_or(0));
    ShiftRight = |a, b| Some(a.checked_shr(b).unwrap_or(0));
}
#[inline(always)]
fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

#[inline(always)]
fn half(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(2)?)?.first_chunk()?;
    Some(u32::from(u16::from_be_bytes(*bytes)))
}

#[inline(always)]
fn byte(data: &[u8], at: usize) -> Option<u32> {
    data.get(at).map(|&b| u32::from(b))
}

/// Returns X plus a constant as an offset. It does not wrap around, as no packet is long enough.
#[inline(always)]
fn behind(x: u32, k: u32) -> usize {
    (x as usize).saturating_add(k as usize)
}

/// Two constants: `second` and `third`.
pub(super) struct Pair;

impl Among for Pair {
    #[inline(always)]
    fn has(_: &Machine<'_>, step: &Step, number: u32) -> bool {
        (number == step.second) | (number == step.third)
    }
}

/// The constants of [`Step::list`].
pub(super) struct List;

impl Among for List {
    #[inline(always)]
    fn has(m: &Machine<'_>, step: &Step, number: u32) -> bool {
        let Some(list) = m.program.constants.get(step.list()) else {
            return false;
        };
        let in_group =
            |group: &[u32; LANES]| group.iter().fold(false, |any, &n| any | (n == number));
        list.iter().any(in_group)
    }
}

/// Where an outcome of a test leads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    /// The next instruction.
    Next,
    /// Another instruction.
    Other,
    /// The end, with the value of [`Step::accepted`].
    Accept,
    Reject,
}

/// Where both outcomes of a test lead.
pub(super) trait Ways {
    const YES: To;
    const NO: To;

    /// Continues after a test with `SKIP` instructions between it and the step's first.
    ///
    /// This uses a branch, not a conditional move: the next step would wait for the comparison,
    /// whereas with a predicted branch the processor goes ahead. The code that leads to the next
    /// step or to the end needs nothing of this step.
    #[inline(always)]
    fn lead<const SKIP: usize>(
        taken: bool,
        step: &Step,
        rest: &[Step],
        m: &mut Machine<'_>,
        a: u32,
        x: u32,
    ) -> u32 {
        if taken {
            lead_to::<SKIP>(Self::YES, step.yes, step, rest, m, a, x)
        } else {
            if Self::YES == Self::NO {
                // Two equal calls would be merged into one with a conditional move.
                rather_not();
            }
            lead_to::<SKIP>(Self::NO, step.no, step, rest, m, a, x)
        }
    }
}

#[inline(always)]
fn lead_to<const SKIP: usize>(
    to: To,
    other: u16,
    step: &Step,
    rest: &[Step],
    m: &mut Machine<'_>,
    a: u32,
    x: u32,
) -> u32 {
    match to {
        To::Next => go(SKIP, rest, m, a, x),
        To::Other => go(other.into(), rest, m, a, x),
        To::Accept => step.accepted(),
        To::Reject => 0,
    }
}

#[cold]
#[inline]
fn rather_not() {}

macro_rules! ways {
    ($($name:ident = $yes:ident / $no:ident;)*) => {$(
        pub(super) struct $name;
        impl Ways for $name {
            const YES: To = To::$yes;
            const NO: To = To::$no;
        }
    )*};
}

ways! {
    NextOrOther = Next / Other;
    OtherOrNext = Other / Next;
    BothOther = Other / Other;
    OtherOrReject = Other / Reject;
    RejectOrOther = Reject / Other;
    NextOrReject = Next / Reject;
    RejectOrNext = Reject / Next;
    AcceptOrReject = Accept / Reject;
    RejectOrAccept = Reject / Accept;
}
