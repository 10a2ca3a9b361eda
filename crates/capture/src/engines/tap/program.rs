//! The program that runs in the kernel for each packet: filter, sample, stamp, copy, publish.
//!
//! It implements the producer's side of the protocol in [`ringtap_sys::tap`]. Every record is a complete
//! pcapng enhanced packet block (draft-ietf-opsawg-pcapng, section 4.3) in the machine's byte order.
//!
//! Registers: R6 context, R7 this CPU's state, R8 the ring, R9 the record. Values that must survive a call
//! are on the stack, below the filter's part.

mod adapter;
mod borrow;
mod cut;
pub(super) mod drops;
mod length;
mod owner;
mod poll;
mod record;

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{self, Exits, Hook, LowerError, STACK_BYTES, Vlan};
use ringtap_filter::ebpf::{
    AluOp, AssembleError, Assembler, AtomicOp, Cond, Helper, Label, MarkedCode, Reg, Size, Width,
};
use ringtap_sys::tap::{Geometry, layout};

use crate::describe::KernelClock;
use crate::emit::{load_map, load_slot, load_value};
use crate::hook::{HookPoint, StampReader, TagRestorer};
use crate::options::{SampleMode, Stage};
use crate::source::ProgramPart;
use crate::who::OwnerMaps;

/// The maps of the program, by their fds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    /// Per-CPU state, see [`state`].
    pub(super) state: i32,
    pub(super) rings: Rings,
    pub(super) control: i32,
    pub(super) doorbell: i32,
    /// The numbers of interfaces in records, by the kernel's number. With one interface there is no map.
    pub(super) interfaces: Option<i32>,
    /// How many numbers there are for processors with a ring.
    pub(super) processors: u32,
    /// The owners of sockets, if the processes of packets are recorded; at tcx only.
    pub(super) owners: Option<OwnerMaps>,
}

/// The map of the rings, by its fd; its elements are by CPU.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rings {
    /// They are its values.
    Values(i32),
    /// Each is the one value of a map of its own, which this one holds.
    Maps(i32),
}

impl Rings {
    /// Puts the address of the ring of the processor in slot KEY into R0; goes to `none` if there is none. R1
    /// to R5 are lost, and the slot may be.
    fn look_up(self, none: Label, asm: &mut Assembler) {
        let (Self::Values(fd) | Self::Maps(fd)) = self;
        load_map(Reg::R1, fd, asm);
        look_up(asm);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
        if let Self::Maps(_) = self {
            asm.store_imm(Size::W, Reg::R10, slot::KEY, 0);
            asm.mov64(Reg::R1, Reg::R0);
            look_up(asm);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
        }
    }
}

/// How packets of all interfaces get one form: the header LINUX_SLL2 instead of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cooked {
    /// Bytes of the interface's own header: 14 or none.
    pub(super) header: u32,
    /// The type of its link layer (`ARPHRD_…`).
    pub(super) hardware_type: u16,
}

/// The settings of a program.
#[derive(Clone, Debug)]
pub(super) struct Tap<'a> {
    /// The hook. At XDP, packets in several buffers are captured completely.
    pub(super) place: HookPoint,
    pub(super) filter: Option<&'a Program>,
    /// The filter that also tests the packet's process; at tcx only.
    pub(super) process: Option<&'a Program>,
    /// The snapshot length.
    pub(super) snaplen: u32,
    /// The maximum length that the ring's slack holds.
    pub(super) room: u32,
    pub(super) sample: Option<(u32, SampleMode)>,
    pub(super) clock: KernelClock,
    /// Reads the adapter's stamps, if they are requested; the clock is then for packets without.
    pub(super) stamps: Option<StampReader>,
    /// Restores VLAN tags at XDP.
    pub(super) tags: Option<TagRestorer>,
    /// The form of packets, if not their own; at tcx only.
    pub(super) cooked: Option<Cooked>,
    /// The settings of a program for dropped packets. It runs at a tracepoint, whatever `place` is.
    pub(super) drops: Option<&'a Drops>,
    /// Whether the packet ends here.
    pub(super) steal: bool,
    pub(super) geometry: Geometry,
    pub(super) maps: Maps,
    /// The number of the device's network namespace, if processes are recorded.
    pub(super) namespace: u32,
    /// Whether a processor whose ring is full writes to other processors' rings.
    pub(super) borrow: bool,
    /// The last step for each packet.
    pub(super) stage: Stage,
}

