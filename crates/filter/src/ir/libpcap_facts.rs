//! The conclusions of libpcap's optimiser, and no others: the same test has the same outcome, and a
//! value that equals one number does not equal another.
//!
//! [`super::range_facts`] draws further conclusions later, such as that a value of 0x800 is greater
//! than 1500. The conclusions here decide whether an expression is reported to reject every packet,
//! and which loads disappear, so they must be exactly those of libpcap.

use super::graph::Node;
use super::jump_threading::Knowledge;
use super::{Graph, Relation, Values, bits};

/// The state of knowledge about a test.
#[derive(Clone, Copy)]
enum Slot {
    /// Decided by its numbers alone.
    Fixed(bool),
    /// Not tracked.
    Ignored,
    /// Bit `at`: it can be true. Bit `at + tests`: it can be false. The bits of `from..to` belong
    /// to the tests whether the same value equals some number.
    Known { at: usize, from: usize, to: usize },
}

/// The facts that libpcap's optimiser also knows.
pub(super) struct LibpcapFacts {
    slots: Vec<Slot>,
    /// The number of tests that have facts.
    tests: usize,
    start: Vec<u64>,
}

/// Returns how many nodes make each test.
fn uses(graph: &Graph) -> Vec<u32> {
    let mut uses = vec![0; graph.tests().len()];
    for test in graph.nodes().iter().filter_map(Node::test) {
        uses[test.index()] += 1;
    }
    uses
}

/// Gives each known test its bit: tests of one class get neighbouring bits.
///
/// Before, a slot's `at` is its class. `sizes` has the number of tests of each class.
fn place(slots: &mut [Slot], sizes: Vec<usize>, known: usize) {
    let mut starts = sizes;
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    // Each start is still the class's end; going backwards turns it into the beginning.
    for slot in &mut *slots {
        if let Slot::Known { at, from, to } = slot {
            let class = *at;
            starts[class] -= 1;
            (*at, *from, *to) = (starts[class], class, class);
        }
    }
    for slot in slots {
        if let Slot::Known { at, from, to } = slot {
            // Tests in class 0 are no equalities; each stands alone.
            (*from, *to) = match *from {
                0 => (*at, *at),
                class => (
                    starts[class],
                    starts.get(class + 1).copied().unwrap_or(known),
                ),
            };
        }
    }
}

impl Knowledge for LibpcapFacts {
    fn new(graph: &Graph, values: &Values, most_words: usize) -> Self {
        let tests = graph.tests();
        let most = most_words * 32;
        // If there are too many tests, those used once are left out.
        let uses = (tests.len() > most).then(|| uses(graph));
        let few = |at: usize| uses.as_ref().is_some_and(|uses| uses[at] < 2);
        // Equalities of one value get neighbouring bits: they are counted first, then placed.
        let mut sizes = vec![0_usize; values.count() + 1];
        let mut known = 0;
        let mut slots: Vec<Slot> = Vec::with_capacity(tests.len());
        for (at, test) in tests.iter().enumerate() {
            let right = values.constant_of(test.right);
            let left = values.constant_of(test.left);
            slots.push(match (left, right) {
                (Some(left), Some(right)) => Slot::Fixed(test.relation.holds(left, right)),
                _ if few(at) || known == most => Slot::Ignored,
                _ => {
                    known += 1;
                    let equality = test.relation == Relation::Equal && right.is_some();
                    let class = if equality { test.left.index() + 1 } else { 0 };
                    sizes[class] += 1;
                    Slot::Known {
                        at: class,
                        from: 0,
                        to: 0,
                    }
                }
            });
        }
        place(&mut slots, sizes, known);
        let mut start = vec![0; bits::words(known * 2).max(1)];
        bits::insert(&mut start, 0, known * 2);
        Self {
            slots,
            tests: known,
            start,
        }
    }

    fn start(&self) -> &[u64] {
        &self.start
    }

    #[inline]
    fn learn(&self, state: &mut [u64], test: usize, outcome: bool) {
        if let Slot::Known { at, .. } = self.slots[test] {
            let impossible = if outcome { at + self.tests } else { at };
            bits::remove(state, impossible, impossible + 1);
        }
    }

    #[inline]
    fn decide(&self, state: &[u64], test: usize) -> Option<bool> {
        let Slot::Known { at, from, to } = self.slots[test] else {
            return match self.slots[test] {
                Slot::Fixed(outcome) => Some(outcome),
                _ => None,
            };
        };
        let cannot = |at: usize| !bits::any(state, at, at + 1);
        if cannot(at) {
            Some(false)
        } else if cannot(at + self.tests) {
            Some(true)
        } else if !bits::all(state, from + self.tests, to + self.tests) {
            // Another equality of the value cannot be false.
            Some(false)
        } else {
            None
        }
    }

    fn rejects(&self, _: usize) -> bool {
        false
    }

    fn may_drop(&self, _: &[u64], _: usize) -> bool {
        true
    }
}
