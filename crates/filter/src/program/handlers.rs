//! The functions of steps. The comment of each lists the instructions that it executes; `{}` is its
//! generic parameter. Unless noted, the constants of these instructions are in `k`, `second` and
//! `third`, in their order.

use super::MAX_ROUNDS;
use super::opcode as op;
use super::operand::{Alu, Among, HeaderLength, List, Load, Test, Ways};
use super::step::{Machine, Step, go};

/// Unwraps a value; `None` rejects the packet.
macro_rules! or_reject {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return 0,
        }
    };
}

/// Defines functions of steps that continue after some instructions (`=> n`) or where a test leads
/// (`=> test, ways, n`).
macro_rules! works {
    ($($(#[$doc:meta])* $name:ident$(<$($type:ident: $trait:ident),*>)?
       ($s:ident, $m:ident, $a:ident, $x:ident) $body:block
       => $skip:literal $(, $ways:ident if $test:expr)?;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name$(<$($type: $trait),*>)?(
            $s: &Step,
            rest: &[Step],
            $m: &mut Machine<'_>,
            mut $a: u32,
            mut $x: u32,
        ) -> u32 {
            // Not every function uses or changes all of them.
            let _ = (&$s, &mut $a, &mut $x);
            $body
            works!(@end $s, rest, $m, $a, $x, $skip $(, $ways, $test)?)
        }
    )*};
    (@end $s:ident, $rest:ident, $m:ident, $a:ident, $x:ident, $skip:literal) => {
        go($skip, $rest, $m, $a, $x)
    };
    (@end $s:ident, $rest:ident, $m:ident, $a:ident, $x:ident, $skip:literal, $ways:ident, $test:expr) => {
        $ways::lead::<$skip>($test, $s, $rest, $m, $a, $x)
    };
}

works! {
    /// `ld {}`
    load<L: Load>(s, m, a, x) {
        a = or_reject!(L::load(s.k, m, x));
    } => 0;

    /// `ldx {}`
    load_x<L: Load>(s, m, a, x) {
        x = or_reject!(L::load(s.k, m, x));
    } => 0;

    /// `ld {}`, `j{} #k`
    load_test<L: Load, T: Test, W: Ways>(s, m, a, x) {
        a = or_reject!(L::load(s.k, m, x));
    } => 1, W if T::holds(a, s.second);

    /// `ld {}`, `and #k`, `jeq #k`
    load_and_equal<L: Load, W: Ways>(s, m, a, x) {
        a = or_reject!(L::load(s.k, m, x)) & s.second;
    } => 2, W if a == s.third;

    /// `ld {}`, arithmetic with a constant
    load_alu<L: Load, O: Alu>(s, m, a, x) {
        a = or_reject!(L::load(s.k, m, x));
        a = or_reject!(O::of(a, s.second));
    } => 1;

    /// `ldxb 4*([k]&0xf)`, `ld {}`
    header_load<L: Load>(s, m, a, x) {
        x = or_reject!(HeaderLength::load(s.k, m, x));
        a = or_reject!(L::load(s.second, m, x));
    } => 1;

    /// `ldxb 4*([k]&0xf)`, `ld {}`, `j{} #k`
    header_load_test<L: Load, T: Test, W: Ways>(s, m, a, x) {
        x = or_reject!(HeaderLength::load(s.k, m, x));
        a = or_reject!(L::load(s.second, m, x));
    } => 2, W if T::holds(a, s.third);

    /// `j{} #k`
    test<T: Test, W: Ways>(s, m, a, x) {} => 0, W if T::holds(a, s.k);

    /// `j{} x`
    test_x<T: Test, W: Ways>(s, m, a, x) {} => 0, W if T::holds(a, x);

    /// `jeq` with each constant of a list
    among<A: Among, W: Ways>(s, m, a, x) {} => 0, W if A::has(m, s, a);

    /// `ld {}`, then the same
    load_among<L: Load, A: Among, W: Ways>(s, m, a, x) {
        a = or_reject!(L::load(s.k, m, x));
    } => 0, W if A::has(m, s, a);

    /// `ldxb 4*([k]&0xf)`, `ld {}`, then the same
    header_load_list<L: Load, W: Ways>(s, m, a, x) {
        x = or_reject!(HeaderLength::load(s.k, m, x));
        a = or_reject!(L::load(s.second, m, x));
    } => 0, W if List::has(m, s, a);

    /// `tax`, `ld M[k]`, `j{} x`
    swap_test<T: Test, W: Ways>(s, m, a, x) {
        x = a;
        a = m.recall(s.k);
    } => 2, W if T::holds(a, x);

    /// Arithmetic with a constant
    alu_k<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a, s.k));
    } => 0;

    /// Arithmetic with X
    alu_x<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a, x));
    } => 0;

    /// `and #k`, arithmetic with a constant
    and_alu<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a & s.k, s.second));
    } => 1;

    /// Arithmetic with a constant, `tax`
    alu_k_tax<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a, s.k));
        x = a;
    } => 1;

    /// Arithmetic with X, `tax`
    alu_x_tax<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a, x));
        x = a;
    } => 1;

    /// Arithmetic with a constant, `st M[k]`
    alu_k_store<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a, s.k));
        m.store(s.second, a);
    } => 1;

    /// Arithmetic with X, `st M[k]`
    alu_x_store<O: Alu>(s, m, a, x) {
        a = or_reject!(O::of(a, x));
        m.store(s.k, a);
    } => 1;

    /// `tax`, `ld M[k]`, arithmetic with X
    swap_alu<O: Alu>(s, m, a, x) {
        x = a;
        a = or_reject!(O::of(m.recall(s.k), x));
    } => 2;

    /// `ldx M[k]`, arithmetic with X
    recall_alu<O: Alu>(s, m, a, x) {
        x = m.recall(s.k);
        a = or_reject!(O::of(a, x));
    } => 1;

    /// `tax`, `ld M[k]`, arithmetic with X, `st M[k]`
    swap_alu_store<O: Alu>(s, m, a, x) {
        x = a;
        a = or_reject!(O::of(m.recall(s.k), x));
        m.store(s.second, a);
    } => 3;

    /// `ld {}`, `tax`, `ld M[k]`, arithmetic with X
    load_swap_alu<L: Load, O: Alu>(s, m, a, x) {
        x = or_reject!(L::load(s.k, m, x));
        a = or_reject!(O::of(m.recall(s.second), x));
    } => 3;

    /// `st M[k]`, `ld {}`
    store_load<L: Load>(s, m, a, x) {
        m.store(s.k, a);
        a = or_reject!(L::load(s.second, m, x));
    } => 1;

    /// `st M[k]`, `ld {}`, arithmetic with a constant
    store_load_alu<L: Load, O: Alu>(s, m, a, x) {
        m.store(s.k, a);
        a = or_reject!(L::load(s.second, m, x));
        a = or_reject!(O::of(a, s.third));
    } => 2;

    /// `ld {}`, `st M[k]`
    load_store<L: Load>(s, m, a, x) {
        a = or_reject!(L::load(s.k, m, x));
        m.store(s.second, a);
    } => 1;

    /// `tax`, `ld {}`
    tax_load<L: Load>(s, m, a, x) {
        x = a;
        a = or_reject!(L::load(s.k, m, x));
    } => 1;

    /// `st M[k]`
    store(s, m, a, x) { m.store(s.k, a); } => 0;

    /// `stx M[k]`
    store_x(s, m, a, x) { m.store(s.k, x); } => 0;

    /// `neg`
    negate(s, m, a, x) { a = a.wrapping_neg(); } => 0;

    /// `tax`
    tax(s, m, a, x) { x = a; } => 0;

    /// `txa`
    txa(s, m, a, x) { a = x; } => 0;

    /// `ld` of metadata
    load_ancillary(s, m, a, x) { a = or_reject!(ancillary(m, s.k, a, x)); } => 0;
}

