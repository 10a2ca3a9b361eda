//! The copy of the program that reads packet bytes with a helper, wherever they are.

use super::ancillary::{self, skb};
use super::copy::{Copy, forget, load_tag_type, stack, write_nibble_times_four};
use super::flow::Forget;
use super::step::{A, Step, Target, X};
use super::view::{LoadPlace, TAG_BYTES, TAG_END, TAG_START, View};
use super::{Hook, LowerError, scratch};
use crate::ebpf::{AluOp, Assembler, Cond, Helper, Label, Reg, Size, Width};

/// Writes the reachable instructions.
pub(super) fn write(
    copy: &Copy<'_>,
    reached: &[bool],
    asm: &mut Assembler,
) -> Result<(), LowerError> {
    let mut slow = Slow {
        copy,
        asm,
        around_tag: Vec::new(),
    };
    for (at, &step) in copy
        .lowering
        .steps
        .iter()
        .enumerate()
        .filter(|&(at, _)| reached[at])
    {
        slow.asm.place(copy.labels[at]);
        let Forget { a, x } = copy.lowering.forget[at];
        if a {
            forget(A, A, slow.asm);
        }
        if x {
            forget(X, X, slow.asm);
        }
        slow.step(step, at)?;
    }
    slow.write_around_tag();
    Ok(())
}

/// The state while the copy is written.
struct Slow<'a> {
    copy: &'a Copy<'a>,
    asm: &'a mut Assembler,
    around_tag: Vec<AroundTag>,
}

/// A load at X plus a constant that begins before byte 16 of a packet with a tag. It is rare, so it is
/// written after everything else.
struct AroundTag {
    k: i32,
    size: Size,
    /// The label of its code.
    start: Label,
    /// The label after the load.
    done: Label,
}

