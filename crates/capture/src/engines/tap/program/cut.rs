//! Records of packets that exceed the snaplen.
//!
//! With a short snaplen, most records are of such packets, and all their lengths are known when the program
//! is made: nothing needs to be computed, kept or compared. Unusual packets go the common way.

use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Insn, Label, Reg, Size, Width};

use super::record::{self, HEADER, SHORT_HALF, WORD};
use super::{Tap, length, slot, state, xdp};
use crate::source::ProgramPart;

impl Tap<'_> {
    /// Returns the bytes of cut packets, if their records have a separate way.
    fn cut_length(&self) -> Option<i16> {
        let caplen = i16::try_from(self.snaplen).ok()?;
        let is_short = (WORD..=2 * SHORT_HALF).contains(&caplen) && self.snaplen <= self.room;
        let is_plain = self.place.is_xdp() && self.maps.interfaces.is_none();
        (record::MAY_BE_UNALIGNED && is_short && is_plain).then_some(caplen)
    }

    /// Writes the record of a packet that is cut at the snaplen, and goes to `written` with the values for
    /// publishing; otherwise continues with nothing written.
    pub(super) fn write_cut_record(&self, written: Label, asm: &mut Assembler) {
        let Some(caplen) = self.cut_length() else {
            return;
        };
        asm.mark(ProgramPart::Tap.name());
        let other = asm.label();
        let padded = (caplen + 3) & !3;
        let total = i32::from(padded) + record::FIXED.cast_signed();
        length::load_length(asm);
        asm.jump_if(Cond::Le, Width::W64, Reg::R0, i32::from(caplen), other);
        if self.filter.is_some() {
            asm.load(Size::Dw, Reg::R1, Reg::R10, slot::LIMIT);
            asm.jump_if(Cond::Ne, Width::W64, Reg::R1, i32::from(caplen), other);
        }
        asm.load(Size::Dw, Reg::R1, Reg::R7, state::PENDING);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, other);
        asm.mov64(Reg::R1, total);
        self.make_room(asm, other);
        asm.load(Size::W, Reg::R2, Reg::R6, xdp::DATA);
        asm.load(Size::W, Reg::R3, Reg::R6, xdp::DATA_END);
        asm.mov64(Reg::R1, Reg::R2);
        asm.add64(Reg::R1, i32::from(caplen));
        asm.jump_if(Cond::Gt, Width::W64, Reg::R1, Reg::R3, other);
        store_pair(0, [record::ENHANCED_PACKET, total], asm);
        asm.store_imm(Size::W, Reg::R9, 8, 0);
        asm.store_imm(Size::W, Reg::R9, 20, i32::from(caplen));
        asm.store(Size::W, Reg::R9, 24, Reg::R0);
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::TIME);
        asm.store(Size::W, Reg::R9, 16, Reg::R1);
        asm.alu64(AluOp::Rsh, Reg::R1, 32);
        asm.store(Size::W, Reg::R9, 12, Reg::R1);
        asm.mark(ProgramPart::Copy.name());
        copy(caplen, padded, asm);
        let flags = [record::FLAGS.word(), record::INBOUND];
        store_pair(HEADER + padded, flags, asm);
        store_pair(HEADER + padded + 8, [0, total], asm);
        asm.store_imm(Size::Dw, Reg::R10, slot::CAPLEN, i32::from(caplen));
        asm.store_imm(Size::Dw, Reg::R10, slot::TOTAL, total);
        asm.jump(written);
        asm.place(other);
    }
}

/// Copies the packet's bytes from R2. The unused bytes of their last word must not show an older packet.
fn copy(caplen: i16, padded: i16, asm: &mut Assembler) {
    if padded != caplen {
        asm.store_imm(Size::W, Reg::R9, HEADER + padded - 4, 0);
    }
    let last = caplen - WORD;
    let words = (0..last).step_by(usize::from(WORD.unsigned_abs()));
    // The last copy may overlap the previous one.
    for at in words.chain([last]) {
        asm.load(Size::Dw, Reg::R0, Reg::R2, at);
        asm.store(Size::Dw, Reg::R9, HEADER + at, Reg::R0);
    }
}

/// Stores two 32-bit numbers of the record at once.
fn store_pair(at: i16, pair: [i32; 2], asm: &mut Assembler) {
    let [[a, b, c, d], [e, f, g, h]] = pair.map(i32::to_ne_bytes);
    asm.push(Insn::LoadImm64 {
        dst: Reg::R1,
        value: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
    });
    asm.store(Size::Dw, Reg::R9, at, Reg::R1);
}
