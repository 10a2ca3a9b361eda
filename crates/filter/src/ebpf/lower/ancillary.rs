//! Linux ancillary loads, from the context of the hook.

use ringtap_packet::process::layout;

use super::step::{A, X};
use super::{Hook, LowerError, scratch};
use crate::ebpf::{AluOp, Assembler, Helper, Reg, Size};
use crate::program::opcode as op;

/// Offsets in `struct __sk_buff`, all of 32 bits.
pub(super) mod skb {
    pub(in crate::ebpf::lower) const LEN: i16 = 0;
    pub(in crate::ebpf::lower) const PACKET_TYPE: i16 = 4;
    pub(in crate::ebpf::lower) const MARK: i16 = 8;
    pub(in crate::ebpf::lower) const QUEUE_MAPPING: i16 = 12;
    /// In network order.
    pub(in crate::ebpf::lower) const PROTOCOL: i16 = 16;
    pub(in crate::ebpf::lower) const VLAN_PRESENT: i16 = 20;
    pub(in crate::ebpf::lower) const VLAN_TCI: i16 = 24;
    /// In network order.
    pub(in crate::ebpf::lower) const VLAN_PROTO: i16 = 28;
    pub(in crate::ebpf::lower) const IFINDEX: i16 = 40;
    pub(in crate::ebpf::lower) const HASH: i16 = 68;
    pub(in crate::ebpf::lower) const DATA: i16 = 76;
    pub(in crate::ebpf::lower) const DATA_END: i16 = 80;
}

/// Offsets in `struct xdp_md`, all of 32 bits.
pub(super) mod xdp {
    pub(in crate::ebpf::lower) const DATA: i16 = 0;
    pub(in crate::ebpf::lower) const DATA_END: i16 = 4;
    pub(in crate::ebpf::lower) const IFINDEX: i16 = 12;
    pub(in crate::ebpf::lower) const QUEUE: i16 = 16;
}

/// Writes a load of metadata to A. Returns whether a helper is called, which R1 to R5 do not
/// survive.
pub(super) fn write(
    offset: u32,
    at: usize,
    hook: Hook,
    process: Option<i16>,
    asm: &mut Assembler,
) -> Result<bool, LowerError> {
    let unknown = LowerError::Unknown {
        at,
        what: name(offset),
        hook: hook.name(),
    };
    match offset {
        _ if op::is_process(offset) => {
            let field = process_field(offset).ok_or(unknown)?;
            asm.load(Size::W, A, Reg::R10, process.ok_or(unknown)? + field);
            if offset >= op::PROCESS_NAME {
                asm.from_network(A, Size::W);
            }
        }
        op::SKF_AD_ALU_XOR_X => asm.alu32(AluOp::Xor, A, X),
        op::SKF_AD_CPU => return Ok(call(Helper::GetSmpProcessorId, asm)),
        op::SKF_AD_RANDOM => return Ok(call(Helper::GetPrandomU32, asm)),
        _ => {
            let field = match hook {
                Hook::Xdp { .. } => xdp_field(offset),
                Hook::Scratch => scratch_field(offset),
                _ => skb_field(offset),
            };
            asm.load(Size::W, A, Reg::R6, field.ok_or(unknown)?);
            if matches!(offset, op::SKF_AD_PROTOCOL | op::SKF_AD_VLAN_TPID) {
                asm.from_network(A, Size::H);
            }
        }
    }
    Ok(false)
}

fn call(helper: Helper, asm: &mut Assembler) -> bool {
    asm.call(helper);
    asm.mov32(A, Reg::R0);
    true
}

fn skb_field(offset: u32) -> Option<i16> {
    Some(match offset {
        op::SKF_AD_PROTOCOL => skb::PROTOCOL,
        op::SKF_AD_PKTTYPE => skb::PACKET_TYPE,
        op::SKF_AD_IFINDEX => skb::IFINDEX,
        op::SKF_AD_MARK => skb::MARK,
        op::SKF_AD_QUEUE => skb::QUEUE_MAPPING,
        op::SKF_AD_RXHASH => skb::HASH,
        op::SKF_AD_VLAN_TAG => skb::VLAN_TCI,
        op::SKF_AD_VLAN_TAG_PRESENT => skb::VLAN_PRESENT,
        op::SKF_AD_VLAN_TPID => skb::VLAN_PROTO,
        _ => return None,
    })
}

fn xdp_field(offset: u32) -> Option<i16> {
    match offset {
        op::SKF_AD_IFINDEX => Some(xdp::IFINDEX),
        op::SKF_AD_QUEUE => Some(xdp::QUEUE),
        _ => None,
    }
}

fn scratch_field(offset: u32) -> Option<i16> {
    match offset {
        op::SKF_AD_PKTTYPE => Some(scratch::PACKET_TYPE),
        op::SKF_AD_IFINDEX => Some(scratch::INTERFACE),
        _ => None,
    }
}

/// Returns the offset of a fact in the tag of a process. The answers about control groups are not in it.
fn process_field(offset: u32) -> Option<i16> {
    let at = match offset {
        op::PROCESS_PID => layout::PID,
        op::PROCESS_UID => layout::UID,
        _ if offset < op::PROCESS_ANSWERS => {
            layout::COMM + usize::try_from(offset - op::PROCESS_NAME).ok()?
        }
        _ => return None,
    };
    i16::try_from(at).ok()
}

fn name(offset: u32) -> &'static str {
    match offset {
        op::SKF_AD_PROTOCOL => "the protocol",
        op::SKF_AD_PKTTYPE => "the packet type (direction)",
        op::SKF_AD_NLATTR | op::SKF_AD_NLATTR_NEST => "a netlink attribute",
        op::SKF_AD_MARK => "the packet mark",
        op::SKF_AD_HATYPE => "the hardware type",
        op::SKF_AD_RXHASH => "the flow hash",
        op::SKF_AD_VLAN_TAG | op::SKF_AD_VLAN_TAG_PRESENT | op::SKF_AD_VLAN_TPID => "the VLAN tag",
        op::SKF_AD_PAY_OFFSET => "the payload's offset",
        _ if op::is_process(offset) => "the packet's process",
        _ => "metadata",
    }
}
