//! What ringtap's tests stand on: suites whose skips are counted, oracles, and the namespaces, the
//! corpus and the traffic of [`ringtap_lab`].
//!
//! What it is: a development dependency. A test target with `harness = false` lists its tests with
//! what each one needs ([`Need`]); a test whose needs this machine does not meet is reported as
//! ignored with the reason, it never returns silently. What it is not: nothing that ships depends
//! on it, so its functions panic on a broken environment where that makes a test clearer.
#![forbid(unsafe_code)]

pub mod datagrams;
pub mod expressions;
mod hang;
pub mod libpcap;
pub mod pages;
mod suite;
pub mod versions;

pub use ringtap_lab::{
    Need, corpus, memory, need, netns, patience, pcap, process, repetitions, repository, traffic,
};
pub use ringtap_sys::alloc_count as alloc;
pub use suite::{Outcome, QUICK, Test, suite, test};
