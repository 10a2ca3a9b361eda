#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod fill;
mod host;
mod options;
mod recording;
mod rotate;
mod writer;

pub use error::{RecordError, Result};
pub use host::{Host, Note};
pub use options::{Counters, RecordOptions};
pub use recording::Recording;
pub use ringtap_sys::Error as CallError;
pub use ringtap_sys::output::{Access, Output};
pub use rotate::{NameError, RotationPlan, check_name};
pub use writer::{Alarm, Gauge, automatic_memory};
