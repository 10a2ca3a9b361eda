//! Dropped packets: the program's first part at the tracepoint `kfree_skb`.
//!
//! The kernel passes the tracepoint for each packet that it frees, with the reason. There is no context through
//! which a program could read the packet, and no link-layer header that all packets have. So this part copies
//! the kernel's structure of the packet, then the packet from its network header on, to a value of a map that
//! belongs to the processor ([`scratch`]), with the header LINUX_SLL2 in front. Filter and copy read that.
//!
//! A program that runs in a process may be interrupted by another on the same processor. The second finds the
//! value taken, and counts its packet as lost.

use std::os::fd::{AsFd, AsRawFd};

use ringtap_filter::Program;
use ringtap_filter::ebpf::lower::{Exits, Hook, lower, scratch};
use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Label, Reg, Size, Width};
use ringtap_sys::bpf::ProgramKind;

use super::record::{self, HEADER, cooked};
use super::{Ends, look_up, owner, slot, state};
use crate::emit::{add_packet, as_imm, load_map, load_value};
use crate::options::Direction;
use crate::stat::{Counters, StatError, slot_offset};
use crate::who::OwnerMaps;

/// The offsets of the members of a kernel's structures that programs read, in bytes.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Layout {
    pub(in super::super) packet: PacketLayout,
    /// `struct net_device`: index, hardware type, network namespace.
    pub(in super::super) ifindex: i32,
    pub(in super::super) hardware_type: i32,
    pub(in super::super) device_net: i32,
    /// `struct sock`: network namespace.
    pub(in super::super) socket_net: i32,
    /// `struct dst_entry`, the packet's route: device.
    pub(in super::super) route_device: i32,
    /// Whether the tracepoint passes the receiving socket after the reason.
    pub(in super::super) passes_socket: bool,
    /// `struct net`: the inode number.
    pub(in super::super) inode: i32,
}

/// Offsets in `struct sk_buff`.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct PacketLayout {
    /// The bytes that hold all these members.
    pub(in super::super) bytes: i16,
    pub(in super::super) dev: i16,
    pub(in super::super) sk: i16,
    pub(in super::super) route: i16,
    pub(in super::super) len: i16,
    pub(in super::super) data_len: i16,
    pub(in super::super) skb_iif: i16,
    pub(in super::super) protocol: i16,
    pub(in super::super) network_header: i16,
    pub(in super::super) mac_header: i16,
    pub(in super::super) head: i16,
    pub(in super::super) data: i16,
    pub(in super::super) vlan_proto: i16,
    pub(in super::super) vlan_tci: i16,
    pub(in super::super) packet_type: Field,
    /// The bit that says whether there is a tag, before Linux 6.2. Since then, a tag has a protocol.
    pub(in super::super) vlan_present: Option<Field>,
}

/// A bit field of at most a byte.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Field {
    pub(in super::super) byte: i16,
    pub(in super::super) shift: i32,
    pub(in super::super) mask: i32,
}

/// The reasons that the program compares with.
#[derive(Clone, Debug)]
pub(in super::super) struct Reasons {
    /// Those that are no drops.
    pub(in super::super) none: Vec<u32>,
    /// The queue of a processor is full: the packet was received, but its interface is not stored yet.
    pub(in super::super) backlog: Option<u32>,
}

/// The input of a program for dropped packets.
#[derive(Clone, Debug)]
pub(in super::super) struct Drops {
    pub(in super::super) layout: Layout,
    pub(in super::super) reasons: Reasons,
    /// The tracepoint's type.
    pub(in super::super) tracepoint: u32,
    /// The map of values for packets, by processor.
    pub(in super::super) scratch: i32,
    /// The only interface, and the network namespace to which it belongs.
    pub(in super::super) only: Option<(u32, u32)>,
    pub(in super::super) direction: Direction,
}

/// The program's own part of a value, see [`scratch::OWN`].
mod own {
    use super::scratch;

    /// Not 0 while a program uses the value.
    pub(super) const BUSY: i16 = scratch::OWN;
    /// The address in the kernel that dropped the packet.
    pub(super) const LOCATION: i16 = scratch::OWN + 8;
    pub(super) const REASON: i16 = scratch::OWN + 16;
    /// The inode number of the network namespace; 0 if it is unknown.
    pub(super) const NAMESPACE: i16 = scratch::OWN + 20;
    pub(super) const HARDWARE_TYPE: i16 = scratch::OWN + 24;
    /// An address on the way to another.
    pub(super) const ADDRESS: i16 = scratch::OWN + 32;
    /// The packet's structure.
    pub(super) const PACKET: i16 = scratch::OWN + 48;
}

