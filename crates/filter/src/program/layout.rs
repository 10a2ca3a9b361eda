//! The order of steps: each is followed by the one that comes where its test is not true, so that the
//! processor need not wait for the number of the next one.

use super::range::Range;
use super::step::{Shape, Step, does};

/// What a way comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Step(usize),
    Return(u32),
}

/// Steps at their final places.
pub(super) struct Layout {
    steps: Vec<Step>,
    /// What is returned behind the last step: few different numbers, as a rule.
    returns: [u32; FEW],
    few: usize,
    more: Vec<u32>,
}

const FEW: usize = 4;

/// Until all steps have a place, [`Step::yes`] names one of the builder's, or with this bit a return.
const RETURN: u32 = 1 << 31;

impl Layout {
    /// For so many steps.
    pub(super) fn new(count: usize) -> Self {
        Self {
            steps: Vec::with_capacity(count + count / 2 + 2),
            returns: [0; FEW],
            few: 0,
            more: Vec::new(),
        }
    }

    /// Lays a step, and what comes where its test is not true; `follows` if only the step before
    /// leads to it. Its place.
    pub(super) fn lay(
        &mut self,
        at: usize,
        step: Step,
        follows: bool,
        ends: Option<[End; 2]>,
    ) -> u32 {
        let mut step = step;
        let mut ends = ends;
        step.header = 0;
        if let Some([yes, no]) = &mut ends
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
        let place = number(self.steps.len());
        if let Some([yes, no]) = ends {
            let otherwise = if step.tests() { no } else { yes };
            step.yes = self.name(yes);
            self.steps.push(step);
            self.lead(Some(at), otherwise);
        } else {
            self.steps.push(step);
        }
        place
    }

    /// Lays what leads from the step `at`, or from the beginning, to an end.
    pub(super) fn lead(&mut self, at: Option<usize>, end: End) {
        match end {
            End::Step(place) if place == at.map_or(0, |at| at + 1) => {}
            End::Step(_) => {
                let mut jump = Step::jump();
                jump.yes = self.name(end);
                self.steps.push(jump);
            }
            End::Return(number) => self.steps.push(Step::returns(number)),
        }
    }

    fn name(&mut self, end: End) -> u32 {
        match end {
            End::Step(step) => number(step),
            End::Return(of) => {
                let known = self.returns[..self.few].iter().position(|&n| n == of);
                let at = known.unwrap_or_else(|| {
                    if let Some(next) = self.returns.get_mut(self.few) {
                        *next = of;
                        self.few += 1;
                        self.few - 1
                    } else {
                        self.more.push(of);
                        FEW + self.more.len() - 1
                    }
                });
                number(at) | RETURN
            }
        }
    }

    /// All steps, given those of the builder, in which [`Step::yes`] is the place.
    pub(super) fn finish(mut self, built: &[Step]) -> Vec<Step> {
        let end = number(self.steps.len());
        for step in &mut self.steps {
            if step.tests() || step.shape == Shape::Jump {
                step.yes = match step.yes & RETURN {
                    0 => built[step.yes as usize].yes,
                    _ => end + (step.yes & !RETURN),
                };
            }
        }
        let returns = self.returns[..self.few].iter().chain(&self.more);
        self.steps.extend(returns.map(|&of| Step::returns(of)));
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
