//! Combines tests: conditional jumps are gathered into decisions before code is generated.
//!
//! - **Sets.** A list of addresses or ports compiles to one `jeq` after another on the same value,
//!   with a common target. The single question "is `A` one of these" takes a few vector comparisons
//!   and one jump.
//! - **Joins.** If one test decides whether another is made, and both have a common target, both
//!   are made and their answers combined. A mispredicted jump costs more than a dozen instructions,
//!   and the results of tests on real traffic are hard to predict.
//!
//! A join executes loads that the program might have skipped. If such a load is not known to be
//! inside the packet, it reads the packet's first bytes instead, and its test fails: see
//! [`Join::rejecting`].

use crate::facts::{Bounds, Facts, end};
use crate::op::{Alu, Op, Operand, Test};

/// The question of a decision.
#[derive(Debug)]
pub(crate) enum Question {
    /// A single conditional jump.
    One { test: Test, operand: Operand },
    /// Whether `A` equals one of these constants: at least two, not necessarily distinct.
    OneOf(Vec<u32>),
    /// Two questions, with loads between them.
    Joined(Box<Join>),
}

impl Question {
    /// Returns the constants of a question that only tests equality.
    pub(crate) fn constants(&self) -> Option<&[u32]> {
        match self {
            Self::One {
                test: Test::Equal,
                operand: Operand::K(k),
            } => Some(std::slice::from_ref(k)),
            Self::OneOf(set) => Some(set),
            _ => None,
        }
    }
}

/// The way in which two answers are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Both,
    Either,
}

/// Two questions answered together.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) how: How,
    pub(crate) first: Question,
    /// Instructions between the questions: loads, and computations of `A`.
    pub(crate) between: std::ops::Range<usize>,
    pub(crate) second: Question,
    /// Whether the second answer is inverted.
    pub(crate) inverted: bool,
    /// Whether the program rejects if the join's answer is no. Then a load between the questions
    /// that is out of bounds can be answered with no.
    pub(crate) rejecting: bool,
}

/// A question with a target for each answer.
#[derive(Debug)]
pub(crate) struct Decision {
    pub(crate) question: Question,
    pub(crate) yes: usize,
    pub(crate) no: usize,
    cost: usize,
    /// Lengths that must be proven before the decision, because a load in it cannot be guarded.
    needs: Bounds,
}

/// The most comparisons and loads in a decision. With more, a jump that skips the later ones is
/// cheaper.
const MAX_COST: usize = 24;
/// The most bytes at the packet's start that a guarded load reads instead if it is out of bounds.
pub(crate) const GUARD_BYTES: u64 = 4;

/// The structure of the code: the starts of blocks, and the decision at each conditional jump that
/// remains.
pub(crate) struct Plan {
    decisions: Vec<Option<Decision>>,
    starts: Vec<bool>,
}

impl Plan {
    /// Gathers decisions, then follows the remaining ones through the program.
    pub(crate) fn new(ops: &[Op], facts: &[Facts]) -> Self {
        let gathering = Gathering {
            ops,
            facts,
            sources: sources(ops),
            a_read: a_read(ops),
        };
        let mut decisions = gathering.sets();
        gathering.joins(&mut decisions);
        let starts = starts(ops, facts, &decisions);
        Self { decisions, starts }
    }

    /// Returns whether any instruction jumps to this one.
    pub(crate) fn is_start(&self, at: usize) -> bool {
        self.starts[at]
    }

    /// Returns the decision at a conditional jump that is reached.
    pub(crate) fn decision(&self, at: usize) -> Option<&Decision> {
        self.decisions[at].as_ref()
    }
}

/// Follows unconditional jumps to their final target.
pub(crate) fn resolve(ops: &[Op], mut at: usize) -> usize {
    while let Op::Jump(target) = ops[at] {
        at = target;
    }
    at
}

fn starts(ops: &[Op], facts: &[Facts], decisions: &[Option<Decision>]) -> Vec<bool> {
    let mut starts = vec![false; ops.len()];
    let mut reached = vec![false; ops.len()];
    reached[0] = true;
    for op in ops {
        if let Op::Back(target) = *op {
            starts[target] = true;
            reached[target] = true;
        }
    }
    for at in 0..ops.len() {
        if !reached[at] || facts[at].rejects() {
            continue;
        }
        let mut jump = |target: usize| {
            let target = resolve(ops, target);
            starts[target] = true;
            reached[target] = true;
        };
        match (ops[at], &decisions[at]) {
            (Op::Return(_) | Op::ReturnA, _) => {}
            (Op::Jump(target), _) => jump(target),
            (Op::Back(_), _) => {}
            (Op::Branch { .. }, Some(decision)) => {
                jump(decision.yes);
                jump(decision.no);
            }
            _ => reached[at + 1] = true,
        }
    }
    starts
}

