//! The record: one enhanced packet block.

use ringtap_filter::ebpf::{AluOp, Assembler, Cond, Helper, Label, Reg, Size, Width};

use super::drops::{self, Drops};
use super::{Cooked, Ends, Tap, look_up, skb, slot, state, xdp};
use crate::emit::load_map;
use crate::source::ProgramPart;

/// Block type of an enhanced packet block.
pub(super) const ENHANCED_PACKET: i32 = 6;
/// Heads of options.
pub(super) const FLAGS: Head = Head { code: 2, len: 4 };
const DROPS: Head = Head { code: 4, len: 8 };

/// Bytes before the packet's data.
pub(super) const HEADER: i16 = 28;
/// Bytes of a record beside data and padding: header, `epb_flags`, end of options, length.
pub(super) const FIXED: u32 = 28 + 8 + 4 + 4;
/// Bytes of `epb_dropcount`.
pub(super) const DROPCOUNT: u32 = 12;
/// The length of a VLAN tag, and its offset in a frame.
pub(super) const TAG: u32 = 4;
const TAG_AT: i16 = 12;
/// The length of the header LINUX_SLL2 (pcap-linktype(7)), and the offsets of its fields.
pub(super) const COOKED: u32 = 20;
pub(super) mod cooked {
    pub(in super::super) const PROTOCOL: i16 = 0;
    pub(in super::super) const RESERVED: i16 = 2;
    pub(in super::super) const INTERFACE: i16 = 4;
    pub(in super::super) const HARDWARE_TYPE: i16 = 8;
    pub(in super::super) const PACKET_TYPE: i16 = 10;
    pub(in super::super) const ADDRESS_LEN: i16 = 11;
    pub(in super::super) const ADDRESS: i16 = 12;
    pub(in super::super) const PAYLOAD: i16 = 20;
}
/// Bytes of an Ethernet header.
const ETHERNET: i16 = 14;
/// The length of an Ethernet address, and the offset of the sender's in a frame.
const ADDRESS: i32 = 6;
const SENDER_AT: i16 = 6;
/// Bytes of a tag's control information.
const TAG_CONTROL: i32 = 2;
/// `PACKET_OUTGOING` of packet(7).
const OUTGOING: i32 = 4;

/// `epb_flags`: direction in bits 0 and 1, kind of address in bits 2 to 4.
pub(super) const INBOUND: i32 = 1;
pub(super) const OUTBOUND: i32 = 2;
const ADDRESS_SHIFT: i32 = 2;
/// The kind of address for each of the kernel's packet types, four bits each: host is unicast (1), broadcast
/// 3, multicast 2, other host promiscuous (4).
const ADDRESS_KINDS: i32 = 0x4231;

/// Half of the maximum that is copied without a call. A helper costs some 30 ns, whatever it copies.
pub(super) const SHORT_HALF: i16 = 64;
pub(super) const WORD: i16 = 8;
/// On other architectures the verifier may require aligned loads and stores.
pub(super) const MAY_BE_UNALIGNED: bool = cfg!(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "powerpc64",
    target_arch = "s390x"
));

pub(super) struct Head {
    pub(super) code: u16,
    pub(super) len: u16,
}

impl Head {
    /// Returns both as one word.
    pub(super) const fn word(&self) -> i32 {
        let [a, b] = self.code.to_ne_bytes();
        let [c, d] = self.len.to_ne_bytes();
        i32::from_ne_bytes([a, b, c, d])
    }
}

