//! The passes over the graph and their order.

use super::strong::Strong;
use super::weak::Weak;
use super::{Graph, REJECT, Values, group, thread};

/// How often a pass is repeated; each repetition makes the graph smaller or is the last.
const MOST_REPETITIONS: usize = 32;

/// The expression rejects every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RejectsAll;

/// Makes the graph small.
///
/// # Errors
/// Where libpcap, too, finds that nothing is ever accepted.
pub(crate) fn optimize(graph: &mut Graph, values: &Values) -> Result<(), RejectsAll> {
    for _ in 0..MOST_REPETITIONS {
        thread::settle_root(graph, values);
        if !thread::thread::<Weak>(graph, values) {
            break;
        }
    }
    if graph.root() == REJECT {
        return Err(RejectsAll);
    }
    for _ in 0..MOST_REPETITIONS {
        let grouped = group::group(graph);
        let threaded = thread::thread::<Strong>(graph, values);
        if !grouped && !threaded {
            break;
        }
    }
    Ok(())
}
