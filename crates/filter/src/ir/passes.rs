//! The passes over the graph and their order.

use super::graph::Level;
use super::libpcap_facts::LibpcapFacts;
use super::range_facts::RangeFacts;
use super::{Graph, REJECT, Values, balance, cells, group, jump_threading, pass_hints};

/// A rewriting of the graph that does not change its decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// Decides tests of computed numbers at the beginning.
    SettleRoot,
    /// Leads edges past tests whose outcome libpcap also knows, and leaves out tests that decide
    /// nothing.
    ThreadLibpcapFacts,
    /// Leaves out values stored in cells that are never read.
    LeaveUnread,
    /// Puts tests of one value together.
    Group,
    /// Leads edges past all tests whose outcome is known.
    ThreadRangeFacts,
    /// Turns tests of one value with many numbers into a binary search, and neighbouring numbers
    /// into ranges.
    Balance,
}

impl Pass {
    /// All passes.
    #[cfg(any(test, fuzzing))]
    pub(crate) const ALL: [Self; 6] = [
        Self::SettleRoot,
        Self::ThreadLibpcapFacts,
        Self::LeaveUnread,
        Self::Group,
        Self::ThreadRangeFacts,
        Self::Balance,
    ];

    /// Runs the pass once. Returns whether anything changed.
    pub(crate) fn run(self, graph: &mut Graph, values: &Values) -> bool {
        match self {
            Self::SettleRoot => jump_threading::settle_root(graph, values),
            Self::ThreadLibpcapFacts => jump_threading::thread::<LibpcapFacts>(graph, values),
            Self::LeaveUnread => cells::leave_unread(graph, values),
            Self::Group => group::group(graph, values),
            Self::ThreadRangeFacts => jump_threading::thread::<RangeFacts>(graph, values),
            Self::Balance => balance::balance(graph, values),
        }
    }

    /// Returns whether packets that are cut short are still decided alike. If not, a packet that a load
    /// beyond its end rejected may be accepted.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn is_exact(self) -> bool {
        matches!(
            self,
            Self::LeaveUnread | Self::ThreadRangeFacts | Self::Balance
        )
    }
}

/// The passes in rounds; the first two are repeated until nothing changes.
#[cfg(any(test, fuzzing))]
pub(crate) const ROUNDS: [&[Pass]; 3] = [
    &[Pass::SettleRoot, Pass::ThreadLibpcapFacts],
    &[Pass::LeaveUnread, Pass::Group, Pass::ThreadRangeFacts],
    &[Pass::Balance],
];

/// The most repetitions of a round; each makes the graph smaller, or is the last.
const MOST_REPETITIONS: usize = 32;

/// The error that the expression rejects every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RejectsAll;

/// Optimises the graph.
///
/// # Errors
/// Returns an error if libpcap would also find that the expression rejects every packet.
pub(crate) fn optimize(graph: &mut Graph, values: &Values) -> Result<(), RejectsAll> {
    if graph.nodes().is_empty() {
        return match graph.root() {
            REJECT => Err(RejectsAll),
            _ => Ok(()),
        };
    }
    match graph.level() {
        Level::AsWritten => Ok(()),
        Level::AllLoads => {
            all_loads(graph, values);
            Ok(())
        }
        Level::AsLibpcap => as_libpcap(graph, values),
    }
}

/// Runs only the passes that keep all loads.
fn all_loads(graph: &mut Graph, values: &Values) {
    for _ in 0..MOST_REPETITIONS {
        if !pass_hints::look(graph, values).range || !Pass::ThreadRangeFacts.run(graph, values) {
            break;
        }
    }
    Pass::Balance.run(graph, values);
}

fn as_libpcap(graph: &mut Graph, values: &Values) -> Result<(), RejectsAll> {
    for _ in 0..MOST_REPETITIONS {
        let settled = Pass::SettleRoot.run(graph, values);
        let threaded =
            pass_hints::look(graph, values).libpcap && Pass::ThreadLibpcapFacts.run(graph, values);
        if !settled && !threaded {
            break;
        }
    }
    // So far only conclusions that libpcap also draws were used.
    if graph.root() == REJECT {
        return Err(RejectsAll);
    }
    if graph.nodes().len() == 1 && !pass_hints::look(graph, values).range {
        return Ok(());
    }
    for _ in 0..MOST_REPETITIONS {
        // This makes nodes equal whose tests can then be grouped.
        Pass::LeaveUnread.run(graph, values);
        let mut hints = pass_hints::look(graph, values);
        let grouped = hints.group && Pass::Group.run(graph, values);
        if grouped {
            hints = pass_hints::look(graph, values);
        }
        let threaded = hints.range && Pass::ThreadRangeFacts.run(graph, values);
        if !grouped && !threaded {
            break;
        }
    }
    Pass::Balance.run(graph, values);
    Ok(())
}
