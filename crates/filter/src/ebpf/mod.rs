//! eBPF: a small typed assembler, a disassembler, and classic BPF lowered to it.
//!
//! [`Assembler`] takes instructions and returns the kernel's 8-byte encoding.
//! [`lower`](lower::lower) writes a validated classic-BPF [`Program`](crate::Program) as a fragment
//! of an eBPF program for XDP, tcx or a socket; other programs (a tap, counters) are built around
//! it. The module loads nothing into the kernel: map fds are plain numbers, and code is returned as
//! words.
//!
//! Source: Documentation/bpf/standardization/instruction-set.rst (RFC 9669).

mod assembler;
mod disasm;
mod helper;
mod insn;
pub mod lower;

pub use assembler::{AssembleError, Assembler, Label, MarkedCode};
pub use disasm::{c_array, decimal, listing, statement};
pub use helper::Helper;
pub use insn::{AluOp, AtomicOp, Cond, Insn, Operand, Reg, Size, Width};
