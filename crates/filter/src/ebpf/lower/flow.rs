//! Data-flow analysis of the program. Jumps only go forward, so one pass over the instructions,
//! forward or backward, is enough for each result.

use super::step::{Step, Target};
use super::view::View;

/// How far a check may look ahead, in bytes of packet: the shortest Ethernet frame.
const AHEAD: u32 = 60;
/// The same after byte X: an Ethernet and a TCP header.
const AHEAD_OF_X: u32 = 34;

/// Returns the instructions that are reachable from `entries`.
pub(super) fn reached(steps: &[Step], entries: impl IntoIterator<Item = usize>) -> Vec<bool> {
    let mut reached = vec![false; steps.len()];
    for entry in entries {
        reached[entry] = true;
    }
    for (at, step) in steps.iter().enumerate() {
        if reached[at] {
            step.successors(at)
                .into_iter()
                .flatten()
                .for_each(|next| reached[next] = true);
        }
    }
    reached
}

/// Whether a register may be read before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unset {
    pub(super) a: bool,
    pub(super) x: bool,
}

pub(super) fn read_before_written(steps: &[Step]) -> Unset {
    let reached = reached(steps, [0]);
    let unset = |target: Target| {
        let mut written = vec![true; steps.len()];
        written[0] = false;
        for (at, step) in steps.iter().enumerate() {
            if reached[at] && !written[at] && step.reads(target) {
                return true;
            }
            let after = written[at] || step.writes(target);
            if reached[at] {
                step.successors(at)
                    .into_iter()
                    .flatten()
                    .for_each(|next| written[next] &= after);
            }
        }
        false
    };
    Unset {
        a: unset(Target::A),
        x: unset(Target::X),
    }
}

/// The registers that the verifier should forget at an instruction: their values are still needed
/// and come from several paths. Otherwise the verifier would follow each value separately once a
/// test of a known value decides the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Forget {
    pub(super) a: bool,
    pub(super) x: bool,
}

pub(super) fn forget(steps: &[Step]) -> Vec<Forget> {
    let reached = reached(steps, [0]);
    let mut paths = vec![0_usize; steps.len()];
    for (at, step) in steps.iter().enumerate().filter(|&(at, _)| reached[at]) {
        step.successors(at)
            .into_iter()
            .flatten()
            .for_each(|next| paths[next] += 1);
    }
    let [a, x] = [Target::A, Target::X].map(|target| live(steps, target));
    let meet = |at: usize| paths[at] > 1;
    (0..steps.len())
        .map(|at| Forget {
            a: meet(at) && a[at],
            x: meet(at) && x[at],
        })
        .collect()
}

/// Returns for each instruction whether the register's value is read there or later.
fn live(steps: &[Step], target: Target) -> Vec<bool> {
    let mut live = vec![false; steps.len()];
    for (at, step) in steps.iter().enumerate().rev() {
        let later = step
            .successors(at)
            .into_iter()
            .flatten()
            .any(|next| live[next]);
        live[at] = step.reads(target) || (later && !step.writes(target));
    }
    live
}

/// How much of the packet each check should cover, so that it also serves the following loads.
#[derive(Debug)]
pub(super) struct Needs {
    /// Bytes from the packet's start.
    pub(super) constant: Vec<u32>,
    /// Bytes from byte X on.
    pub(super) from_x: Vec<u32>,
}

impl Needs {
    /// With `exact`, a check covers only what every path from there on reads, because it rejects.
    /// Otherwise it covers what most paths read; a return does not count as a path.
    pub(super) fn new(steps: &[Step], view: View, exact: bool) -> Self {
        let mut needs = Self {
            constant: vec![0; steps.len()],
            from_x: vec![0; steps.len()],
        };
        let mut ahead = vec![[None::<u32>; 2]; steps.len()];
        for (at, &step) in steps.iter().enumerate().rev() {
            let next = step.successors(at).into_iter().flatten();
            let [mut constant, mut from_x] = next.fold([None, None], |least, next| {
                let lesser = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
                [
                    lesser(least[0], ahead[next][0]),
                    lesser(least[1], ahead[next][1]),
                ]
            });
            if exact && step.successors(at) == [None, None] {
                (constant, from_x) = (Some(0), Some(0));
            }
            if step.writes(Target::X) {
                from_x = exact.then_some(0);
            }
            let bound = |need: Option<u32>, most: u32| match need {
                Some(need) if exact || need <= most => need,
                _ => 0,
            };
            let [own_constant, own_from_x] = own(step, view);
            if let Some(own) = own_constant {
                constant = Some(own.max(bound(constant, AHEAD)));
            }
            if let Some(own) = own_from_x {
                from_x = Some(own.max(bound(from_x, AHEAD_OF_X)));
            }
            ahead[at] = [constant, from_x];
            needs.constant[at] = constant.unwrap_or_default();
            needs.from_x[at] = from_x.unwrap_or_default();
        }
        needs
    }
}

