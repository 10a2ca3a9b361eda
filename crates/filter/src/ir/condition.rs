//! Conditions: trees of tests.

use super::{Cell, Relation, ValueId};
use crate::language::ast::Junction;

/// One comparison of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Test {
    pub(crate) left: ValueId,
    pub(crate) relation: Relation,
    pub(crate) right: ValueId,
}

/// A condition on a packet. It is evaluated from left to right, and only as far as needed.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Constant(bool),
    Test(Test),
    /// Always true; the cell holds the value from here on. A cell is set before it is read on the
    /// same path through the condition, and not again after that, except from itself.
    Set(Cell, ValueId),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    /// Conditions joined from left to right, each with everything before it. It is a list because a
    /// tree of that many could be too deep for recursion.
    Chain(Box<Condition>, Vec<(Junction, Condition)>),
}

impl Condition {
    /// Joins two conditions that must both hold.
    pub(crate) fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut list) => {
                list.push(other);
                Self::All(list)
            }
            first => Self::All(list_of(first, other)),
        }
    }

    /// Joins two conditions, one of which must hold.
    pub(crate) fn or(self, other: Self) -> Self {
        match self {
            Self::Any(mut list) => {
                list.push(other);
                Self::Any(list)
            }
            first => Self::Any(list_of(first, other)),
        }
    }

    /// Returns whether it contains alternatives.
    pub(crate) fn branches(&self) -> bool {
        match self {
            Self::Any(_) => true,
            Self::All(list) => list.iter().any(Self::branches),
            Self::Not(inner) => inner.branches(),
            Self::Chain(first, rest) => {
                let branches = |(junction, next): &(Junction, Self)| {
                    *junction == Junction::Or || next.branches()
                };
                first.branches() || rest.iter().any(branches)
            }
            Self::Constant(_) | Self::Test(_) | Self::Set(..) => false,
        }
    }

    /// Returns the opposite.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            Self::Constant(constant) => Self::Constant(!constant),
            other => Self::Not(Box::new(other)),
        }
    }
}

/// Returns a list of these two, with room for more.
fn list_of(first: Condition, second: Condition) -> Vec<Condition> {
    let mut list = Vec::with_capacity(4);
    list.extend([first, second]);
    list
}
