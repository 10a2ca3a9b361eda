//! Files that the command writes, over all commands that write: who may read them
//! ([`permissions`]), whose files they never overwrite ([`links`]), and that a command line that is
//! refused leaves all as it was ([`refusals`]); what they hold of what a full disk did not take
//! ([`full_disk`]).
#![forbid(unsafe_code)]

mod full_disk;
mod links;
mod permissions;
mod program;
mod refusals;

use std::process::ExitCode;

fn main() -> ExitCode {
    let lists = [
        permissions::tests(),
        links::tests(),
        refusals::tests(),
        full_disk::tests(),
    ];
    ringtap_testkit::suite(lists.into_iter().flatten().collect())
}
