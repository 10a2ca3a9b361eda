#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod banner;
mod buffers;
mod dhcp;
mod dns;
mod entry;
mod escape;
mod fields;
mod follow;
mod guess;
mod handshake;
mod http;
mod identify;
mod inspector;
mod names;
mod options;
mod payload;
mod ports;
mod protocol;
mod quic;
mod rebuild;
mod small;
mod tls;

pub use entry::{Entry, EntryHead};
pub use escape::{escape, is_printable};
pub use fields::{Fields, Ja4, Text};
pub use inspector::{Counters, Inspector, Verdict};
pub use options::{InspectOptions, OptionError};
pub use payload::{FlowState, Payload, Transport};
pub use protocol::{Basis, NameSource, Protocol, protocol_of};
