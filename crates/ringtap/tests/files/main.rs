//! Files that the command writes, over all commands that write: who may read them
//! ([`permissions`]), and whose files they never overwrite ([`links`]).
#![forbid(unsafe_code)]

mod links;
mod permissions;
mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    let lists = [permissions::tests(), links::tests()];
    ringtap_testkit::suite(lists.into_iter().flatten().collect())
}
