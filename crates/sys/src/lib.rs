//! The only door to Linux: sockets, mapped rings, netlink, namespaces, privileges, owned fds.
//!
//! What it is: system calls made safe. Every fd is owned, every mapping has one owner, every error
//! carries the call's name and the error number. What it is not: it knows no filter expression and
//! no file format; filters come in as raw classic-BPF instructions.

#[cfg(feature = "testing")]
pub mod alloc_count;
pub mod bpf;
pub mod cycles;
pub mod disk;
pub mod error;
pub mod ethtool;
pub mod eventfd;
pub mod helper;
pub mod kernel;
pub mod local;
pub mod map;
pub mod memory;
pub mod napi;
pub mod netlink;
pub mod netns;
pub mod output;
pub mod packet;
pub mod perf;
pub mod poll;
pub mod privileges;
pub mod receive_stamps;
pub mod resolve;
pub mod sched;
pub mod signals;
pub mod tap;
pub mod ticker;
pub mod udp;
pub mod xsk;

pub use error::{Error, Result};