impl Tap<'_> {
    /// Writes the record at R9.
    pub(super) fn write_record(&self, asm: &mut Assembler, ends: Ends) {
        asm.store_imm(Size::W, Reg::R9, 0, ENHANCED_PACKET);
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::TOTAL);
        asm.store(Size::W, Reg::R9, 4, Reg::R1);
        self.write_interface(asm, ends);
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::TIME);
        asm.store(Size::W, Reg::R9, 16, Reg::R1);
        asm.alu64(AluOp::Rsh, Reg::R1, 32);
        asm.store(Size::W, Reg::R9, 12, Reg::R1);
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::CAPLEN);
        asm.store(Size::W, Reg::R9, 20, Reg::R1);
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::LEN);
        asm.store(Size::W, Reg::R9, 24, Reg::R1);
        // The unused bytes of the data's last word must not show an older packet.
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::PADDED);
        asm.add64(Reg::R1, Reg::R9);
        asm.store_imm(Size::W, Reg::R1, HEADER - 4, 0);
        asm.mark(ProgramPart::Copy.name());
        match (self.drops, self.cooked) {
            (Some(_), _) => Drops::copy(ends, asm),
            (None, Some(cooked)) => self.copy_cooked(cooked, asm, ends),
            (None, None) => self.copy(asm, ends),
        }
        // The copy includes the following code up to publishing: its exchange waits until the bytes are
        // written.
        self.close(asm);
    }

    /// Writes the number of the interface in records.
    fn write_interface(&self, asm: &mut Assembler, ends: Ends) {
        let Some(interfaces) = self.maps.interfaces.filter(|_| self.cooked.is_none()) else {
            return asm.store_imm(Size::W, Reg::R9, 8, 0);
        };
        asm.load(Size::W, Reg::R1, Reg::R6, skb::INTERFACE);
        asm.store(Size::W, Reg::R10, slot::KEY, Reg::R1);
        load_map(Reg::R1, interfaces, asm);
        look_up(asm);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, ends.unreadable);
        asm.load(Size::W, Reg::R1, Reg::R0, 0);
        asm.store(Size::W, Reg::R9, 8, Reg::R1);
    }

    /// Copies the packet's bytes, and inserts a tag that the kernel stores separately.
    fn copy(&self, asm: &mut Assembler, ends: Ends) {
        let copied = asm.label();
        if !self.place.is_xdp() {
            let plain = asm.label();
            asm.load(Size::W, Reg::R1, Reg::R6, skb::VLAN_PRESENT);
            asm.jump_if(Cond::Eq, Width::W32, Reg::R1, 0, plain);
            asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
            asm.jump_if(Cond::Le, Width::W64, Reg::R4, i32::from(TAG_AT), plain);
            self.copy_tagged(asm, ends);
            asm.jump(copied);
            asm.place(plain);
        }
        asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
        if MAY_BE_UNALIGNED {
            self.copy_short(copied, asm);
            asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
        }
        self.load_bytes(0, 0, asm, ends);
        asm.place(copied);
    }

    /// Copies R4 bytes if they are few and in one piece, and goes to `copied`; otherwise continues with
    /// nothing written. It tries lengths from long to short: as many words from the start as half the bytes
    /// need, and as many up to the end, which may overlap.
    fn copy_short(&self, copied: Label, asm: &mut Assembler) {
        let long = asm.label();
        let (data, data_end) = if self.place.is_xdp() {
            (xdp::DATA, xdp::DATA_END)
        } else {
            (skb::DATA, skb::DATA_END)
        };
        let short = i32::from(2 * SHORT_HALF);
        asm.jump_if(Cond::Gt, Width::W64, Reg::R4, short, long);
        asm.load(Size::W, Reg::R2, Reg::R6, data);
        asm.load(Size::W, Reg::R3, Reg::R6, data_end);
        let halves = std::iter::successors(Some(SHORT_HALF), |half| Some(half / 2));
        for half in halves.take_while(|&half| half >= WORD) {
            let shorter = asm.label();
            let bytes = i32::from(half);
            asm.jump_if(Cond::Lt, Width::W64, Reg::R4, bytes, shorter);
            asm.mov64(Reg::R0, Reg::R2);
            asm.add64(Reg::R0, bytes);
            asm.jump_if(Cond::Gt, Width::W64, Reg::R0, Reg::R3, long);
            asm.add64(Reg::R4, -bytes);
            asm.mov64(Reg::R5, Reg::R2);
            asm.add64(Reg::R5, Reg::R4);
            asm.mov64(Reg::R0, Reg::R5);
            asm.add64(Reg::R0, bytes);
            asm.jump_if(Cond::Gt, Width::W64, Reg::R0, Reg::R3, long);
            asm.add64(Reg::R4, Reg::R9);
            for (from, to) in [(Reg::R2, Reg::R9), (Reg::R5, Reg::R4)] {
                for at in (0..half).step_by(usize::from(WORD.unsigned_abs())) {
                    asm.load(Size::Dw, Reg::R0, from, at);
                    asm.store(Size::Dw, to, HEADER + at, Reg::R0);
                }
            }
            asm.jump(copied);
            asm.place(shorter);
        }
        asm.place(long);
    }

    /// Copies addresses, the tag, then the rest. R4 holds the captured length, more than 12.
    fn copy_tagged(&self, asm: &mut Assembler, ends: Ends) {
        asm.mov64(Reg::R4, i32::from(TAG_AT));
        self.load_bytes(0, 0, asm, ends);
        // The tag as it is in memory: type and control information, both in network order.
        asm.load(Size::W, Reg::R1, Reg::R6, skb::VLAN_PROTO);
        asm.from_network(Reg::R1, Size::H);
        asm.alu64(AluOp::Lsh, Reg::R1, 16);
        asm.load(Size::W, Reg::R2, Reg::R6, skb::VLAN_TCI);
        asm.alu64(AluOp::Or, Reg::R1, Reg::R2);
        let (whole, done) = (asm.label(), asm.label());
        let after = i32::from(TAG_AT) + TAG.cast_signed();
        asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
        asm.jump_if(Cond::Ge, Width::W64, Reg::R4, after, whole);
        // Its last bytes are beyond the snaplen: they become padding.
        asm.mov64(Reg::R3, after);
        asm.alu64(AluOp::Sub, Reg::R3, Reg::R4);
        asm.alu64(AluOp::Lsh, Reg::R3, 3);
        asm.alu64(AluOp::Rsh, Reg::R1, Reg::R3);
        asm.alu64(AluOp::Lsh, Reg::R1, Reg::R3);
        asm.place(whole);
        asm.from_network(Reg::R1, Size::W);
        asm.store(Size::W, Reg::R9, HEADER + TAG_AT, Reg::R1);
        asm.jump_if(Cond::Le, Width::W64, Reg::R4, after, done);
        asm.add64(Reg::R4, -after);
        self.load_bytes(TAG_AT, after, asm, ends);
        asm.place(done);
    }

    /// Writes the header LINUX_SLL2 instead of the interface's own, then the payload. A tag that the kernel
    /// stores separately becomes the protocol, and its control information comes first in the payload.
    fn copy_cooked(
        &self,
        Cooked {
            header,
            hardware_type,
        }: Cooked,
        asm: &mut Assembler,
        ends: Ends,
    ) {
        let at = |field: i16| HEADER + field;
        asm.load(Size::W, Reg::R1, Reg::R6, skb::PROTOCOL);
        asm.store(Size::H, Reg::R9, at(cooked::PROTOCOL), Reg::R1);
        asm.store_imm(Size::H, Reg::R9, at(cooked::RESERVED), 0);
        asm.load(Size::W, Reg::R1, Reg::R6, skb::INTERFACE);
        asm.from_network(Reg::R1, Size::W);
        asm.store(Size::W, Reg::R9, at(cooked::INTERFACE), Reg::R1);
        let hardware_type = i32::from(hardware_type.to_be());
        asm.store_imm(Size::H, Reg::R9, at(cooked::HARDWARE_TYPE), hardware_type);
        if self.place.is_ingress() {
            asm.load(Size::W, Reg::R1, Reg::R6, skb::PACKET_TYPE);
        } else {
            asm.mov32(Reg::R1, OUTGOING);
        }
        asm.store(Size::B, Reg::R9, at(cooked::PACKET_TYPE), Reg::R1);
        let address_len = if header == 0 { 0 } else { ADDRESS };
        asm.store_imm(Size::B, Reg::R9, at(cooked::ADDRESS_LEN), address_len);
        asm.store_imm(Size::W, Reg::R9, at(cooked::ADDRESS), 0);
        asm.store_imm(Size::W, Reg::R9, at(cooked::ADDRESS) + 4, 0);
        let (plain, done) = (asm.label(), asm.label());
        let fixed = COOKED.cast_signed();
        if header != 0 {
            asm.mov64(Reg::R4, ADDRESS);
            self.load_bytes(SENDER_AT, i32::from(cooked::ADDRESS), asm, ends);
            asm.load(Size::W, Reg::R1, Reg::R6, skb::VLAN_PRESENT);
            asm.jump_if(Cond::Eq, Width::W32, Reg::R1, 0, plain);
            asm.load(Size::W, Reg::R1, Reg::R6, skb::VLAN_PROTO);
            asm.store(Size::H, Reg::R9, at(cooked::PROTOCOL), Reg::R1);
            asm.load(Size::W, Reg::R1, Reg::R6, skb::VLAN_TCI);
            asm.from_network(Reg::R1, Size::H);
            asm.store(Size::H, Reg::R9, at(cooked::PAYLOAD), Reg::R1);
            asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
            let tagged = fixed + TAG_CONTROL;
            asm.jump_if(Cond::Le, Width::W64, Reg::R4, tagged, done);
            asm.add64(Reg::R4, -tagged);
            self.load_bytes(TAG_AT, tagged, asm, ends);
            asm.jump(done);
            asm.place(plain);
        }
        asm.load(Size::Dw, Reg::R4, Reg::R10, slot::CAPLEN);
        asm.jump_if(Cond::Le, Width::W64, Reg::R4, fixed, done);
        asm.add64(Reg::R4, -fixed);
        let from = if header == 0 { 0 } else { ETHERNET };
        self.load_bytes(from, fixed, asm, ends);
        asm.place(done);
    }

    /// Copies R4 bytes of the packet from `from` to byte `to` of the data.
    fn load_bytes(&self, from: i16, to: i32, asm: &mut Assembler, ends: Ends) {
        let helper = if self.place.is_xdp() {
            Helper::XdpLoadBytes
        } else {
            Helper::SkbLoadBytes
        };
        asm.mov64(Reg::R1, Reg::R6);
        asm.mov64(Reg::R2, i32::from(from));
        asm.mov64(Reg::R3, Reg::R9);
        asm.add64(Reg::R3, i32::from(HEADER) + to);
        asm.call(helper);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, ends.unreadable);
    }

    /// Writes the end of the record: options and the length again.
    fn close(&self, asm: &mut Assembler) {
        self.direction(asm);
        asm.load(Size::Dw, Reg::R2, Reg::R10, slot::PADDED);
        asm.add64(Reg::R2, Reg::R9);
        asm.load(Size::Dw, Reg::R3, Reg::R10, slot::TOTAL);
        asm.store_imm(Size::W, Reg::R2, HEADER, FLAGS.word());
        asm.store(Size::W, Reg::R2, HEADER + 4, Reg::R1);
        let at = HEADER + 8;
        if self.drops.is_some() {
            Drops::write_option(at, asm);
            asm.add64(Reg::R2, i32::from(drops::OPTION_BYTES));
        }
        self.write_process(asm);
        let (lossless, done) = (asm.label(), asm.label());
        asm.load(Size::Dw, Reg::R1, Reg::R7, state::PENDING);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, lossless);
        let (first, second) = if cfg!(target_endian = "little") {
            (0, 4)
        } else {
            (4, 0)
        };
        asm.store_imm(Size::W, Reg::R2, at, DROPS.word());
        asm.store(Size::W, Reg::R2, at + 4 + first, Reg::R1);
        asm.alu64(AluOp::Rsh, Reg::R1, 32);
        asm.store(Size::W, Reg::R2, at + 4 + second, Reg::R1);
        asm.store_imm(Size::W, Reg::R2, at + 12, 0);
        asm.store(Size::W, Reg::R2, at + 16, Reg::R3);
        asm.store_imm(Size::Dw, Reg::R7, state::PENDING, 0);
        asm.jump(done);
        asm.place(lossless);
        asm.store_imm(Size::W, Reg::R2, at, 0);
        asm.store(Size::W, Reg::R2, at + 4, Reg::R3);
        asm.place(done);
    }

    /// Puts the flags into R1.
    fn direction(&self, asm: &mut Assembler) {
        if self.drops.is_some() {
            Drops::flags(asm);
        } else if self.place.is_xdp() {
            asm.mov64(Reg::R1, INBOUND);
        } else if !self.place.is_ingress() {
            asm.mov64(Reg::R1, OUTBOUND);
        } else {
            asm.load(Size::W, Reg::R2, Reg::R6, skb::PACKET_TYPE);
            received_flags(asm);
        }
    }
}

/// Puts the flags of a received packet, whose type is in R2, into R1.
pub(super) fn received_flags(asm: &mut Assembler) {
    asm.alu32(AluOp::Lsh, Reg::R2, 2);
    asm.mov32(Reg::R1, ADDRESS_KINDS);
    asm.alu32(AluOp::Rsh, Reg::R1, Reg::R2);
    asm.alu32(AluOp::And, Reg::R1, 7);
    asm.alu32(AluOp::Lsh, Reg::R1, ADDRESS_SHIFT);
    asm.alu32(AluOp::Or, Reg::R1, INBOUND);
}
