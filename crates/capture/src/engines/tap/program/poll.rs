//! One stamp for all packets of a poll of the driver.
//!
//! A driver passes on the packets in its queue, at most 64, and the kernel passes the tracepoint `napi_poll`
//! after each such poll. So the first packet of a poll reads the clock, later ones reuse the stamp, and a
//! program at the tracepoint ends it.
//!
//! A stamp is at most a tick old, so that a program called outside of a poll does not repeat one for ever.

use ringtap_filter::ebpf::{Assembler, AtomicOp, Cond, Helper, Reg, Size, Width};
use ringtap_sys::bpf::XdpMode;
use ringtap_sys::tap::layout;

use super::{Ends, Rings, STORES_ARE_ORDERED, Tap, give_back, offset, slot, state};
use crate::describe::KernelClock;
use crate::hook::HookPoint;
use crate::options::Stage;

/// The first number of polls, and the distance between two: 1 is not among them, which marks a record that is
/// stamped alone.
pub(super) const NUMBERS: i32 = 2;
/// The value of `busy` while a record with its own stamp is written.
pub(super) const WRITING: i32 = 1;

impl Tap<'_> {
    /// Returns whether packets of a poll have one stamp. Only drivers call programs in polls and nowhere
    /// else.
    pub(super) fn stamps_by_poll(&self) -> bool {
        self.clock == KernelClock::TaiByPoll
            && self.place == HookPoint::Xdp(XdpMode::Native)
            && self.stage == Stage::Copy
    }

    /// Puts the poll's stamp into slot TIME, and takes the ring.
    pub(super) fn stamp_by_poll(&self, asm: &mut Assembler, ends: Ends) {
        let (first, known) = (asm.label(), asm.label());
        let busy = offset(layout::BUSY);
        asm.call(Helper::Jiffies64);
        asm.load(Size::Dw, Reg::R1, Reg::R8, busy);
        asm.load(Size::Dw, Reg::R2, Reg::R7, state::POLL);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, Reg::R2, first);
        asm.load(Size::Dw, Reg::R3, Reg::R7, state::TICK);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R3, Reg::R0, known);
        asm.place(first);
        asm.mov64(Reg::R4, Reg::R0);
        asm.add64(Reg::R2, NUMBERS);
        if self.borrows() {
            // Another processor may be writing a record here. Otherwise it is nobody's, or this poll's.
            asm.jump_if(Cond::Eq, Width::W64, Reg::R1, WRITING, ends.held);
            asm.mov64(Reg::R0, Reg::R1);
            asm.atomic(Size::Dw, AtomicOp::CompareExchange, Reg::R8, busy, Reg::R2);
            asm.jump_if(Cond::Ne, Width::W64, Reg::R0, Reg::R1, ends.held);
            asm.place(ends.taken);
        } else {
            asm.mov64(Reg::R1, Reg::R2);
            asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R8, busy, Reg::R1);
            if !STORES_ARE_ORDERED {
                // A branch on the old value, without which AArch64 may read the clock first.
                let behind = asm.label();
                asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, behind);
                asm.place(behind);
            }
        }
        asm.store(Size::Dw, Reg::R7, state::TICK, Reg::R4);
        asm.store(Size::Dw, Reg::R7, state::POLL, Reg::R2);
        self.read_clock(Helper::KtimeGetTaiNs, asm);
        asm.store(Size::Dw, Reg::R7, state::STAMP, Reg::R0);
        asm.place(known);
        asm.load(Size::Dw, Reg::R0, Reg::R7, state::STAMP);
        asm.store(Size::Dw, Reg::R10, slot::TIME, Reg::R0);
    }
}

/// Returns the program for the end of each poll: it releases this processor's ring. `rings` is their map.
pub(in super::super) fn code_at_end_of_poll(rings: Rings) -> Vec<u64> {
    let mut asm = Assembler::new();
    let done = asm.label();
    let busy = offset(layout::BUSY);
    asm.store_imm(Size::Dw, Reg::R10, slot::KEY, 0);
    asm.call(Helper::GetSmpProcessorId);
    asm.store(Size::W, Reg::R10, slot::KEY, Reg::R0);
    rings.look_up(done, &mut asm);
    asm.load(Size::Dw, Reg::R1, Reg::R0, busy);
    // A smaller number is another processor's, which borrows the ring, or nobody's.
    asm.jump_if(Cond::Lt, Width::W64, Reg::R1, NUMBERS, done);
    give_back(Reg::R0, &mut asm);
    asm.place(done);
    asm.mov32(Reg::R0, 0);
    asm.exit();
    // All labels are placed, and near.
    asm.finish().unwrap_or_default()
}
