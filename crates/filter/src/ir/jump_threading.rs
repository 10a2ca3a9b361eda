//! Jump threading: edges skip tests whose outcome is already known on the way there.
//!
//! A fact is known at a node if it is known on all paths to it. A state is the set of outcomes that
//! are still possible, as bits: the outcome of a test removes some, and where paths meet, their
//! sets are united.

use super::graph::{Graph, NodeId, REJECT, TestId};
use super::{Test, Values};

/// Draws conclusions from the outcomes of tests.
pub(super) trait Knowledge: Sized {
    /// Prepares for the tests of a graph, with states of at most `most_words` words.
    fn new(graph: &Graph, values: &Values, most_words: usize) -> Self;

    /// Returns the state before any test.
    fn start(&self) -> &[u64];

    /// Removes from a state what an outcome excludes.
    fn learn(&self, state: &mut [u64], test: usize, outcome: bool);

    /// Returns the outcome of a test, if it is known.
    fn decide(&self, state: &[u64], test: usize) -> Option<bool>;

    /// Returns whether the test itself rejects every packet.
    fn rejects(&self, test: usize) -> bool;

    /// Returns whether the test can be left out if its outcome does not matter.
    fn may_drop(&self, state: &[u64], test: usize) -> bool;
}

/// The limit for all states together, in words (32 MiB); facts beyond it are ignored.
const MOST_WORDS: usize = 1 << 22;
/// The most nodes that all edges of a graph skip in one run; the next run continues.
const MOST_PASSED: usize = 1 << 23;

/// The new targets of a node's outcomes, and whether it may be left out if they are equal.
#[derive(Clone, Copy)]
struct Edges {
    yes: NodeId,
    no: NodeId,
    droppable: bool,
}

/// Threads all edges once. Returns whether anything changed.
pub(super) fn thread<K: Knowledge>(graph: &mut Graph, values: &Values) -> bool {
    let Some(root) = graph.root().index() else {
        return false;
    };
    let most = MOST_WORDS / graph.nodes().len();
    let knowledge = K::new(graph, values, most.max(1));
    let first = graph.nodes()[root].test();
    if first.is_some_and(|test| knowledge.rejects(test.index())) {
        graph.set_root(REJECT);
        return true;
    }
    let edges = edges(graph, &knowledge, root);
    let mut changed = false;
    let before = graph.nodes().len();
    graph.rebuild(|graph, renamed, at, mut node| {
        let Some(edges) = edges[at] else {
            changed = true;
            return REJECT;
        };
        changed |= (edges.yes, edges.no) != (node.yes, node.no);
        node.yes = renamed.of(edges.yes);
        node.no = renamed.of(edges.no);
        // The loads of the first test stay even if it decides nothing: libpcap also rejects a
        // packet that is too short for them.
        let first = at == root && node.yes.index().is_some();
        match node.yes == node.no && (node.yes == REJECT || edges.droppable && !first) {
            true => node.yes,
            false => graph.intern(node),
        }
    });
    changed || graph.nodes().len() != before
}

/// Returns, for each reachable node, the targets of its outcomes after skipping known tests.
fn edges<K: Knowledge>(graph: &Graph, knowledge: &K, root: usize) -> Vec<Option<Edges>> {
    let nodes = graph.nodes();
    let start = knowledge.start();
    let words = start.len();
    // One more for the state after an outcome.
    let mut states = vec![0; words * (nodes.len() + 1)];
    let (states, after) = states.split_at_mut(words * nodes.len());
    let unknown = Edges {
        yes: REJECT,
        no: REJECT,
        droppable: false,
    };
    let mut left = MOST_PASSED;
    // The edges of reached nodes.
    let mut edges = vec![None; nodes.len()];
    edges[root] = Some(unknown);
    states[root * words..][..words].copy_from_slice(start);
    // Successors have lower numbers, so descending numbers visit predecessors first.
    for at in (0..nodes.len()).rev().filter(|&at| at <= root) {
        if edges[at].is_none() {
            continue;
        }
        let node = nodes[at];
        let test = node.test().map(TestId::index);
        let (below, here) = states.split_at_mut(at * words);
        let here = &here[..words];
        let mut lead = |target: NodeId, outcome: bool| {
            after.copy_from_slice(here);
            if let Some(test) = test {
                knowledge.learn(after, test, outcome);
            }
            let target = pass(graph, knowledge, target, after, &mut left);
            if let Some(at) = target.index() {
                edges[at].get_or_insert(unknown);
                let there = &mut below[at * words..][..words];
                there.iter_mut().zip(&*after).for_each(|(a, b)| *a |= b);
            }
            target
        };
        let (yes, no) = (lead(node.yes, true), lead(node.no, false));
        edges[at] = Some(Edges {
            yes,
            no,
            droppable: test.is_some_and(|test| knowledge.may_drop(here, test)),
        });
    }
    edges
}

/// Follows nodes whose tests are decided, at most as many as are left.
fn pass<K: Knowledge>(
    graph: &Graph,
    knowledge: &K,
    mut target: NodeId,
    state: &[u64],
    left: &mut usize,
) -> NodeId {
    while let Some(node) = graph.node(target).filter(|_| *left > 0) {
        *left -= 1;
        let Some(test) = node.test().map(TestId::index) else {
            break;
        };
        match knowledge.decide(state, test) {
            _ if knowledge.rejects(test) => target = REJECT,
            Some(true) => target = node.yes,
            Some(false) => target = node.no,
            None => break,
        }
    }
    target
}

/// Decides tests of computed numbers at the root, and after a first test that decides nothing. Returns
/// whether the root changed.
pub(super) fn settle_root(graph: &mut Graph, values: &Values) -> bool {
    let before = graph.root();
    let outcome = |graph: &Graph, id: NodeId| {
        let node = graph.node(id)?;
        let Test {
            left,
            relation,
            right,
        } = graph.test(node.test()?);
        let (left, right) = (values.number_of(left)?, values.number_of(right)?);
        Some(match relation.holds(left, right) {
            true => node.yes,
            false => node.no,
        })
    };
    while let Some(&root) = graph.node(graph.root()) {
        if let Some(target) = outcome(graph, graph.root()) {
            graph.set_root(target);
        } else if root.yes != root.no {
            break;
        } else if graph.node(root.yes).is_some() {
            let Some(target) = outcome(graph, root.yes) else {
                break;
            };
            let mut root = root;
            (root.yes, root.no) = (target, target);
            let root = graph.intern(root);
            graph.set_root(root);
        } else {
            // At an end no cell is needed any more; libpcap leaves out computations there.
            graph.set_root(root.yes);
        }
    }
    graph.root() != before
}
