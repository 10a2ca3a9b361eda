//! The decision graph: nodes that test, edges for both outcomes, two ends.
//!
//! Equal nodes are one node, so that common tails are shared. The graph has no cycles: a node's
//! successors exist before it, hence have smaller numbers, and the numbers are a topological order.

use std::collections::HashMap;

use super::known::Known;
use super::{Cell, Condition, Test, ValueId, Values};

/// Names a node. 0 and 1 are the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The id of the node at a place of the list.
    fn inner(at: usize) -> Self {
        Self(u32::try_from(at + 2).unwrap_or(u32::MAX))
    }
}

/// The end of a rejected packet.
pub(crate) const REJECT: NodeId = NodeId(0);
/// The end of an accepted packet.
pub(crate) const ACCEPT: NodeId = NodeId(1);

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Test(Test),
    /// Puts a value into a cell. Both edges lead to the same node.
    Set(Cell, ValueId),
}

impl Step {
    fn test(self) -> Option<Test> {
        match self {
            Self::Test(test) => Some(test),
            Self::Set(..) => None,
        }
    }
}

/// A step and where its outcomes lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) step: Step,
    pub(crate) yes: NodeId,
    pub(crate) no: NodeId,
}

/// A condition as a graph.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    ids: HashMap<Node, NodeId>,
    root: NodeId,
    /// Whether a test whose outcomes lead to the same node is left out.
    elide: bool,
}

/// Nodes beyond which a graph is not worked on: a program has at least two instructions for each.
const MOST_NODES: usize = 100_000;
/// Passes of [`Graph::simplify`]; each makes the graph smaller or is the last.
const MOST_PASSES: usize = 32;
/// Facts remembered at a node.
const MOST_FACTS: usize = 64;

impl Graph {
    /// The graph of `condition`. With `elide`, tests that decide nothing are left out.
    pub(crate) fn new(condition: &Condition, elide: bool) -> Self {
        let mut graph = Self {
            nodes: Vec::new(),
            ids: HashMap::new(),
            root: REJECT,
            elide,
        };
        graph.root = graph.add(condition, ACCEPT, REJECT);
        graph
    }

    /// Whether there are more tests than any program could hold.
    pub(crate) fn is_too_large(&self) -> bool {
        self.nodes.len() > MOST_NODES
    }

