//! The process of a packet, read from the storage of its socket ([`crate::who`]).
//!
//! A packet that is sent knows its socket. The socket of a received packet is looked up by its addresses and
//! ports. A wildcard socket matches packets to any address, also those that are only forwarded; so the route
//! is asked whether the packet is for this host. A received packet without a receiving socket here may still
//! know the socket that sent it: it came through a virtual cable.
//!
//! A dropped packet names its socket itself ([`super::drops`]).

use ringtap_filter::ebpf::lower::{self, Exits};
use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Label, Reg, Size, Width};
use ringtap_filter::process::PacketOwner;
use ringtap_packet::process::{PROCESS_ENTERPRISE, layout};
use ringtap_packet::{ether_type, protocol};

use super::record::{HEADER, Head};
use super::{EmitError, Ends, STORES_ARE_ORDERED, Tap, skb, slot};
use crate::emit::{load_map, load_slot};
use crate::source::ProgramPart;
use crate::who::{OWNER_TAG, OwnerMaps, key};

/// Bytes of a tag.
const TAG: i16 = 56;
/// Bytes of both options: `epb_processid_threadid`, and the tag with its enterprise number.
pub(super) const PROCESS: u32 = 4 + 8 + 4 + 4 + TAG as u32;
const IDS: Head = Head { code: 8, len: 8 };
const CUSTOM: Head = Head {
    code: 2989,
    len: 4 + TAG.cast_unsigned(),
};

/// Bytes of `struct bpf_sock_tuple` for each version of IP.
const TUPLE_V4: i32 = 12;
const TUPLE_V6: i32 = 36;
/// `BPF_F_CURRENT_NETNS`.
const THIS_NAMESPACE: i32 = -1;
/// `BPF_HDR_START_NET`.
const FROM_NETWORK_HEADER: i32 = 1;

/// Offsets in `struct bpf_sock`.
mod sock {
    pub(super) const ADDRESS_V4: i16 = 24;
    pub(super) const ADDRESS_V6: i16 = 28;
    pub(super) const STATE: i16 = 72;
}
/// `BPF_TCP_LISTEN`.
const LISTEN: i32 = 10;

/// Offsets in `struct bpf_fib_lookup`, and its size.
mod fib {
    pub(super) const FAMILY: i16 = 0;
    pub(super) const PROTOCOL: i16 = 1;
    pub(super) const INTERFACE: i16 = 8;
    pub(super) const SOURCE: i16 = 16;
    pub(super) const DESTINATION: i16 = 32;
    pub(super) const BYTES: i16 = 64;
}
/// `BPF_FIB_LKUP_RET_NOT_FWDED`: the packet is for this host. `BPF_FIB_LKUP_RET_FWD_DISABLED`: the host forwards
/// nothing from this interface.
const FOR_THIS_HOST: [i32; 2] = [4, 5];
/// `AF_INET` and `AF_INET6`.
const FAMILY: [i32; 2] = [2, 10];

/// The version of IP.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    V4,
    V6,
}