/// Returns metadata; a packet from a file has none.
fn ancillary(m: &Machine<'_>, k: u32, a: u32, x: u32) -> Option<u32> {
    let ancillary = m.far.as_ref()?.ancillary?;
    Some(ancillary.load(k - op::SKF_AD_OFF, a, x))
}

/// Runs `ret #k`.
pub(super) fn return_k(s: &Step, _: &[Step], _: &mut Machine<'_>, _: u32, _: u32) -> u32 {
    s.k
}

/// Runs `ret a`.
pub(super) fn return_a(_: &Step, _: &[Step], _: &mut Machine<'_>, a: u32, _: u32) -> u32 {
    a
}

/// Runs `ja`.
pub(super) fn jump(s: &Step, rest: &[Step], m: &mut Machine<'_>, a: u32, x: u32) -> u32 {
    go(s.yes.into(), rest, m, a, x)
}

/// Runs `ja` backwards, to step `yes` counted from the first. The number of jumps is limited.
pub(super) fn jump_back(s: &Step, _: &[Step], m: &mut Machine<'_>, a: u32, x: u32) -> u32 {
    if let Some(far) = &mut m.far
        && far.rounds < MAX_ROUNDS
    {
        far.rounds += 1;
        far.resume = Some((s.yes.into(), a, x));
    }
    0
}
