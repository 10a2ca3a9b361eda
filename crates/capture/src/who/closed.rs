//! Connections whose socket is gone while their last packets are on their way.
//!
//! When TCP has closed a connection, a smaller structure without storage takes the socket's place for a minute
//! (`TIME_WAIT`). A program at the tracepoint `inet_sock_set_state` copies the owner into a table before that. The
//! table is asked only for packets without a socket, and forgets what was not asked for long.

use ringtap_filter::ebpf::{Assembler, Cond, Helper, Label, Reg, Size, Width};
use ringtap_sys::bpf::KernelTypes;

use super::program::{OWNER_TAG, TAG_BYTES};
use crate::emit::{load_map, load_slot};

/// The tracepoint.
pub(super) const TRACEPOINT: &str = "inet_sock_set_state";
/// The number of connections in the table.
pub(super) const CONNECTIONS: u32 = 32_768;

/// The key of a connection: the number of the network namespace, both ports and both addresses in network
/// order. IPv4 addresses are at the start of their place.
pub(crate) mod key {
    pub(crate) const NAMESPACE: i16 = 0;
    pub(crate) const LOCAL_PORT: i16 = 4;
    pub(crate) const REMOTE_PORT: i16 = 6;
    pub(crate) const LOCAL: i16 = 8;
    pub(crate) const REMOTE: i16 = 24;
    pub(crate) const BYTES: i16 = 40;
}

/// `TCP_CLOSE`.
const CLOSED: i32 = 7;
/// `AF_INET` and `AF_INET6`.
const V4: i32 = 2;
const V6: i32 = 10;

/// Slots of the stack.
mod slot {
    pub(super) const KEY: i16 = -super::key::BYTES;
    pub(super) const TAG: i16 = KEY - super::TAG_BYTES;
}

/// Offsets in the running kernel's structure of a socket.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    family: i16,
    net: i16,
    net_number: i16,
    local_port: i16,
    remote_port: i16,
    local_v4: i16,
    remote_v4: i16,
    local_v6: i16,
    remote_v6: i16,
}

impl Offsets {
    /// `None` if the kernel has other members, or no IPv6.
    fn find(types: &KernelTypes) -> Option<Self> {
        let offset = |structure: &str, member: &str| {
            let found = types.member(structure, member)?;
            i16::try_from(found).ok()
        };
        let common = |member: &str| offset("sock_common", member);
        Some(Self {
            family: common("skc_family")?,
            net: common("skc_net")?,
            net_number: offset("net", "ns")? + offset("ns_common", "inum")?,
            // The port itself (`skc_num`) is given back before the tracepoint.
            local_port: offset("inet_sock", "inet_sport")?,
            remote_port: common("skc_dport")?,
            local_v4: common("skc_rcv_saddr")?,
            remote_v4: common("skc_daddr")?,
            local_v6: common("skc_v6_rcv_saddr")?,
            remote_v6: common("skc_v6_daddr")?,
        })
    }
}

