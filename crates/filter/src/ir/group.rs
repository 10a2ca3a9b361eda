//! Grouping: alternatives are reordered so that tests of one value follow each other.
//!
//! In a run of tests, one outcome always leads to the same target, the other to the next test. So their order
//! does not matter. A value need only be loaded once if its tests follow each other. A test is only moved
//! forward: after one that has loaded the same value, and only if it compares with a number. So no packet is
//! newly rejected for being too short.

use super::graph::{Graph, Node, NodeId, Step, TestId};
use super::{REJECT, ValueId, Values};

/// A run in its new order.
struct TestRun {
    /// The index of its first node.
    first: usize,
    tests: Vec<TestId>,
    /// Whether `no` is the outcome that leads to the next test.
    alternatives: bool,
    end: NodeId,
}

/// The facts about a node.
#[derive(Clone, Copy, Default)]
struct NodeFacts {
    reached: bool,
    /// The number of edges to it.
    ways: u32,
    /// The value that was tested last before.
    last: Last,
    /// Whether it is in a run that is reordered.
    taken: bool,
    /// Whether it was visited as part of a run of conditions that must all hold, and as part of a
    /// run of alternatives.
    examined: [bool; 2],
}

/// The value that was tested last, on every path.
#[derive(Clone, Copy, Default)]
enum Last {
    #[default]
    Unknown,
    Value(ValueId),
    Several,
}

/// Regroups all runs. Returns whether anything changed.
pub(super) fn group(graph: &mut Graph, values: &Values) -> bool {
    let mut places = places(graph);
    let mut runs = runs(graph, values, &mut places);
    if runs.is_empty() {
        return false;
    }
    // Runs are stored from the last node to the first.
    graph.rebuild(|graph, renamed, at, node| {
        let Some(run) = runs.pop_if(|run| run.first == at) else {
            let place = places[at];
            // Nodes that have become unreachable would only be copied.
            if place.taken || !place.reached {
                return REJECT;
            }
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

/// Returns the facts before each node.
fn places(graph: &Graph) -> Vec<NodeFacts> {
    let nodes = graph.nodes();
    let mut places = vec![NodeFacts::default(); nodes.len()];
    if let Some(root) = graph.root().index() {
        places[root].reached = true;
    }
    for (at, node) in nodes.iter().enumerate().rev() {
        let reached = places[at].reached;
        let value = match node.step {
            Step::Test(test) => graph.test(test).left,
            Step::Set(_, value) => value,
        };
        for at in [node.yes, node.no].into_iter().filter_map(NodeId::index) {
            let place = &mut places[at];
            place.reached |= reached;
            place.ways += 1;
            place.last = match place.last {
                Last::Unknown => Last::Value(value),
                Last::Value(other) if other == value => Last::Value(value),
                _ => Last::Several,
            };
        }
    }
    places
}

/// Returns the runs that can be reordered, from the last node to the first.
fn runs(graph: &Graph, values: &Values, places: &mut [NodeFacts]) -> Vec<TestRun> {
    let mut runs = Vec::new();
    let mut members = Vec::new();
    let mut first_of = Vec::new();
    for at in (0..places.len()).rev() {
        let NodeFacts {
            reached,
            last,
            taken,
            ..
        } = places[at];
        if taken || !reached {
            continue;
        }
        let loaded = match last {
            Last::Value(value) => Some(value),
            _ => None,
        };
        let run = [true, false].into_iter().find_map(|alternatives| {
            // The rest of a visited run is not visited again, which would be slow.
            if places[at].examined[usize::from(alternatives)] {
                return None;
            }
            follow(graph, at, alternatives, places, &mut members);
            // A node in two runs would be moved twice.
            if members.len() < 2 || members.iter().any(|&at| places[at].taken) {
                return None;
            }
            let tests = regrouped(graph, values, &members, loaded, &mut first_of)?;
            let last = graph.nodes()[*members.last()?];
            members.iter().for_each(|&at| places[at].taken = true);
            let end = if alternatives { last.no } else { last.yes };
            Some(TestRun {
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

/// Finds the indices of the nodes of the run that begins at a node.
fn follow(
    graph: &Graph,
    first: usize,
    alternatives: bool,
    places: &mut [NodeFacts],
    members: &mut Vec<usize>,
) {
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
    places[first].examined[usize::from(alternatives)] = true;
    while let Some(at) = next.index().filter(|&at| places[at].ways == 1) {
        let (end, further) = sides(&nodes[at]);
        if end != shared || nodes[at].test().is_none() {
            break;
        }
        members.push(at);
        places[at].examined[usize::from(alternatives)] = true;
        next = further;
    }
}

/// Groups the tests of a run by value, `loaded` first; returns `None` if they are grouped already.
/// `first_of` is scratch space with a zero for each value.
fn regrouped(
    graph: &Graph,
    values: &Values,
    members: &[usize],
    loaded: Option<ValueId>,
    first_of: &mut Vec<usize>,
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
    // Groups keep the order of their first tests.
    first_of.resize(values.count(), 0);
    let mut order: Vec<(usize, usize, TestId)> = tests()
        .enumerate()
        .map(|(n, (value, test))| {
            let moves = values.number_of(graph.test(test).right).is_some();
            let first = match (loaded == Some(value), &mut first_of[value.index()]) {
                (true, _) => 0,
                (false, unset @ 0) => {
                    *unset = n + 1;
                    n + 1
                }
                (false, first) => *first,
            };
            (if moves { first } else { n + 1 }, n, test)
        })
        .collect();
    tests().for_each(|(value, _)| first_of[value.index()] = 0);
    if order.is_sorted() {
        return None;
    }
    order.sort_unstable();
    Some(order.into_iter().map(|(_, _, test)| test).collect())
}

/// Returns whether each value follows itself or is new, if a short scan can decide that.
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
