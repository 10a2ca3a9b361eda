//! Files of all commands that write: who may read them ([`permissions`]), whose files they never overwrite
//! ([`links`]), and that a rejected command line leaves everything unchanged ([`refusals`]). Also their
//! content after a full disk ([`full_disk`]).
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
