//! Grouping: alternatives are put in an order in which tests of one value follow each other.
//!
//! In a run of tests that all lead to one place with the one outcome, and to the next with the
//! other, the order does not matter, and a value need only be loaded once if its tests follow each
//! other. A test is only ever moved before others: behind one that has loaded the same value. So a
//! packet that is too short for a load is not rejected where it was not before.

use std::collections::HashMap;

use super::ValueId;
use super::graph::{Graph, Node, NodeId, Step, TestId};

/// A run: nodes from its first to its last, whose `shared` outcome leads to one place.
struct Run {
    tests: Vec<TestId>,
    /// Whether the outcome that leads on is `no`.
    alternatives: bool,
    end: NodeId,
}

/// Regroups all runs. Whether anything changed.
pub(super) fn group(graph: &mut Graph) -> bool {
    let runs = runs(graph);
    if runs.iter().all(Option::is_none) {
        return false;
    }
    graph.rebuild(|graph, renamed, at, node| {
        let Some(run) = &runs[at] else {
            let (yes, no) = (renamed.of(node.yes), renamed.of(node.no));
            return graph.intern(Node { yes, no, ..node });
        };
        let shared = renamed.of(if run.alternatives { node.yes } else { node.no });
        run.tests
            .iter()
            .rev()
            .fold(renamed.of(run.end), |next, &test| {
                let (yes, no) = match run.alternatives {
                    true => (shared, next),
                    false => (next, shared),
                };
                let step = Step::Test(test);
                graph.intern(Node { step, yes, no })
            })
    });
    true
}

/// The runs that can be put in a better order, each at its first node.
fn runs(graph: &Graph) -> Vec<Option<Run>> {
    let count = graph.nodes().len();
    let mut ways = vec![0_u32; count];
    for node in graph.nodes() {
        for at in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
            ways[at] += 1;
        }
    }
    let loaded = loaded(graph);
    let mut taken = vec![false; count];
    let mut runs: Vec<Option<Run>> = (0..count).map(|_| None).collect();
    for at in (0..count).rev() {
        if taken[at] {
            continue;
        }
        runs[at] = [true, false].into_iter().find_map(|alternatives| {
            let members = members(graph, at, alternatives, &ways);
            // One that is in another run already would be moved twice.
            if members.iter().any(|&at| taken[at]) {
                return None;
            }
            let tests = regrouped(graph, &members, loaded[at])?;
            let last = graph.nodes()[*members.last()?];
            members.iter().for_each(|&at| taken[at] = true);
            let end = if alternatives { last.no } else { last.yes };
            Some(Run {
                tests,
                alternatives,
                end,
            })
        });
    }
    runs
}

/// The value that was tested last before each node, where it is the same on every way.
fn loaded(graph: &Graph) -> Vec<Option<ValueId>> {
    #[derive(Clone, Copy)]
    enum Last {
        Unknown,
        Value(ValueId),
        Several,
    }
    let nodes = graph.nodes();
    let mut last = vec![Last::Unknown; nodes.len()];
    for node in nodes.iter().rev() {
        let value = match node.step {
            Step::Test(test) => graph.test(test).left,
            Step::Set(_, value) => value,
        };
        for at in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
            last[at] = match last[at] {
                Last::Unknown => Last::Value(value),
                Last::Value(other) if other == value => Last::Value(value),
                _ => Last::Several,
            };
        }
    }
    let value = |last| match last {
        Last::Value(value) => Some(value),
        _ => None,
    };
    last.into_iter().map(value).collect()
}

/// The places of the nodes of the run that begins at a node.
fn members(graph: &Graph, first: usize, alternatives: bool, ways: &[u32]) -> Vec<usize> {
    let sides = |node: &Node| match alternatives {
        true => (node.yes, node.no),
        false => (node.no, node.yes),
    };
    let nodes = graph.nodes();
    let (shared, mut next) = sides(&nodes[first]);
    let mut members = vec![first];
    if nodes[first].test().is_none() {
        return members;
    }
    while let Some(at) = next.index().filter(|&at| ways[at] == 1) {
        let (end, further) = sides(&nodes[at]);
        if end != shared || nodes[at].test().is_none() {
            break;
        }
        members.push(at);
        next = further;
    }
    members
}

/// The tests of a run with those of one value together, `loaded` first; `None` if they are so
/// already.
fn regrouped(graph: &Graph, members: &[usize], loaded: Option<ValueId>) -> Option<Vec<TestId>> {
    let tests: Vec<TestId> = members
        .iter()
        .filter_map(|&at| graph.nodes()[at].test())
        .collect();
    let mut order: Vec<(usize, usize)> = Vec::with_capacity(members.len());
    let mut first_of: HashMap<ValueId, usize> = HashMap::new();
    for (n, &test) in tests.iter().enumerate() {
        let value = graph.test(test).left;
        let group = match loaded == Some(value) {
            true => 0,
            false => *first_of.entry(value).or_insert(n + 1),
        };
        order.push((group, n));
    }
    if order.is_sorted() {
        return None;
    }
    order.sort_unstable();
    Some(order.into_iter().map(|(_, n)| tests[n]).collect())
}
