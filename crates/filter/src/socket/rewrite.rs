//! Writes one copy of a program, with its loads rewritten for the layout.

use super::NotLowerable;
use super::bounds;
use super::layout::{Byte, Layout};
use crate::program::assemble::{Assembler, Label};
use crate::program::opcode as op;
use crate::program::{Insn, Program};

/// The greatest offset that the kernel uses for packet bytes.
const LARGEST_OFFSET: u32 = i32::MAX as u32;

/// The greatest shift in the kernel, in bits.
const LARGEST_SHIFT: u32 = 31;

/// Scratch words that the program does not use, for saving registers and gathering bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scratch {
    saved: Option<u32>,
    gathered: Option<u32>,
}

impl Scratch {
    pub(super) fn unused_by(program: &Program) -> Self {
        let uses = |slot: u32| {
            let mut insns = program.insns().iter();
            insns.any(|insn| match (insn.code & 7, insn.code & 0xe0) {
                (op::ST | op::STX, _) | (op::LD | op::LDX, op::MEM) => insn.k == slot,
                _ => false,
            })
        };
        let mut free = (0..op::MEMWORDS).rev().filter(|&slot| !uses(slot));
        Self {
            saved: free.next(),
            gathered: free.next(),
        }
    }

    fn saved(self) -> Result<u32, NotLowerable> {
        self.saved.ok_or(NotLowerable::NoScratch)
    }

    fn gathered(self) -> Result<u32, NotLowerable> {
        self.gathered.ok_or(NotLowerable::NoScratch)
    }
}

fn is_shift_by_x(insn: &Insn) -> bool {
    insn.code & op::X != 0 && matches!(insn.code & 0xf0, op::LSH | op::RSH)
}

/// A program to rewrite for a layout.
pub(super) struct Copy<'a> {
    pub(super) program: &'a Program,
    pub(super) layout: &'a Layout,
    /// The most bytes kept of a delivered packet.
    pub(super) snaplen: u32,
    pub(super) scratch: Scratch,
}

