//! The counting program: the total, then each filter in turn, then the verdict.
//!
//! The filters are written one after the other into one program, each as [`ringtap_filter::ebpf::lower`]
//! writes it. After one filter none of its state matters, so the verifier meets known states: its work grows
//! with the number of filters, not with the number of their outcomes.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Exits, Hook, STACK_BYTES, Vlan, lower, scratch};
use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Helper, Reg, Size, Width};
use ringtap_sys::bpf::ProgramKind;

use super::StatError;
use super::counters::{Counters, slot_offset};
use crate::emit::{add_packet, as_imm, load_value};
use crate::filter::at_hook;
use crate::hook::{HookPoint, Side, TagRestorer};
use crate::{Filter, LinkType, Mode};

/// The values that a program keeps while filters run, on the stack below theirs.
mod stack {
    use super::STACK_BYTES;

    /// The address of this processor's stretch of counters.
    pub(super) const COUNTERS: i16 = -STACK_BYTES - 8;
    /// The packet's length, in bytes.
    pub(super) const LENGTH: i16 = -STACK_BYTES - 16;
    /// Whether a filter has accepted the packet.
    pub(super) const ACCEPTED: i16 = -STACK_BYTES - 24;
    /// The VLAN tag that is restored: two slots.
    pub(super) const TAG: i16 = -STACK_BYTES - 40;
}

/// Offsets in the hooks' contexts (`struct xdp_md`, `struct __sk_buff`).
mod context {
    pub(super) const XDP_DATA: i16 = 0;
    pub(super) const XDP_DATA_END: i16 = 4;
    pub(super) const SKB_LEN: i16 = 0;
    pub(super) const SKB_VLAN_PRESENT: i16 = 20;
}

/// Bytes of a VLAN tag.
const TAG_BYTES: i32 = 4;

/// The input for programs.
pub(super) struct Emission<'a> {
    pub(super) programs: &'a [Program],
    pub(super) link_type: LinkType,
    pub(super) counters: &'a Counters,
    pub(super) mode: Mode,
    /// Whether XDP programs may get packets in several buffers.
    pub(super) xdp_frags: bool,
    /// Restores VLAN tags at XDP.
    pub(super) tag_restorer: Option<TagRestorer>,
    /// Whether the kernel has 32-bit jumps.
    pub(super) long_jumps: bool,
}

/// The program for each kind of hook, in the kernel's encoding.
pub(super) struct Code {
    xdp: Vec<u64>,
    received: Vec<u64>,
    sent: Vec<u64>,
    xdp_frags: bool,
}

impl Code {
    /// Returns the program for a place.
    pub(super) fn of(&self, place: HookPoint) -> (ProgramKind, &[u64]) {
        if place.is_xdp() {
            let frags = self.xdp_frags;
            (ProgramKind::Xdp { frags }, &self.xdp)
        } else if place.is_ingress() {
            (ProgramKind::SchedCls, &self.received)
        } else {
            (ProgramKind::SchedCls, &self.sent)
        }
    }
}

