//! The order of steps: each is followed by the one that comes where its test is not true, so that the
//! processor need not wait for the number of the next one.

use super::range::Range;
use super::step::{Step, does};

/// What a way comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Step(usize),
    Return(u32),
}

/// Steps at their final places.
pub(super) struct Layout {
    steps: Vec<Step>,
    /// For each of the builder's steps.
    places: Vec<u32>,
    /// Steps that lead to one that may have no place yet.
    open: Vec<(usize, End)>,
    /// Where numbers are returned.
    returns: Vec<(u32, u32)>,
}

impl Layout {
    /// For so many steps.
    pub(super) fn new(count: usize) -> Self {
        Self {
            steps: Vec::with_capacity(count + count / 2 + 2),
            places: Vec::with_capacity(count),
            open: Vec::with_capacity(count),
            returns: Vec::new(),
        }
    }

    /// Lays a step, and what comes where its test is not true; `follows` if only the step before
    /// leads to it.
    pub(super) fn lay(&mut self, at: usize, step: Step, follows: bool, ends: Option<(End, End)>) {
        let mut step = step;
        let mut ends = ends;
        if let Some((yes, no)) = &mut ends
            && step.tests()
            && *yes == End::Step(at + 1)
            && step.invert()
        {
            std::mem::swap(yes, no);
        }
        step.shape = step.shape_of();
        let before = self.steps.last().filter(|_| follows);
        if let Some(joined) = before.and_then(|before| step.joined(before)) {
            self.steps.pop();
            step = joined;
        }
        self.places.push(number(self.steps.len()));
        if let Some((yes, _)) = ends
            && step.tests()
        {
            self.open.push((self.steps.len(), yes));
        }
        self.steps.push(step);
        if let Some((yes, no)) = ends {
            self.lead(Some(at), if step.tests() { no } else { yes });
        }
    }

    /// Lays what leads from the step `at`, or from the beginning, to an end.
    pub(super) fn lead(&mut self, at: Option<usize>, end: End) {
        match end {
            End::Step(place) if place == at.map_or(0, |at| at + 1) => {}
            End::Step(_) => {
                self.open.push((self.steps.len(), end));
                self.steps.push(Step::jump());
            }
            End::Return(number) => {
                self.returning(number);
            }
        }
    }

    /// Lays a return; its place.
    fn returning(&mut self, of: u32) -> u32 {
        let place = number(self.steps.len());
        self.returns.push((of, place));
        self.steps.push(Step::returns(of));
        place
    }

    pub(super) fn finish(mut self) -> Vec<Step> {
        // Programs return few numbers.
        const LOOKED_AT: usize = 8;
        for (at, end) in std::mem::take(&mut self.open) {
            self.steps[at].yes = match end {
                End::Step(step) => self.places[step],
                End::Return(number) => {
                    let mut known = self.returns.iter().rev().take(LOOKED_AT);
                    match known.find(|(of, _)| *of == number) {
                        Some(&(_, place)) => place,
                        None => self.returning(number),
                    }
                }
            };
        }
        self.steps
    }
}

impl Step {
    /// Makes the test the opposite, if that is one.
    fn invert(&mut self) -> bool {
        let range = Range {
            from: self.from,
            width: self.width,
        };
        let others = match self.does & does::TEST {
            0 => None,
            _ => range.others(),
        };
        if let Some(others) = others {
            (self.from, self.width) = (others.from, others.width);
        }
        others.is_some()
    }
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
