//! What the tests passed so far say about a value.

use super::{Relation, Test, Values};

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

    /// The outcome of `test`, if it follows: the same test was passed, or the value was found equal
    /// to another number.
    ///
    /// More would follow from ranges (what equals 0x800 is greater than 1500). It is not drawn on
    /// purpose: a test that is left out does not load, and libpcap, which rejects packets on which
    /// a load fails, draws just these conclusions.
    pub(super) fn decide(&self, test: Test, values: &Values) -> Option<bool> {
        let number = values.constant_of(test.right);
        if let (Some(left), Some(right)) = (values.constant_of(test.left), number) {
            return Some(test.relation.holds(left, right));
        }
        if let Some(&(_, outcome)) = self.facts.iter().find(|(fact, _)| *fact == test) {
            return Some(outcome);
        }
        let other = |(fact, outcome): &(Test, bool)| {
            *outcome
                && fact.left == test.left
                && fact.relation == Relation::Equal
                && values
                    .constant_of(fact.right)
                    .is_some_and(|other| Some(other) != number)
        };
        let equality = test.relation == Relation::Equal && number.is_some();
        (equality && self.facts.iter().any(other)).then_some(false)
    }
}
