//! The intermediate form: values computed from the packet, conditions over them, and the decision
//! graph that conditions become.
//!
//! Values are pure expressions, each stored once (value numbering by construction). A condition is
//! a tree of tests; a graph is the same with every `and`, `or` and `not` turned into edges. A load
//! beyond the packet rejects it, so the order of tests is part of the meaning.
//!
//! Some values depend on the path through the condition, such as the offset of a tunnel's payload.
//! They are stored in a [`Cell`] on that path; later code uses the cell like any other value.

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
    /// They have a bit in common.
    AnyBit,
}

impl Relation {
    /// Returns the outcome for two numbers.
    pub(crate) fn holds(self, left: u32, right: u32) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Greater => left > right,
            Self::GreaterEqual => left >= right,
            Self::AnyBit => left & right != 0,
        }
    }
}
