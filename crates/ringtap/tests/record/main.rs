//! `ringtap record` and `ringtap extract` as their users run them, in namespaces.
//!
//! Packets are numbered, so that each test can say which ones are there ([`scene`]): what is recorded and
//! extracted ([`recording`]), what is left out on purpose ([`cutoffs`]), limits and disks ([`disks`]), kills ([`kills`]), wrong usage ([`usage`]).
#![forbid(unsafe_code)]

mod cutoffs;
mod disks;
mod kills;
mod recording;
mod scene;
mod usage;

use std::process::ExitCode;

fn main() -> ExitCode {
    let lists = [
        recording::tests(),
        cutoffs::tests(),
        disks::tests(),
        kills::tests(),
        usage::tests(),
    ];
    ringtap_testkit::suite(lists.into_iter().flatten().collect())
}
