//! The values of Linux that this crate's interface contains.
//!
//! They belong to the crate `ringtap-sys`, which may change at any time; these may not. Errors,
//! privileges, interfaces and sockets: a program that uses this crate names them here.

pub use ringtap_sys::Error as CallError;
pub use ringtap_sys::bpf::{Error as BpfError, Feature as KernelFeature, TcxSide};
pub use ringtap_sys::ethtool::{
    Channels, Driver, Feature, LinkMode, Rings, Statistic, Timestamping,
};
pub use ringtap_sys::eventfd::Waker;
pub use ringtap_sys::netlink::{
    Address, Counters, DefaultRoute, Error as NetlinkError, Name, OperationalState, Vlan,
    WideRoute, XdpMode, XdpProgram, escape,
};
pub use ringtap_sys::packet::{Fanout, FanoutMode, GeometryError, TimestampSource};
pub use ringtap_sys::privileges::Capability;
pub use ringtap_sys::sched::CpuListError;
