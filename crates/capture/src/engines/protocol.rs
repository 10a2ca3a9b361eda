//! Captures packets of one protocol only, at hooks, which see all packets
//! ([`CaptureOptions::protocol`](crate::CaptureOptions::protocol)).
//!
//! The kernel reads a packet's protocol from the packet: the ethertype after an outer VLAN tag; `ETH_P_802_3`
//! or `ETH_P_802_2` if a length is in its place. The program here does the same, before the filter.

use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program};
use ringtap_packet::ether_type;

use crate::options::OptionError;
use crate::{LinkType, Result};

/// Ethertypes of VLAN tags: IEEE 802.1Q, 802.1ad.
const TAGS: [u32; 2] = [ether_type::VLAN as u32, ether_type::QINQ as u32];
/// Smaller numbers are lengths (IEEE 802.3).
const LEAST_ETHERTYPE: u32 = ether_type::MIN as u32;
/// `ETH_P_802_3`, with which Novell's packets begin, and `ETH_P_802_2` (linux/if_ether.h).
const ETH_P_802_3: u32 = 1;
const ETH_P_802_2: u32 = 4;
/// The bytes in Novell's packets where others have their header.
const NOVELL: u32 = 0xffff;
const IPV4: u32 = ether_type::IPV4 as u32;
const IPV6: u32 = ether_type::IPV6 as u32;

const LOAD_HALF: u16 = op::LD | op::H | op::ABS;
const LOAD_BYTE: u16 = op::LD | op::B | op::ABS;
const LOAD_NUMBER: u16 = op::LD | op::IMM;
const IF_EQUAL: u16 = op::JMP | op::JEQ;

/// Returns the program `filter` restricted to packets of one protocol.
///
/// # Errors
/// Packets of that link type do not contain their protocol.
pub(super) fn of_protocol(protocol: u16, filter: &Program, link_type: LinkType) -> Result<Program> {
    let refused = || OptionError::ProtocolOfLinkType { link_type };
    let mut insns = match link_type {
        LinkType::ETHERNET => ethernet(),
        LinkType::LINUX_SLL2 => behind_tag(0, 22),
        LinkType::RAW => raw(),
        _ => return Err(refused().into()),
    };
    insns.extend([
        Insn::jump(IF_EQUAL, protocol.into(), 1, 0),
        Insn::new(op::RET | op::K, 0),
        // The filter may expect the accumulator to be zero at its start.
        Insn::new(LOAD_NUMBER, 0),
    ]);
    insns.extend_from_slice(filter.insns());
    let narrowed = if filter.has_loop() {
        Program::with_loops(insns)
    } else {
        Program::new(insns)
    };
    // It is too long with these few more.
    Ok(narrowed.map_err(|_| refused())?)
}

/// Loads the number at `at`, or the one at `behind` if there is a tag at `at`.
fn behind_tag(at: u32, behind: u32) -> Vec<Insn> {
    vec![
        Insn::new(LOAD_HALF, at),
        Insn::jump(IF_EQUAL, TAGS[0], 1, 0),
        Insn::jump(IF_EQUAL, TAGS[1], 0, 1),
        Insn::new(LOAD_HALF, behind),
    ]
}

/// Returns code that finds the protocol of an Ethernet frame. If a length is in the place of the ethertype,
/// Novell's packets are recognized by the 2 bytes after it.
fn ethernet() -> Vec<Insn> {
    let mut insns = behind_tag(12, 16);
    insns.extend([
        Insn::jump(op::JMP | op::JGE, LEAST_ETHERTYPE, 5, 0),
        Insn::new(LOAD_HALF, 14),
        Insn::jump(IF_EQUAL, NOVELL, 0, 2),
        Insn::new(LOAD_NUMBER, ETH_P_802_3),
        Insn::jump(op::JMP | op::JA, 1, 0, 0),
        Insn::new(LOAD_NUMBER, ETH_P_802_2),
    ]);
    insns
}

/// Returns code that finds the protocol of an IP packet, by its version.
fn raw() -> Vec<Insn> {
    vec![
        Insn::new(LOAD_BYTE, 0),
        Insn::new(op::ALU | op::AND, 0xf0),
        Insn::jump(IF_EQUAL, 0x40, 0, 2),
        Insn::new(LOAD_NUMBER, IPV4),
        Insn::jump(op::JMP | op::JA, 1, 0, 0),
        Insn::new(LOAD_NUMBER, IPV6),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(protocol: u16, link_type: LinkType, packet: &[u8]) -> bool {
        let everything = Program::new(vec![Insn::new(op::RET | op::K, 99)]).unwrap();
        let program = of_protocol(protocol, &everything, link_type).unwrap();
        let len = u32::try_from(packet.len()).unwrap();
        program.run(packet, len) == 99
    }

    fn frame(types: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(types);
        frame.resize(60, 0);
        frame
    }

    #[test]
    fn protocols_are_those_of_the_kernel() {
        let of = |types: &[u8], protocol| accepts(protocol, LinkType::ETHERNET, &frame(types));
        assert!(of(&[8, 0], 0x800) && !of(&[8, 0], 0x806));
        assert!(of(&[0x81, 0, 0, 5, 8, 6], 0x806) && !of(&[0x81, 0, 0, 5, 8, 6], 0x8100));
        assert!(of(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], 0x8100));
        assert!(of(&[0, 46, 0x42, 0x42, 3], 4) && !of(&[0, 46, 0x42, 0x42, 3], 1));
        assert!(of(&[0, 46, 0xff, 0xff, 3], 1) && !of(&[0, 46, 0xff, 0xff, 3], 4));
        let mut cooked = vec![0; 64];
        cooked[..2].copy_from_slice(&[8, 6]);
        assert!(accepts(0x806, LinkType::LINUX_SLL2, &cooked));
        cooked[..2].copy_from_slice(&[0x81, 0]);
        cooked[22..24].copy_from_slice(&[8, 0]);
        assert!(accepts(0x800, LinkType::LINUX_SLL2, &cooked));
        assert!(accepts(0x800, LinkType::RAW, &[0x45; 40]));
        assert!(accepts(0x86dd, LinkType::RAW, &[0x60; 60]));
        assert!(!accepts(0x86dd, LinkType::RAW, &[0x45; 60]));
        let everything = Program::new(vec![Insn::new(op::RET | op::K, 99)]).unwrap();
        assert!(of_protocol(0x800, &everything, LinkType::IEEE802_11).is_err());
    }
}