/// The reason why there is no program.
#[derive(Debug, thiserror::Error)]
pub(super) enum EmitError {
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

use drops::Drops;
pub(super) use poll::code_at_end_of_poll;

/// Returns the bytes of a record for `caplen` bytes of a packet, with all possible options but that of a dropped
/// one.
pub(super) const fn largest_record(caplen: u32) -> u32 {
    caplen.next_multiple_of(4) + record::FIXED + owner::PROCESS + record::DROPCOUNT
}

/// The state, which is not mapped: one value with [`state::EACH`] bytes for what processors share, and as
/// many for each of them; offsets of 64-bit words.
pub(super) mod state {
    /// Shared: packets that came on a CPU that has no ring.
    pub(in super::super) const NO_RING: i16 = 0;
    /// Shared: dropped packets that could not be read.
    pub(in super::super) const NO_PLACE: i16 = 8;

    /// True head, in bytes.
    pub(super) const HEAD: i16 = 0;
    /// Packets lost since the last record.
    pub(super) const PENDING: i16 = 8;
    /// Packets to skip before the next one that is kept.
    pub(super) const SAMPLE: i16 = 16;
    /// Records so far.
    pub(super) const COUNT: i16 = 24;
    /// Captured bytes so far.
    pub(super) const CAPTURED: i16 = 32;
    /// The stamp of this poll, the tick in which it was taken, and the poll's number.
    pub(super) const STAMP: i16 = 40;
    pub(super) const TICK: i16 = 48;
    pub(super) const POLL: i16 = 56;
    /// The processor whose ring is tried first for room.
    pub(super) const LENDER: i16 = 64;
    /// The bytes of each part, a power of two: no two processors write to one cache line or its neighbour,
    /// which processors fetch together.
    pub(super) const EACH: u32 = 256;

