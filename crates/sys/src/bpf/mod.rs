//! `bpf(2)`: programs, maps, links, and what the running kernel can do.
//!
//! What it is: a typed door to the kernel's BPF. Programs go in as instructions in the kernel's
//! encoding, results and errors come out; a refused program brings the verifier's words along.
//! Everything is held by fds: what a process attached is gone when it ends. What it is not: it
//! writes no program (that is `ringtap_filter::ebpf`), and reads no object files.
//!
//! Every call goes through a [`Kernel`]; tests put a [`Gate`] in front of it to meet the kernels
//! that they don't run on.
//!
//! Rights: `CAP_BPF` for programs and maps, `CAP_NET_ADMIN` for network programs and for attaching,
//! `CAP_PERFMON` where a program does arithmetic on packet pointers (all that ringtap writes).
//! Before 5.8, `CAP_SYS_ADMIN`.

mod abi;
mod bound;
mod btf;
mod error;
mod features;
mod kernel;
mod link;
mod map;
mod mapping;
mod marks;
mod memlock;
mod program;
mod statistics;
mod verifier;

pub use bound::programs_stay;
pub use btf::{KernelTypes, kernel_function};
pub use error::{Error, Hint, Needs, Result};
pub use features::{ALL_FEATURES, Feature, Features};
pub use kernel::{Gate, Kernel, Request};
pub use link::{
    Link, LinkInfo, TcxAnchor, TcxChain, TcxMember, TcxPlace, TcxSide, XdpMode, query_tcx,
};
pub use map::{Map, MapKind, MapSpec, possible_cpus};
pub use mapping::{Mapping, page_size};
pub use marks::NativePart;
pub use program::{LICENCE, LoadOptions, Outcome, Program, ProgramInfo, ProgramKind, ProgramRun};
pub use statistics::{Statistics, Tracepoint};
pub use verifier::Rejection;