impl Emission<'_> {
    /// Writes the programs. `filters` appear in errors.
    pub(super) fn code(&self, filters: &[Filter]) -> Result<Code, StatError> {
        let frags = self.xdp_frags;
        let vlan = if self.link_type == LinkType::ETHERNET {
            Vlan::Restored
        } else {
            Vlan::AsKept
        };
        let xdp = HookPoint::Xdp(ringtap_sys::bpf::XdpMode::Native);
        let [received, sent] = [Side::Ingress, Side::Egress].map(HookPoint::Tcx);
        Ok(Code {
            xdp: self.program(Hook::Xdp { frags }, xdp, filters)?,
            received: self.program(Hook::Tcx(vlan), received, filters)?,
            sent: self.program(Hook::Tcx(vlan), sent, filters)?,
            xdp_frags: frags,
        })
    }

    fn program(
        &self,
        hook: Hook,
        place: HookPoint,
        filters: &[Filter],
    ) -> Result<Vec<u64>, StatError> {
        let mut asm = Assembler::new();
        asm.allow_long_jumps(self.long_jumps);
        asm.mov64(Reg::R6, Reg::R1);
        if let (Some(restorer), true) = (self.tag_restorer, place.is_xdp()) {
            restorer.write_restore(stack::TAG, &mut asm);
        }
        self.begin(hook, place, &mut asm);
        self.count(self.counters.total_slot(place.is_ingress()), &mut asm);
        for (slot, (program, filter)) in self.programs.iter().zip(filters).enumerate() {
            let exits = Exits {
                accept: asm.label(),
                reject: asm.label(),
            };
            let program = at_hook(program, place);
            lower(&program, hook, &mut asm, exits).map_err(|source| StatError::Filter {
                number: slot + 1,
                expression: filter.expression().to_owned(),
                source,
            })?;
            asm.place(exits.accept);
            asm.load(Size::Dw, Reg::R1, Reg::R10, stack::COUNTERS);
            asm.load(Size::Dw, Reg::R2, Reg::R10, stack::LENGTH);
            self.count(slot, &mut asm);
            if self.mode == Mode::Steal {
                asm.store_imm(Size::Dw, Reg::R10, stack::ACCEPTED, 1);
            }
            asm.place(exits.reject);
        }
        self.end(place, &mut asm);
        Ok(asm.finish()?)
    }

    /// Puts the address of the counters into R1 and the length into R2, and both on the stack.
    fn begin(&self, hook: Hook, place: HookPoint, asm: &mut Assembler) {
        write_length(hook, asm);
        asm.store(Size::Dw, Reg::R10, stack::LENGTH, Reg::R7);
        if self.mode == Mode::Steal {
            asm.store_imm(Size::Dw, Reg::R10, stack::ACCEPTED, 0);
        }
        let known = asm.label();
        asm.call(Helper::GetSmpProcessorId);
        let cpus = as_imm(self.counters.cpus());
        asm.jump_if(Cond::Lt, Width::W64, Reg::R0, cpus, known);
        // For the verifier: there is no such processor.
        asm.mov32(Reg::R0, place.verdict_pass());
        asm.exit();
        asm.place(known);
        asm.alu64(AluOp::Mul, Reg::R0, as_imm(self.counters.stride()));
        load_value(Reg::R1, self.counters.map().as_fd().as_raw_fd(), 0, asm);
        asm.add64(Reg::R1, Reg::R0);
        asm.store(Size::Dw, Reg::R10, stack::COUNTERS, Reg::R1);
        asm.mov64(Reg::R2, Reg::R7);
    }

    /// Adds a packet to a slot; R1 has the address of the counters, R2 the length. Uses R3.
    fn count(&self, slot: usize, asm: &mut Assembler) {
        let packets = i16::try_from(slot_offset(slot)).unwrap_or(i16::MAX);
        add_packet(packets, self.counters.atomic(), asm);
    }

    fn end(&self, place: HookPoint, asm: &mut Assembler) {
        if self.mode == Mode::Steal {
            let pass = asm.label();
            asm.load(Size::Dw, Reg::R1, Reg::R10, stack::ACCEPTED);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, pass);
            asm.mov32(Reg::R0, place.verdict_drop());
            asm.exit();
            asm.place(pass);
        }
        if let (Some(restorer), true) = (self.tag_restorer, place.is_xdp()) {
            restorer.write_undo(stack::TAG, asm);
        }
        asm.mov32(Reg::R0, place.verdict_pass());
        asm.exit();
    }
}

/// Puts the packet's length on the wire into R7.
fn write_length(hook: Hook, asm: &mut Assembler) {
    match hook {
        Hook::Xdp { frags: true } => {
            asm.mov64(Reg::R1, Reg::R6);
            asm.call(Helper::XdpGetBuffLen);
            asm.mov64(Reg::R7, Reg::R0);
        }
        Hook::Xdp { frags: false } => {
            asm.load(Size::W, Reg::R7, Reg::R6, context::XDP_DATA_END);
            asm.load(Size::W, Reg::R0, Reg::R6, context::XDP_DATA);
            asm.alu64(AluOp::Sub, Reg::R7, Reg::R0);
        }
        Hook::Scratch => asm.load(Size::W, Reg::R7, Reg::R6, scratch::LEN),
        Hook::Tcx(_) | Hook::SocketFilter => {
            let untagged = asm.label();
            asm.load(Size::W, Reg::R7, Reg::R6, context::SKB_LEN);
            asm.load(Size::W, Reg::R0, Reg::R6, context::SKB_VLAN_PRESENT);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, untagged);
            asm.add64(Reg::R7, TAG_BYTES);
            asm.place(untagged);
        }
    }
}
