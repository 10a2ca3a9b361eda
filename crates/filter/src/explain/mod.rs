//! Explanations of programs: the decisions that a program makes, step by step, and its cost.
//!
//! Input: a [`Program`] and the link type that it was compiled for. Output: an [`Explanation`],
//! which displays as text. It explains the program, not the expression, so it describes exactly
//! what runs. How an expression became this program is not explained here.
//!
//! Instructions are followed forward, with the value of each register as an expression over the
//! packet (`trace`, `symbol`). Comparisons are grouped into steps (`step`), fields and numbers get
//! names (`field`, `number`), and the result becomes sentences (`sentence`).

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

/// The explanation of a program.
#[derive(Clone, Debug)]
pub struct Explanation {
    cost: Cost,
    start: Goal,
    steps: Vec<Step>,
    link_type: LinkType,
}

impl Explanation {
    /// Explains a program that was compiled for packets of this link type, which determines the
    /// names of fields.
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

    /// Returns the cost of the program.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// Prints the steps, an empty line, and the cost.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence::write(self, f)
    }
}