    /// Returns all bytes for this number of processors.
    pub(in super::super) fn bytes(processors: u32) -> u32 {
        (processors + 1) * EACH
    }
}

/// Slots of the stack, of eight bytes each.
mod slot {
    use super::STACK_BYTES;
    pub(super) const KEY: i16 = -STACK_BYTES - 8;
    pub(super) const LIMIT: i16 = -STACK_BYTES - 16;
    pub(super) const TIME: i16 = -STACK_BYTES - 24;
    pub(super) const LEN: i16 = -STACK_BYTES - 32;
    pub(super) const CAPLEN: i16 = -STACK_BYTES - 40;
    pub(super) const PADDED: i16 = -STACK_BYTES - 48;
    pub(super) const TOTAL: i16 = -STACK_BYTES - 56;
    pub(super) const HEAD: i16 = -STACK_BYTES - 64;
    /// The VLAN tag that is restored: two slots.
    pub(super) const TAG: i16 = -STACK_BYTES - 80;
    /// Bytes of the options that name the process, and its tag of 56 bytes.
    pub(super) const OPTIONS: i16 = TAG - 8;
    pub(super) const PROCESS: i16 = OPTIONS - 56;
    /// Addresses and ports of a socket; a header of IP; the question for a route.
    pub(super) const TUPLE: i16 = PROCESS - 40;
    pub(super) const IP: i16 = TUPLE - 40;
    pub(super) const FIB: i16 = IP - 64;
    /// The key of a connection, in the same place.
    pub(super) const CONNECTION: i16 = FIB;
    /// The structures of a dropped packet and of the socket that should have received it, in the same place.
    pub(super) const DROPPED: i16 = FIB;
    pub(super) const RECEIVER: i16 = FIB + 8;
}

/// Offsets in `struct __sk_buff`.
mod skb {
    pub(super) const LEN: i16 = 0;
    pub(super) const PACKET_TYPE: i16 = 4;
    pub(super) const PROTOCOL: i16 = 16;
    pub(super) const VLAN_PRESENT: i16 = 20;
    pub(super) const VLAN_TCI: i16 = 24;
    pub(super) const VLAN_PROTO: i16 = 28;
    pub(super) const INTERFACE: i16 = 40;
    pub(super) const DATA: i16 = 76;
    pub(super) const DATA_END: i16 = 80;
    pub(super) const SOCKET: i16 = 168;
}

/// Offsets in `struct xdp_md`.
mod xdp {
    pub(super) const DATA: i16 = 0;
    pub(super) const DATA_END: i16 = 4;
}

/// The maximum that `bpf_xdp_load_bytes` copies.
const XDP_COPY_MAX: u32 = 0xffff;
/// `BPF_RB_FORCE_WAKEUP`.
const FORCE_WAKEUP: i32 = 2;
/// Bytes put into the doorbell's buffer for one ring.
const RING_BYTES: i32 = 8;

/// The labels at which the program continues after its outcomes.
#[derive(Clone, Copy)]
struct Ends {
    sampled: Label,
    /// This ring has no room.
    full: Label,
    /// No ring that was tried has room.
    nowhere: Label,
    unreadable: Label,
    /// Another program works on the ring; and where to continue once it is taken.
    held: Label,
    taken: Label,
    contended: Label,
    no_ring: Label,
    /// A dropped packet whose bytes cannot be read.
    lost: Label,
    /// The packet matches, whatever happened to its record.
    done: Label,
    /// The packet does not match.
    pass: Label,
}

impl Tap<'_> {
    /// Returns the code.
    pub(super) fn emit(&self, long_jumps: bool) -> Result<MarkedCode, EmitError> {
        let mut asm = Assembler::new();
        asm.allow_long_jumps(long_jumps);
        let (full, contended) = (asm.label(), asm.label());
        let unless_borrowing = |asm: &mut Assembler, same| {
            if self.borrows() { asm.label() } else { same }
        };
        let ends = Ends {
            sampled: asm.label(),
            full,
            nowhere: unless_borrowing(&mut asm, full),
            unreadable: asm.label(),
            held: unless_borrowing(&mut asm, contended),
            taken: asm.label(),
            contended,
            no_ring: asm.label(),
            lost: asm.label(),
            done: asm.label(),
            pass: asm.label(),
        };
        asm.mark(ProgramPart::Tap.name());
        match self.drops {
            Some(drops) => {
                let (leave, lost) = (ends.pass, ends.lost);
                drops.gather(self.maps.state, drops::Out { leave, lost }, &mut asm);
            }
            None => asm.mov64(Reg::R6, Reg::R1),
        }
        if let Some(tags) = self.tags() {
            tags.write_restore(slot::TAG, &mut asm);
        }
        if self.stage < Stage::Copy {
            self.stop_early(&mut asm, ends)?;
            return Ok(asm.finish_marked()?);
        }
        self.note_received(&mut asm);
        self.filter(&mut asm, ends)?;
        self.find_process(&mut asm);
        self.filter_process(&mut asm, ends)?;
        self.find_ring(&mut asm, ends);
        self.sample(&mut asm, ends);
        self.stamp(&mut asm, ends);
        let written = asm.label();
        self.write_cut_record(written, &mut asm);
        self.measure(&mut asm, ends);
        self.write_record(&mut asm, ends);
        asm.place(written);
        self.publish(&mut asm);
        self.ring_the_bell(&mut asm, ends);
        self.finish(&mut asm, ends);
        if self.borrows() {
            self.wait_for_ring(&mut asm, ends);
            self.borrow(&mut asm, ends);
        }
        Ok(asm.finish_marked()?)
    }

