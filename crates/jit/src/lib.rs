#![doc = include_str!("../README.md")]

// The steps of the compiler: instructions → operations (`op`) → known packet length at each of them (`facts`)
// → tests that are made together (`plan`) → the code generator's intermediate form (`emit`) → functions
// (`code`) in executable memory (`memory`).
//
// Hostile programs: sums of offsets are made in 64 bits and cannot wrap. Each load is covered by a comparison with the
// captured length, its own or one earlier on every path. Scratch memory becomes registers or stack slots of fixed places.
// Jumps go forward, or backward a limited number of times (`ringtap_filter::program::MAX_ROUNDS`), so that a program ends.
// `MAX_INSNS` bounds the time to compile it.

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
