//! The place of each byte of a delivered packet while the packet is in the kernel.

use super::Header;
use crate::program::opcode as op;

/// The place of one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Byte {
    /// In the packet, at this offset.
    Packet(u32),
    /// In the metadata: the `SKF_AD_` value, shifted right by this many bits.
    Metadata(u32, u32),
    /// Always zero.
    Zero,
    /// Not accessible to programs.
    Unreachable,
}

/// The bytes that are elsewhere, and the shift of all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The first bytes of the delivered packet.
    pub(super) head: Vec<Byte>,
    /// The delivered offset of the following bytes, minus their offset in the kernel.
    pub(super) shift: u32,
}

impl Layout {
    /// Returns the layout of a packet without a tag.
    pub(super) fn plain(header: Header) -> Self {
        match header {
            Header::Own => Self::headed(Vec::new()),
            Header::CookedV1 => Self::headed(cooked_v1(op::SKF_AD_PROTOCOL)),
            Header::CookedV2 => Self::headed(cooked_v2(op::SKF_AD_PROTOCOL)),
        }
    }

    /// Returns the layout of a packet whose tag the kernel removed. In an Ethernet frame it is
    /// inserted at byte 12. A cooked header has the tag's type as protocol; the rest of the tag and
    /// the protocol come before the payload.
    pub(super) fn tagged(header: Header) -> Self {
        let mut head = match header {
            Header::Own => {
                let mut head: Vec<Byte> = (0..12).map(Byte::Packet).collect();
                head.extend(metadata(op::SKF_AD_VLAN_TPID, 2));
                head.extend(metadata(op::SKF_AD_VLAN_TAG, 2));
                return Self { head, shift: 4 };
            }
            Header::CookedV1 => cooked_v1(op::SKF_AD_VLAN_TPID),
            Header::CookedV2 => cooked_v2(op::SKF_AD_VLAN_TPID),
        };
        head.extend(metadata(op::SKF_AD_VLAN_TAG, 2));
        head.extend(metadata(op::SKF_AD_PROTOCOL, 2));
        Self::headed(head)
    }

    /// Returns the layout of a complete packet after this head.
    fn headed(head: Vec<Byte>) -> Self {
        let shift = u32::try_from(head.len()).unwrap_or(u32::MAX);
        Self { head, shift }
    }

    /// Returns the number of bytes before those that are only shifted.
    pub(super) fn head_len(&self) -> u32 {
        u32::try_from(self.head.len()).unwrap_or(u32::MAX)
    }

    /// Returns the place of a delivered byte.
    pub(super) fn byte(&self, offset: u32) -> Byte {
        match self.head.get(offset as usize) {
            Some(&byte) => byte,
            None => Byte::Packet(offset - self.shift),
        }
    }

    /// Returns how many bytes of the packet in the kernel the first `len` delivered bytes need, at
    /// least 1.
    pub(super) fn needed(&self, len: u32) -> u32 {
        if len >= self.head_len() {
            return (len - self.shift).max(1);
        }
        let in_packet = |byte: &&Byte| matches!(byte, Byte::Packet(_));
        let count = self.head[..len as usize].iter().filter(in_packet).count();
        u32::try_from(count).unwrap_or(u32::MAX).max(1)
    }
}

/// Returns a value of the metadata in network byte order.
fn metadata(number: u32, bytes: u32) -> impl Iterator<Item = Byte> {
    (0..bytes)
        .rev()
        .map(move |at| Byte::Metadata(number, 8 * at))
}

/// Returns the header LINKTYPE_LINUX_SLL: packet type, hardware type, length of the address, address,
/// protocol.
fn cooked_v1(protocol: u32) -> Vec<Byte> {
    let mut head = vec![Byte::Zero];
    head.extend(metadata(op::SKF_AD_PKTTYPE, 1));
    head.extend(metadata(op::SKF_AD_HATYPE, 2));
    head.extend([Byte::Unreachable; 10]);
    head.extend(metadata(protocol, 2));
    head
}

/// Returns the header LINKTYPE_LINUX_SLL2: protocol, reserved, interface, hardware type, packet type, length
/// of the address, address.
fn cooked_v2(protocol: u32) -> Vec<Byte> {
    let mut head: Vec<Byte> = metadata(protocol, 2).collect();
    head.extend([Byte::Zero; 2]);
    head.extend(metadata(op::SKF_AD_IFINDEX, 4));
    head.extend(metadata(op::SKF_AD_HATYPE, 2));
    head.extend(metadata(op::SKF_AD_PKTTYPE, 1));
    head.extend([Byte::Unreachable; 9]);
    head
}