/// The most bytes of `struct sk_buff` that a value holds.
pub(in super::super) const STRUCTURE_MAX: i16 = scratch::DATA - own::PACKET;
/// The most bytes of a packet after its cooked header and the tag.
const PAYLOAD_MAX: i32 = scratch::BYTES.cast_signed() - record::COOKED.cast_signed() - TAGGED;
/// Bytes that a tag adds to the payload: its control information and the protocol after it.
const TAGGED: i32 = 4;
/// The first inode number of a network namespace (`PROC_DYNAMIC_FIRST` and the initial ones before it). Other
/// numbers show that the structure was no device: its member is used for other purposes in some queues.
const INODE_FIRST: i32 = 0xefff_fff0_u32.cast_signed();
/// `ARPHRD_VOID`, for packets without a device.
const NO_HARDWARE: i32 = 0xffff;
/// `ARPHRD_ETHER`, and the length of its header and addresses.
const ETHERNET: i32 = 1;
const ETHERNET_HEADER: i32 = 14;
const ADDRESS_BYTES: i32 = 6;
/// The bits of a route's address that are flags (`SKB_DST_NOREF` and others).
const ROUTE_FLAGS: i32 = 7;
/// The value of `mac_header` if there is none.
const NO_HEADER: i32 = 0xffff;
/// `PACKET_OUTGOING` of packet(7).
const OUTGOING: i32 = 4;

/// The option of a record that holds the facts on the drop: its head, and seven words.
const OPTION: record::Head = record::Head {
    code: OPTION_CODE,
    len: 28,
};
pub(in super::super) const OPTION_CODE: u16 = 2989;
/// Bytes of the option.
pub(in super::super) const OPTION_BYTES: i16 = 32;
/// The word that begins the option's value, which no other option of a ring has.
pub(in super::super) const OPTION_MARK: u32 = 32_473;

/// Labels of the first part.
#[derive(Clone, Copy)]
pub(super) struct Out {
    /// No packet of this capture.
    pub(super) leave: Label,
    /// Its bytes cannot be read.
    pub(super) lost: Label,
}

impl Drops {
    /// Returns the kind of its programs. The verifier knows the tracepoint's types, so that they can ask for the
    /// storage of sockets.
    pub(in super::super) fn kind(&self) -> ProgramKind {
        let tracepoint = self.tracepoint;
        ProgramKind::TypedTracepoint { tracepoint }
    }

