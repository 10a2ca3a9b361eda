//! Tests of the packet's process, of which the packet itself has nothing.

use super::super::{Lowered, Lowering};
use super::set::member;
use crate::error::ErrorKind;
use crate::ir::{Condition, Relation, Size};
use crate::language::ast::{Numbers, ProcessTest};
use crate::link::compare;
use crate::process::{ProcessTests, Question, padded, word};
use crate::program::opcode as op;

impl Lowering<'_> {
    pub(in super::super) fn process(&mut self, test: &ProcessTest) -> Lowered<Condition> {
        check(test)?;
        // Where the answer is unknown, the packet might match: a test is taken as true, and as false if it is
        // negated.
        let possible = Condition::Constant(!self.negated);
        match (self.options.processes, test) {
            (ProcessTests::Refused, _) => Err(ErrorKind::NoProcess),
            (ProcessTests::Ignored, _) | (ProcessTests::WithoutAnswers, ProcessTest::Asked(_)) => {
                Ok(possible)
            }
            (_, ProcessTest::Pid(ranges)) => Ok(self.number_in(op::PROCESS_PID, ranges)),
            (_, ProcessTest::Uid(ranges)) => Ok(self.number_in(op::PROCESS_UID, ranges)),
            (_, ProcessTest::Name(name)) => Ok(self.process_named(name)),
            (_, ProcessTest::Asked(question)) => self.answered(question),
        }
    }

    fn number_in(&mut self, load: u32, ranges: &[Numbers]) -> Condition {
        let number = self.values.ancillary(Size::Word, load);
        member(self.values, number, ranges)
    }

    /// Compares the name. A longer one equals a recorded name that has its first 15 bytes.
    fn process_named(&mut self, name: &str) -> Condition {
        let name = padded(name);
        let words = (0..16).step_by(4).map(|at| {
            let load = op::PROCESS_NAME + at;
            self.is(load, word(&name, at))
        });
        Condition::All(words.collect())
    }

    fn answered(&mut self, question: &Question) -> Lowered<Condition> {
        let number = self.asked.number_of(question);
        let number = number.filter(|&number| number < op::PROCESS_QUESTIONS);
        let number = number.ok_or(ErrorKind::TooManyGroups)?;
        Ok(self.is(op::PROCESS_ANSWERS + 4 * number, 1))
    }

    fn is(&mut self, load: u32, number: u32) -> Condition {
        let left = self.values.ancillary(Size::Word, load);
        compare(self.values, left, Relation::Equal, number)
    }
}

/// Rejects the numbers that stand for unknown ones.
fn check(test: &ProcessTest) -> Lowered<()> {
    let (ranges, field, value) = match test {
        ProcessTest::Pid(ranges) => (ranges, "process", 0),
        ProcessTest::Uid(ranges) => (ranges, "user", u32::MAX),
        ProcessTest::Name(_) | ProcessTest::Asked(_) => return Ok(()),
    };
    let is_named = |range: &Numbers| (range.first..=range.last).contains(&value);
    match ranges.iter().any(is_named) {
        true => Err(ErrorKind::NoSuchNumber { field, value }),
        false => Ok(()),
    }
}
