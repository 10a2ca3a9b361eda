//! Groups of instructions that several programs have.

use std::os::fd::RawFd;

use ringtap_filter::ebpf::{Assembler, AtomicOp, Insn, Reg, Size};

/// Loads a map, by its descriptor.
pub(crate) fn load_map(dst: Reg, fd: RawFd, asm: &mut Assembler) {
    asm.push(Insn::LoadMap { dst, fd });
}

/// Loads an address in the first value of an array.
pub(crate) fn load_value(dst: Reg, fd: RawFd, offset: u32, asm: &mut Assembler) {
    asm.push(Insn::LoadMapValue { dst, fd, offset });
}

/// Loads the address of a slot on the stack.
pub(crate) fn load_slot(dst: Reg, slot: i16, asm: &mut Assembler) {
    asm.mov64(dst, Reg::R10);
    asm.add64(dst, i32::from(slot));
}

/// Adds a packet of R2 bytes to the counters at R1 plus an offset; loses R3.
pub(crate) fn add_packet(at: i16, is_atomic: bool, asm: &mut Assembler) {
    if is_atomic {
        asm.mov64(Reg::R3, 1);
        asm.atomic(Size::Dw, AtomicOp::Add, Reg::R1, at, Reg::R3);
        asm.atomic(Size::Dw, AtomicOp::Add, Reg::R1, at + 8, Reg::R2);
        return;
    }
    asm.load(Size::Dw, Reg::R3, Reg::R1, at);
    asm.add64(Reg::R3, 1);
    asm.store(Size::Dw, Reg::R1, at, Reg::R3);
    asm.load(Size::Dw, Reg::R3, Reg::R1, at + 8);
    asm.add64(Reg::R3, Reg::R2);
    asm.store(Size::Dw, Reg::R1, at + 8, Reg::R3);
}

/// Returns a size in the form of instructions. All sizes are small.
pub(crate) fn as_imm(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