/// Returns the program for the tracepoint. `None` if the kernel lacks what it needs. The maps are given by their fds.
pub(super) fn code(types: &KernelTypes, owners: i32, closed: i32) -> Option<Vec<u64>> {
    let offsets = Offsets::find(types)?;
    let mut asm = Assembler::new();
    let (out, v6, keyed) = (asm.label(), asm.label(), asm.label());
    asm.load(Size::Dw, Reg::R2, Reg::R1, 16);
    asm.jump_if(Cond::Ne, Width::W32, Reg::R2, CLOSED, out);
    asm.load(Size::Dw, Reg::R6, Reg::R1, 0);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
    read_owner(owners, out, &mut asm);
    for word in (0..key::BYTES).step_by(8) {
        asm.store_imm(Size::Dw, Reg::R10, slot::KEY + word, 0);
    }
    asm.load(Size::Dw, Reg::R1, Reg::R6, offsets.net);
    asm.load(Size::W, Reg::R1, Reg::R1, offsets.net_number);
    asm.store(Size::W, Reg::R10, slot::KEY + key::NAMESPACE, Reg::R1);
    read(offsets.local_port, key::LOCAL_PORT, 2, &mut asm);
    asm.load(Size::H, Reg::R1, Reg::R6, offsets.remote_port);
    asm.store(Size::H, Reg::R10, slot::KEY + key::REMOTE_PORT, Reg::R1);
    asm.load(Size::H, Reg::R7, Reg::R6, offsets.family);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R7, V6, v6);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R7, V4, out);
    let v4 = asm.label();
    asm.place(v4);
    read(offsets.local_v4, key::LOCAL, 4, &mut asm);
    read(offsets.remote_v4, key::REMOTE, 4, &mut asm);
    asm.jump(keyed);
    asm.place(v6);
    read(offsets.remote_v6, key::REMOTE, 16, &mut asm);
    read(offsets.local_v6, key::LOCAL, 16, &mut asm);
    leave_mapped(offsets, keyed, &mut asm);
    asm.place(keyed);
    load_map(Reg::R1, closed, &mut asm);
    load_slot(Reg::R2, slot::KEY, &mut asm);
    load_slot(Reg::R3, slot::TAG, &mut asm);
    asm.mov64(Reg::R4, 0);
    asm.call(Helper::MapUpdateElem);
    asm.place(out);
    asm.mov32(Reg::R0, 0);
    asm.exit();
    // All labels are placed, and near.
    asm.finish().ok()
}

/// Copies the owner of the socket in R6 to slot TAG; goes to `out` if it is unknown or being written.
fn read_owner(owners: i32, out: Label, asm: &mut Assembler) {
    load_map(Reg::R1, owners, asm);
    asm.mov64(Reg::R2, Reg::R6);
    asm.mov64(Reg::R3, 0);
    asm.mov64(Reg::R4, 0);
    asm.call(Helper::SkStorageGet);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, out);
    asm.load(Size::Dw, Reg::R1, Reg::R0, 0);
    asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, out);
    asm.jump_if(Cond::Set, Width::W64, Reg::R1, 1, out);
    for at in (0..TAG_BYTES).step_by(8) {
        asm.load(Size::Dw, Reg::R2, Reg::R0, OWNER_TAG + at);
        asm.store(Size::Dw, Reg::R10, slot::TAG + at, Reg::R2);
    }
    asm.load(Size::Dw, Reg::R2, Reg::R0, 0);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R1, Reg::R2, out);
}

/// Replaces IPv6 addresses that stand for IPv4 addresses (::ffff:0:0/96) by these, and otherwise goes to `keyed`.
fn leave_mapped(offsets: Offsets, keyed: Label, asm: &mut Assembler) {
    let mapped = 0x0000_ffff_u32.to_be().cast_signed();
    asm.load(Size::Dw, Reg::R1, Reg::R10, slot::KEY + key::REMOTE);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R1, 0, keyed);
    asm.load(Size::W, Reg::R1, Reg::R10, slot::KEY + key::REMOTE + 8);
    asm.jump_if(Cond::Ne, Width::W32, Reg::R1, mapped, keyed);
    for word in (0..32).step_by(8) {
        asm.store_imm(Size::Dw, Reg::R10, slot::KEY + key::LOCAL + word, 0);
    }
    read(offsets.local_v4, key::LOCAL, 4, asm);
    read(offsets.remote_v4, key::REMOTE, 4, asm);
}

/// Copies an address or a port of the socket in R6 into the key.
fn read(from: i16, to: i16, bytes: i32, asm: &mut Assembler) {
    load_slot(Reg::R1, slot::KEY + to, asm);
    asm.mov64(Reg::R2, bytes);
    asm.mov64(Reg::R3, Reg::R6);
    asm.add64(Reg::R3, i32::from(from));
    asm.call(Helper::ProbeReadKernel);
}