impl Copy<'_> {
    /// Writes the rewritten instructions.
    pub(super) fn write(&self, asm: &mut Assembler) -> Result<(), NotLowerable> {
        let insns = self.program.insns();
        let bounds = bounds::of_x(insns);
        let labels: Vec<Label> = insns.iter().map(|_| asm.label()).collect();
        let reject = asm.label();
        for (at, insn) in insns.iter().enumerate() {
            asm.place(labels[at]);
            match insn.code & 7 {
                op::LD => self.load(asm, insn, bounds[at], reject)?,
                op::LDX => self.load_x(asm, insn)?,
                op::RET if insn.code & 0x18 != op::A => {
                    let wanted = insn.k.min(self.snaplen);
                    let k = if insn.k == 0 {
                        0
                    } else {
                        self.layout.needed(wanted)
                    };
                    asm.push(insn.code, k);
                }
                op::JMP if insn.code & 0xf0 == op::JA => asm.goto(labels[at + 1 + insn.k as usize]),
                op::JMP => {
                    let target = |offset: u8| labels[at + 1 + usize::from(offset)];
                    asm.branch(insn.code, insn.k, target(insn.jt), target(insn.jf));
                }
                op::ALU if is_shift_by_x(insn) && bounds[at] > LARGEST_SHIFT => {
                    self.shift(asm, insn)?;
                }
                _ => asm.push(insn.code, insn.k),
            }
        }
        asm.place(reject);
        asm.push(op::RET | op::K, 0);
        Ok(())
    }

    /// Writes a shift by X, which gives 0 from 32 on; the kernel only uses the low bits of X.
    fn shift(&self, asm: &mut Assembler, insn: &Insn) -> Result<(), NotLowerable> {
        let saved = self.scratch.saved()?;
        let (far, near, done) = (asm.label(), asm.label(), asm.label());
        asm.push(op::ST, saved);
        asm.push(op::MISC | op::TXA, 0);
        asm.branch(op::JMP | op::JGT, LARGEST_SHIFT, far, near);
        asm.place(far);
        asm.push(op::LD | op::IMM, 0);
        asm.goto(done);
        asm.place(near);
        asm.push(op::LD | op::MEM, saved);
        asm.push(insn.code, 0);
        asm.place(done);
        Ok(())
    }

    fn load(
        &self,
        asm: &mut Assembler,
        insn: &Insn,
        bound: u32,
        reject: Label,
    ) -> Result<(), NotLowerable> {
        let size = insn.code & 0x18;
        match insn.code & 0xe0 {
            op::ABS if insn.k >= op::SKF_AD_OFF => asm.push(insn.code, insn.k),
            op::ABS => return self.load_at(asm, size, insn.k),
            op::IND => return self.load_indirect(asm, size, insn.k, bound, reject),
            op::LEN => {
                asm.push(insn.code, insn.k);
                if self.layout.shift != 0 {
                    asm.push(op::ALU | op::ADD, self.layout.shift);
                }
            }
            _ => asm.push(insn.code, insn.k),
        }
        Ok(())
    }

    fn load_x(&self, asm: &mut Assembler, insn: &Insn) -> Result<(), NotLowerable> {
        let moved = matches!(insn.code & 0xe0, op::LEN | op::MSH)
            && (self.layout.shift != 0 || insn.k > LARGEST_OFFSET);
        if !moved {
            asm.push(insn.code, insn.k);
            return Ok(());
        }
        if insn.code & 0xe0 == op::MSH
            && insn.k <= LARGEST_OFFSET
            && let Byte::Packet(at) = self.place(insn.k)
        {
            asm.push(insn.code, at);
            return Ok(());
        }
        // X is computed in A, which is saved in the meantime.
        let saved = self.scratch.saved()?;
        asm.push(op::ST, saved);
        if insn.code & 0xe0 == op::LEN {
            asm.push(op::LD | op::LEN, 0);
            asm.push(op::ALU | op::ADD, self.layout.shift);
        } else {
            self.load_at(asm, op::B, insn.k)?;
            asm.push(op::ALU | op::AND, 0xf);
            asm.push(op::ALU | op::LSH, 2);
        }
        asm.push(op::MISC | op::TAX, 0);
        asm.push(op::LD | op::MEM, saved);
        Ok(())
    }

    fn place(&self, offset: u32) -> Byte {
        self.layout.byte(offset)
    }

    /// Writes a load into A from a constant offset. X is preserved.
    fn load_at(&self, asm: &mut Assembler, size: u16, offset: u32) -> Result<(), NotLowerable> {
        if offset > LARGEST_OFFSET {
            // No packet is that long, and in the kernel the offset has another meaning.
            asm.push(op::RET | op::K, 0);
            return Ok(());
        }
        let bytes: Vec<Byte> = (offset..offset + width(size))
            .map(|at| self.place(at))
            .collect();
        if let Some(at) = contiguous(&bytes) {
            asm.push(op::LD | op::ABS | size, at);
            return Ok(());
        }
        if let Some((number, mask)) = whole_metadata(&bytes) {
            asm.push(op::LD | op::ABS, op::SKF_AD_OFF + number);
            if let Some(mask) = mask {
                asm.push(op::ALU | op::AND, mask);
            }
            return Ok(());
        }
        if let [byte] = bytes[..] {
            return load_byte(asm, byte, offset);
        }
        self.gather(asm, &bytes, offset)
    }

    /// Combines bytes from different places, the most significant first.
    fn gather(&self, asm: &mut Assembler, bytes: &[Byte], offset: u32) -> Result<(), NotLowerable> {
        let (saved, gathered) = (self.scratch.saved()?, self.scratch.gathered()?);
        asm.push(op::STX, saved);
        for ((at, &byte), delivered) in bytes.iter().enumerate().zip(offset..) {
            load_byte(asm, byte, delivered)?;
            if at > 0 {
                asm.push(op::MISC | op::TAX, 0);
                asm.push(op::LD | op::MEM, gathered);
                asm.push(op::ALU | op::LSH, 8);
                asm.push(op::ALU | op::OR | op::X, 0);
            }
            if at + 1 < bytes.len() {
                asm.push(op::ST, gathered);
            }
        }
        asm.push(op::LDX | op::MEM, saved);
        Ok(())
    }

    /// Writes a load from X + k, where X is at most `bound`.
    fn load_indirect(
        &self,
        asm: &mut Assembler,
        size: u16,
        k: u32,
        bound: u32,
        reject: Label,
    ) -> Result<(), NotLowerable> {
        let Some(most) = LARGEST_OFFSET.checked_sub(k) else {
            asm.push(op::RET | op::K, 0);
            return Ok(());
        };
        if bound > most {
            // A is about to be overwritten, so the test can use it.
            let inside = asm.label();
            asm.push(op::MISC | op::TXA, 0);
            asm.branch(op::JMP | op::JGT, most, reject, inside);
            asm.place(inside);
        }
        let head = self.layout.head_len();
        let done = asm.label();
        // Below this X the load begins in the head: one case for each value of X.
        let cases = head.saturating_sub(k).min(bound.saturating_add(1));
        if cases > 0 {
            asm.push(op::MISC | op::TXA, 0);
        }
        for x in 0..cases {
            let (this, next) = (asm.label(), asm.label());
            asm.branch(op::JMP | op::JEQ, x, this, next);
            asm.place(this);
            self.load_at(asm, size, x + k)?;
            asm.goto(done);
            asm.place(next);
        }
        match k.checked_sub(self.layout.shift) {
            Some(k) => asm.push(op::LD | op::IND | size, k),
            // The constant would be negative: X is decreased instead.
            None => {
                let saved = self.scratch.saved()?;
                asm.push(op::STX, saved);
                asm.push(op::MISC | op::TXA, 0);
                asm.push(op::ALU | op::SUB, self.layout.shift - k);
                asm.push(op::MISC | op::TAX, 0);
                asm.push(op::LD | op::IND | size, 0);
                asm.push(op::LDX | op::MEM, saved);
            }
        }
        asm.place(done);
        Ok(())
    }
}

