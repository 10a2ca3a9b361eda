//! System calls made safe: sockets, mapped rings, netlink, namespaces, privileges, owned fds. This
//! crate is ringtap's only interface to Linux.
//!
//! Every fd and every mapping has one owner. Every error holds the name of the call and the error
//! number. The crate knows no filter expressions and no file formats; it takes filters as raw
//! classic-BPF instructions.

#[cfg(feature = "testing")]
pub mod alloc_count;
pub mod bpf;
mod calls;
pub mod cgroup;
pub mod cycles;
pub mod disk;
pub mod error;
pub mod ethtool;
pub mod eventfd;
#[cfg(feature = "testing")]
pub mod guarded;
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
mod pages;
pub mod perf;
pub mod poll;
pub mod privileges;
pub mod process;
pub mod receive_stamps;
pub mod resolve;
pub mod sched;
pub mod signals;
pub mod symbols;
pub mod tap;
pub mod ticker;
pub mod udp;
pub mod xsk;

/// The kernel's error numbers (errno(3)).
pub mod errno {
    pub use libc::{
        E2BIG, EACCES, EAGAIN, EBUSY, EEXIST, EINTR, EINVAL, ENETDOWN, ENOBUFS, ENODEV, ENOENT,
        ENOMEM, ENOPROTOOPT, ENXIO, EOPNOTSUPP, EPERM, ERANGE,
    };
}

pub use error::{Error, Result};