    /// Puts the process into slot PROCESS that holds the socket of the packet: the one that sent it or that was
    /// found for it, else the one that the tracepoint names as its receiver.
    pub(super) fn find_process(&self, owners: OwnerMaps, asm: &mut Assembler) {
        let (receiver, done) = (asm.label(), asm.label());
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::DROPPED);
        asm.load(Size::Dw, Reg::R2, Reg::R1, self.layout.packet.sk);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R2, 0, receiver);
        owner::read_owner(owners.by_socket, receiver, asm);
        asm.jump(done);
        asm.place(receiver);
        asm.load(Size::Dw, Reg::R2, Reg::R10, slot::RECEIVER);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R2, 0, done);
        owner::read_owner(owners.by_socket, done, asm);
        asm.place(done);
    }

    /// Writes the first part. R1 holds the context; R6 holds the scratch value afterwards.
    pub(super) fn gather(&self, state: i32, out: Out, asm: &mut Assembler) {
        let (end, nested) = (asm.label(), asm.label());
        self.leave_if_kept(end, asm);
        self.take_scratch(nested, asm);
        let begin = asm.label();
        asm.jump(begin);
        // The value is another program's, or there is none for this processor.
        asm.place(nested);
        count_lost(state, asm);
        asm.place(end);
        asm.mov32(Reg::R0, 0);
        asm.exit();
        asm.place(begin);
        self.find_device(asm);
        self.select(out, asm);
        self.find_packet(out, asm);
        self.write_header(asm);
    }

    /// Ends the program unless the reason is a drop. Puts the reason into R8.
    fn leave_if_kept(&self, end: Label, asm: &mut Assembler) {
        asm.load(Size::Dw, Reg::R8, Reg::R1, 16);
        asm.mov32(Reg::R8, Reg::R8);
        let none = &self.reasons.none;
        let highest = none.iter().copied().max().unwrap_or_default();
        if (0..=highest).all(|reason| none.contains(&reason)) {
            return asm.jump_if(Cond::Le, Width::W32, Reg::R8, highest.cast_signed(), end);
        }
        for &reason in none {
            asm.jump_if(Cond::Eq, Width::W32, Reg::R8, reason.cast_signed(), end);
        }
    }

    /// Takes this processor's value, and copies the packet's structure to it. R1 holds the context, R8 the
    /// reason.
    fn take_scratch(&self, nested: Label, asm: &mut Assembler) {
        asm.load(Size::Dw, Reg::R7, Reg::R1, 0);
        asm.load(Size::Dw, Reg::R9, Reg::R1, 8);
        asm.store(Size::Dw, Reg::R10, slot::DROPPED, Reg::R7);
        asm.store_imm(Size::Dw, Reg::R10, slot::RECEIVER, 0);
        if self.layout.passes_socket {
            asm.load(Size::Dw, Reg::R2, Reg::R1, 24);
            asm.store(Size::Dw, Reg::R10, slot::RECEIVER, Reg::R2);
        }
        asm.call(Helper::GetSmpProcessorId);
        asm.store(Size::W, Reg::R10, slot::KEY, Reg::R0);
        load_map(Reg::R1, self.scratch, asm);
        look_up(asm);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, nested);
        asm.mov64(Reg::R6, Reg::R0);
        asm.mov64(Reg::R1, 1);
        asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R6, own::BUSY, Reg::R1);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, nested);
        asm.store(Size::Dw, Reg::R6, own::LOCATION, Reg::R9);
        asm.store(Size::W, Reg::R6, own::REASON, Reg::R8);
        read(
            own::PACKET,
            self.layout.packet.bytes.into(),
            (Reg::R7, 0),
            asm,
        );
    }

    /// Loads a member of the packet's structure.
    fn packet(size: Size, dst: Reg, offset: i16, asm: &mut Assembler) {
        asm.load(size, dst, Reg::R6, own::PACKET + offset);
    }

    /// Finds the device and the network namespace. A packet in a queue of a socket has no device any more: its
    /// socket or its route tell the namespace.
    fn find_device(&self, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        let (without, known) = (asm.label(), asm.label());
        asm.store_imm(Size::W, Reg::R6, own::HARDWARE_TYPE, NO_HARDWARE);
        Self::packet(Size::Dw, Reg::R7, packet.dev, asm);
        self.find_namespace(self.layout.device_net, without, asm);
        read(scratch::INTERFACE, 4, (Reg::R7, self.layout.ifindex), asm);
        asm.store_imm(Size::W, Reg::R6, own::HARDWARE_TYPE, 0);
        let hardware_type = if cfg!(target_endian = "little") { 0 } else { 2 };
        let to = own::HARDWARE_TYPE + hardware_type;
        read(to, 2, (Reg::R7, self.layout.hardware_type), asm);
        asm.jump(known);
        asm.place(without);
        Self::packet(Size::W, Reg::R1, packet.skb_iif, asm);
        asm.store(Size::W, Reg::R6, scratch::INTERFACE, Reg::R1);
        let [second, third, unknown] = [(); 3].map(|()| asm.label());
        Self::packet(Size::Dw, Reg::R7, packet.sk, asm);
        self.find_namespace(self.layout.socket_net, second, asm);
        asm.jump(known);
        asm.place(second);
        asm.load(Size::Dw, Reg::R7, Reg::R10, slot::RECEIVER);
        self.find_namespace(self.layout.socket_net, third, asm);
        asm.jump(known);
        asm.place(third);
        Self::packet(Size::Dw, Reg::R7, packet.route, asm);
        asm.alu64(AluOp::And, Reg::R7, !ROUTE_FLAGS);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R7, 0, unknown);
        read(own::ADDRESS, 8, (Reg::R7, self.layout.route_device), asm);
        asm.load(Size::Dw, Reg::R7, Reg::R6, own::ADDRESS);
        self.find_namespace(self.layout.device_net, unknown, asm);
        asm.jump(known);
        asm.place(unknown);
        asm.store_imm(Size::W, Reg::R6, own::NAMESPACE, 0);
        asm.place(known);
    }

    /// Stores the inode number of the network namespace to which the structure in R7 points at `from`, or
    /// goes to `unknown`.
    fn find_namespace(&self, from: i32, unknown: Label, asm: &mut Assembler) {
        asm.jump_if(Cond::Eq, Width::W64, Reg::R7, 0, unknown);
        read(own::ADDRESS, 8, (Reg::R7, from), asm);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, unknown);
        asm.load(Size::Dw, Reg::R8, Reg::R6, own::ADDRESS);
        read(own::NAMESPACE, 4, (Reg::R8, self.layout.inode), asm);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, unknown);
        asm.load(Size::W, Reg::R1, Reg::R6, own::NAMESPACE);
        asm.jump_if(Cond::Lt, Width::W32, Reg::R1, INODE_FIRST, unknown);
    }

    /// Leaves what is no packet of a network, or of another interface or direction.
    fn select(&self, out: Out, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        let is_packet = asm.label();
        // Messages of netlink and Unix sockets have neither protocol nor interface.
        Self::packet(Size::H, Reg::R1, packet.protocol, asm);
        asm.jump_if(Cond::Ne, Width::W32, Reg::R1, 0, is_packet);
        asm.load(Size::W, Reg::R1, Reg::R6, scratch::INTERFACE);
        asm.jump_if(Cond::Eq, Width::W32, Reg::R1, 0, out.leave);
        asm.place(is_packet);
        if let Some((ifindex, namespace)) = self.only {
            let here = asm.label();
            asm.load(Size::W, Reg::R1, Reg::R6, scratch::INTERFACE);
            let ifindex = ifindex.cast_signed();
            asm.jump_if(Cond::Ne, Width::W32, Reg::R1, ifindex, out.leave);
            asm.load(Size::W, Reg::R1, Reg::R6, own::NAMESPACE);
            asm.jump_if(Cond::Eq, Width::W32, Reg::R1, namespace.cast_signed(), here);
            asm.jump_if(Cond::Ne, Width::W32, Reg::R1, 0, out.leave);
            asm.place(here);
        }
        self.find_direction(asm);
        let cond = match self.direction {
            Direction::Both => return,
            Direction::In => Cond::Eq,
            Direction::Out => Cond::Ne,
        };
        asm.jump_if(cond, Width::W32, Reg::R1, OUTGOING, out.leave);
    }

    /// Stores the packet's type, which is also left in R1. Packets of this host have no interface by which
    /// they came; the kernel does not mark them until they leave.
    fn find_direction(&self, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        let (received, known) = (asm.label(), asm.label());
        if let Some(backlog) = self.reasons.backlog {
            asm.load(Size::W, Reg::R1, Reg::R6, own::REASON);
            let backlog = backlog.cast_signed();
            asm.jump_if(Cond::Eq, Width::W32, Reg::R1, backlog, received);
        }
        Self::packet(Size::W, Reg::R1, packet.skb_iif, asm);
        asm.jump_if(Cond::Ne, Width::W32, Reg::R1, 0, received);
        asm.mov32(Reg::R1, OUTGOING);
        asm.jump(known);
        asm.place(received);
        Self::field(packet.packet_type, asm);
        asm.place(known);
        asm.store(Size::W, Reg::R6, scratch::PACKET_TYPE, Reg::R1);
    }

    /// Puts a bit field into R1.
    fn field(field: Field, asm: &mut Assembler) {
        Self::packet(Size::B, Reg::R1, field.byte, asm);
        asm.alu32(AluOp::Rsh, Reg::R1, field.shift);
        asm.alu32(AluOp::And, Reg::R1, field.mask);
    }

    /// Puts the address of the packet's first byte into R7, and the number of bytes up to the end of its
    /// linear part into R8. The packet begins with the network header if that is known.
    fn find_extent(&self, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        let (whole, from_data, found) = (asm.label(), asm.label(), asm.label());
        Self::packet(Size::Dw, Reg::R7, packet.data, asm);
        Self::packet(Size::W, Reg::R8, packet.len, asm);
        Self::packet(Size::W, Reg::R2, packet.data_len, asm);
        asm.jump_if(Cond::Ge, Width::W64, Reg::R8, Reg::R2, whole);
        asm.mov64(Reg::R8, Reg::R2);
        asm.place(whole);
        asm.alu64(AluOp::Sub, Reg::R8, Reg::R2);
        // R2 becomes the end, R3 the network header.
        asm.mov64(Reg::R2, Reg::R7);
        asm.add64(Reg::R2, Reg::R8);
        Self::packet(Size::H, Reg::R1, packet.network_header, asm);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, from_data);
        Self::packet(Size::Dw, Reg::R3, packet.head, asm);
        asm.add64(Reg::R3, Reg::R1);
        asm.jump_if(Cond::Gt, Width::W64, Reg::R3, Reg::R2, from_data);
        asm.mov64(Reg::R7, Reg::R3);
        asm.alu64(AluOp::Sub, Reg::R2, Reg::R3);
        asm.mov64(Reg::R8, Reg::R2);
        asm.jump(found);
        asm.place(from_data);
        asm.place(found);
    }

    /// Copies the packet after its cooked header, and stores both lengths.
    fn find_packet(&self, out: Out, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        self.find_extent(asm);
        let (untagged, counted, fits) = (asm.label(), asm.label(), asm.label());
        let header = record::COOKED.cast_signed();
        asm.mov64(Reg::R9, header);
        self.unless_tagged(untagged, asm);
        // As on the wire: control information, then the protocol of the payload.
        Self::packet(Size::H, Reg::R2, packet.vlan_tci, asm);
        asm.from_network(Reg::R2, Size::H);
        let payload = scratch::DATA + cooked::PAYLOAD;
        asm.store(Size::H, Reg::R6, payload, Reg::R2);
        Self::packet(Size::H, Reg::R2, packet.protocol, asm);
        asm.store(Size::H, Reg::R6, payload + 2, Reg::R2);
        Self::packet(Size::H, Reg::R2, packet.vlan_proto, asm);
        asm.mov64(Reg::R9, header + TAGGED);
        asm.jump(counted);
        asm.place(untagged);
        Self::packet(Size::H, Reg::R2, packet.protocol, asm);
        asm.place(counted);
        asm.store(Size::H, Reg::R6, scratch::DATA + cooked::PROTOCOL, Reg::R2);
        Self::packet(Size::W, Reg::R1, packet.data_len, asm);
        asm.alu64(AluOp::Add, Reg::R1, Reg::R8);
        asm.alu64(AluOp::Add, Reg::R1, Reg::R9);
        asm.store(Size::W, Reg::R6, scratch::LEN, Reg::R1);
        asm.jump_if(Cond::Le, Width::W64, Reg::R8, PAYLOAD_MAX, fits);
        asm.mov64(Reg::R8, PAYLOAD_MAX);
        asm.place(fits);
        asm.mov64(Reg::R1, Reg::R8);
        asm.alu64(AluOp::Add, Reg::R1, Reg::R9);
        asm.store(Size::W, Reg::R6, scratch::CAPLEN, Reg::R1);
        asm.mov64(Reg::R1, Reg::R6);
        asm.alu64(AluOp::Add, Reg::R1, Reg::R9);
        asm.add64(Reg::R1, i32::from(scratch::DATA));
        asm.mov64(Reg::R2, Reg::R8);
        asm.mov64(Reg::R3, Reg::R7);
        asm.call(Helper::ProbeReadKernel);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, out.lost);
    }

    /// Goes to `untagged` if the kernel stores no VLAN tag beside the packet.
    fn unless_tagged(&self, untagged: Label, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        match packet.vlan_present {
            Some(present) => Self::field(present, asm),
            None => Self::packet(Size::H, Reg::R1, packet.vlan_proto, asm),
        }
        asm.jump_if(Cond::Eq, Width::W32, Reg::R1, 0, untagged);
    }

    /// Writes the cooked header, but for the protocol.
    fn write_header(&self, asm: &mut Assembler) {
        let Layout { packet, .. } = &self.layout;
        let at = |field: i16| scratch::DATA + field;
        asm.store_imm(Size::H, Reg::R6, at(cooked::RESERVED), 0);
        asm.load(Size::W, Reg::R1, Reg::R6, scratch::INTERFACE);
        asm.from_network(Reg::R1, Size::W);
        asm.store(Size::W, Reg::R6, at(cooked::INTERFACE), Reg::R1);
        asm.load(Size::W, Reg::R2, Reg::R6, own::HARDWARE_TYPE);
        asm.mov64(Reg::R1, Reg::R2);
        asm.from_network(Reg::R1, Size::H);
        asm.store(Size::H, Reg::R6, at(cooked::HARDWARE_TYPE), Reg::R1);
        asm.load(Size::W, Reg::R1, Reg::R6, scratch::PACKET_TYPE);
        asm.store(Size::B, Reg::R6, at(cooked::PACKET_TYPE), Reg::R1);
        asm.store_imm(Size::B, Reg::R6, at(cooked::ADDRESS_LEN), 0);
        asm.store_imm(Size::W, Reg::R6, at(cooked::ADDRESS), 0);
        asm.store_imm(Size::W, Reg::R6, at(cooked::ADDRESS) + 4, 0);
        let without = asm.label();
        asm.jump_if(Cond::Ne, Width::W32, Reg::R2, ETHERNET, without);
        Self::packet(Size::H, Reg::R1, packet.mac_header, asm);
        asm.jump_if(Cond::Eq, Width::W32, Reg::R1, NO_HEADER, without);
        Self::packet(Size::H, Reg::R2, packet.network_header, asm);
        asm.mov64(Reg::R3, Reg::R1);
        asm.add64(Reg::R3, ETHERNET_HEADER);
        asm.jump_if(Cond::Gt, Width::W64, Reg::R3, Reg::R2, without);
        Self::packet(Size::Dw, Reg::R7, packet.head, asm);
        asm.alu64(AluOp::Add, Reg::R7, Reg::R1);
        read(
            at(cooked::ADDRESS),
            ADDRESS_BYTES,
            (Reg::R7, ADDRESS_BYTES),
            asm,
        );
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, without);
        asm.store_imm(Size::B, Reg::R6, at(cooked::ADDRESS_LEN), ADDRESS_BYTES);
        asm.place(without);
    }

    /// Releases the scratch value in R6.
    pub(super) fn release(asm: &mut Assembler) {
        asm.store_imm(Size::Dw, Reg::R6, own::BUSY, 0);
    }

    /// Puts the packet's length into R0, and limits slot LIMIT to the bytes that are there.
    pub(super) fn measure(asm: &mut Assembler) {
        let fits = asm.label();
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::LIMIT);
        asm.load(Size::W, Reg::R0, Reg::R6, scratch::CAPLEN);
        asm.jump_if(Cond::Ge, Width::W64, Reg::R0, Reg::R1, fits);
        asm.store(Size::Dw, Reg::R10, slot::LIMIT, Reg::R0);
        asm.place(fits);
        asm.load(Size::W, Reg::R0, Reg::R6, scratch::LEN);
    }

    /// Copies the packet to the record at R9.
    pub(super) fn copy(ends: Ends, asm: &mut Assembler) {
        asm.mov64(Reg::R1, Reg::R9);
        asm.add64(Reg::R1, i32::from(HEADER));
        asm.load(Size::Dw, Reg::R2, Reg::R10, slot::CAPLEN);
        asm.mov64(Reg::R3, Reg::R6);
        asm.add64(Reg::R3, i32::from(scratch::DATA));
        asm.call(Helper::ProbeReadKernel);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, ends.unreadable);
    }

    /// Puts the record's flags into R1; loses R2.
    pub(super) fn flags(asm: &mut Assembler) {
        let (sent, known) = (asm.label(), asm.label());
        asm.load(Size::W, Reg::R2, Reg::R6, scratch::PACKET_TYPE);
        asm.jump_if(Cond::Eq, Width::W32, Reg::R2, OUTGOING, sent);
        record::received_flags(asm);
        asm.jump(known);
        asm.place(sent);
        asm.mov64(Reg::R1, record::OUTBOUND);
        asm.place(known);
    }

    /// Writes the option with the facts at R2 + `at`; loses R1.
    pub(super) fn write_option(at: i16, asm: &mut Assembler) {
        asm.store_imm(Size::W, Reg::R2, at, OPTION.word());
        asm.store_imm(Size::W, Reg::R2, at + 4, OPTION_MARK.cast_signed());
        let words = [
            own::REASON,
            own::NAMESPACE,
            scratch::INTERFACE,
            own::LOCATION,
            own::LOCATION + 4,
            own::HARDWARE_TYPE,
        ];
        for (to, from) in (at + 8..).step_by(4).zip(words) {
            asm.load(Size::W, Reg::R1, Reg::R6, from);
            asm.store(Size::W, Reg::R2, to, Reg::R1);
        }
    }
}