    /// Ends the program of a measurement before it captures anything.
    fn stop_early(&self, asm: &mut Assembler, ends: Ends) -> Result<(), EmitError> {
        if self.stage >= Stage::Filter {
            self.filter(asm, ends)?;
        }
        if self.stage >= Stage::Timestamp {
            self.stamp(asm, ends);
        }
        asm.place(ends.pass);
        if let Some(tags) = self.tags() {
            tags.write_undo(slot::TAG, asm);
        }
        asm.mov32(Reg::R0, self.place.verdict_pass());
        asm.exit();
        Ok(())
    }

    /// Leaves a sign that received packets reach the program. Usually the sign is already set since the
    /// reader's last look, so this is only a load from a cache line that also has the clock's offset.
    fn note_received(&self, asm: &mut Assembler) {
        if !self.place.is_ingress() || self.drops.is_some() {
            return;
        }
        let noted = asm.label();
        self.load_control(Reg::R1, asm);
        let received = offset(layout::RECEIVED);
        asm.load(Size::W, Reg::R2, Reg::R1, received);
        asm.jump_if(Cond::Ne, Width::W32, Reg::R2, 0, noted);
        asm.store_imm(Size::W, Reg::R1, received, 1);
        asm.place(noted);
    }

    fn hook(&self) -> Hook {
        if self.drops.is_some() {
            Hook::Scratch
        } else if self.place.is_xdp() {
            Hook::Xdp { frags: true }
        } else {
            Hook::Tcx(Vlan::Restored)
        }
    }

    /// Returns the code that restores VLAN tags here.
    fn tags(&self) -> Option<TagRestorer> {
        self.tags.filter(|_| self.place.is_xdp())
    }

    /// Puts the number of bytes to keep into slot LIMIT.
    fn filter(&self, asm: &mut Assembler, ends: Ends) -> Result<(), EmitError> {
        asm.mark(ProgramPart::Filter.name());
        if let Some(filter) = self.filter {
            let accept = asm.label();
            let exits = Exits {
                accept,
                reject: ends.pass,
            };
            lower::lower(filter, self.hook(), asm, exits)?;
            asm.place(accept);
            let cut = asm.label();
            let snaplen = self.snaplen.cast_signed();
            asm.jump_if(Cond::Le, Width::W32, Reg::R0, snaplen, cut);
            asm.mov32(Reg::R0, snaplen);
            asm.place(cut);
            asm.mov32(Reg::R0, Reg::R0);
            asm.store(Size::Dw, Reg::R10, slot::LIMIT, Reg::R0);
        } else {
            let snaplen = self.snaplen.cast_signed();
            asm.store_imm(Size::Dw, Reg::R10, slot::LIMIT, snaplen);
        }
        Ok(())
    }

