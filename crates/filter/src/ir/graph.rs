//! The decision graph: nodes with tests, edges for both outcomes, and two ends.
//!
//! Equal nodes are one node, so common tails are shared. The graph has no cycles: a node is made
//! after its successors, so they have smaller numbers, and the numbers are a topological order.

use std::hash::{Hash, Hasher};

use super::index::Index;
use super::{Cell, Condition, Test, ValueId, Values, canonical};
use crate::language::ast::Junction;

/// The id of a node. 0 and 1 are the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// Returns the id of the node at an index of the list.
    pub(super) fn inner(at: u32) -> Self {
        Self(at + 2)
    }

    /// Returns the index of an inner node in the list.
    pub(super) fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(2)
    }

    /// Returns a number below [`Graph::ids`], for lists with an element for each node and end.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }
}

/// The end that rejects a packet.
pub(crate) const REJECT: NodeId = NodeId(0);
/// The end that accepts a packet.
pub(crate) const ACCEPT: NodeId = NodeId(1);

/// The id of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TestId(u32);

impl TestId {
    /// Returns the index in lists with an element for each test.
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The action of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Test(TestId),
    /// Stores a value in a cell. Both edges lead to the same node.
    Set(Cell, ValueId),
}

/// A step and the targets of its outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) step: Step,
    pub(crate) yes: NodeId,
    pub(crate) no: NodeId,
}

impl Hash for Node {
    /// Hashes two words: building a graph is mostly looking up nodes.
    #[inline]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let step = match self.step {
            Step::Test(test) => pair(u32::MAX, test.0),
            Step::Set(cell, value) => pair(cell.0, value.number()),
        };
        hasher.write_u64(pair(self.yes.0, self.no.0));
        hasher.write_u64(step);
    }
}

impl Node {
    /// Returns the test, if the node is one.
    pub(super) fn test(&self) -> Option<TestId> {
        match self.step {
            Step::Test(test) => Some(test),
            Step::Set(..) => None,
        }
    }
}

/// A condition as a graph.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
    index: Index,
    tests: Vec<Test>,
    test_index: Index,
    root: NodeId,
    level: Level,
}

/// How far a graph is optimised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Not at all.
    AsWritten,
    /// No load that may reject a packet is left out. libpcap makes all of them in expressions that
    /// it does not optimise.
    AllLoads,
    /// Tests that decide nothing are left out together with their loads, as in libpcap's optimiser.
    AsLibpcap,
}

/// The most nodes of a graph that is optimised: a program has at least two instructions for each.
const MOST_NODES: usize = 100_000;

/// Enough for usual filters, and small enough for fast allocation.
const USUAL_NODES: usize = 50;
const USUAL_TESTS: usize = 32;

impl Graph {
    /// Returns the graph of `condition`. If it is optimised, tests are brought into a common form.
    pub(crate) fn new(condition: &Condition, values: &mut Values, level: Level) -> Self {
        let mut graph = Self {
            nodes: Vec::with_capacity(USUAL_NODES),
            index: Index::default(),
            tests: Vec::with_capacity(USUAL_TESTS),
            test_index: Index::default(),
            root: REJECT,
            level,
        };
        graph.root = graph.add(condition, values, ACCEPT, REJECT);
        graph
    }

    /// Returns whether there are more tests than any program could hold.
    pub(crate) fn is_too_large(&self) -> bool {
        self.nodes.len() > MOST_NODES
    }

    /// Returns the first node.
    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    pub(super) fn set_root(&mut self, root: NodeId) {
        self.root = root;
    }

    /// Returns all nodes, successors first.
    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns all tests, by number.
    pub(super) fn tests(&self) -> &[Test] {
        &self.tests
    }

    /// Returns the number of ids, those of the ends included.
    pub(crate) fn ids(&self) -> usize {
        self.nodes.len() + 2
    }

    /// Returns the node of an id; `None` for the two ends.
    pub(crate) fn node(&self, id: NodeId) -> Option<&Node> {
        id.index().and_then(|at| self.nodes.get(at))
    }

