//! The numbers of classic BPF: instruction fields as `linux/bpf_common.h` and `linux/filter.h`
//! define them, and the offsets of the Linux ancillary loads.

/// Instruction class: load into A.
pub const LD: u16 = 0x00;
/// Instruction class: load into X.
pub const LDX: u16 = 0x01;
/// Instruction class: store A into scratch memory.
pub const ST: u16 = 0x02;
/// Instruction class: store X into scratch memory.
pub const STX: u16 = 0x03;
/// Instruction class: arithmetic on A.
pub const ALU: u16 = 0x04;
/// Instruction class: jump.
pub const JMP: u16 = 0x05;
/// Instruction class: return.
pub const RET: u16 = 0x06;
/// Instruction class: moves between A and X.
pub const MISC: u16 = 0x07;

/// Load size: 32 bits.
pub const W: u16 = 0x00;
/// Load size: 16 bits.
pub const H: u16 = 0x08;
/// Load size: 8 bits.
pub const B: u16 = 0x10;

/// Load mode: the constant itself.
pub const IMM: u16 = 0x00;
/// Load mode: packet byte at a constant offset.
pub const ABS: u16 = 0x20;
/// Load mode: packet byte at X plus a constant.
pub const IND: u16 = 0x40;
/// Load mode: scratch memory.
pub const MEM: u16 = 0x60;
/// Load mode: the packet's length on the wire.
pub const LEN: u16 = 0x80;
/// Load mode: four times the low nibble of a packet byte (the length of an IPv4 header).
pub const MSH: u16 = 0xa0;

/// Arithmetic: add.
pub const ADD: u16 = 0x00;
/// Arithmetic: subtract.
pub const SUB: u16 = 0x10;
/// Arithmetic: multiply.
pub const MUL: u16 = 0x20;
/// Arithmetic: divide, unsigned.
pub const DIV: u16 = 0x30;
/// Arithmetic: bitwise or.
pub const OR: u16 = 0x40;
/// Arithmetic: bitwise and.
pub const AND: u16 = 0x50;
/// Arithmetic: shift left.
pub const LSH: u16 = 0x60;
/// Arithmetic: shift right, unsigned.
pub const RSH: u16 = 0x70;
/// Arithmetic: negate.
pub const NEG: u16 = 0x80;
/// Arithmetic: remainder, unsigned (Linux 3.7).
pub const MOD: u16 = 0x90;
/// Arithmetic: bitwise exclusive or (Linux 3.7).
pub const XOR: u16 = 0xa0;

/// Jump always, forward by `k`.
pub const JA: u16 = 0x00;
/// Jump if equal.
pub const JEQ: u16 = 0x10;
/// Jump if greater, unsigned.
pub const JGT: u16 = 0x20;
/// Jump if greater or equal, unsigned.
pub const JGE: u16 = 0x30;
/// Jump if any bit in common.
pub const JSET: u16 = 0x40;

/// Operand: the constant `k`.
pub const K: u16 = 0x00;
/// Operand: register X.
pub const X: u16 = 0x08;
/// Return operand: register A.
pub const A: u16 = 0x10;

/// Move A to X.
pub const TAX: u16 = 0x00;
/// Move X to A.
pub const TXA: u16 = 0x80;

/// Words of scratch memory (`BPF_MEMWORDS`).
pub const MEMWORDS: u32 = 16;
/// The longest program that the kernel accepts (`BPF_MAXINSNS`), in instructions.
pub const KERNEL_MAX_INSNS: usize = 4096;

