//! Programs in words: the decisions that a program makes, step by step, and what it costs.
//!
//! In: a [`Program`] and the link type that it was compiled for. Out: an [`Explanation`], which
//! displays as text. The program itself is read, not the expression, so that what is said is what
//! runs. Not in here: how an expression came to be this program.
//!
//! The way: instructions followed forward, with what each register holds as an expression over the
//! packet (`trace`, `symbol`); comparisons put together to steps (`step`); names for the fields and
//! numbers in them (`field`, `number`); sentences (`sentence`).

mod behind;
mod cost;
mod field;
#[cfg(test)]
mod follow;
mod number;
mod sentence;
mod step;
mod symbol;
mod trace;

use std::fmt;

pub use cost::Cost;

use crate::{LinkType, Program};
use step::Step;
use trace::Goal;

/// A program in words.
#[derive(Clone, Debug)]
pub struct Explanation {
    cost: Cost,
    start: Goal,
    steps: Vec<Step>,
    link_type: LinkType,
}

impl Explanation {
    /// Reads a program that was compiled for packets of this link type, which gives fields their
    /// names.
    #[must_use]
    pub fn new(program: &Program, link_type: LinkType) -> Self {
        let link_type = link_type.canonical();
        let (nodes, start) = trace::nodes(program.insns(), link_type);
        Self {
            cost: Cost::of(program),
            start,
            steps: step::steps(&nodes, start),
            link_type,
        }
    }

    /// What the program costs.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// The steps, an empty line, and the cost.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence::write(self, f)
    }
}
