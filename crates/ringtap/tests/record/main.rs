//! `ringtap record` and `ringtap extract` as their users run them, in namespaces.
//!
//! Packets are numbered, so that each test can say which ones are there ([`scene`]): what is recorded and
//! extracted ([`recording`]), copied ([`triggers`]), left out on purpose ([`cutoffs`]), what
//! others are sent ([`served`]), limits and disks ([`disks`]), kills ([`kills`]), processes
//! ([`who`]), wrong usage ([`usage`]), messages in the journal ([`journal`]).
#![forbid(unsafe_code)]

#[expect(dead_code, reason = "the suite of `look` needs more of it")]
#[path = "../look/client.rs"]
mod client;
mod cutoffs;
mod disks;
mod journal;
mod kills;
mod recording;
mod scene;
mod served;
mod triggers;
mod usage;
mod who;

use std::process::ExitCode;

use scene::{LIMIT, RINGTAP};

fn main() -> ExitCode {
    let lists = [
        recording::tests(),
        triggers::tests(),
        cutoffs::tests(),
        served::tests(),
        disks::tests(),
        kills::tests(),
        who::tests(),
        usage::tests(),
        journal::tests(),
    ];
    ringtap_testkit::suite(lists.into_iter().flatten().collect())
}
