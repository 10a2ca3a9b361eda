//! The copy of the program that reads the packet in place.
//!
//! R7 points to the packet, R1 after its readable part, and R2 to byte X, where that is known.

use std::collections::BTreeSet;

use super::ancillary::{self, skb, xdp};
use super::copy::{Copy, Placement, forget, write_nibble_times_four};
use super::flow::{Forget, Known, Needs};
use super::step::{A, Step, Target, X};
use super::view::{DIRECT_BOUND, LoadPlace};
use super::{Hook, LowerError};
use crate::ebpf::{Assembler, Cond, Label, Reg, Size, Width};

const PACKET: Reg = Reg::R7;
const END: Reg = Reg::R1;
const AT_X: Reg = Reg::R2;

/// Writes the reachable instructions; returns those at which the slow copy is entered.
pub(super) fn write(
    copy: &Copy<'_>,
    reached: &[bool],
    needs: &Needs,
    asm: &mut Assembler,
) -> Result<BTreeSet<usize>, LowerError> {
    let steps = copy.lowering.steps;
    let mut known = vec![None::<Known>; steps.len()];
    known[0] = Some(Known::NOTHING);
    let mut fast = Fast {
        copy,
        asm,
        needs,
        at: 0,
        known: Known::NOTHING,
        failing: BTreeSet::new(),
    };
    if steps.iter().any(|step| step.reads_packet()) {
        let (data, _) = fast.context();
        fast.asm.load(Size::W, PACKET, Reg::R6, data);
        fast.load_end();
    }
    for (at, &step) in steps.iter().enumerate().filter(|&(at, _)| reached[at]) {
        fast.at = at;
        fast.known = known[at].unwrap_or(Known::NOTHING);
        fast.asm.place(copy.labels[at]);
        fast.forget();
        fast.step(step)?;
        for next in step.successors(at).into_iter().flatten() {
            let met = known[next].map_or(fast.known, |before| before.join(fast.known));
            known[next] = Some(met);
        }
    }
    Ok(fast.failing)
}

/// The state while the copy is written.
struct Fast<'a> {
    copy: &'a Copy<'a>,
    asm: &'a mut Assembler,
    needs: &'a Needs,
    at: usize,
    known: Known,
    failing: BTreeSet<usize>,
}