    /// Finds this CPU's state and ring, and takes the ring.
    fn find_ring(&self, asm: &mut Assembler, ends: Ends) {
        asm.mark(ProgramPart::Tap.name());
        asm.call(Helper::GetSmpProcessorId);
        asm.store(Size::W, Reg::R10, slot::KEY, Reg::R0);
        self.load_state(Reg::R7, Reg::R0, ends.no_ring, asm);
        self.maps.rings.look_up(ends.no_ring, asm);
        asm.mov64(Reg::R8, Reg::R0);
        if self.stamps_by_poll() {
            return;
        }
        asm.mov64(Reg::R1, 1);
        let busy = offset(layout::BUSY);
        asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R8, busy, Reg::R1);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, ends.held);
        if self.borrows() {
            asm.place(ends.taken);
        }
    }

    /// Puts the address of a processor's state into `dst`. `number` holds the processor's number, and is
    /// lost. Goes to `none` if there is no state.
    fn load_state(&self, dst: Reg, number: Reg, none: Label, asm: &mut Assembler) {
        let processors = self.maps.processors.cast_signed();
        asm.mov32(number, number);
        asm.jump_if(Cond::Ge, Width::W64, number, processors, none);
        asm.alu64(AluOp::Lsh, number, state::EACH.ilog2().cast_signed());
        load_value(dst, self.maps.state, state::EACH, asm);
        asm.add64(dst, number);
    }

    fn sample(&self, asm: &mut Assembler, ends: Ends) {
        match self.sample {
            None | Some((0 | 1, _)) => {}
            Some((one_in, SampleMode::Random)) => {
                asm.call(Helper::GetPrandomU32);
                let share = (u32::MAX / one_in).cast_signed();
                asm.jump_if(Cond::Ge, Width::W32, Reg::R0, share, ends.sampled);
            }
            Some((one_in, SampleMode::Regular)) => {
                let keep = asm.label();
                asm.load(Size::Dw, Reg::R1, Reg::R7, state::SAMPLE);
                asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, keep);
                add(Reg::R7, state::SAMPLE, -1, asm);
                asm.jump(ends.sampled);
                asm.place(keep);
                asm.mov32(Reg::R1, (one_in - 1).cast_signed());
                asm.store(Size::Dw, Reg::R7, state::SAMPLE, Reg::R1);
            }
        }
    }

    fn stamp(&self, asm: &mut Assembler, ends: Ends) {
        asm.mark(ProgramPart::Timestamp.name());
        if let Some(stamps) = self.stamps {
            return self.stamp_by_adapter(stamps, asm);
        }
        if self.stamps_by_poll() {
            return self.stamp_by_poll(asm, ends);
        }
        self.stamp_by_host(asm);
    }

    fn stamp_by_host(&self, asm: &mut Assembler) {
        let helper = match self.clock {
            KernelClock::Tai | KernelClock::TaiByPoll => Helper::KtimeGetTaiNs,
            KernelClock::Monotonic => Helper::KtimeGetNs,
            KernelClock::Coarse => Helper::KtimeGetCoarseNs,
            KernelClock::None => {
                return asm.store_imm(Size::Dw, Reg::R10, slot::TIME, 0);
            }
        };
        self.read_clock(helper, asm);
        asm.store(Size::Dw, Reg::R10, slot::TIME, Reg::R0);
    }

    /// Puts the wall clock into R0.
    fn read_clock(&self, helper: Helper, asm: &mut Assembler) {
        asm.call(helper);
        self.load_control(Reg::R1, asm);
        let shift = offset(layout::CLOCK_OFFSET);
        asm.load(Size::Dw, Reg::R1, Reg::R1, shift);
        asm.add64(Reg::R0, Reg::R1);
    }

    fn load_control(&self, dst: Reg, asm: &mut Assembler) {
        load_value(dst, self.maps.control, 0, asm);
    }

    /// Computes length and captured length, and whether the ring has room; puts the record's address into R9.
    fn measure(&self, asm: &mut Assembler, ends: Ends) {
        asm.mark(ProgramPart::Tap.name());
        if self.drops.is_some() {
            Drops::measure(asm);
        } else if self.place.is_xdp() {
            length::load_length(asm);
        } else {
            let plain = asm.label();
            asm.load(Size::W, Reg::R0, Reg::R6, skb::LEN);
            asm.load(Size::W, Reg::R1, Reg::R6, skb::VLAN_PRESENT);
            asm.jump_if(Cond::Eq, Width::W32, Reg::R1, 0, plain);
            asm.alu32(AluOp::Add, Reg::R0, record::TAG.cast_signed());
            asm.place(plain);
        }
        if let Some(Cooked { header, .. }) = self.cooked {
            let header = header.cast_signed();
            asm.jump_if(Cond::Lt, Width::W64, Reg::R0, header, ends.unreadable);
            asm.add64(Reg::R0, record::COOKED.cast_signed() - header);
        }
        asm.store(Size::Dw, Reg::R10, slot::LEN, Reg::R0);
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::LIMIT);
        let kept = asm.label();
        asm.jump_if(Cond::Ge, Width::W64, Reg::R0, Reg::R1, kept);
        asm.mov64(Reg::R1, Reg::R0);
        asm.place(kept);
        self.clamp(asm);
        // Helpers copy at least one byte. Verifiers before Linux 6.8 learn that from a comparison by order,
        // not from a test for zero.
        asm.jump_if(Cond::Lt, Width::W64, Reg::R1, 1, ends.unreadable);
        asm.store(Size::Dw, Reg::R10, slot::CAPLEN, Reg::R1);
        asm.add64(Reg::R1, 3);
        asm.alu64(AluOp::And, Reg::R1, -4);
        asm.store(Size::Dw, Reg::R10, slot::PADDED, Reg::R1);
        self.fit(asm, ends);
    }

    /// Returns the bytes of a record beside data and padding, without those that count losses.
    fn fixed(&self) -> u32 {
        let option = self.drops.map_or(0, |_| drops::OPTION_BYTES);
        record::FIXED + u32::from(option.unsigned_abs())
    }

    /// Finds room for a record whose padded length is in R1; puts the record's address into R9.
    fn fit(&self, asm: &mut Assembler, ends: Ends) {
        let lossless = asm.label();
        asm.add64(Reg::R1, self.fixed().cast_signed());
        self.add_process_length(asm);
        asm.load(Size::Dw, Reg::R2, Reg::R7, state::PENDING);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R2, 0, lossless);
        asm.add64(Reg::R1, record::DROPCOUNT.cast_signed());
        asm.place(lossless);
        asm.store(Size::Dw, Reg::R10, slot::TOTAL, Reg::R1);
        self.make_room(asm, ends.full);
    }

    /// Limits R1, the captured length, to what can be copied and what the ring was made for.
    fn clamp(&self, asm: &mut Assembler) {
        let most = if self.place.is_xdp() {
            self.room.min(XDP_COPY_MAX)
        } else {
            self.room
        };
        let fits = asm.label();
        asm.jump_if(Cond::Le, Width::W64, Reg::R1, most.cast_signed(), fits);
        asm.mov64(Reg::R1, most.cast_signed());
        add(Reg::R8, offset(layout::CLAMPED), 1, asm);
        asm.mov64(Reg::R1, most.cast_signed());
        asm.place(fits);
    }

    /// Puts the address of a record into R9 and the head after it into slot HEAD, if the ring has room;
    /// else goes to `full`. R1 holds its length; R0 and R2 are unchanged.
    fn make_room(&self, asm: &mut Assembler, full: Label) {
        let size = self.geometry.size();
        asm.load(Size::Dw, Reg::R3, Reg::R7, state::HEAD);
        asm.mov64(Reg::R4, Reg::R3);
        asm.add64(Reg::R4, Reg::R1);
        asm.store(Size::Dw, Reg::R10, slot::HEAD, Reg::R4);
        asm.mov64(Reg::R5, Reg::R8);
        asm.add64(Reg::R5, imm(self.geometry.tail() as u64));
        asm.load(Size::Dw, Reg::R5, Reg::R5, 0);
        asm.alu64(AluOp::Sub, Reg::R4, Reg::R5);
        asm.jump_if(Cond::Gt, Width::W64, Reg::R4, imm(size), full);
        // Records are multiples of four bytes; the mask says so to the verifier.
        asm.alu64(AluOp::And, Reg::R3, imm(size - 4));
        asm.mov64(Reg::R9, Reg::R8);
        asm.add64(Reg::R9, Reg::R3);
        asm.add64(Reg::R9, imm(self.geometry.data() as u64));
    }

    /// Stores slot, mark and number, in the order of the protocol.
    fn publish(&self, asm: &mut Assembler) {
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::HEAD);
        asm.load(Size::Dw, Reg::R5, Reg::R7, state::HEAD);
        asm.store(Size::Dw, Reg::R7, state::HEAD, Reg::R1);
        asm.load(Size::Dw, Reg::R2, Reg::R7, state::COUNT);
        asm.add64(Reg::R2, 1);
        asm.store(Size::Dw, Reg::R7, state::COUNT, Reg::R2);
        asm.load(Size::Dw, Reg::R3, Reg::R7, state::CAPTURED);
        asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
        asm.add64(Reg::R3, Reg::R4);
        asm.store(Size::Dw, Reg::R7, state::CAPTURED, Reg::R3);
        // R1 head, R2 number, R3 captured, R5 old head.
        element(
            Reg::R4,
            Reg::R2,
            layout::SLOT_COUNT as u64,
            layout::SLOT_BYTES,
            asm,
        );
        let at = offset(layout::SLOTS);
        asm.store(Size::Dw, Reg::R4, at, Reg::R1);
        asm.store(Size::Dw, Reg::R4, at + 8, Reg::R3);
        let same_chunk = asm.label();
        let shift = self.geometry.chunk_shift().cast_signed();
        asm.alu64(AluOp::Rsh, Reg::R5, shift);
        asm.mov64(Reg::R0, Reg::R1);
        asm.alu64(AluOp::Rsh, Reg::R0, shift);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, Reg::R5, same_chunk);
        let marks = self.geometry.marks();
        element(Reg::R4, Reg::R0, marks, layout::MARK_BYTES, asm);
        let at = offset(layout::MARKS);
        asm.store(Size::Dw, Reg::R4, at, Reg::R1);
        asm.store(Size::Dw, Reg::R4, at + 8, Reg::R2);
        asm.store(Size::Dw, Reg::R4, at + 16, Reg::R3);
        asm.place(same_chunk);
        let published = offset(layout::PUBLISHED);
        asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R8, published, Reg::R2);
        self.release(asm);
    }

    fn ring_the_bell(&self, asm: &mut Assembler, ends: Ends) {
        // This still belongs to publishing: the cost of its exchange shows a few instructions later.
        self.load_control(Reg::R1, asm);
        asm.load(Size::Dw, Reg::R2, Reg::R1, offset(layout::WAITING));
        asm.jump_if(Cond::Eq, Width::W64, Reg::R2, 0, ends.done);
        asm.load(Size::Dw, Reg::R3, Reg::R10, slot::TOTAL);
        asm.mov64(Reg::R4, Reg::R3);
        let gathered = offset(layout::GATHERED);
        asm.atomic(Size::Dw, AtomicOp::FetchAdd, Reg::R1, gathered, Reg::R4);
        asm.load(Size::Dw, Reg::R5, Reg::R1, offset(layout::WANTED));
        asm.jump_if(Cond::Ge, Width::W64, Reg::R4, Reg::R5, ends.done);
        asm.add64(Reg::R4, Reg::R3);
        asm.jump_if(Cond::Lt, Width::W64, Reg::R4, Reg::R5, ends.done);
        asm.mark(ProgramPart::Wake.name());
        load_map(Reg::R1, self.maps.doorbell, asm);
        load_slot(Reg::R2, slot::TOTAL, asm);
        asm.mov64(Reg::R3, RING_BYTES);
        asm.mov64(Reg::R4, FORCE_WAKEUP);
        asm.call(Helper::RingbufOutput);
        asm.jump(ends.done);
    }

    /// Counts packets that did not become a record, and decides on the packet.
    fn finish(&self, asm: &mut Assembler, ends: Ends) {
        asm.mark(ProgramPart::Tap.name());
        self.count_losses(asm, ends);
        // The verifier rejects unreachable code.
        if self.sample.is_some_and(|(one_in, _)| one_in > 1) {
            asm.place(ends.sampled);
            add(Reg::R8, offset(layout::SAMPLED), 1, asm);
            self.give_back(asm);
            asm.jump(ends.done);
        }
        if !self.stamps_by_poll() || self.borrows() {
            asm.place(ends.contended);
            asm.mov64(Reg::R1, 1);
            let contended = offset(layout::CONTENDED);
            asm.atomic(Size::Dw, AtomicOp::Add, Reg::R8, contended, Reg::R1);
            asm.jump(ends.done);
        }
        if self.drops.is_some() {
            asm.place(ends.lost);
            drops::count_lost(self.maps.state, asm);
            asm.jump(ends.done);
        }
        asm.place(ends.no_ring);
        load_value(Reg::R2, self.maps.state, 0, asm);
        asm.mov64(Reg::R1, 1);
        asm.atomic(Size::Dw, AtomicOp::Add, Reg::R2, state::NO_RING, Reg::R1);
        asm.place(ends.done);
        if self.steal {
            asm.mov32(Reg::R0, self.place.verdict_drop());
            asm.exit();
        }
        asm.place(ends.pass);
        if let Some(tags) = self.tags() {
            tags.write_undo(slot::TAG, asm);
        }
        if self.drops.is_some() {
            Drops::release(asm);
            asm.mov32(Reg::R0, 0);
        } else {
            asm.mov32(Reg::R0, self.place.verdict_pass());
        }
        asm.exit();
    }

    /// Counts a record without room, or whose bytes could not be read.
    fn count_losses(&self, asm: &mut Assembler, ends: Ends) {
        let lost = asm.label();
        asm.place(ends.nowhere);
        add(Reg::R8, offset(layout::FULL), 1, asm);
        asm.jump(lost);
        asm.place(ends.unreadable);
        add(Reg::R8, offset(layout::UNREADABLE), 1, asm);
        asm.place(lost);
        add(Reg::R7, state::PENDING, 1, asm);
        self.give_back(asm);
        asm.jump(ends.done);
    }

    /// Releases the ring. The exchange of `published` before orders it after the record. A ring that is taken
    /// for a poll is released at the poll's end.
    fn release(&self, asm: &mut Assembler) {
        if !self.stamps_by_poll() {
            asm.store_imm(Size::Dw, Reg::R8, offset(layout::BUSY), 0);
        }
    }

    /// Releases the ring if nothing orders it after earlier counts.
    fn give_back(&self, asm: &mut Assembler) {
        if !self.stamps_by_poll() {
            give_back(Reg::R8, asm);
        }
    }
}