impl Slow<'_> {
    fn step(&mut self, step: Step, at: usize) -> Result<(), LowerError> {
        match step {
            Step::Absolute { k, size } => self.constant(k, size, Target::A),
            Step::HeaderLength { k } => {
                self.constant(k, Size::B, Target::X);
                write_nibble_times_four(X, self.asm);
            }
            Step::Indirect { k, size } => self.indirect(k, size),
            Step::Length(target) => {
                self.copy.write_length(target, self.asm);
            }
            Step::Ancillary { offset } => {
                ancillary::write(offset, at, self.copy.hook(), self.copy.process(), self.asm)?;
            }
            _ => self.copy.write_plain(step, at, self.asm),
        }
        Ok(())
    }

    /// Copies the bytes at the offset in R2 to the stack, or jumps to `otherwise`. In a program's own memory,
    /// leaves their address in R1.
    fn fetch(&mut self, size: Size, otherwise: Label) {
        if self.copy.hook() == Hook::Scratch {
            return point_to(size, otherwise, self.asm);
        }
        self.asm.mov32(Reg::R4, size.bytes().cast_signed());
        fetch_to(self.copy, stack::LOADED, otherwise, self.asm);
    }

    fn take(&mut self, size: Size, reg: Reg) {
        if self.copy.hook() == Hook::Scratch {
            self.asm.load(size, reg, Reg::R1, scratch::DATA);
        } else {
            self.asm.load(size, reg, Reg::R10, stack::LOADED);
        }
        self.asm.from_network(reg, size);
    }

    fn constant(&mut self, k: u32, size: Size, target: Target) {
        match self.copy.view.place(k, size) {
            LoadPlace::Packet(at) => {
                self.asm.mov32(Reg::R2, at.cast_signed());
                self.fetch(size, self.copy.reject());
                self.take(size, target.reg());
            }
            LoadPlace::Mixed => {
                let copy = self.copy;
                copy.write_mixed(k, size, target, self.asm, |at, asm| {
                    asm.mov32(Reg::R2, at.cast_signed());
                    asm.mov32(Reg::R4, 1);
                    fetch_to(copy, stack::LOADED, copy.reject(), asm);
                    asm.load(Size::B, Reg::R0, Reg::R10, stack::LOADED);
                });
            }
            LoadPlace::Nowhere => self.reject_here(target.reg()),
        }
    }

    /// Rejects the packet with a jump that the verifier takes for conditional. The code after it
    /// may have no other predecessor, and the verifier rejects unreachable code.
    fn reject_here(&mut self, reg: Reg) {
        self.asm.mov32(reg, 0);
        self.asm
            .jump_if(Cond::Eq, Width::W32, reg, 0, self.copy.reject());
    }

    fn indirect(&mut self, k: u32, size: Size) {
        let Some(k) = i32::try_from(k).ok() else {
            return self.reject_here(A);
        };
        self.offset_at_x(k);
        if self.copy.view == View::Plain {
            self.fetch(size, self.copy.reject());
            return self.take(size, A);
        }
        let [start, done] = [(); 2].map(|()| self.asm.label());
        let behind_tag = TAG_END.cast_signed();
        if k < behind_tag {
            // Before byte 16, the offset becomes one that the helper rejects: one jump handles both
            // cases.
            self.asm.mov64(Reg::R3, Reg::R2);
            self.asm.add64(Reg::R3, -behind_tag);
            self.asm.alu64(AluOp::Arsh, Reg::R3, 63);
            self.asm.alu64(AluOp::Or, Reg::R2, Reg::R3);
        }
        self.asm.add64(Reg::R2, -TAG_BYTES.cast_signed());
        if k < behind_tag {
            self.around_tag.push(AroundTag {
                k,
                size,
                start,
                done,
            });
            self.fetch(size, start);
        } else {
            self.fetch(size, self.copy.reject());
        }
        self.take(size, A);
        self.asm.place(done);
    }

    /// Sets R2 to X + k. Beyond any packet, it becomes a value that the helpers reject: all bits of
    /// the lower half are set but the last few. It uses no jump, because the verifier limits their
    /// number.
    fn offset_at_x(&mut self, k: i32) {
        if self.copy.view == View::Plain {
            self.asm.mov32(Reg::R2, X);
        } else {
            forget(X, Reg::R2, self.asm);
        }
        self.asm.add64(Reg::R2, k);
        self.asm.mov64(Reg::R3, Reg::R2);
        self.asm.alu64(AluOp::Rsh, Reg::R3, 31);
        self.asm.alu64(AluOp::Neg, Reg::R3, 0);
        self.asm.alu64(AluOp::Or, Reg::R2, Reg::R3);
    }

    fn write_around_tag(&mut self) {
        for AroundTag {
            k,
            size,
            start,
            done,
        } in std::mem::take(&mut self.around_tag)
        {
            let bytes = size.bytes().cast_signed();
            let across = self.asm.label();
            self.asm.place(start);
            self.offset_at_x(k);
            let behind_tag = TAG_END.cast_signed();
            self.asm.jump_if(
                Cond::Ge,
                Width::W64,
                Reg::R2,
                behind_tag,
                self.copy.reject(),
            );
            let before_tag = TAG_START.cast_signed() - bytes;
            self.asm
                .jump_if(Cond::Gt, Width::W64, Reg::R2, before_tag, across);
            self.fetch(size, self.copy.reject());
            self.take(size, A);
            self.asm.jump(done);

            self.asm.place(across);
            // The load writes A, and a call preserves it, so it holds the offset until then.
            self.asm.mov64(A, Reg::R2);
            self.write_window(bytes);
            self.asm.mov64(Reg::R1, Reg::R10);
            self.asm.add64(Reg::R1, A);
            // Byte by byte: the verifier rejects an unaligned load here.
            self.asm.mov32(A, 0);
            for at in (stack::WINDOW - WINDOW_FIRST..).take(size.bytes() as usize) {
                self.asm.load(Size::B, Reg::R0, Reg::R1, at);
                self.asm.alu32(AluOp::Lsh, A, 8);
                self.asm.alu32(AluOp::Or, A, Reg::R0);
            }
            self.asm.jump(done);
        }
    }

    /// Writes bytes 8 to 19 of the packet with its tag to the stack, as far as a load of `bytes` at
    /// the offset in A needs them. Rejects a packet that is too short.
    fn write_window(&mut self, bytes: i32) {
        let asm = &mut *self.asm;
        let window = stack::WINDOW;
        asm.store_imm(Size::W, Reg::R10, window + 8, 0);
        asm.mov32(Reg::R2, WINDOW_START.cast_signed());
        asm.mov32(Reg::R4, (TAG_START - WINDOW_START).cast_signed());
        fetch_to(self.copy, window, self.copy.reject(), asm);
        load_tag_type(Reg::R0, asm);
        asm.from_network(Reg::R0, Size::H);
        asm.store(Size::H, Reg::R10, window + 4, Reg::R0);
        asm.load(Size::W, Reg::R0, Reg::R6, skb::VLAN_TCI);
        asm.from_network(Reg::R0, Size::H);
        asm.store(Size::H, Reg::R10, window + 6, Reg::R0);
        let complete = asm.label();
        asm.jump_if(
            Cond::Le,
            Width::W64,
            A,
            TAG_END.cast_signed() - bytes,
            complete,
        );
        asm.mov32(Reg::R2, TAG_START.cast_signed());
        asm.mov64(Reg::R4, A);
        asm.add64(Reg::R4, bytes - TAG_END.cast_signed());
        fetch_to(self.copy, window + 8, self.copy.reject(), asm);
        asm.place(complete);
    }
}

/// The first byte of the window.
const WINDOW_FIRST: i16 = 8;
const WINDOW_START: u32 = WINDOW_FIRST.cast_unsigned() as u32;

/// Puts the address of the bytes at the offset in R2 into R1, less the offset of the packet, or jumps to
/// `otherwise`.
fn point_to(size: Size, otherwise: Label, asm: &mut Assembler) {
    let bytes = size.bytes().cast_signed();
    asm.mov32(Reg::R2, Reg::R2);
    asm.mov64(Reg::R1, Reg::R2);
    asm.add64(Reg::R1, bytes);
    asm.load(Size::W, Reg::R0, Reg::R6, scratch::CAPLEN);
    asm.jump_if(Cond::Gt, Width::W64, Reg::R1, Reg::R0, otherwise);
    // The packet's room, for the verifier.
    let last = scratch::BYTES.cast_signed() - bytes;
    asm.jump_if(Cond::Gt, Width::W64, Reg::R2, last, otherwise);
    asm.mov64(Reg::R1, Reg::R6);
    asm.add64(Reg::R1, Reg::R2);
}

/// Copies R4 bytes at the offset in R2 to the stack, or jumps to `otherwise`.
fn fetch_to(copy: &Copy<'_>, to: i16, otherwise: Label, asm: &mut Assembler) {
    asm.mov64(Reg::R1, Reg::R6);
    asm.mov64(Reg::R3, Reg::R10);
    asm.add64(Reg::R3, i32::from(to));
    asm.call(match copy.hook() {
        Hook::Xdp { .. } => Helper::XdpLoadBytes,
        Hook::Tcx(_) | Hook::SocketFilter | Hook::Scratch => Helper::SkbLoadBytes,
    });
    asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, otherwise);
}