/// Returns the number of ways that lead to each instruction.
fn sources(ops: &[Op]) -> Vec<u32> {
    let mut sources = vec![0; ops.len()];
    sources[0] = 1;
    for (at, op) in ops.iter().enumerate() {
        for next in op.next(at) {
            sources[next] += 1;
        }
    }
    sources
}

/// Returns whether the value of `A` before each instruction may still be read.
fn a_read(ops: &[Op]) -> Vec<bool> {
    let mut read = vec![false; ops.len()];
    for at in (0..ops.len()).rev() {
        read[at] = match ops[at] {
            Op::Return(_)
            | Op::Const(_)
            | Op::Len
            | Op::FromScratch(_)
            | Op::Ancillary { .. }
            | Op::Packet { .. }
            | Op::PacketAtX { .. }
            | Op::FromIndex => false,
            Op::ReturnA
            | Op::Back(_)
            | Op::Branch { .. }
            | Op::Store(_)
            | Op::Alu(..)
            | Op::Negate
            | Op::AncillaryXor
            | Op::ToIndex => true,
            Op::Jump(target) => read[target],
            Op::IndexConst(_)
            | Op::IndexLen
            | Op::IndexFromScratch(_)
            | Op::IndexHeaderLength { .. }
            | Op::StoreIndex(_) => read[at + 1],
        };
    }
    read
}

struct Gathering<'a> {
    ops: &'a [Op],
    facts: &'a [Facts],
    sources: Vec<u32>,
    a_read: Vec<bool>,
}

