#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cache;
mod collate;
mod counters;
pub mod export;
mod fragments;
mod key;
mod meter;
mod options;
mod packet;
mod parse;
mod process;
mod record;
mod sampler;
pub mod schema;
mod share;
mod sink;
mod wanted;

pub use collate::Collator;
pub use counters::Counters;
pub use meter::Meter;
pub use options::{DATAGRAMS_MAX, FLOWS_MAX, MeterOptions, OptionError};
pub use packet::Packet;
pub use process::{PacketEnd, Process};
pub use record::{
    EndReason, FlowKey, FlowRecord, MacAddresses, Reported, Sampling, SamplingMode, TcpCounts,
    TcpMeasures, Traffic,
};
pub use ringtap_inspect::{Entry, InspectOptions};
pub use ringtap_packet::LinkType;
pub use ringtap_packet::headers::tunnel::{Tunnel, TunnelKind, Tunnels};
pub use share::{Batch, METERS_MAX, Spreader};
pub use sink::FlowSink;