impl Fast<'_> {
    /// Hides a register's value from the verifier. A header's length stays known, so that it can be
    /// added to the packet's address without a check.
    fn forget(&mut self) {
        let Forget { a, x } = self.copy.lowering.forget[self.at];
        if a {
            forget(A, A, self.asm);
        }
        if x && !self.known.is_header_length {
            forget(X, X, self.asm);
        }
    }

    fn step(&mut self, step: Step) -> Result<(), LowerError> {
        match step {
            Step::Absolute { k, size } => self.constant(k, size, Target::A),
            Step::HeaderLength { k } => {
                self.constant(k, Size::B, Target::X);
                write_nibble_times_four(X, self.asm);
            }
            Step::Indirect { k, size } => self.indirect(k, size),
            Step::Length(target) => {
                let called = self.copy.write_length(target, self.asm);
                self.after_call(called);
            }
            Step::Ancillary { offset } => {
                let called = ancillary::write(
                    offset,
                    self.at,
                    self.copy.hook(),
                    self.copy.process(),
                    self.asm,
                )?;
                self.after_call(called);
            }
            _ => self.copy.write_plain(step, self.at, self.asm),
        }
        if step.writes(Target::X) {
            self.known.forget_x();
            self.known.is_header_length = matches!(step, Step::HeaderLength { .. });
        }
        Ok(())
    }

    /// Returns the offsets of `data` and `data_end` in the context.
    fn context(&self) -> (i16, i16) {
        match self.copy.hook() {
            Hook::Xdp { .. } => (xdp::DATA, xdp::DATA_END),
            Hook::Tcx(_) | Hook::SocketFilter | Hook::Scratch => (skb::DATA, skb::DATA_END),
        }
    }

    fn load_end(&mut self) {
        let (_, end) = self.context();
        self.asm.load(Size::W, END, Reg::R6, end);
    }

    fn after_call(&mut self, called: bool) {
        if called {
            self.load_end();
            self.known.from_x = 0;
        }
    }

    /// Returns the label to jump to if the bytes cannot be read in place.
    fn otherwise(&mut self) -> Label {
        match self.copy.placement {
            Placement::Fast { slow: Some(slow) } => {
                self.failing.insert(self.at);
                slow[self.at]
            }
            Placement::Fast { slow: None } | Placement::Slow => self.copy.reject(),
        }
    }

    /// Jumps away unless `bytes` bytes after `from` are readable.
    fn check(&mut self, from: Reg, bytes: u32) {
        let otherwise = self.otherwise();
        self.asm.mov64(Reg::R0, from);
        self.asm.add64(Reg::R0, bytes.cast_signed());
        self.asm
            .jump_if(Cond::Gt, Width::W64, Reg::R0, END, otherwise);
    }

    /// Writes a load at a constant offset.
    fn constant(&mut self, k: u32, size: Size, target: Target) {
        let Some(extent) = self.copy.view.extent(k, size) else {
            let otherwise = self.otherwise();
            // The code after the check never runs, but the verifier requires a path to it.
            self.asm.mov32(target.reg(), 0);
            return self
                .asm
                .jump_if(Cond::Eq, Width::W32, target.reg(), 0, otherwise);
        };
        if self.known.constant < extent {
            let need = self.needs.constant[self.at].clamp(extent, DIRECT_BOUND);
            self.check(PACKET, need);
            self.known.constant = need;
        }
        match self.copy.view.place(k, size) {
            LoadPlace::Packet(at) => {
                self.asm.load(size, target.reg(), PACKET, offset(at));
                self.asm.from_network(target.reg(), size);
            }
            LoadPlace::Mixed | LoadPlace::Nowhere => {
                let byte = |at, asm: &mut Assembler| {
                    asm.load(Size::B, Reg::R0, PACKET, offset(at));
                };
                self.copy.write_mixed(k, size, target, self.asm, byte);
            }
        }
    }

    /// Writes a load at X plus a constant.
    fn indirect(&mut self, k: u32, size: Size) {
        let target = Target::A.reg();
        let Some(load) = self.copy.view.indirect(k, size) else {
            let otherwise = self.otherwise();
            self.asm.mov32(target, 0);
            return self.asm.jump_if(Cond::Eq, Width::W32, target, 0, otherwise);
        };
        if self.known.least_x < load.least_x {
            let otherwise = self.otherwise();
            let x = if self.known.is_header_length {
                X
            } else {
                self.forgotten_x()
            };
            let least = load.least_x.cast_signed();
            self.asm.jump_if(Cond::Lt, Width::W32, x, least, otherwise);
            self.known.least_x = load.least_x;
        }
        if self.known.from_x == 0 {
            self.point_to_x();
        }
        if self.known.from_x < load.extent {
            let need = self.needs.from_x[self.at].clamp(load.extent, DIRECT_BOUND);
            self.check(AT_X, need);
            self.known.from_x = need;
        }
        self.asm.load(size, target, AT_X, offset(load.offset));
        self.asm.from_network(target, size);
    }

    fn point_to_x(&mut self) {
        if self.known.is_header_length {
            self.asm.mov64(AT_X, PACKET);
            return self.asm.add64(AT_X, X);
        }
        let otherwise = self.otherwise();
        let x = self.forgotten_x();
        let bound = DIRECT_BOUND.cast_signed();
        self.asm
            .jump_if(Cond::Gt, Width::W64, Reg::R0, bound, otherwise);
        self.asm.mov64(AT_X, PACKET);
        self.asm.add64(AT_X, x);
    }

    /// Copies X to R0, with its value hidden from the verifier.
    fn forgotten_x(&mut self) -> Reg {
        forget(X, Reg::R0, self.asm);
        Reg::R0
    }
}

/// Converts an offset within [`DIRECT_BOUND`].
fn offset(at: u32) -> i16 {
    i16::try_from(at).unwrap_or(i16::MAX)
}
