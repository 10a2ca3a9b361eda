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

/// A condition on a packet, evaluated from left to right and no further than needed.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Constant(bool),
    Test(Test),
    /// Always true; the cell holds the value from here on. A cell is set before anything on the same
    /// way through the condition looks at it, and not again after that, except from itself.
    Set(Cell, ValueId),
    Not(Box<Condition>),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    /// Joined from left to right, each with all that is before it. As a list, because there may be
    /// so many that a tree of them would be too deep to be walked by recursion.
    Chain(Box<Condition>, Vec<(Junction, Condition)>),
}

impl Condition {
    /// Both.
    pub(crate) fn and(self, other: Self) -> Self {
        match self {
            Self::All(mut list) => {
                list.push(other);
                Self::All(list)
            }
            first => Self::All(list_of(first, other)),
        }
    }

    /// Either.
    pub(crate) fn or(self, other: Self) -> Self {
        match self {
            Self::Any(mut list) => {
                list.push(other);
                Self::Any(list)
            }
            first => Self::Any(list_of(first, other)),
        }
    }

    /// Whether there are alternatives in it.
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

    /// The opposite.
    pub(crate) fn negated(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            Self::Constant(constant) => Self::Constant(!constant),
            other => Self::Not(Box::new(other)),
        }
    }
}

/// A list that begins with these, and usually goes on.
fn list_of(first: Condition, second: Condition) -> Vec<Condition> {
    let mut list = Vec::with_capacity(4);
    list.extend([first, second]);
    list
}
