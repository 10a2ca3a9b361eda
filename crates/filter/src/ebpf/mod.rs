//! eBPF: a small typed assembler, a disassembler, and classic BPF lowered to it.
//!
//! What it is: instructions in, the kernel's 8-byte encoding out ([`Assembler`]); and
//! [`lower`](lower::lower), which writes a validated classic-BPF [`Program`](crate::Program) as a
//! fragment of an eBPF program for XDP, tcx or a socket, so that other programs (a tap, counters)
//! are built around it. What it is not: it loads nothing; map fds come in as numbers, code goes out
//! as words.
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