/// Returns the width of a load in bytes.
fn width(size: u16) -> u32 {
    match size {
        op::W => 4,
        op::H => 2,
        _ => 1,
    }
}

/// Returns the offset of the bytes in the packet, if they are consecutive there.
fn contiguous(bytes: &[Byte]) -> Option<u32> {
    let &Byte::Packet(first) = bytes.first()? else {
        return None;
    };
    let follow = bytes
        .iter()
        .zip(first..)
        .all(|(&byte, at)| byte == Byte::Packet(at));
    follow.then_some(first)
}

/// Returns the metadata value whose lower part the bytes are, and a mask for it if it may have more
/// bits.
fn whole_metadata(bytes: &[Byte]) -> Option<(u32, Option<u32>)> {
    let &Byte::Metadata(number, _) = bytes.first()? else {
        return None;
    };
    let shifts = (0_u32..).step_by(8);
    let whole = bytes
        .iter()
        .rev()
        .zip(shifts)
        .all(|(&byte, s)| byte == Byte::Metadata(number, s));
    let bits = match number {
        op::SKF_AD_IFINDEX => 32,
        op::SKF_AD_PKTTYPE => 8,
        _ => 16,
    };
    let mask = match bytes.len() {
        1 if bits > 8 => Some(0xff),
        2 if bits > 16 => Some(0xffff),
        _ => None,
    };
    whole.then_some((number, mask))
}

/// Writes a load of one byte into A.
fn load_byte(asm: &mut Assembler, byte: Byte, delivered: u32) -> Result<(), NotLowerable> {
    match byte {
        Byte::Packet(at) => asm.push(op::LD | op::B | op::ABS, at),
        Byte::Zero => asm.push(op::LD | op::IMM, 0),
        Byte::Unreachable => return Err(NotLowerable::HeaderByte(delivered)),
        Byte::Metadata(number, shift) => {
            asm.push(op::LD | op::ABS, op::SKF_AD_OFF + number);
            if shift > 0 {
                asm.push(op::ALU | op::RSH, shift);
            }
            asm.push(op::ALU | op::AND, 0xff);
        }
    }
    Ok(())
}