impl Gathering<'_> {
    /// Returns whether two targets are the same instruction or certainly give the same verdict.
    fn same(&self, one: usize, other: usize) -> bool {
        let (one, other) = (resolve(self.ops, one), resolve(self.ops, other));
        one == other
            || self.facts[one].rejects() && self.facts[other].rejects()
            || matches!((self.ops[one], self.ops[other]),
                (Op::Return(a), Op::Return(b)) if a == b)
    }

    fn rejects(&self, at: usize) -> bool {
        self.facts[resolve(self.ops, at)].rejects()
    }

    /// Makes one decision for each conditional jump; runs of equality tests become one.
    ///
    /// Going backwards, each test includes the ones that follow it. A test that is also reached by
    /// other jumps stays separate, so that no test is written twice.
    fn sets(&self) -> Vec<Option<Decision>> {
        let mut decisions: Vec<Option<Decision>> = Vec::new();
        decisions.resize_with(self.ops.len(), || None);
        for at in (0..self.ops.len()).rev() {
            let Op::Branch {
                test,
                operand,
                yes,
                no,
            } = self.ops[at]
            else {
                continue;
            };
            let mut decision = Decision {
                question: Question::One { test, operand },
                yes,
                no,
                cost: 1,
                needs: Bounds::NONE,
            };
            if let (Test::Equal, Operand::K(k)) = (test, operand)
                && self.sources[no] == 1
                && let Some(mut set) = decisions[no]
                    .take_if(|rest| self.same(rest.yes, yes) && rest.question.constants().is_some())
            {
                let mut constants = match set.question {
                    Question::OneOf(constants) => constants,
                    rest => rest.constants().unwrap_or_default().to_vec(),
                };
                constants.push(k);
                set.cost = if constants.len() < 4 {
                    constants.len()
                } else {
                    2 + constants.len() / 4
                };
                set.question = Question::OneOf(constants);
                decision = set;
            }
            decisions[at] = Some(decision);
        }
        decisions
    }

    /// Joins decisions with those that follow them, as long as possible.
    fn joins(&self, decisions: &mut [Option<Decision>]) {
        for at in (0..self.ops.len()).rev() {
            if self.facts[at].rejects() {
                continue;
            }
            while let Some(decision) = decisions[at].take() {
                let (decision, joined) = self.join(at, decision, decisions);
                decisions[at] = Some(decision);
                if !joined {
                    break;
                }
            }
        }
    }

    /// Returns the index of the next conditional jump from `start` on, if there are only loads and
    /// computations before it and no jump leads into them.
    fn following(&self, start: usize) -> Option<usize> {
        let mut at = start;
        loop {
            if self.sources[at] != 1 || self.facts[at].rejects() {
                return None;
            }
            match self.ops[at] {
                Op::Branch { .. } => return Some(at),
                Op::Packet { .. } | Op::PacketAtX { .. } => at += 1,
                Op::Alu(Alu::Div | Alu::Mod, _) => return None,
                Op::Alu(_, Operand::K(_)) => at += 1,
                _ => return None,
            }
        }
    }

    fn join(
        &self,
        root: usize,
        decision: Decision,
        decisions: &mut [Option<Decision>],
    ) -> (Decision, bool) {
        for how in [How::Either, How::Both] {
            let (next, shared) = match how {
                How::Either => (decision.no, decision.yes),
                How::Both => (decision.yes, decision.no),
            };
            let dead = !self.a_read[resolve(self.ops, shared)] || self.rejects(shared);
            let Some(at) = self.following(next).filter(|_| dead) else {
                continue;
            };
            let Some(second) = &decisions[at] else {
                continue;
            };
            let (same_yes, same_no) = (self.same(second.yes, shared), self.same(second.no, shared));
            let (inverted, other) = match (how, same_yes, same_no) {
                (How::Either, true, _) => (false, second.no),
                (How::Either, _, true) => (true, second.yes),
                (How::Both, _, true) => (false, second.yes),
                (How::Both, true, _) => (true, second.no),
                _ => continue,
            };
            let (yes, no) = match how {
                How::Either => (shared, other),
                How::Both => (other, shared),
            };
            let rejecting = self.rejects(no);
            let proven = self.facts[root].proven;
            let (needs, loads) = self.needs(next..at, rejecting, proven, second.needs);
            let cost = decision.cost + second.cost + loads;
            if cost > MAX_COST || !proven.covers(needs) {
                continue;
            }
            let Some(second) = decisions[at].take() else {
                continue;
            };
            let join = Join {
                how,
                first: decision.question,
                between: next..at,
                second: second.question,
                inverted,
                rejecting,
            };
            let question = Question::Joined(Box::new(join));
            let needs = needs.max(decision.needs);
            return (
                Decision {
                    question,
                    yes,
                    no,
                    cost,
                    needs,
                },
                true,
            );
        }
        (decision, false)
    }

    /// Returns the lengths that a join needs proven beforehand, and its cost.
    fn needs(
        &self,
        between: std::ops::Range<usize>,
        rejecting: bool,
        proven: Bounds,
        second: Bounds,
    ) -> (Bounds, usize) {
        let (mut needs, mut cost) = (second, 0);
        for op in &self.ops[between] {
            let load = match *op {
                Op::Packet { offset, width } => Bounds {
                    start: end(offset, width.bytes()),
                    index: 0,
                },
                Op::PacketAtX { offset, width } => Bounds {
                    start: 0,
                    index: end(offset, width.bytes()),
                },
                _ => Bounds::NONE,
            };
            cost += 1;
            if rejecting {
                needs.start = needs.start.max(GUARD_BYTES);
                cost += if proven.covers(load) { 0 } else { 2 };
            } else {
                needs = needs.max(load);
            }
        }
        (needs, cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::analyse;
    use crate::op::made::{equal, load};

    fn decisions(ops: &[Op]) -> Vec<usize> {
        let plan = Plan::new(ops, &analyse(ops));
        (0..ops.len())
            .filter(|&at| plan.decision(at).is_some())
            .collect()
    }

    #[test]
    fn a_list_on_two_fields_is_one_decision() {
        let ops = [
            load(12),
            equal(1, 7, 2),
            equal(2, 7, 3),
            load(14),
            equal(1, 7, 5),
            equal(2, 7, 6),
            Op::Return(0),
            Op::Return(1),
        ];
        assert_eq!(decisions(&ops), [1]);
    }

    #[test]
    fn a_test_that_others_jump_to_stays_by_itself() {
        let ops = [
            load(12),
            equal(1, 3, 2),
            Op::IndexConst(1),
            equal(2, 5, 4),
            Op::Return(0),
            Op::Return(1),
        ];
        assert_eq!(decisions(&ops), [1, 3]);
    }

    #[test]
    fn tests_are_not_joined_where_the_value_is_read_afterwards() {
        let ops = [
            load(12),
            equal(1, 4, 2),
            load(14),
            equal(1, 4, 5),
            Op::ReturnA,
            Op::Return(0),
        ];
        assert_eq!(decisions(&ops), [1, 3]);
    }

    #[test]
    fn a_load_that_cannot_be_guarded_is_not_made_ahead() {
        // An out-of-bounds load at 100 rejects, while a negative answer accepts.
        let ops = [
            load(12),
            equal(1, 4, 2),
            load(100),
            equal(1, 4, 5),
            Op::Return(0),
            Op::Return(1),
        ];
        assert_eq!(analyse(&ops)[1].proven.start, 102);
        assert_eq!(decisions(&ops), [1]);
        let ops = [
            load(12),
            equal(1, 5, 2),
            load(100),
            equal(1, 5, 4),
            Op::Return(7),
            Op::Return(1),
        ];
        assert_eq!(decisions(&ops), [1, 3]);
    }
}
