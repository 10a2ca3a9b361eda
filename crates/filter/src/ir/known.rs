//! What the tests passed so far say about a value.

use super::{Relation, Test, ValueId, Values};

/// Outcomes of tests on the way to a node, in no particular order, each test at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    facts: Vec<(Test, bool)>,
}

impl Known {
    /// With one more outcome.
    pub(super) fn with(&self, test: Test, outcome: bool) -> Self {
        let mut facts = self.facts.clone();
        if !facts.contains(&(test, outcome)) {
            facts.push((test, outcome));
        }
        Self { facts }
    }

    /// Only what both know.
    pub(super) fn meet(&mut self, other: &Self) {
        self.facts.retain(|fact| other.facts.contains(fact));
    }

    /// Drops the oldest facts beyond `most`, which bounds the work.
    pub(super) fn truncate(&mut self, most: usize) {
        let excess = self.facts.len().saturating_sub(most);
        self.facts.drain(..excess);
    }

    /// The outcome of `test`, if it follows.
    pub(super) fn decide(&self, test: Test, values: &Values) -> Option<bool> {
        if let (Some(left), Some(right)) = (
            values.constant_of(test.left),
            values.constant_of(test.right),
        ) {
            return Some(test.relation.holds(left, right));
        }
        if let Some(&(_, outcome)) = self.facts.iter().find(|(fact, _)| *fact == test) {
            return Some(outcome);
        }
        let number = values.constant_of(test.right)?;
        let range = self.range(test.left, values);
        range
            .decide(test.relation, number)
            .or_else(|| self.excluded(test, number, values))
    }

    /// `value == number` is false where that number was already ruled out.
    fn excluded(&self, test: Test, number: u32, values: &Values) -> Option<bool> {
        let ruled_out = |(fact, outcome): &(Test, bool)| {
            fact.left == test.left
                && match (fact.relation, values.constant_of(fact.right)) {
                    (Relation::AnyBit, Some(mask)) => *outcome != (number & mask != 0),
                    (Relation::Equal, Some(other)) => !outcome && other == number,
                    _ => false,
                }
        };
        (test.relation == Relation::Equal && self.facts.iter().any(ruled_out)).then_some(false)
    }

    /// The bounds of a value.
    fn range(&self, value: ValueId, values: &Values) -> Range {
        let mut range = Range {
            least: 0,
            most: u32::MAX,
        };
        for (test, outcome) in self.facts.iter().filter(|(test, _)| test.left == value) {
            let Some(number) = values.constant_of(test.right) else {
                continue;
            };
            match (test.relation, outcome) {
                (Relation::Equal, true) => {
                    range.least = range.least.max(number);
                    range.most = range.most.min(number);
                }
                (Relation::Greater, true) => {
                    range.least = range.least.max(number.saturating_add(1));
                }
                (Relation::Greater, false) => range.most = range.most.min(number),
                (Relation::GreaterEqual, true) => range.least = range.least.max(number),
                (Relation::GreaterEqual, false) => {
                    range.most = range.most.min(number.saturating_sub(1));
                }
                _ => {}
            }
        }
        range
    }
}

/// Bounds of a value, both included.
struct Range {
    least: u32,
    most: u32,
}

impl Range {
    fn decide(&self, relation: Relation, number: u32) -> Option<bool> {
        let Self { least, most } = *self;
        if least > most {
            return None;
        }
        match relation {
            Relation::Equal if number < least || number > most => Some(false),
            Relation::Greater if least > number => Some(true),
            Relation::Greater if most <= number => Some(false),
            Relation::GreaterEqual if least >= number => Some(true),
            Relation::GreaterEqual if most < number => Some(false),
            _ if least == most => Some(relation.holds(least, number)),
            _ => None,
        }
    }
}
