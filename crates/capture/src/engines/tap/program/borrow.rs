//! Borrows room in other processors' rings, for packets whose own processor's ring is full.
//!
//! A ring has one writer at a time, which its busy flag ensures: a borrower takes the flag, and nobody waits
//! for another's ring. So a burst on one processor has the whole buffer. A processor whose ring never becomes
//! full behaves as without borrowing.
//!
//! The clock is read again once the flag is taken, since that keeps the stamps of a ring in order.

use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Label, Reg, Size, Width};
use ringtap_sys::tap::layout;

use super::poll::{NUMBERS, WRITING};
use super::{Ends, Tap, give_back, imm, offset, record, slot, state};
use crate::options::Stage;
use crate::source::ProgramPart;

/// The number of rings that a packet tries.
const TRIES: u32 = 8;
/// How often a packet checks whether its own ring is free again, and how often it reads the clock before each
/// check, just to let some 100 ns pass. Together this takes some microseconds; another processor needs a
/// fraction of one to write a record. The numbers are small since the verifier follows each.
const LOOKS: i32 = 16;
const READINGS: usize = 4;
/// The slot in which the search keeps a processor's number. It is rewritten afterwards.
const LENDER: i16 = slot::HEAD;

impl Tap<'_> {
    /// Returns whether there are other rings that the program may use.
    pub(in super::super) fn borrows(&self) -> bool {
        self.borrow && self.maps.processors > 1 && self.stage == Stage::Copy
    }

    /// Waits for this processor's ring, on which another one works, and takes it. The tick of a poll's stamp
    /// is cleared, so that the next packet also reads the clock.
    pub(super) fn wait_for_ring(&self, asm: &mut Assembler, ends: Ends) {
        let (again, busy) = (asm.label(), offset(layout::BUSY));
        asm.mark(ProgramPart::Tap.name());
        asm.place(ends.held);
        asm.mov64(Reg::R9, 0);
        asm.place(again);
        asm.add64(Reg::R9, 1);
        asm.jump_if(Cond::Gt, Width::W64, Reg::R9, LOOKS, ends.contended);
        (0..READINGS).for_each(|_| asm.call(Helper::KtimeGetNs));
        asm.load(Size::Dw, Reg::R1, Reg::R8, busy);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, again);
        if self.stamps_by_poll() {
            asm.load(Size::Dw, Reg::R2, Reg::R7, state::POLL);
            asm.add64(Reg::R2, NUMBERS);
        } else {
            asm.mov64(Reg::R2, WRITING);
        }
        asm.mov64(Reg::R4, 0);
        asm.mov64(Reg::R0, 0);
        asm.atomic(Size::Dw, AtomicOp::CompareExchange, Reg::R8, busy, Reg::R2);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, again);
        asm.jump(ends.taken);
    }

    /// Writes the record to another processor's ring, if one has room.
    pub(super) fn borrow(&self, asm: &mut Assembler, ends: Ends) {
        asm.mark(ProgramPart::Tap.name());
        asm.place(ends.full);
        self.take_another(asm, ends);
        let full = asm.label();
        let there = Ends {
            full,
            nowhere: full,
            unreadable: asm.label(),
            ..ends
        };
        let alone = Tap {
            clock: self.clock.by_packet(),
            ..self.clone()
        };
        // The adapter's stamp stays unchanged.
        if self.stamps.is_none() {
            alone.stamp(asm, there);
        }
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::PADDED);
        alone.fit(asm, there);
        alone.write_record(asm, there);
        alone.publish(asm);
        alone.ring_the_bell(asm, there);
        asm.mark(ProgramPart::Tap.name());
        alone.count_losses(asm, there);
    }

    /// Takes another ring that has room, and releases this processor's: R7 and R8 become those of the other.
    /// A search starts with the ring of the last success.
    fn take_another(&self, asm: &mut Assembler, ends: Ends) {
        let found = asm.label();
        let tries = self.maps.processors.min(TRIES);
        (0..tries).for_each(|step| self.try_another(step, found, asm));
        self.next_from(tries, asm);
        asm.store(Size::Dw, Reg::R7, state::LENDER, Reg::R1);
        asm.jump(ends.nowhere);
        asm.place(found);
        asm.load(Size::Dw, Reg::R1, Reg::R10, LENDER);
        asm.store(Size::Dw, Reg::R7, state::LENDER, Reg::R1);
        // The record contains the number of packets lost before it, wherever it goes.
        asm.load(Size::Dw, Reg::R1, Reg::R7, state::PENDING);
        asm.load(Size::Dw, Reg::R2, Reg::R5, state::PENDING);
        asm.add64(Reg::R2, Reg::R1);
        asm.store(Size::Dw, Reg::R5, state::PENDING, Reg::R2);
        asm.store_imm(Size::Dw, Reg::R7, state::PENDING, 0);
        if self.stamps_by_poll() {
            // If this ring has room again within the poll, its stamp is too old by then.
            asm.store_imm(Size::Dw, Reg::R7, state::TICK, 0);
        } else {
            give_back(Reg::R8, asm);
        }
        asm.mov64(Reg::R7, Reg::R5);
        asm.mov64(Reg::R8, Reg::R9);
    }

    /// Puts the number of the processor this many steps after the start of the search into R1.
    fn next_from(&self, step: u32, asm: &mut Assembler) {
        asm.load(Size::Dw, Reg::R1, Reg::R7, state::LENDER);
        asm.add64(Reg::R1, step.cast_signed());
        asm.alu64(AluOp::Mod, Reg::R1, self.maps.processors.cast_signed());
    }

    /// Goes to `found` with another processor's ring, taken, in R9, and its state in R5, if it has room.
    fn try_another(&self, step: u32, found: Label, asm: &mut Assembler) {
        let next = asm.label();
        self.next_from(step, asm);
        asm.store(Size::Dw, Reg::R10, LENDER, Reg::R1);
        asm.store(Size::W, Reg::R10, slot::KEY, Reg::R1);
        self.maps.rings.look_up(next, asm);
        asm.mov64(Reg::R9, Reg::R0);
        asm.load(Size::Dw, Reg::R1, Reg::R10, LENDER);
        self.load_state(Reg::R5, Reg::R1, next, asm);
        self.test_for_room(asm, next);
        // This processor's own ring is already taken, and so is one that another processor writes to.
        asm.mov64(Reg::R0, 0);
        asm.mov64(Reg::R1, WRITING);
        let busy = offset(layout::BUSY);
        asm.atomic(Size::Dw, AtomicOp::CompareExchange, Reg::R9, busy, Reg::R1);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, found);
        asm.place(next);
    }

    /// Goes to `next` if the ring in R9, whose state is in R5, has no room. It is checked before it is taken,
    /// so that none is taken in vain.
    fn test_for_room(&self, asm: &mut Assembler, next: Label) {
        let beside = self.fixed() + self.process_room() + record::DROPCOUNT;
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::PADDED);
        asm.add64(Reg::R1, beside.cast_signed());
        asm.load(Size::Dw, Reg::R2, Reg::R5, state::HEAD);
        asm.alu64(AluOp::Add, Reg::R1, Reg::R2);
        asm.mov64(Reg::R2, Reg::R9);
        asm.add64(Reg::R2, imm(self.geometry.tail() as u64));
        asm.load(Size::Dw, Reg::R2, Reg::R2, 0);
        asm.alu64(AluOp::Sub, Reg::R1, Reg::R2);
        let size = imm(self.geometry.size());
        asm.jump_if(Cond::Gt, Width::W64, Reg::R1, size, next);
    }
}
