//! `bpf(2)`: programs, maps, links, and the features of the running kernel.
//!
//! This module is a typed interface to the kernel's BPF. It takes programs as instructions in the
//! kernel's encoding, and returns results and errors; the error for a rejected program holds the
//! verifier's log. All objects are held by fds: a process's programs are detached when it ends. It
//! neither generates programs (`ringtap_filter::ebpf` does) nor reads object files.
//!
//! Every call goes through a [`Kernel`]; tests put a [`Gate`] before it to simulate other kernels.
//!
//! Privileges: `CAP_BPF` for programs and maps, `CAP_NET_ADMIN` for network programs and for
//! attaching, `CAP_PERFMON` for arithmetic on packet pointers (in all of ringtap's programs).
//! Before 5.8, `CAP_SYS_ADMIN`.

mod abi;
mod attribute;
mod bound;
mod btf;
mod error;
mod events;
mod features;
mod kernel;
mod link;
mod map;
mod mapping;
mod marks;
mod memlock;
mod program;
pub(crate) mod ring_pages;
mod statistics;
mod verifier;

pub use btf::{Bits, KernelTypes, kernel_function};
pub use error::{Error, Hint, Needs, Result};
pub use events::Events;
pub use features::{ALL_FEATURES, Feature, Features};
pub use kernel::{Gate, Kernel, Request};
pub use link::{
    Link, LinkInfo, TcxAnchor, TcxChain, TcxMember, TcxPlace, TcxSide, XdpMode, query_tcx,
};
pub use map::{Map, MapKind, MapSpec, possible_cpus};
pub use mapping::{Mapping, page_size};
pub use marks::NativePart;
pub use program::{
    CgroupHook, LICENCE, LoadOptions, Outcome, Program, ProgramInfo, ProgramKind, ProgramRun,
    programs_stay,
};
pub use statistics::{Statistics, Tracepoint};
pub use verifier::Rejection;
