//! Groups comparisons that a reader would see as one: a value looked up among several numbers, or
//! an address compared word by word.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::rc::Rc;

use super::symbol::{Kind, Symbol};
use super::trace::{Facts, Goal, Node};
use crate::ir::Relation;

/// The most comparisons of one value in a group: the work grows with their square.
const MOST_TOGETHER: usize = 512;

/// One step of the explanation.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The index of its first comparison, by which goals name it.
    pub(super) at: usize,
    pub(super) what: What,
    /// The facts known when the step is reached.
    pub(super) facts: Facts,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// A value looked up among ranges of numbers.
    Choice(Choice),
    /// Neighbouring fields that must all equal a number.
    Fields {
        parts: Vec<Part>,
        yes: Goal,
        no: Goal,
    },
    /// Any other comparison.
    Test(Node),
}

#[derive(Clone, Debug)]
pub(super) struct Choice {
    pub(super) value: Rc<Symbol>,
    /// The numbers that lead elsewhere than `otherwise`, in the order in which the program tests
    /// them.
    pub(super) cases: Vec<(Ranges, Goal)>,
    pub(super) otherwise: Goal,
}

/// Ranges of numbers, in ascending order.
pub(super) type Ranges = Vec<RangeInclusive<u32>>;

/// A field under a mask and the number that it must equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u32,
    pub(super) bytes: u32,
    pub(super) mask: u32,
    pub(super) number: u32,
}

/// Returns the steps in the order of the program.
pub(super) fn steps(nodes: &[Option<Node>], start: Goal) -> Vec<Step> {
    let mut ways = vec![0_usize; nodes.len()];
    let edges = nodes.iter().flatten().flat_map(|node| [node.yes, node.no]);
    for goal in edges.chain([start]) {
        if let Goal::Node(at) = goal {
            ways[at] += 1;
        }
    }
    let mut merged = vec![false; nodes.len()];
    let mut steps = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let Some(node) = node else { continue };
        // A comparison that only the first one of a step leads to belongs to that step.
        if merged[at] {
            continue;
        }
        let what = if is_choice(node) {
            What::Choice(choice(nodes, at, &ways, &mut merged))
        } else {
            What::Test(node.clone())
        };
        let facts = node.facts.clone();
        steps.push(Step { at, what, facts });
    }
    join_fields(&steps, &ways)
}

fn is_choice(node: &Node) -> bool {
    node.right.number().is_some() && node.relation != Relation::AnyBit
}

/// Groups all comparisons of the value at `root` that are reached only from it.
fn choice(nodes: &[Option<Node>], root: usize, ways: &[usize], merged: &mut [bool]) -> Choice {
    let value = nodes[root]
        .as_ref()
        .map_or_else(Symbol::unknown, |node| Rc::clone(&node.left));
    let largest = largest(&value);
    let mut found: Vec<(Goal, Ranges)> = Vec::new();
    let mut open = vec![(Goal::Node(root), vec![0..=largest])];
    let mut together = 0;
    while let Some((goal, ranges)) = open.pop() {
        let inner = match goal {
            Goal::Node(at) => nodes[at].as_ref().filter(|node| {
                let alone = at == root || ways[at] == 1;
                alone && together < MOST_TOGETHER && is_choice(node) && node.left == value
            }),
            _ => None,
        };
        let (Some(node), Goal::Node(at)) = (inner, goal) else {
            match found.iter_mut().find(|(known, _)| *known == goal) {
                Some((_, known)) => known.extend(ranges),
                None => found.push((goal, ranges)),
            }
            continue;
        };
        together += 1;
        merged[at] = at != root;
        let number = node.right.number().unwrap_or(0);
        let (yes, no) = split(&ranges, node.relation, number);
        // The branch that the program tests first is pushed last, so it is popped first.
        open.push((node.no, no));
        open.push((node.yes, yes));
    }
    for (_, ranges) in &mut found {
        *ranges = joined(std::mem::take(ranges));
    }
    found.retain(|(_, ranges)| !ranges.is_empty());
    let last = found
        .iter()
        .position(|(_, ranges)| ranges.last().is_some_and(|range| *range.end() == largest))
        .unwrap_or(0);
    let otherwise = found.remove(last).0;
    let cases = found.into_iter().map(|(goal, ranges)| (ranges, goal));
    Choice {
        value,
        cases: cases.collect(),
        otherwise,
    }
}

