//! The parts that the fast and the slow copy share: everything but packet loads.

use super::ancillary::{skb, xdp};
use super::step::{A, Step, Target, With, X};
use super::view::{Byte, TAG_BYTES, View};
use super::{Hook, Lowering, scratch};
use crate::ebpf::{AluOp, Assembler, Cond, Helper, Label, Operand, Reg, Size, Width};

/// Stack slots, as offsets from R10. They have 4 bytes at 4 modulo 8: the verifier does not track
/// values through them (it would through an aligned slot of 8).
pub(super) mod stack {
    /// The buffer where a helper stores packet bytes.
    pub(in crate::ebpf::lower) const LOADED: i16 = -8;
    /// The slot that offsets pass through.
    pub(in crate::ebpf::lower) const OFFSET: i16 = -12;
    const MEMORY: i16 = -20;
    /// Twelve bytes: the bytes around a tag, combined.
    pub(in crate::ebpf::lower) const WINDOW: i16 = -168;

    /// Returns the slot of a word of scratch memory.
    pub(in crate::ebpf::lower) fn memory(slot: u32) -> i16 {
        // A valid program has at most sixteen words.
        MEMORY - 8 * i16::try_from(slot & 15).unwrap_or(15)
    }

    const _: () = assert!(MEMORY - 8 * 15 > WINDOW + 12 && WINDOW >= -super::super::STACK_BYTES);
}

/// The kind of a copy.
#[derive(Clone, Copy)]
pub(super) enum Placement<'a> {
    /// Reads in place; failing checks jump to the slow copy's labels, or reject if there is none.
    Fast { slow: Option<&'a [Label]> },
    /// Reads with a helper.
    Slow,
}

/// One copy of a program.
#[derive(Clone, Copy)]
pub(super) struct Copy<'a> {
    pub(super) lowering: Lowering<'a>,
    pub(super) view: View,
    /// The label of each instruction in this copy.
    pub(super) labels: &'a [Label],
    pub(super) placement: Placement<'a>,
}

