//! What ringtap's tests stand on: suites whose skips are counted, the corpus, oracles, traffic.
//!
//! What it is: a development dependency. A test target with `harness = false` lists its tests with
//! what each one needs ([`Need`]); a test whose needs this machine does not meet is reported as
//! ignored with the reason, it never returns silently. What it is not: nothing that ships depends
//! on it, so its functions panic on a broken environment where that makes a test clearer.
#![forbid(unsafe_code)]

pub mod corpus;
pub mod expressions;
pub mod libpcap;
pub mod memory;
pub mod need;
pub mod netns;
pub mod pcap;
pub mod process;
mod suite;
pub mod traffic;

pub use need::Need;
pub use ringtap_sys::alloc_count as alloc;
pub use suite::{Outcome, Test, suite, test};

use std::path::{Path, PathBuf};

/// The root of the repository that this crate was built from.
#[must_use]
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder
        .ancestors()
        .nth(2)
        .unwrap_or(crate_folder)
        .to_path_buf()
}
