//! Chooses the values that are kept in scratch memory.

use crate::ir::{Value, ValueId, Values};
use crate::program::opcode as op;

/// A value is kept if computing it takes at least this many instructions.
const WORTH_KEEPING: usize = 3;

/// Values kept in scratch words, and the number of computations of each value.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Computations by value, if they are counted.
    computations: Vec<u32>,
    /// The values in the last word, the one before it, and so on.
    kept: Vec<ValueId>,
}

impl Scratch {
    /// Keeps nothing, and counts computations.
    pub(super) fn counting(values: &Values) -> Self {
        Self {
            computations: vec![0; values.count()],
            kept: Vec::new(),
        }
    }

    /// Keeps values that were computed more than once and are expensive; `None` if there are none.
    pub(super) fn of_repeated(&self, values: &Values) -> Option<Self> {
        let mut repeated: Vec<(usize, ValueId)> = values
            .all()
            .filter(|id| self.computations[id.index()] > 1)
            .map(|id| (cost(id, values), id))
            .filter(|&(cost, _)| cost >= WORTH_KEEPING)
            .collect();
        // The most expensive ones get the room: half of the free memory.
        repeated.sort_unstable_by_key(|&(cost, id)| (usize::MAX - cost, id));
        repeated.truncate(op::MEMWORDS.saturating_sub(values.cells()) as usize / 2);
        let kept: Vec<ValueId> = repeated.into_iter().map(|(_, id)| id).collect();
        (!kept.is_empty()).then(|| Self {
            computations: Vec::new(),
            kept,
        })
    }

    /// Returns the word of a value.
    pub(super) fn word(&self, id: ValueId) -> Option<u32> {
        let at = self.kept.iter().position(|&kept| kept == id)?;
        Some(op::MEMWORDS - 1 - u32::try_from(at).unwrap_or(0))
    }

    /// Returns the number of words, from 0 on, that are free for intermediate results.
    pub(super) fn free_words(&self) -> u32 {
        op::MEMWORDS - u32::try_from(self.kept.len()).unwrap_or(0)
    }

    /// Counts a computation; returns the word for its result.
    pub(super) fn computed(&mut self, id: ValueId) -> Option<u32> {
        if let Some(count) = self.computations.get_mut(id.index()) {
            *count += 1;
        }
        self.word(id)
    }
}

/// Returns approximately how many instructions compute a value; it stops counting a little above
/// [`WORTH_KEEPING`].
fn cost(id: ValueId, values: &Values) -> usize {
    fn add(id: ValueId, values: &Values, sum: &mut usize) {
        const ENOUGH: usize = 16;
        if *sum > ENOUGH {
            return;
        }
        *sum += 1;
        match values.get(id) {
            Value::Load {
                index: Some(index), ..
            } => add(index, values, sum),
            Value::Negate(inner) => add(inner, values, sum),
            Value::Binary(_, left, right) => {
                add(left, values, sum);
                if values.number_of(right).is_none() {
                    *sum += 1;
                    add(right, values, sum);
                }
            }
            _ => {}
        }
    }
    let mut sum = 0;
    add(id, values, &mut sum);
    sum
}