    /// Returns the test of an id.
    pub(crate) fn test(&self, id: TestId) -> Test {
        self.tests[id.index()]
    }

    pub(super) fn intern_test(&mut self, test: Test) -> TestId {
        TestId(self.test_index.intern(&mut self.tests, test))
    }

    /// Returns the id of an equal node, which is added if there is none.
    pub(super) fn intern(&mut self, node: Node) -> NodeId {
        NodeId::inner(self.index.intern(&mut self.nodes, node))
    }

    /// Adds the nodes that decide between `yes` and `no`. The recursion is as deep as conditions
    /// nest, which the parser limits.
    fn add(
        &mut self,
        condition: &Condition,
        values: &mut Values,
        yes: NodeId,
        no: NodeId,
    ) -> NodeId {
        match condition {
            Condition::Constant(true) => yes,
            Condition::Constant(false) => no,
            Condition::Test(test) => self.add_test(*test, values, yes, no),
            Condition::Set(cell, value) => self.intern(Node {
                step: Step::Set(*cell, *value),
                yes,
                no: yes,
            }),
            Condition::Not(inner) => self.add(inner, values, no, yes),
            Condition::All(list) => list
                .iter()
                .rev()
                .fold(yes, |next, c| self.add(c, values, next, no)),
            Condition::Any(list) => list
                .iter()
                .rev()
                .fold(no, |next, c| self.add(c, values, yes, next)),
            Condition::Chain(first, rest) => {
                let (mut yes, mut no) = (yes, no);
                for (junction, next) in rest.iter().rev() {
                    let next = self.add(next, values, yes, no);
                    match junction {
                        Junction::And => yes = next,
                        Junction::Or => no = next,
                    }
                }
                self.add(first, values, yes, no)
            }
        }
    }

    fn add_test(&mut self, test: Test, values: &mut Values, yes: NodeId, no: NodeId) -> NodeId {
        let (mut test, mut yes, mut no) = (test, yes, no);
        if self.level != Level::AsWritten {
            if yes == no && (yes == REJECT || self.level == Level::AsLibpcap) {
                return yes;
            }
            let opposite;
            (test, opposite) = canonical::form(test, values);
            if opposite {
                (yes, no) = (no, yes);
            }
        }
        let step = Step::Test(self.intern_test(test));
        self.intern(Node { step, yes, no })
    }

    /// Returns the reachable inner nodes, every node before its successors.
    pub(crate) fn order(&self) -> Vec<NodeId> {
        let mut reached = vec![false; self.nodes.len()];
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut stack = Vec::with_capacity(self.nodes.len() + 1);
        stack.push((self.root, false));
        while let Some((id, done)) = stack.pop() {
            let Some(at) = id.index() else { continue };
            if done {
                order.push(id);
                continue;
            }
            if std::mem::replace(&mut reached[at], true) {
                continue;
            }
            stack.push((id, true));
            stack.push((self.nodes[at].yes, false));
            stack.push((self.nodes[at].no, false));
        }
        order.reverse();
        order
    }

    /// Rebuilds the graph. `build` is called for each old node, successors first, with the new
    /// graph and the new ids of earlier nodes; it returns the replacement.
    pub(super) fn rebuild(
        &mut self,
        mut build: impl FnMut(&mut Self, &Renamed, usize, Node) -> NodeId,
    ) {
        let old = std::mem::take(&mut self.nodes);
        self.nodes.reserve(old.len());
        self.index.clear();
        let mut renamed = Renamed(Vec::with_capacity(old.len()));
        for (at, node) in old.into_iter().enumerate() {
            let id = build(self, &renamed, at, node);
            renamed.0.push(id);
        }
        self.root = renamed.of(self.root);
    }
}

/// The new ids of nodes.
pub(super) struct Renamed(Vec<NodeId>);

impl Renamed {
    /// Returns the new id of an old one.
    pub(super) fn of(&self, id: NodeId) -> NodeId {
        id.index().map_or(id, |at| self.0[at])
    }
}
