//! The environment of measurements and tests: network namespaces joined by wires, traffic, and
//! programs that are watched while they run.
//!
//! `ringtap bench` and the tests' own kit share this crate. Everything that it creates in the
//! kernel is removed with the value, even if the process is killed. It measures and judges nothing.
//! If the machine is broken, functions panic and say so under `# Panics`. Requirements that the
//! machine's owner decides, such as privileges and installed programs, are checked first
//! ([`Need`]).
#![forbid(unsafe_code)]

pub mod adapters;
pub mod corpus;
pub mod group;
pub mod memory;
pub mod need;
pub mod netns;
pub mod pcap;
pub mod process;
pub mod traffic;

pub use need::Need;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns the root of the repository that this crate was built from; it may not exist where the
/// program runs.
#[must_use]
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder
        .ancestors()
        .nth(2)
        .unwrap_or(crate_folder)
        .to_path_buf()
}

/// Returns the folder in which the test command builds the page of `ringtap web`, with its packages.
#[must_use]
pub fn page_folder() -> PathBuf {
    repository().join("target/ui")
}

/// Returns how many times slower than usual this machine is, from `RINGTAP_TEST_SLOWNESS` (10 for
/// an emulated machine); 1 if it is not set.
#[must_use]
fn slowness() -> u32 {
    let told = std::env::var("RINGTAP_TEST_SLOWNESS").unwrap_or_default();
    told.parse().unwrap_or(1).max(1)
}

/// Returns how long a test waits on this machine for something that takes at most `time` on a fast
/// one.
#[must_use]
pub fn patience(time: Duration) -> Duration {
    time * slowness()
}

/// Returns how often a test repeats something on this machine: `times` on a fast one.
#[must_use]
pub fn repetitions(times: u32) -> u32 {
    (times / slowness()).max(1)
}