/// The absolute offset from which on loads read the packet's metadata instead of its bytes
/// (`SKF_AD_OFF`, minus 4096).
pub const SKF_AD_OFF: u32 = 0xffff_f000;
/// Ancillary: protocol (`SKF_AD_PROTOCOL`).
pub const SKF_AD_PROTOCOL: u32 = 0;
/// Ancillary: packet type (`SKF_AD_PKTTYPE`).
pub const SKF_AD_PKTTYPE: u32 = 4;
/// Ancillary: interface index (`SKF_AD_IFINDEX`).
pub const SKF_AD_IFINDEX: u32 = 8;
/// Ancillary: netlink attribute search (`SKF_AD_NLATTR`).
pub const SKF_AD_NLATTR: u32 = 12;
/// Ancillary: nested netlink attribute search (`SKF_AD_NLATTR_NEST`).
pub const SKF_AD_NLATTR_NEST: u32 = 16;
/// Ancillary: packet mark (`SKF_AD_MARK`).
pub const SKF_AD_MARK: u32 = 20;
/// Ancillary: receive queue (`SKF_AD_QUEUE`).
pub const SKF_AD_QUEUE: u32 = 24;
/// Ancillary: ARP hardware type of the device (`SKF_AD_HATYPE`).
pub const SKF_AD_HATYPE: u32 = 28;
/// Ancillary: flow hash (`SKF_AD_RXHASH`).
pub const SKF_AD_RXHASH: u32 = 32;
/// Ancillary: CPU (`SKF_AD_CPU`).
pub const SKF_AD_CPU: u32 = 36;
/// Ancillary: A exclusive-or X (`SKF_AD_ALU_XOR_X`).
pub const SKF_AD_ALU_XOR_X: u32 = 40;
/// Ancillary: VLAN tag control information (`SKF_AD_VLAN_TAG`).
pub const SKF_AD_VLAN_TAG: u32 = 44;
/// Ancillary: 1 if a VLAN tag was stripped (`SKF_AD_VLAN_TAG_PRESENT`).
pub const SKF_AD_VLAN_TAG_PRESENT: u32 = 48;
/// Ancillary: offset of the payload (`SKF_AD_PAY_OFFSET`).
pub const SKF_AD_PAY_OFFSET: u32 = 52;
/// Ancillary: a random number (`SKF_AD_RANDOM`).
pub const SKF_AD_RANDOM: u32 = 56;
/// Ancillary: VLAN tag protocol identifier (`SKF_AD_VLAN_TPID`).
pub const SKF_AD_VLAN_TPID: u32 = 60;

/// The number of the packet's process; 0 if it is unknown. This load and the following ones are ringtap's own: the
/// kernel has none of them.
pub const PROCESS_PID: u32 = 0x100;
/// The user of the packet's process; `u32::MAX` if it is unknown.
pub const PROCESS_UID: u32 = 0x104;
/// The first of four words with the name of the packet's process, in network order, with zeros at its end.
pub const PROCESS_NAME: u32 = 0x108;
/// The first of [`PROCESS_QUESTIONS`] answers: 1 if the question applies to the packet's process, otherwise 0
/// ([`crate::process::Question`]).
pub const PROCESS_ANSWERS: u32 = 0x200;
/// The largest number of questions of one program.
pub const PROCESS_QUESTIONS: u32 = 64;

/// Returns whether an offset from [`SKF_AD_OFF`] is that of a load about the packet's process.
#[must_use]
pub const fn is_process(offset: u32) -> bool {
    let of_tag = offset >= PROCESS_PID && offset < PROCESS_NAME + 16;
    let answers = offset >= PROCESS_ANSWERS && offset < PROCESS_ANSWERS + 4 * PROCESS_QUESTIONS;
    (of_tag || answers) && offset.is_multiple_of(4)
}

/// Returns the number of a question, from 0 on, whose answer is loaded at an offset from [`SKF_AD_OFF`].
pub(crate) const fn question(offset: u32) -> Option<u32> {
    if is_process(offset) && offset >= PROCESS_ANSWERS {
        Some((offset - PROCESS_ANSWERS) / 4)
    } else {
        None
    }
}

/// `PACKET_OUTGOING` of `linux/if_packet.h`: the packet was sent by this host.
pub const PACKET_OUTGOING: u32 = 4;
