//! The kit of ringtap's tests: suites that count their skips, oracles, and the namespaces, corpus
//! and traffic of [`ringtap_lab`].
//!
//! It is a development dependency. A test target with `harness = false` lists its tests with their
//! needs ([`Need`]). A test whose needs this machine does not meet is reported as ignored with the
//! reason; it never returns silently. No shipped code depends on the kit, so its functions panic on
//! a broken environment if that makes a test clearer.
#![forbid(unsafe_code)]

#[cfg(feature = "captures")]
pub mod captures;
mod certificates;
pub mod datagrams;
pub mod examples;
pub mod expressions;
pub mod frames;
pub mod generate;
mod hang;
pub mod libpcap;
pub mod mmdb;
pub mod pages;
pub mod podman;
mod suite;
pub mod versions;

pub use certificates::make_certificates;
pub use ringtap_lab::{
    Need, adapters, corpus, group, memory, need, netns, page_folder, patience, pcap, process,
    repetitions, repository, traffic,
};
pub use ringtap_sys::{alloc_count as alloc, guarded};
pub use suite::{LIVE_ONLY, Outcome, QUICK, Test, suite, test};
