//! The XDP program: filter, stamp, redirect to the socket of the packet's queue.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Exits, Hook, LowerError, STACK_BYTES, lower};
use ringtap_filter::ebpf::{Assembler, Cond, Helper, Insn, Reg, Size, Width};
use ringtap_sys::bpf::Map;

use crate::describe::KernelClock;
use crate::emit::load_map;
use crate::hook::TagRestorer;
use crate::source::ProgramPart;

/// The bytes before a packet: the mark and the time.
pub(super) const METADATA_BYTES: usize = 16;
/// Distinguishes a stamp from older data.
pub(super) const MARK: u64 = 0x7269_6e67_7461_7031;

/// Offsets in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const RX_QUEUE: i16 = 16;
const XDP_PASS: i32 = 2;
/// The bytes of an Ethernet header, and where the type lies in it.
const ETHERNET: i32 = 14;
const ETHERTYPE: i16 = 12;
/// The type of the "slow protocols", LACP among them (IEEE 802.3, annex 57A).
const SLOW_PROTOCOLS: u16 = 0x8809;
/// The stack slot of a restored tag, below the filter's stack.
const TAG: i16 = -STACK_BYTES - 16;

/// Writes the program. Packets that the filter rejects go on to the host; with `spares_control`, so do the
/// control frames of a bond.
pub(super) fn write(
    filter: Option<&Program>,
    tags: Option<TagRestorer>,
    spares_control: bool,
    clock: KernelClock,
    sockets: &Map,
) -> Result<Assembler, LowerError> {
    let mut asm = Assembler::new();
    let exits = Exits {
        accept: asm.label(),
        reject: asm.label(),
    };
    asm.mark(ProgramPart::Tap.name());
    asm.mov64(Reg::R6, Reg::R1);
    if spares_control {
        write_control_passes(&mut asm);
    }
    if let Some(tags) = tags {
        tags.write_restore(TAG, &mut asm);
    }
    asm.mark(ProgramPart::Filter.name());
    match filter {
        Some(filter) => lower(filter, Hook::Xdp { frags: false }, &mut asm, exits)?,
        None => asm.jump(exits.accept),
    }
    asm.place(exits.accept);
    asm.mark(ProgramPart::Timestamp.name());
    write_stamp(clock, &mut asm);
    asm.mark(ProgramPart::Tap.name());
    asm.load(Size::W, Reg::R2, Reg::R6, RX_QUEUE);
    load_map(Reg::R1, sockets.as_fd().as_raw_fd(), &mut asm);
    // The verdict for a queue without a socket.
    asm.mov32(Reg::R3, XDP_PASS);
    asm.call(Helper::RedirectMap);
    asm.exit();
    asm.place(exits.reject);
    if let Some(tags) = tags {
        tags.write_undo(TAG, &mut asm);
    }
    asm.mov32(Reg::R0, XDP_PASS);
    asm.exit();
    Ok(asm)
}

/// Lets frames of the slow protocols pass before anything else: a bond whose members hear no LACP marks them
/// as down.
fn write_control_passes(asm: &mut Assembler) {
    let go_on = asm.label();
    asm.load(Size::W, Reg::R2, Reg::R6, DATA);
    asm.load(Size::W, Reg::R3, Reg::R6, DATA_END);
    asm.mov64(Reg::R4, Reg::R2);
    asm.add64(Reg::R4, ETHERNET);
    asm.jump_if(Cond::Gt, Width::W64, Reg::R4, Reg::R3, go_on);
    asm.load(Size::H, Reg::R5, Reg::R2, ETHERTYPE);
    let kind = i32::from(SLOW_PROTOCOLS.to_be());
    asm.jump_if(Cond::Ne, Width::W32, Reg::R5, kind, go_on);
    asm.mov32(Reg::R0, XDP_PASS);
    asm.exit();
    asm.place(go_on);
}

/// Puts mark and time before the packet, if the driver has room for them.
fn write_stamp(clock: KernelClock, asm: &mut Assembler) {
    let without = asm.label();
    asm.mov64(Reg::R1, Reg::R6);
    let bytes = i32::try_from(METADATA_BYTES).unwrap_or_default();
    asm.mov64(Reg::R2, -bytes);
    asm.call(Helper::XdpAdjustMeta);
    asm.jump_if(Cond::Ne, Width::W32, Reg::R0, 0, without);
    asm.call(match clock {
        KernelClock::Monotonic => Helper::KtimeGetNs,
        _ => Helper::KtimeGetTaiNs,
    });
    asm.load(Size::W, Reg::R2, Reg::R6, DATA_META);
    asm.load(Size::W, Reg::R3, Reg::R6, DATA);
    asm.mov64(Reg::R4, Reg::R2);
    asm.add64(Reg::R4, bytes);
    asm.jump_if(Cond::Gt, Width::W64, Reg::R4, Reg::R3, without);
    asm.push(Insn::LoadImm64 {
        dst: Reg::R5,
        value: MARK,
    });
    asm.store(Size::Dw, Reg::R2, 0, Reg::R5);
    asm.store(Size::Dw, Reg::R2, 8, Reg::R0);
    asm.place(without);
}