impl Tap<'_> {
    /// Puts the process of the packet into slot PROCESS, and the bytes of its options into slot OPTIONS: 0 if it
    /// is unknown. R6 holds the context.
    pub(super) fn find_process(&self, asm: &mut Assembler) {
        let Some(owners) = self.maps.owners else {
            return;
        };
        let (unknown, done) = (asm.label(), asm.label());
        asm.store_imm(Size::Dw, Reg::R10, slot::OPTIONS, 0);
        if let Some(drops) = self.drops {
            drops.find_process(owners, asm);
        } else if self.place.is_ingress() {
            // Packets to other hosts; and those that several sockets may receive.
            asm.load(Size::W, Reg::R1, Reg::R6, skb::PACKET_TYPE);
            asm.jump_if(Cond::Ne, Width::W32, Reg::R1, 0, unknown);
            self.by_addresses(owners, unknown, done, asm);
            asm.place(unknown);
            find_sender(owners.by_socket, done, done, layout::SENDER, asm);
        } else {
            let (request, closed) = (asm.label(), asm.label());
            find_sender(owners.by_socket, request, done, 0, asm);
            asm.place(request);
            // A connection request is answered before it has a socket of its own.
            asm.load(Size::Dw, Reg::R1, Reg::R6, skb::SOCKET);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, closed);
            asm.call(Helper::GetListenerSock);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, closed);
            asm.mov64(Reg::R2, Reg::R0);
            read_owner(owners.by_socket, done, asm);
            note(layout::LISTENS, asm);
            asm.jump(done);
            asm.place(closed);
            // The kernel's own socket answers for connections that are closed, over IPv6 without naming itself.
            if owners.closed.is_some() {
                self.by_addresses(owners, done, done, asm);
            }
        }
        asm.place(done);
    }

    /// Rejects the packet if the filter rejects it with its process in slot PROCESS.
    pub(super) fn filter_process(&self, asm: &mut Assembler, ends: Ends) -> Result<(), EmitError> {
        let Some(filter) = self.process else {
            return Ok(());
        };
        asm.mark(ProgramPart::Filter.name());
        let known = asm.label();
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::OPTIONS);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, known);
        let PacketOwner { pid, uid, .. } = PacketOwner::UNKNOWN;
        for (field, value) in [(layout::PID, pid), (layout::UID, uid)] {
            let at = slot::PROCESS + in_tag(field);
            asm.store_imm(Size::W, Reg::R10, at, value.cast_signed());
        }
        for at in [0, 8] {
            let at = slot::PROCESS + in_tag(layout::COMM) + at;
            asm.store_imm(Size::Dw, Reg::R10, at, 0);
        }
        asm.place(known);
        let accept = asm.label();
        let exits = Exits {
            accept,
            reject: ends.pass,
        };
        lower::with_process(filter, self.hook(), slot::PROCESS, asm, exits)?;
        asm.place(accept);
        Ok(())
    }

    /// Finds the owner by the packet's addresses and ports; goes to `unknown` if there is none, else to `found`. A
    /// packet that is sent belongs to no socket, but possibly to a closed connection.
    fn by_addresses(&self, owners: OwnerMaps, unknown: Label, found: Label, asm: &mut Assembler) {
        asm.load(Size::W, Reg::R1, Reg::R6, skb::PROTOCOL);
        let v6 = asm.label();
        let kinds = [ether_type::IPV4, ether_type::IPV6];
        let [kind_v4, kind_v6] = kinds.map(|number| i32::from(number.to_be()));
        asm.jump_if(Cond::Eq, Width::W32, Reg::R1, kind_v6, v6);
        asm.jump_if(Cond::Ne, Width::W32, Reg::R1, kind_v4, unknown);
        read_v4(unknown, asm);
        self.by_transport(Version::V4, owners, unknown, found, asm);
        asm.place(v6);
        read_v6(unknown, asm);
        self.by_transport(Version::V6, owners, unknown, found, asm);
    }

    /// Looks up the socket of the protocol in R8, then the closed connection.
    fn by_transport(
        &self,
        version: Version,
        owners: OwnerMaps,
        unknown: Label,
        found: Label,
        asm: &mut Assembler,
    ) {
        let [tcp_number, udp_number] = [protocol::TCP, protocol::UDP].map(i32::from);
        if self.place.is_ingress() {
            let (udp, closed) = (asm.label(), asm.label());
            let no_socket = owners.closed.map_or(unknown, |_| closed);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R8, udp_number, udp);
            asm.jump_if(Cond::Ne, Width::W64, Reg::R8, tcp_number, unknown);
            let (by_socket, look_up) = (owners.by_socket, Helper::SkLookupTcp);
            by_tuple(version, look_up, by_socket, no_socket, found, asm);
            asm.place(udp);
            by_tuple(version, Helper::SkLookupUdp, by_socket, unknown, found, asm);
            asm.place(closed);
        } else {
            asm.jump_if(Cond::Ne, Width::W64, Reg::R8, tcp_number, unknown);
        }
        if let Some(closed) = owners.closed {
            self.look_for_closed(version, closed, unknown, asm);
            asm.jump(found);
        }
    }

    /// Copies the owner of the closed connection of slot TUPLE, or goes to `unknown`.
    fn look_for_closed(&self, version: Version, closed: i32, unknown: Label, asm: &mut Assembler) {
        let bytes: i16 = match version {
            Version::V4 => 4,
            Version::V6 => 16,
        };
        let (source, destination) = ((0, 2 * bytes), (bytes, 2 * bytes + 2));
        let (local, remote) = if self.place.is_ingress() {
            (destination, source)
        } else {
            (source, destination)
        };
        for word in (0..key::BYTES).step_by(8) {
            asm.store_imm(Size::Dw, Reg::R10, slot::CONNECTION + word, 0);
        }
        let namespace = self.namespace.cast_signed();
        asm.store_imm(
            Size::W,
            Reg::R10,
            slot::CONNECTION + key::NAMESPACE,
            namespace,
        );
        let ends = [
            (local, key::LOCAL, key::LOCAL_PORT),
            (remote, key::REMOTE, key::REMOTE_PORT),
        ];
        for ((address, port), to_address, to_port) in ends {
            for word in (0..bytes).step_by(4) {
                asm.load(Size::W, Reg::R1, Reg::R10, slot::TUPLE + address + word);
                asm.store(
                    Size::W,
                    Reg::R10,
                    slot::CONNECTION + to_address + word,
                    Reg::R1,
                );
            }
            asm.load(Size::H, Reg::R1, Reg::R10, slot::TUPLE + port);
            asm.store(Size::H, Reg::R10, slot::CONNECTION + to_port, Reg::R1);
        }
        load_map(Reg::R1, closed, asm);
        load_slot(Reg::R2, slot::CONNECTION, asm);
        asm.call(Helper::MapLookupElem);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, unknown);
        for at in (0..TAG).step_by(8) {
            asm.load(Size::Dw, Reg::R1, Reg::R0, at);
            asm.store(Size::Dw, Reg::R10, slot::PROCESS + at, Reg::R1);
        }
        asm.store_imm(Size::Dw, Reg::R10, slot::OPTIONS, PROCESS.cast_signed());
    }

    /// Writes the process's options into the record whose options begin 8 bytes before those at
    /// R2 + [`HEADER`] + 8, and adds their length to R2.
    pub(super) fn write_process(&self, asm: &mut Assembler) {
        if self.maps.owners.is_none() {
            return;
        }
        let unknown = asm.label();
        asm.load(Size::Dw, Reg::R1, Reg::R10, slot::OPTIONS);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, unknown);
        let mut at = HEADER + 8;
        let mut put = |value: Value, asm: &mut Assembler| {
            match value {
                Value::Number(number) => asm.store_imm(Size::W, Reg::R2, at, number),
                Value::Tag(offset) => {
                    asm.load(Size::W, Reg::R1, Reg::R10, slot::PROCESS + offset);
                    asm.store(Size::W, Reg::R2, at, Reg::R1);
                }
            }
            at += 4;
        };
        put(Value::Number(IDS.word()), asm);
        put(Value::Tag(in_tag(layout::PID)), asm);
        put(Value::Tag(in_tag(layout::TID)), asm);
        put(Value::Number(CUSTOM.word()), asm);
        put(Value::Number(PROCESS_ENTERPRISE.cast_signed()), asm);
        for offset in (0..TAG).step_by(4) {
            put(Value::Tag(offset), asm);
        }
        asm.add64(Reg::R2, PROCESS.cast_signed());
        asm.place(unknown);
    }

    /// Adds the length of the process's options to R1; R2 is lost.
    pub(super) fn add_process_length(&self, asm: &mut Assembler) {
        if self.maps.owners.is_some() {
            asm.load(Size::Dw, Reg::R2, Reg::R10, slot::OPTIONS);
            asm.add64(Reg::R1, Reg::R2);
        }
    }

    /// Returns the largest length of the process's options.
    pub(super) fn process_room(&self) -> u32 {
        self.maps.owners.map_or(0, |_| PROCESS)
    }
}

