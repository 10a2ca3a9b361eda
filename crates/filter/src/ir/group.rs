//! Grouping: alternatives are put in an order in which tests of one value follow each other.
//!
//! In a run of tests that all lead to one place with the one outcome, and to the next with the
//! other, the order does not matter, and a value need only be loaded once if its tests follow each
//! other. A test is only ever moved before others: behind one that has loaded the same value, and where
//! it compares with a number. So a packet that is too short for a load is not rejected where it was not
//! before.

use std::collections::HashMap;

use super::graph::{Graph, Node, NodeId, Step, TestId};
use super::{ValueId, Values};

/// A run in its new order.
struct Run {
    /// The place of the node that it began with.
    first: usize,
    tests: Vec<TestId>,
    /// Whether the outcome that leads on is `no`.
    alternatives: bool,
    end: NodeId,
}

/// Regroups all runs. Whether anything changed.
pub(super) fn group(graph: &mut Graph, values: &Values) -> bool {
    let mut runs = runs(graph, values);
    if runs.is_empty() {
        return false;
    }
    // They were found from the last node to the first.
    graph.rebuild(|graph, renamed, at, node| {
        let Some(run) = runs.pop_if(|run| run.first == at) else {
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

/// The runs that can be put in a better order, from the last node to the first.
fn runs(graph: &Graph, values: &Values) -> Vec<Run> {
    let count = graph.nodes().len();
    let mut ways = vec![0_u32; count];
    for node in graph.nodes() {
        for at in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
            ways[at] += 1;
        }
    }
    let loaded = loaded(graph);
    let mut taken = vec![false; count];
    let mut examined = [vec![false; count], vec![false; count]];
    let mut runs = Vec::new();
    let mut members = Vec::new();
    for at in (0..count).rev() {
        if taken[at] {
            continue;
        }
        let run = [true, false].into_iter().find_map(|alternatives| {
            // The rest of a run that was looked at needs no second look, which would take long.
            let examined = &mut examined[usize::from(alternatives)];
            if examined[at] {
                return None;
            }
            follow(graph, at, alternatives, &ways, &mut members);
            members.iter().for_each(|&at| examined[at] = true);
            // One that is in another run already would be moved twice.
            if members.len() < 2 || members.iter().any(|&at| taken[at]) {
                return None;
            }
            let tests = regrouped(graph, values, &members, loaded[at])?;
            let last = graph.nodes()[*members.last()?];
            members.iter().for_each(|&at| taken[at] = true);
            let end = if alternatives { last.no } else { last.yes };
            Some(Run {
                first: at,
                tests,
                alternatives,
                end,
            })
        });
        runs.extend(run);
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

/// Finds the places of the nodes of the run that begins at a node.
fn follow(graph: &Graph, first: usize, alternatives: bool, ways: &[u32], members: &mut Vec<usize>) {
    members.clear();
    let sides = |node: &Node| match alternatives {
        true => (node.yes, node.no),
        false => (node.no, node.yes),
    };
    let nodes = graph.nodes();
    let (shared, mut next) = sides(&nodes[first]);
    if nodes[first].test().is_none() {
        return;
    }
    members.push(first);
    while let Some(at) = next.index().filter(|&at| ways[at] == 1) {
        let (end, further) = sides(&nodes[at]);
        if end != shared || nodes[at].test().is_none() {
            break;
        }
        members.push(at);
        next = further;
    }
}

/// The tests of a run with those of one value together, `loaded` first; `None` if they are so
/// already.
fn regrouped(
    graph: &Graph,
    values: &Values,
    members: &[usize],
    loaded: Option<ValueId>,
) -> Option<Vec<TestId>> {
    let tests = || {
        members
            .iter()
            .filter_map(|&at| graph.nodes()[at].test())
            .map(|id| (graph.test(id).left, id))
    };
    if is_grouped(tests().map(|(value, _)| value), loaded) {
        return None;
    }
    // Groups in the order of their first tests.
    let mut first_of: HashMap<ValueId, usize> = HashMap::new();
    let mut order: Vec<(usize, usize, TestId)> = tests()
        .enumerate()
        .map(|(n, (value, test))| {
            let moves = values.number_of(graph.test(test).right).is_some();
            let first = match loaded == Some(value) {
                true => 0,
                false => *first_of.entry(value).or_insert(n + 1),
            };
            (if moves { first } else { n + 1 }, n, test)
        })
        .collect();
    if order.is_sorted() {
        return None;
    }
    order.sort_unstable();
    Some(order.into_iter().map(|(_, _, test)| test).collect())
}

/// Whether each value follows itself or was not there before, where a short look can tell.
fn is_grouped(values: impl Iterator<Item = ValueId>, loaded: Option<ValueId>) -> bool {
    const FEW: usize = 16;
    let mut seen = [None; FEW];
    let mut count = 0;
    let mut last = loaded;
    for value in values {
        if last == Some(value) {
            continue;
        }
        if count == FEW || seen[..count].contains(&Some(value)) || loaded == Some(value) {
            return false;
        }
        seen[count] = Some(value);
        count += 1;
        last = Some(value);
    }
    true
}
