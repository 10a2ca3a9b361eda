#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod entry;
mod escape;
mod fields;
mod inspector;
mod options;
mod payload;
mod protocol;

pub use entry::Entry;
pub use escape::escape;
pub use fields::{Fields, Ja4, Text};
pub use inspector::{Counters, Inspector, Verdict};
pub use options::{InspectOptions, OptionError};
pub use payload::{FlowState, Payload, Transport};
pub use protocol::{Basis, NameSource, Protocol, protocol_of};
