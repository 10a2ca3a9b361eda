#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod archive;
mod error;
mod fill;
mod host;
mod options;
mod recording;
mod rotate;
mod writer;

pub use error::{RecordError, Result};
pub use host::{Host, Note, WrittenChunk};
pub use options::{Counters, RecordOptions};
pub use recording::Recording;
pub use ringtap_sys::Error as CallError;
pub use ringtap_sys::output::{Access, Output};
pub use rotate::{NameError, RotationPlan, check_name};
pub use writer::{Alarm, Gauge, automatic_memory};

/// Returns the checksum by which chunks and catalogues are verified: XXH64.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = twox_hash::XxHash64::with_seed(0);
    std::hash::Hasher::write(&mut hasher, bytes);
    std::hash::Hasher::finish(&hasher)
}