/// A word of an option.
enum Value {
    Number(i32),
    /// From the tag, at that offset.
    Tag(i16),
}

fn in_tag(offset: usize) -> i16 {
    i16::try_from(offset).unwrap_or_default()
}

/// Finds the owner of the packet's own socket; goes to `none` if it has none, else to `found`.
fn find_sender(owners: i32, none: Label, found: Label, flag: u8, asm: &mut Assembler) {
    asm.load(Size::Dw, Reg::R2, Reg::R6, skb::SOCKET);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R2, 0, none);
    read_owner(owners, none, asm);
    if flag != 0 {
        note(flag, asm);
    }
    asm.jump(found);
}

/// Copies bytes of the packet, from the network header on, to the stack. The offset is in R2 already if `from` is
/// `None`.
fn load(from: Option<i32>, to: i16, bytes: i32, unknown: Label, asm: &mut Assembler) {
    asm.mov64(Reg::R1, Reg::R6);
    if let Some(from) = from {
        asm.mov64(Reg::R2, from);
    }
    load_slot(Reg::R3, to, asm);
    asm.mov64(Reg::R4, bytes);
    asm.mov64(Reg::R5, FROM_NETWORK_HEADER);
    asm.call(Helper::SkbLoadBytesRelative);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, unknown);
}