/// Returns the largest number that the value can be.
fn largest(value: &Symbol) -> u32 {
    match value.kind {
        Kind::Load { bytes: 1, .. } | Kind::Field { bytes: 1, .. } => 0xff,
        Kind::Load { bytes: 2, .. } | Kind::Field { bytes: 2, .. } => 0xffff,
        _ => u32::MAX,
    }
}

/// Splits numbers into those for which a comparison holds, and the others.
fn split(ranges: &Ranges, relation: Relation, number: u32) -> (Ranges, Ranges) {
    let (mut yes, mut no) = (Ranges::new(), Ranges::new());
    for range in ranges {
        let (start, end) = (*range.start(), *range.end());
        // The first number for which the relation holds, and the last one.
        let (first, last) = match relation {
            Relation::Equal => (Some(number), number),
            Relation::Greater => (number.checked_add(1), u32::MAX),
            _ => (Some(number), u32::MAX),
        };
        let holding = first.map(|first| (first.max(start), last.min(end)));
        match holding.filter(|(first, last)| first <= last) {
            None => no.push(start..=end),
            Some((first, last)) => {
                if start < first {
                    no.push(start..=first - 1);
                }
                yes.push(first..=last);
                if last < end {
                    no.push(last + 1..=end);
                }
            }
        }
    }
    (yes, no)
}

/// Returns the ranges in ascending order, with overlaps and neighbours joined.
pub(super) fn joined(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable_by_key(|range| *range.start());
    let mut joined = Ranges::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if *range.start() <= last.end().saturating_add(1) => {
                *last = *last.start()..=*last.end().max(range.end());
            }
            _ => joined.push(range),
        }
    }
    joined
}

/// Joins steps that compare neighbouring fields with one number each, one after the other.
fn join_fields(steps: &[Step], ways: &[usize]) -> Vec<Step> {
    let places: HashMap<usize, usize> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| (step.at, index))
        .collect();
    let mut merged = vec![false; steps.len()];
    let mut joined = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        if merged[index] {
            continue;
        }
        let Some((first, mut yes, no)) = single(step) else {
            joined.push(step.clone());
            continue;
        };
        let mut parts = vec![first];
        while let Goal::Node(next) = yes
            && ways[next] == 1
            && let Some(&next) = places.get(&next)
            && let Some((part, on, else_to)) = single(&steps[next])
            && else_to == no
            && continues(&parts, part)
        {
            merged[next] = true;
            parts.push(part);
            yes = on;
        }
        let mut step = step.clone();
        if parts.len() > 1 {
            parts.sort_unstable_by_key(|part| part.offset);
            step.what = What::Fields { parts, yes, no };
        }
        joined.push(step);
    }
    joined
}

/// Matches the comparison of a field at a constant offset with one number.
fn single(step: &Step) -> Option<(Part, Goal, Goal)> {
    let What::Choice(choice) = &step.what else {
        return None;
    };
    let [(ranges, goal)] = &choice.cases[..] else {
        return None;
    };
    let (value, mask) = choice.value.masked();
    let &Kind::Load {
        bytes,
        index: None,
        offset,
    } = &value.kind
    else {
        return None;
    };
    let number = match &ranges[..] {
        [range] if range.start() == range.end() => *range.start(),
        _ => return None,
    };
    let part = Part {
        offset,
        bytes,
        mask,
        number,
    };
    Some((part, *goal, choice.otherwise))
}

/// Returns whether a part directly continues the others: the next word, as in IPv6 addresses, or the two
/// bytes before a word, as in hardware addresses.
fn continues(parts: &[Part], next: Part) -> bool {
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        return false;
    };
    let behind =
        last.bytes == 4 && next.bytes == 4 && last.offset.checked_add(4) == Some(next.offset);
    let hardware = parts.len() == 1 && first.bytes == 4 && next.bytes == 2;
    let behind = behind && parts.len() < 4 && last.mask == u32::MAX;
    behind || hardware && next.offset.checked_add(2) == Some(first.offset)
}
