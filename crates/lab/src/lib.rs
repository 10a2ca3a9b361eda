//! What measurements and tests are made in: network namespaces joined by wires, traffic, programs
//! watched while they run.
//!
//! What it is: the ground that `ringtap bench` and the tests' own kit share. Everything that it makes
//! in the kernel goes when the value goes, also when the process is killed. What it is not: it
//! measures nothing and judges nothing. Where a broken machine can only end what is going on,
//! functions say so under `# Panics`; what depends on the machine's owner, such as rights and
//! installed programs, is asked for before ([`Need`]).
#![forbid(unsafe_code)]

pub mod corpus;
pub mod memory;
pub mod need;
pub mod netns;
pub mod pcap;
pub mod process;
pub mod traffic;

pub use need::Need;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The root of the repository that this crate was built from; it may be gone where the program runs.
#[must_use]
pub fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder
        .ancestors()
        .nth(2)
        .unwrap_or(crate_folder)
        .to_path_buf()
}

/// How many times slower than a processor this machine is, as whoever runs the tests says in
/// `RINGTAP_TEST_SLOWNESS` (an emulated machine: 10); 1 if nobody says.
#[must_use]
fn slowness() -> u32 {
    let told = std::env::var("RINGTAP_TEST_SLOWNESS").unwrap_or_default();
    told.parse().unwrap_or(1).max(1)
}

/// How long a test waits for something on this machine that takes up to `time` where nothing is slow.
#[must_use]
pub fn patience(time: Duration) -> Duration {
    time * slowness()
}

/// How often a test repeats something, on this machine: `times` where nothing is slow.
#[must_use]
pub fn repetitions(times: u32) -> u32 {
    (times / slowness()).max(1)
}