/// Makes the tuple of an IPv4 packet in slot TUPLE, and puts its protocol into R8.
fn read_v4(unknown: Label, asm: &mut Assembler) {
    let header = slot::IP;
    load(Some(0), header, 20, unknown, asm);
    asm.load(Size::B, Reg::R7, Reg::R10, header);
    asm.alu64(AluOp::And, Reg::R7, 0x0f);
    asm.alu64(AluOp::Lsh, Reg::R7, 2);
    asm.jump_if(Cond::Lt, Width::W64, Reg::R7, 20, unknown);
    // Only the first fragment has ports.
    asm.load(Size::H, Reg::R1, Reg::R10, header + 6);
    let offset = i32::from(0x1fff_u16.to_be());
    asm.jump_if(Cond::Set, Width::W64, Reg::R1, offset, unknown);
    asm.load(Size::B, Reg::R8, Reg::R10, header + 9);
    for word in [0, 4] {
        asm.load(Size::W, Reg::R1, Reg::R10, header + 12 + word);
        asm.store(Size::W, Reg::R10, slot::TUPLE + word, Reg::R1);
    }
    asm.mov64(Reg::R2, Reg::R7);
    load(None, slot::TUPLE + 8, 4, unknown, asm);
}

/// Makes the tuple of an IPv6 packet, like [`read_v4`]. Packets with extension headers are unknown.
fn read_v6(unknown: Label, asm: &mut Assembler) {
    let header = slot::IP;
    load(Some(0), header, 40, unknown, asm);
    asm.load(Size::B, Reg::R8, Reg::R10, header + 6);
    for word in (0..32).step_by(4) {
        asm.load(Size::W, Reg::R1, Reg::R10, header + 8 + word);
        asm.store(Size::W, Reg::R10, slot::TUPLE + word, Reg::R1);
    }
    load(Some(40), slot::TUPLE + 32, 4, unknown, asm);
}

/// Looks up the socket of slot TUPLE; goes to `unknown` if there is none that receives the packet, else to `found`.
fn by_tuple(
    version: Version,
    helper: Helper,
    owners: i32,
    unknown: Label,
    found: Label,
    asm: &mut Assembler,
) {
    let (mine, release) = (asm.label(), asm.label());
    asm.mov64(Reg::R1, Reg::R6);
    load_slot(Reg::R2, slot::TUPLE, asm);
    asm.mov64(
        Reg::R3,
        if version == Version::V4 {
            TUPLE_V4
        } else {
            TUPLE_V6
        },
    );
    asm.mov64(Reg::R4, THIS_NAMESPACE);
    asm.mov64(Reg::R5, 0);
    asm.call(helper);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, unknown);
    asm.mov64(Reg::R7, Reg::R0);
    let addresses: &[i16] = match version {
        Version::V4 => &[sock::ADDRESS_V4],
        Version::V6 => &[0, 4, 8, 12].map(|word| sock::ADDRESS_V6 + word),
    };
    for &address in addresses {
        asm.load(Size::W, Reg::R1, Reg::R7, address);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, mine);
    }
    ask_route(version, asm);
    for result in FOR_THIS_HOST {
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, result, mine);
    }
    asm.jump(release);
    asm.place(mine);
    asm.mov64(Reg::R2, Reg::R7);
    read_owner(owners, release, asm);
    if helper == Helper::SkLookupTcp {
        let connected = asm.label();
        asm.load(Size::W, Reg::R1, Reg::R7, sock::STATE);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R1, LISTEN, connected);
        note(layout::LISTENS, asm);
        asm.place(connected);
    }
    let_go(asm);
    asm.jump(found);
    asm.place(release);
    let_go(asm);
    asm.jump(unknown);
}