/// The input of a program that counts by reason.
pub(in super::super) struct Counted<'a> {
    /// The filter, and its expression.
    pub(in super::super) filter: Option<(Program, &'a str)>,
    /// A slot for each of the kernel's own reasons, by number, then for those of subsystems, then for others.
    pub(in super::super) counters: &'a Counters,
    /// The number of slots for the kernel's own reasons.
    pub(in super::super) numbered: u32,
    /// The reasons of subsystems.
    pub(in super::super) subsystems: Vec<u32>,
    /// The map whose value has the count of lost packets at [`LOST_WORD`].
    pub(in super::super) lost: i32,
}

/// Bytes of that value, and the place of the count.
pub(in super::super) const LOST_BYTES: u32 = 16;
pub(in super::super) const LOST_WORD: usize = state::NO_PLACE.unsigned_abs() as usize;

impl Drops {
    /// Returns a program that counts packets by reason.
    pub(in super::super) fn code_that_counts(
        &self,
        counted: &Counted<'_>,
    ) -> Result<Vec<u64>, StatError> {
        let mut asm = Assembler::new();
        let out = Out {
            leave: asm.label(),
            lost: asm.label(),
        };
        self.gather(counted.lost, out, &mut asm);
        if let Some((filter, expression)) = &counted.filter {
            let exits = Exits {
                accept: asm.label(),
                reject: out.leave,
            };
            lower(filter, Hook::Scratch, &mut asm, exits).map_err(|source| StatError::Filter {
                number: 1,
                expression: (*expression).to_owned(),
                source,
            })?;
            asm.place(exits.accept);
        }
        counted.count(out.leave, &mut asm);
        asm.jump(out.leave);
        asm.place(out.lost);
        count_lost(counted.lost, &mut asm);
        asm.place(out.leave);
        Self::release(&mut asm);
        asm.mov32(Reg::R0, 0);
        asm.exit();
        Ok(asm.finish()?)
    }
}