/// Whether processors see a store only after the earlier ones.
const STORES_ARE_ORDERED: bool = cfg!(any(target_arch = "x86_64", target_arch = "s390x"));

/// Stores 0 to `busy` of the ring at `ring`, after all earlier stores; R1 is lost.
fn give_back(ring: Reg, asm: &mut Assembler) {
    let busy = offset(layout::BUSY);
    if STORES_ARE_ORDERED {
        asm.store_imm(Size::Dw, ring, busy, 0);
    } else {
        asm.mov64(Reg::R1, 0);
        asm.atomic(Size::Dw, AtomicOp::Exchange, ring, busy, Reg::R1);
    }
}

/// Looks the slot KEY up in the map whose address is in R1.
fn look_up(asm: &mut Assembler) {
    load_slot(Reg::R2, slot::KEY, asm);
    asm.call(Helper::MapLookupElem);
}

/// Adds to a 64-bit word that only this CPU writes; R1 is lost.
fn add(base: Reg, at: i16, value: i32, asm: &mut Assembler) {
    asm.load(Size::Dw, Reg::R1, base, at);
    asm.add64(Reg::R1, value);
    asm.store(Size::Dw, base, at, Reg::R1);
}

/// Computes `dst` = the ring's address + (index modulo count, a power of two) · bytes, a power of two.
fn element(dst: Reg, index: Reg, count: u64, bytes: usize, asm: &mut Assembler) {
    asm.mov64(dst, index);
    asm.alu64(AluOp::And, dst, imm(count - 1));
    asm.alu64(AluOp::Lsh, dst, bytes.ilog2().cast_signed());
    asm.add64(dst, Reg::R8);
}

/// Returns an offset of the layout in the form of instructions. All that are used directly are small.
fn offset(bytes: usize) -> i16 {
    i16::try_from(bytes).unwrap_or(i16::MAX)
}

/// Returns a size in the form of instructions. Rings have at most 256 MiB.
fn imm(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