    /// Where to begin.
    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    /// The node behind an id; `None` for the two ends.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        (id.0 as usize)
            .checked_sub(2)
            .and_then(|at| self.nodes.get(at))
    }

    /// The place of an inner node in the list.
    fn index(id: NodeId) -> usize {
        (id.0 as usize).saturating_sub(2)
    }

    fn push(&mut self, node: Node) -> NodeId {
        if self.elide && node.yes == node.no && node.step.test().is_some() {
            return node.yes;
        }
        self.intern(node)
    }

    fn intern(&mut self, node: Node) -> NodeId {
        if let Some(&id) = self.ids.get(&node) {
            return id;
        }
        let id = NodeId::inner(self.nodes.len());
        self.nodes.push(node);
        self.ids.insert(node, id);
        id
    }

    /// Adds the nodes that decide between `yes` and `no`. The recursion is as deep as conditions
    /// nest, which the parser bounds.
    fn add(&mut self, condition: &Condition, yes: NodeId, no: NodeId) -> NodeId {
        match condition {
            Condition::Constant(true) => yes,
            Condition::Constant(false) => no,
            Condition::Test(test) => self.push(Node {
                step: Step::Test(*test),
                yes,
                no,
            }),
            Condition::Set(cell, value) => self.intern(Node {
                step: Step::Set(*cell, *value),
                yes,
                no: yes,
            }),
            Condition::Not(inner) => self.add(inner, no, yes),
            Condition::All(list) => list.iter().rev().fold(yes, |next, c| self.add(c, next, no)),
            Condition::Any(list) => list.iter().rev().fold(no, |next, c| self.add(c, yes, next)),
        }
    }

    /// Inner nodes that can be reached, every node before its successors.
    pub(crate) fn order(&self) -> Vec<NodeId> {
        let mut reached = vec![false; self.nodes.len()];
        let mut order = Vec::new();
        let mut stack = vec![(self.root, false)];
        while let Some((id, done)) = stack.pop() {
            let Some(node) = self.node(id) else { continue };
            if done {
                order.push(id);
                continue;
            }
            if std::mem::replace(&mut reached[Self::index(id)], true) {
                continue;
            }
            stack.push((id, true));
            stack.push((node.yes, false));
            stack.push((node.no, false));
        }
        order.reverse();
        order
    }

    /// Leads edges past tests whose outcome follows from the tests before, until nothing changes.
    pub(crate) fn simplify(&mut self, values: &Values) {
        for _ in 0..MOST_PASSES {
            self.settle_root(values);
            let edges = self.threaded(values);
            if !self.rebuild(&edges) {
                return;
            }
        }
    }

    /// Decides tests of computed numbers at the root, and behind a test there that decides nothing.
    fn settle_root(&mut self, values: &Values) {
        let outcome = |node: &Node| {
            let test = node.step.test()?;
            let left = values.number_of(test.left)?;
            let right = values.number_of(test.right)?;
            Some(if test.relation.holds(left, right) {
                node.yes
            } else {
                node.no
            })
        };
        while let Some(&root) = self.node(self.root) {
            if let Some(target) = outcome(&root) {
                self.root = target;
            } else if root.yes != root.no {
                return;
            } else if let Some(next) = self.node(root.yes) {
                let Some(target) = outcome(next) else { return };
                let at = Self::index(self.root);
                self.nodes[at] = Node {
                    yes: target,
                    no: target,
                    ..root
                };
            } else if root.step.test().is_some() {
                self.root = root.yes;
            } else {
                return;
            }
        }
    }

    /// For each node in order: where its outcomes lead when known tests are passed over.
    fn threaded(&self, values: &Values) -> Vec<Option<(NodeId, NodeId)>> {
        let mut known: Vec<Option<Known>> = vec![None; self.nodes.len()];
        let mut edges = vec![None; self.nodes.len()];
        if self.node(self.root).is_none() {
            return edges;
        }
        known[Self::index(self.root)] = Some(Known::default());
        // Numbers fall along edges, so that descending numbers visit predecessors first.
        for at in (0..self.nodes.len()).rev() {
            let Some(here) = known[at].take() else {
                continue;
            };
            let node = self.nodes[at];
            let mut lead = |target: NodeId, outcome: bool| {
                let mut facts = match node.step {
                    Step::Test(test) => here.with(test, outcome),
                    Step::Set(..) => here.clone(),
                };
                facts.truncate(MOST_FACTS);
                let target = self.pass(target, &facts, values);
                if self.node(target).is_some() {
                    match &mut known[Self::index(target)] {
                        Some(there) => there.meet(&facts),
                        unset => *unset = Some(facts),
                    }
                }
                target
            };
            let yes = lead(node.yes, true);
            let no = lead(node.no, false);
            edges[at] = Some((yes, no));
        }
        edges
    }

    /// Follows nodes whose tests are decided by `facts`.
    fn pass(&self, mut target: NodeId, facts: &Known, values: &Values) -> NodeId {
        while let Some(node) = self.node(target) {
            let Some(test) = node.step.test() else { break };
            match facts.decide(test, values) {
                Some(true) => target = node.yes,
                Some(false) => target = node.no,
                None => break,
            }
        }
        target
    }

    /// Builds the graph anew with other edges; false if that changes nothing.
    fn rebuild(&mut self, edges: &[Option<(NodeId, NodeId)>]) -> bool {
        let old = std::mem::take(&mut self.nodes);
        self.ids.clear();
        let mut renamed = vec![REJECT; old.len()];
        let rename = |renamed: &[NodeId], id: NodeId| match id {
            REJECT | ACCEPT => id,
            inner => renamed[Self::index(inner)],
        };
        let mut changed = false;
        for (at, (node, edges)) in old.iter().zip(edges).enumerate() {
            let Some((yes, no)) = *edges else {
                changed = true;
                continue;
            };
            changed |= (yes, no) != (node.yes, node.no);
            let (yes, no) = (rename(&renamed, yes), rename(&renamed, no));
            let node = Node {
                step: node.step,
                yes,
                no,
            };
            // What the first test loads stays loaded, though it decide nothing: in libpcap, too, a
            // packet that is too short for it is rejected.
            let first = NodeId::inner(at) == self.root && self.node(yes).is_some();
            renamed[at] = if first {
                self.intern(node)
            } else {
                self.push(node)
            };
        }
        changed |= self.nodes.len() != old.len();
        self.root = rename(&renamed, self.root);
        changed
    }
}