impl Counted<'_> {
    /// Adds the packet to the slot of its reason, and to the total.
    fn count(&self, none: Label, asm: &mut Assembler) {
        let counters = self.counters;
        let found = asm.label();
        let numbered = self.numbered.cast_signed();
        asm.load(Size::W, Reg::R7, Reg::R6, own::REASON);
        asm.jump_if(Cond::Lt, Width::W64, Reg::R7, numbered, found);
        asm.mov64(Reg::R1, Reg::R7);
        for (slot, &reason) in (numbered..).zip(&self.subsystems) {
            asm.mov64(Reg::R7, slot);
            asm.jump_if(Cond::Eq, Width::W32, Reg::R1, reason.cast_signed(), found);
        }
        let others = i32::try_from(self.subsystems.len()).unwrap_or_default();
        asm.mov64(Reg::R7, numbered + others);
        asm.place(found);
        asm.call(Helper::GetSmpProcessorId);
        asm.jump_if(Cond::Ge, Width::W64, Reg::R0, as_imm(counters.cpus()), none);
        asm.alu64(AluOp::Mul, Reg::R0, as_imm(counters.stride()));
        load_value(Reg::R1, counters.map().as_fd().as_raw_fd(), 0, asm);
        asm.add64(Reg::R1, Reg::R0);
        asm.load(Size::W, Reg::R2, Reg::R6, scratch::LEN);
        asm.add64(Reg::R2, -record::COOKED.cast_signed());
        let total = i16::try_from(slot_offset(counters.total_slot(true))).unwrap_or(i16::MAX);
        add_packet(total, counters.atomic(), asm);
        asm.alu64(AluOp::Mul, Reg::R7, as_imm(slot_offset(1)));
        asm.alu64(AluOp::Add, Reg::R1, Reg::R7);
        add_packet(0, counters.atomic(), asm);
    }
}

/// Copies `bytes` bytes of the kernel's memory at a register plus an offset to the scratch value.
fn read(to: i16, bytes: i32, (from, offset): (Reg, i32), asm: &mut Assembler) {
    asm.mov64(Reg::R1, Reg::R6);
    asm.add64(Reg::R1, i32::from(to));
    asm.mov64(Reg::R2, bytes);
    asm.mov64(Reg::R3, from);
    asm.add64(Reg::R3, offset);
    asm.call(Helper::ProbeReadKernel);
}

/// Counts a packet that is lost before a ring was found; loses R1 and R2.
pub(super) fn count_lost(state: i32, asm: &mut Assembler) {
    load_value(Reg::R2, state, 0, asm);
    asm.mov64(Reg::R1, 1);
    asm.atomic(Size::Dw, AtomicOp::Add, Reg::R2, state::NO_PLACE, Reg::R1);
}
