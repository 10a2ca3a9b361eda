//! Validated classic-BPF programs as native code.
//!
//! In: a [`Program`](ringtap_filter::Program). Out: a [`Native`], which gives the same verdict on
//! every packet, several times faster; most of all for a batch of packets per call, because the
//! loop over them is generated code too. Not in here: the language, and any decision about when
//! native code is worth it. Where it cannot be had ([`NativeError`]), the interpreter does the
//! same.
//!
//! The way of a program: instructions → operations (`op`) → what is known of a packet's length at
//! each of them (`facts`) → which tests are made together (`plan`) → the code generator's
//! intermediate form (`emit`) → functions (`code`) in executable memory (`memory`).
//!
//! # Safety on hostile input
//!
//! Programs may come from anybody, and packets do. What keeps the code inside a packet is a
//! comparison with the captured length before each load, or one earlier on every path that covers
//! it; sums of offsets are made in 64 bits and cannot wrap. Scratch memory becomes registers or
//! stack slots of fixed places. Jumps go forward, or backwards so many times only
//! ([`MAX_ROUNDS`](ringtap_filter::program::MAX_ROUNDS)), so that a program ends; [`MAX_INSNS`]
//! bounds the time to compile it. Memory with code in it
//! is never writable and executable at once.
//!
//! Cranelift generates the code, for x86-64 and AArch64.
//!
//! ```
//! use ringtap_filter::{Insn, Program};
//! use ringtap_jit::{Native, PacketRef};
//!
//! // ip
//! let program = Program::new(vec![
//!     Insn::new(0x28, 12),
//!     Insn::jump(0x15, 0x0800, 0, 1),
//!     Insn::new(0x06, 262_144),
//!     Insn::new(0x06, 0),
//! ])?;
//! let native = Native::compile(&program)?;
//! let mut packet = [0; 60];
//! packet[12] = 8;
//! let mut verdicts = [0; 2];
//! native.run_batch(&[PacketRef::new(&packet, 60), PacketRef::new(&packet[..13], 60)], &mut verdicts);
//! assert_eq!(verdicts, [262_144, 0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod code;
mod emit;
mod error;
mod facts;
mod listing;
mod memory;
mod metadata;
mod native;
mod op;
mod packet;
mod plan;

pub use crate::error::NativeError;
pub use crate::listing::{MachineCode, MachineInsn};
pub use crate::metadata::Metadata;
pub use crate::native::Native;
pub use crate::op::MAX_INSNS;
pub use crate::packet::PacketRef;