impl Copy<'_> {
    pub(super) fn hook(&self) -> Hook {
        self.lowering.hook
    }

    pub(super) fn process(&self) -> Option<i16> {
        self.lowering.process
    }

    pub(super) fn reject(&self) -> Label {
        self.lowering.exits.reject
    }

    /// Writes an instruction that uses neither packet nor context.
    pub(super) fn write_plain(&self, step: Step, at: usize, asm: &mut Assembler) {
        match step {
            Step::Constant(target, k) => asm.mov32(target.reg(), k.cast_signed()),
            Step::Recall(target, slot) => {
                asm.load(Size::W, target.reg(), Reg::R10, stack::memory(slot));
            }
            Step::Keep(target, slot) => {
                asm.store(Size::W, Reg::R10, stack::memory(slot), target.reg());
            }
            Step::Arithmetic { op, with } => self.write_arithmetic(op, with, asm),
            Step::Negate => asm.alu32(AluOp::Neg, A, 0),
            Step::AToX => asm.mov32(X, A),
            Step::XToA => asm.mov32(A, X),
            Step::Jump { to } => self.go(to, at, asm),
            Step::Test { .. } => self.write_test(step, at, asm),
            Step::ReturnConstant(0) => asm.jump(self.reject()),
            Step::ReturnConstant(k) => {
                asm.mov32(Reg::R0, k.cast_signed());
                asm.jump(self.lowering.exits.accept);
            }
            Step::ReturnA => {
                asm.jump_if(Cond::Eq, Width::W32, A, 0, self.reject());
                asm.mov32(Reg::R0, A);
                asm.jump(self.lowering.exits.accept);
            }
            Step::Absolute { .. }
            | Step::Indirect { .. }
            | Step::HeaderLength { .. }
            | Step::Ancillary { .. }
            | Step::Length(_) => {}
        }
    }

    fn write_arithmetic(&self, op: AluOp, with: With, asm: &mut Assembler) {
        match (op, with) {
            (_, With::K(k)) => asm.alu32(op, A, k.cast_signed()),
            (AluOp::Div | AluOp::Mod, With::X) => {
                asm.jump_if(Cond::Eq, Width::W32, X, 0, self.reject());
                asm.alu32(op, A, X);
            }
            (AluOp::Lsh | AluOp::Rsh, With::X) => {
                // eBPF would take X modulo 32.
                let small = asm.label();
                asm.jump_if(Cond::Lt, Width::W32, X, 32, small);
                asm.mov32(A, 0);
                asm.place(small);
                asm.alu32(op, A, X);
            }
            (_, With::X) => asm.alu32(op, A, X),
        }
    }

    fn write_test(&self, step: Step, at: usize, asm: &mut Assembler) {
        let Step::Test {
            cond,
            with,
            then,
            otherwise,
        } = step
        else {
            return;
        };
        let operand = match with {
            With::K(k) => Operand::Imm(k.cast_signed()),
            With::X => Operand::Reg(X),
        };
        if then == otherwise {
            return self.go(then, at, asm);
        }
        match cond.inverse() {
            Some(inverse) if then == at + 1 => {
                asm.jump_if(inverse, Width::W32, A, operand, self.labels[otherwise]);
            }
            _ => {
                asm.jump_if(cond, Width::W32, A, operand, self.labels[then]);
                self.go(otherwise, at, asm);
            }
        }
    }

    /// Continues at `to`; instructions are written in their order.
    fn go(&self, to: usize, at: usize, asm: &mut Assembler) {
        if to != at + 1 {
            asm.jump(self.labels[to]);
        }
    }

    /// Loads the packet's true length. Returns whether a helper was called.
    pub(super) fn write_length(&self, target: Target, asm: &mut Assembler) -> bool {
        let reg = target.reg();
        match self.hook() {
            Hook::Xdp { frags: true } => {
                asm.mov64(Reg::R1, Reg::R6);
                asm.call(Helper::XdpGetBuffLen);
                asm.mov32(reg, Reg::R0);
                return true;
            }
            Hook::Xdp { frags: false } => {
                asm.load(Size::W, reg, Reg::R6, xdp::DATA_END);
                asm.load(Size::W, Reg::R0, Reg::R6, xdp::DATA);
                asm.alu64(AluOp::Sub, reg, Reg::R0);
            }
            Hook::Scratch => asm.load(Size::W, reg, Reg::R6, scratch::LEN),
            Hook::Tcx(_) | Hook::SocketFilter => {
                asm.load(Size::W, reg, Reg::R6, skb::LEN);
                if self.view == View::Tagged {
                    asm.alu32(AluOp::Add, reg, TAG_BYTES.cast_signed());
                }
            }
        }
        false
    }

    /// Loads bytes around or in the tag, one by one; `packet_byte` loads one of the packet to R0.
    pub(super) fn write_mixed(
        &self,
        k: u32,
        size: Size,
        target: Target,
        asm: &mut Assembler,
        mut packet_byte: impl FnMut(u32, &mut Assembler),
    ) {
        let reg = target.reg();
        match (k, size) {
            (12, Size::H) => return load_tag_type(reg, asm),
            (14, Size::H) => return asm.load(Size::W, reg, Reg::R6, skb::VLAN_TCI),
            _ => asm.mov32(reg, 0),
        }
        for byte in self.view.bytes(k, size) {
            match byte {
                Byte::Packet(at) => packet_byte(at, asm),
                Byte::Tag(at) => {
                    if at < 2 {
                        load_tag_type(Reg::R0, asm);
                    } else {
                        asm.load(Size::W, Reg::R0, Reg::R6, skb::VLAN_TCI);
                    }
                    if at % 2 == 0 {
                        asm.alu32(AluOp::Rsh, Reg::R0, 8);
                    } else {
                        asm.alu32(AluOp::And, Reg::R0, 0xff);
                    }
                }
            }
            asm.alu32(AluOp::Lsh, reg, 8);
            asm.alu32(AluOp::Or, reg, Reg::R0);
        }
    }
}

/// Loads the tag's type, in host order.
pub(super) fn load_tag_type(reg: Reg, asm: &mut Assembler) {
    asm.load(Size::W, reg, Reg::R6, skb::VLAN_PROTO);
    asm.from_network(reg, Size::H);
}

/// Multiplies the low nibble by four.
pub(super) fn write_nibble_times_four(reg: Reg, asm: &mut Assembler) {
    asm.alu32(AluOp::And, reg, 0xf);
    asm.alu32(AluOp::Lsh, reg, 2);
}

/// Copies a register to another, or to itself, through the stack, so that the verifier forgets its
/// value. Otherwise the verifier would distinguish states by the value, once a test or an address
/// depends on it.
pub(super) fn forget(from: Reg, to: Reg, asm: &mut Assembler) {
    asm.store(Size::W, Reg::R10, stack::OFFSET, from);
    asm.load(Size::W, to, Reg::R10, stack::OFFSET);
}