/// Releases the socket in R7.
fn let_go(asm: &mut Assembler) {
    asm.mov64(Reg::R1, Reg::R7);
    asm.call(Helper::SkRelease);
}

/// Puts the reason why the packet of slot TUPLE is not forwarded into R0.
fn ask_route(version: Version, asm: &mut Assembler) {
    let at = |field: i16| slot::FIB + field;
    for word in (0..fib::BYTES).step_by(8) {
        asm.store_imm(Size::Dw, Reg::R10, at(word), 0);
    }
    let [v4, v6] = FAMILY;
    let (family, bytes) = match version {
        Version::V4 => (v4, 4),
        Version::V6 => (v6, 16),
    };
    asm.store_imm(Size::B, Reg::R10, at(fib::FAMILY), family);
    asm.store(Size::B, Reg::R10, at(fib::PROTOCOL), Reg::R8);
    asm.load(Size::W, Reg::R1, Reg::R6, skb::INTERFACE);
    asm.store(Size::W, Reg::R10, at(fib::INTERFACE), Reg::R1);
    for word in (0..bytes).step_by(4) {
        asm.load(Size::W, Reg::R1, Reg::R10, slot::TUPLE + word);
        asm.store(Size::W, Reg::R10, at(fib::SOURCE) + word, Reg::R1);
        asm.load(Size::W, Reg::R1, Reg::R10, slot::TUPLE + bytes + word);
        asm.store(Size::W, Reg::R10, at(fib::DESTINATION) + word, Reg::R1);
    }
    asm.mov64(Reg::R1, Reg::R6);
    load_slot(Reg::R2, slot::FIB, asm);
    asm.mov64(Reg::R3, i32::from(fib::BYTES));
    asm.mov64(Reg::R4, 0);
    asm.call(Helper::FibLookup);
}

/// Copies the owner of the socket in R2 into slot PROCESS, and notes the options' length. Goes to `none` if the
/// owner is unknown, or is being written.
pub(super) fn read_owner(owners: i32, none: Label, asm: &mut Assembler) {
    load_map(Reg::R1, owners, asm);
    asm.mov64(Reg::R3, 0);
    asm.mov64(Reg::R4, 0);
    asm.call(Helper::SkStorageGet);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
    load_counter(Reg::R3, asm);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R3, 0, none);
    asm.jump_if(Cond::Set, Width::W64, Reg::R3, 1, none);
    for at in (0..TAG).step_by(8) {
        asm.load(Size::Dw, Reg::R1, Reg::R0, OWNER_TAG + at);
        asm.store(Size::Dw, Reg::R10, slot::PROCESS + at, Reg::R1);
    }
    load_counter(Reg::R4, asm);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R3, Reg::R4, none);
    asm.store_imm(Size::Dw, Reg::R10, slot::OPTIONS, PROCESS.cast_signed());
}

/// Loads the counter of the storage at R0, in order with the loads around it.
fn load_counter(dst: Reg, asm: &mut Assembler) {
    if STORES_ARE_ORDERED {
        asm.load(Size::Dw, dst, Reg::R0, 0);
    } else {
        asm.mov64(dst, 0);
        asm.atomic(Size::Dw, AtomicOp::FetchAdd, Reg::R0, 0, dst);
    }
}

/// Adds a flag to the tag in slot PROCESS.
fn note(flag: u8, asm: &mut Assembler) {
    let at = slot::PROCESS + 3;
    asm.load(Size::B, Reg::R1, Reg::R10, at);
    asm.alu64(AluOp::Or, Reg::R1, i32::from(flag));
    asm.store(Size::B, Reg::R10, at, Reg::R1);
}
