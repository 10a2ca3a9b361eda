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

use std::fmt::Debug;

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Exits, Hook, LowerError, Vlan, lower};
use ringtap_filter::ebpf::{Assembler, Reg};

use crate::packets::{Packet, is_whole};

/// An engine that runs programs.
#[derive(Clone, Copy)]
pub struct Engine {
    /// Its name.
    pub name: &'static str,
    /// Whether it is part of the kernel, and needs privileges.
    pub is_kernel: bool,
    /// Compares it with the plain interpreter. Returns how many verdicts were compared, or the
    /// difference.
    pub check: Check,
}

/// Compares an engine with the plain interpreter.
pub type Check = fn(&Program, &[Packet]) -> Result<Checked, String>;

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// This many verdicts equal the plain interpreter's.
    Compared(usize),
    /// The engine rejects such programs.
    NotTaken,
}

/// Returns an engine that runs in this process.
const fn in_process(name: &'static str, check: Check) -> Engine {
    Engine {
        name,
        is_kernel: false,
        check,
    }
}

/// Returns an engine of the kernel.
const fn in_kernel(name: &'static str, check: Check) -> Engine {
    Engine {
        is_kernel: true,
        ..in_process(name, check)
    }
}

/// All engines.
pub const ENGINES: &[Engine] = &[
    in_process("interpreter", interpreter::check),
    #[cfg(feature = "jit")]
    in_process("native", native::check),
    in_process("socket filter, tag beside the packet", stripped::check),
    in_kernel("socket filter", socket::check),
    in_kernel("eBPF at XDP", |program, packets| {
        kernel::check(program, Hook::Xdp { frags: false }, packets)
    }),
    in_kernel("eBPF at XDP, several buffers", |program, packets| {
        kernel::check(program, Hook::Xdp { frags: true }, packets)
    }),
    in_kernel("eBPF at tcx", |program, packets| {
        kernel::check(program, Hook::Tcx(Vlan::AsKept), packets)
    }),
    in_kernel("eBPF at tcx, tags restored", |program, packets| {
        kernel::check(program, Hook::Tcx(Vlan::Restored), packets)
    }),
    in_kernel("eBPF at a socket", |program, packets| {
        kernel::check(program, Hook::SocketFilter, packets)
    }),
    in_kernel("eBPF in a program's memory", scratch::check),
];

/// Compares verdicts on complete packets, unless the program loads metadata. `run` returns the engine's
/// verdict and the expected one; `None` for a packet that the engine does not take.
fn compare<V: PartialEq + Debug>(
    program: &Program,
    packets: &[Packet],
    mut run: impl FnMut(&[u8], u32) -> Result<Option<(V, V)>, String>,
) -> Result<Checked, String> {
    let mut compared = 0;
    if asks_for_metadata(program) {
        return Ok(Checked::Compared(compared));
    }
    for (data, len) in packets.iter().filter(|packet| is_whole(packet)) {
        let Some((found, expected)) = run(data, *len)? else {
            continue;
        };
        if found != expected {
            return Err(format!("{found:?}, not {expected:?}, on {data:02x?}"));
        }
        compared += 1;
    }
    Ok(Checked::Compared(compared))
}

/// Lowers a program and ends the code: the verdict is in R0.
fn complete(program: &Program, hook: Hook, asm: &mut Assembler) -> Result<(), LowerError> {
    let exits = Exits {
        accept: asm.label(),
        reject: asm.label(),
    };
    lower(program, hook, asm, exits)?;
    asm.place(exits.reject);
    asm.mov32(Reg::R0, 0);
    asm.place(exits.accept);
    asm.exit();
    Ok(())
}

/// Returns whether a program loads metadata, which engines have and the plain interpreter has not.
fn asks_for_metadata(program: &Program) -> bool {
    use ringtap_filter::program::opcode as op;
    program.insns().iter().any(|insn| {
        insn.code & 7 == op::LD && insn.code & 0xe0 == op::ABS && insn.k >= op::SKF_AD_OFF
    })
}
