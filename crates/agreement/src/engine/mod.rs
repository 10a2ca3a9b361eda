//! The engines that run programs, each compared with the plain interpreter
//! ([`ringtap_filter::program::plain`]).
//!
//! They are listed in one table, [`ENGINES`]; a new engine needs a file and a line in it.

mod interpreter;
pub mod kernel;
pub mod machine;
#[cfg(feature = "jit")]
mod native;
mod scratch;
mod socket;
mod stripped;

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Hook, Vlan};

use crate::packets::Packet;

/// An engine that runs programs.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Its name.
    pub name: &'static str,
    /// Whether it is part of the kernel, and needs privileges.
    pub is_kernel: bool,
    /// Compares it with the plain interpreter. Returns how many verdicts were compared, or the
    /// difference.
    pub check: fn(&Program, &[Packet]) -> Result<Checked, String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// This many verdicts equal the plain interpreter's.
    Compared(usize),
    /// The engine rejects such programs.
    NotTaken,
}

/// All engines.
pub const ENGINES: &[Engine] = &[
    Engine {
        name: "interpreter",
        is_kernel: false,
        check: interpreter::check,
    },
    #[cfg(feature = "jit")]
    Engine {
        name: "native",
        is_kernel: false,
        check: native::check,
    },
    Engine {
        name: "socket filter, tag beside the packet",
        is_kernel: false,
        check: stripped::check,
    },
    Engine {
        name: "socket filter",
        is_kernel: true,
        check: socket::check,
    },
    Engine {
        name: "eBPF at XDP",
        is_kernel: true,
        check: |program, packets| kernel::check(program, Hook::Xdp { frags: false }, packets),
    },
    Engine {
        name: "eBPF at XDP, several buffers",
        is_kernel: true,
        check: |program, packets| kernel::check(program, Hook::Xdp { frags: true }, packets),
    },
    Engine {
        name: "eBPF at tcx",
        is_kernel: true,
        check: |program, packets| kernel::check(program, Hook::Tcx(Vlan::AsKept), packets),
    },
    Engine {
        name: "eBPF at tcx, tags restored",
        is_kernel: true,
        check: |program, packets| kernel::check(program, Hook::Tcx(Vlan::Restored), packets),
    },
    Engine {
        name: "eBPF at a socket",
        is_kernel: true,
        check: |program, packets| kernel::check(program, Hook::SocketFilter, packets),
    },
    Engine {
        name: "eBPF in a program's memory",
        is_kernel: true,
        check: scratch::check,
    },
];

/// Returns whether a program loads metadata, which engines have and the plain interpreter has not.
fn asks_for_metadata(program: &Program) -> bool {
    use ringtap_filter::program::opcode as op;
    program.insns().iter().any(|insn| {
        insn.code & 7 == op::LD && insn.code & 0xe0 == op::ABS && insn.k >= op::SKF_AD_OFF
    })
}
