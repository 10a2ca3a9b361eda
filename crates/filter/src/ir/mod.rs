//! The intermediate form: values computed from the packet, conditions over them, and the decision
//! graph that conditions become.
//!
//! Values are pure expressions, kept once each (value numbering by construction). A condition is a
//! tree of tests; a graph is the same thing with every `and`, `or` and `not` turned into edges. A
//! load beyond the packet rejects it, so that the order of tests is part of the meaning.
//!
//! What depends on the way through the condition, such as where the payload of a tunnel begins, is
//! put into a [`Cell`] on that way, and is a value like any other for all that comes after.

mod balance;
mod bits;
mod canonical;
pub(crate) mod cells;
mod condition;
mod graph;
mod group;
mod index;
mod jump_threading;
mod libpcap_facts;
mod pass_hints;
mod passes;
mod range_facts;
mod value;

pub(crate) use condition::{Condition, Test};
pub(crate) use graph::{ACCEPT, Graph, Level, NodeId, REJECT, Step};
pub(crate) use index::Index;
pub(crate) use passes::optimize;
#[cfg(any(test, fuzzing))]
pub(crate) use passes::{Pass, ROUNDS};
pub(crate) use value::{Cell, Chain, IpVersion, Offset, Size, Value, ValueId, Values, apply};

/// How a test compares, unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Relation {
    Equal,
    Greater,
    GreaterEqual,
    /// Any bit in common.
    AnyBit,
}

impl Relation {
    /// The outcome for two numbers.
    pub(crate) fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Greater => left > right,
            Self::GreaterEqual => left >= right,
            Self::AnyBit => left & right != 0,
        }
    }
}