/// Returns the bytes that an instruction itself reads in place.
fn own(step: Step, view: View) -> [Option<u32>; 2] {
    match step {
        Step::Absolute { k, size } => [view.extent(k, size), None],
        Step::HeaderLength { k } => [view.extent(k, crate::ebpf::Size::B), None],
        Step::Indirect { k, size } => [None, view.indirect(k, size).map(|load| load.extent)],
        _ => [None, None],
    }
}

/// The facts that the checks on every path to an instruction have proved. A join takes the lower
/// value of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Bytes readable from the packet's start.
    pub(super) constant: u32,
    /// Bytes readable from byte X on, which R2 points to; 0 if R2 does not point there.
    pub(super) from_x: u32,
    /// X is at least this.
    pub(super) least_x: u32,
    /// X is a header's length (at most 60) on every path.
    pub(super) is_header_length: bool,
}

impl Known {
    pub(super) const NOTHING: Self = Self {
        constant: 0,
        from_x: 0,
        least_x: 0,
        is_header_length: false,
    };

    /// Forgets the facts about the old value of X.
    pub(super) fn forget_x(&mut self) {
        *self = Self {
            constant: self.constant,
            ..Self::NOTHING
        };
    }

    /// Returns the facts after two paths have met.
    pub(super) fn join(self, other: Self) -> Self {
        Self {
            constant: self.constant.min(other.constant),
            from_x: self.from_x.min(other.from_x),
            least_x: self.least_x.min(other.least_x),
            is_header_length: self.is_header_length && other.is_header_length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Insn, opcode as op};

    /// Returns `ldh [12]; jeq 0x800 → ldb [23], jeq 6, ret 1; else ret 0`.
    fn ip_and_tcp() -> Vec<Step> {
        let insns = [
            Insn::new(op::LD | op::H | op::ABS, 12),
            Insn::jump(op::JMP | op::JEQ, 0x800, 0, 3),
            Insn::new(op::LD | op::B | op::ABS, 23),
            Insn::jump(op::JMP | op::JEQ, 6, 0, 1),
            Insn::new(op::RET, 1),
            Insn::new(op::RET, 0),
        ];
        insns
            .iter()
            .enumerate()
            .map(|(at, insn)| Step::new(insn, at))
            .collect()
    }

    #[test]
    fn checks_look_ahead_only_where_failing_is_no_verdict() {
        let steps = ip_and_tcp();
        assert_eq!(Needs::new(&steps, View::Plain, false).constant[0], 24);
        assert_eq!(Needs::new(&steps, View::Plain, true).constant[0], 14);
    }

    #[test]
    fn forgets_what_counts_where_paths_meet() {
        let insns = [
            Insn::new(op::LD | op::LEN, 0),
            Insn::jump(op::JMP | op::JEQ, 60, 0, 1),
            Insn::new(op::MISC | op::TAX, 0),
            Insn::jump(op::JMP | op::JEQ, 61, 0, 1),
            Insn::new(op::RET, 1),
            Insn::new(op::RET, 0),
        ];
        let steps: Vec<Step> = insns
            .iter()
            .enumerate()
            .map(|(at, i)| Step::new(i, at))
            .collect();
        let mut expected = [Forget::default(); 6];
        expected[3].a = true;
        assert_eq!(forget(&steps), expected);
    }

    #[test]
    fn finds_registers_that_start_as_zero() {
        let none = Unset { a: false, x: false };
        assert_eq!(read_before_written(&ip_and_tcp()), none);
        let steps = [Step::XToA, Step::ReturnA];
        assert_eq!(read_before_written(&steps), Unset { a: false, x: true });
    }
}
