//! What the modules of extensions list: expressions, with packets that they take and leave.

use crate::{chains, sets, tunnels};

/// An expression, packets that it takes, packets that it leaves.
pub(crate) type Case = (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn all() -> Vec<Case> {
    [sets::cases(), tunnels::cases(), chains::cases()].concat()
}

/// All listed expressions.
pub(crate) fn expressions() -> Vec<String> {
    let expressions = all().into_iter().map(|(expression, ..)| expression);
    expressions.map(str::to_owned).collect()
}

/// All listed packets.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let lists = all()
        .into_iter()
        .map(|(_, taken, left)| [taken, left].concat());
    lists.flatten().collect()
}
