//! The expressions listed in the modules of extensions, with packets that they accept and reject.

use crate::{chains, sets, tunnels};

/// An expression, packets that it accepts, packets that it rejects.
pub(crate) type Case = (&'static str, Vec<Vec<u8>>, Vec<Vec<u8>>);

fn all() -> Vec<Case> {
    [sets::cases(), tunnels::cases(), chains::cases()].concat()
}

/// Returns all listed expressions.
pub(crate) fn expressions() -> Vec<String> {
    let expressions = all().into_iter().map(|(expression, ..)| expression);
    expressions.map(str::to_owned).collect()
}

/// Returns all listed packets.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let lists = all()
        .into_iter()
        .map(|(_, taken, left)| [taken, left].concat());
    lists.flatten().collect()
}
