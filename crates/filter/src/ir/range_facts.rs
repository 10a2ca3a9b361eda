//! Derives all facts about a value from its comparisons with numbers.
//!
//! The numbers with which a value is compared anywhere divide its range into pieces; a state
//! records which of them are possible. A test is left out only if its value was tested before on
//! every path, so that no load is left out: packets that are too short are still rejected.
//! way, so that no load is left out: packets that are too short are rejected as before.

use super::jump_threading::Knowledge;
use super::{Graph, Relation, Size, Test, Value, ValueId, Values, bits};
use crate::language::ast::Operator;

/// The state of knowledge about a test.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// The pieces of the range, `from..to`, and those in which the test is true.
    from: usize,
    to: usize,
    yes_from: usize,
    yes_to: usize,
    /// The bit for a value that may be untested on some path.
    untested: usize,
}

#[derive(Clone, Copy)]
enum TestFacts {
    /// Both sides are numbers.
    Fixed(bool),
    /// A load is always beyond the packet.
    Rejects,
    /// Not tracked.
    Ignored,
    Slot(Slot),
}

/// All facts from the ranges of values.
pub(super) struct RangeFacts {
    places: Vec<TestFacts>,
    start: Vec<u64>,
}

/// Returns the bounds of the values for which a test is true, if it is one for at least, or less
/// than, a number.
fn accepted(test: &Test, number: u32) -> Option<(u64, u64)> {
    const END: u64 = 1 << 32;
    let number = u64::from(number);
    match test.relation {
        Relation::Equal => Some((number, number + 1)),
        Relation::Greater => Some((number + 1, END)),
        Relation::GreaterEqual => Some((number, END)),
        Relation::AnyBit => None,
    }
}

/// Returns one more than the largest possible value.
pub(super) fn limit(value: ValueId, values: &Values) -> u64 {
    match values.get(value) {
        Value::Load {
            size: Size::Byte, ..
        } => 1 << 8,
        Value::Load {
            size: Size::Half, ..
        } => 1 << 16,
        Value::HeaderLength { .. } => 64,
        Value::Binary(Operator::And, _, mask) => values
            .number_of(mask)
            .map_or(1 << 32, |mask| u64::from(mask) + 1),
        _ => 1 << 32,
    }
}

/// The last cut of a value; its bit says that the value may be untested.
const UNTESTED: u64 = u64::MAX;

impl Knowledge for RangeFacts {
    fn new(graph: &Graph, values: &Values, most_words: usize) -> Self {
        let tests = graph.tests();
        let most = most_words * 64;
        // Tests that have been removed only add pieces.
        let mut cuts = Cuts(Vec::with_capacity(tests.len() * 3));
        for test in tests {
            if let Some(number) = values.number_of(test.right) {
                cuts.add(test, number, limit(test.left, values));
            }
        }
        cuts.0.sort_unstable();
        cuts.0.dedup();
        // Two bits for a test that is no range, and one for whether its values were tested.
        let fits = cuts.0.len() < most;
        if !fits {
            // The states of all nodes would take too much memory: nothing is concluded.
            cuts.0.clear();
        }
        let mut next = cuts.0.len();
        let mut places = Vec::with_capacity(tests.len());
        for test in tests {
            let (left, right) = (values.number_of(test.left), values.number_of(test.right));
            places.push(match (left, right) {
                (Some(left), Some(right)) => TestFacts::Fixed(test.relation.holds(left, right)),
                _ if values.fails(test.left) || values.fails(test.right) => TestFacts::Rejects,
                _ if !fits || next + 3 > most => TestFacts::Ignored,
                (_, Some(number)) => {
                    let limit = limit(test.left, values);
                    TestFacts::Slot(cuts.slot(test, number, limit, &mut next))
                }
                _ => {
                    next += 3;
                    TestFacts::Slot(Slot::apart(next - 3, next - 1))
                }
            });
        }
        let mut start = vec![0; bits::words(next).max(1)];
        bits::insert(&mut start, 0, next);
        for (at, &(value, cut)) in cuts.0.iter().enumerate() {
            if cut != UNTESTED && cut >= limit(value, values) {
                bits::remove(&mut start, at, at + 1);
            }
        }
        Self { places, start }
    }

    fn start(&self) -> &[u64] {
        &self.start
    }

    #[inline]
    fn learn(&self, state: &mut [u64], test: usize, outcome: bool) {
        let TestFacts::Slot(slot) = self.places[test] else {
            return;
        };
        bits::remove(state, slot.untested, slot.untested + 1);
        if outcome {
            bits::remove(state, slot.from, slot.yes_from);
            bits::remove(state, slot.yes_to, slot.to);
        } else {
            bits::remove(state, slot.yes_from, slot.yes_to);
        }
    }

    #[inline]
    fn decide(&self, state: &[u64], test: usize) -> Option<bool> {
        let slot = match self.places[test] {
            TestFacts::Fixed(outcome) => return Some(outcome),
            TestFacts::Ignored | TestFacts::Rejects => return None,
            TestFacts::Slot(slot) => slot,
        };
        if bits::any(state, slot.untested, slot.untested + 1) {
            return None;
        }
        if !bits::any(state, slot.yes_from, slot.yes_to) {
            return Some(false);
        }
        let no =
            bits::any(state, slot.from, slot.yes_from) || bits::any(state, slot.yes_to, slot.to);
        (!no).then_some(true)
    }

    fn rejects(&self, test: usize) -> bool {
        matches!(self.places[test], TestFacts::Rejects)
    }

    fn may_drop(&self, state: &[u64], test: usize) -> bool {
        match self.places[test] {
            TestFacts::Fixed(_) => true,
            TestFacts::Ignored | TestFacts::Rejects => false,
            TestFacts::Slot(slot) => !bits::any(state, slot.untested, slot.untested + 1),
        }
    }
}

/// The cuts of ranges: sorted pairs of a value and a number. A piece has the number of the cut that
/// it begins at.
struct Cuts(Vec<(ValueId, u64)>);

impl Cuts {
    fn add(&mut self, test: &Test, number: u32, limit: u64) {
        self.0.extend([(test.left, 0), (test.left, UNTESTED)]);
        if let Some((first, end)) = accepted(test, number) {
            self.0
                .extend([first, end].map(|cut| (test.left, cut.min(limit))));
        }
    }

    fn find(&self, value: ValueId, cut: u64) -> usize {
        self.0.partition_point(|other| *other < (value, cut))
    }

    /// Returns the slot of a comparison with a number. `next` is the first free bit.
    fn slot(&self, test: &Test, number: u32, limit: u64, next: &mut usize) -> Slot {
        let untested = self.find(test.left, UNTESTED);
        let Some((first, end)) = accepted(test, number) else {
            *next += 2;
            return Slot::apart(*next - 2, untested);
        };
        Slot {
            from: self.find(test.left, 0),
            to: untested,
            yes_from: self.find(test.left, first.min(limit)),
            yes_to: self.find(test.left, end.min(limit)),
            untested,
        }
    }
}

impl Slot {
    /// Returns the slot of a test that says nothing about others: bit `at` for true, the next for
    /// false.
    fn apart(at: usize, untested: usize) -> Self {
        Self {
            from: at,
            to: at + 2,
            yes_from: at,
            yes_to: at + 1,
            untested,
        }
    }
}
