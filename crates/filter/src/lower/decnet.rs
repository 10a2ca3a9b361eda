//! DECnet Phase IV addresses, in the routing headers.

use super::{End, Lowered, Lowering};
use crate::ir::{Condition, Size};
use crate::language::ast::Direction;
use crate::link::{equals, ethertype, masked};

/// A form of the routing header (DECnet Routing Layer Functional Specification 2.0.0, 9): the bits
/// of the flags that identify it, as a load and a mask, and the offsets of the node addresses. The
/// short or long header begins after a length of two bytes, or after one more byte of padding.
struct Header {
    size: Size,
    mask: u32,
    flags: u32,
    src: u32,
    dst: u32,
}

const HEADERS: [Header; 4] = [
    Header {
        size: Size::Byte,
        mask: 0x07,
        flags: 0x02,
        src: 5,
        dst: 3,
    },
    Header {
        size: Size::Half,
        mask: 0xff07,
        flags: 0x8102,
        src: 6,
        dst: 4,
    },
    Header {
        size: Size::Byte,
        mask: 0x07,
        flags: 0x06,
        src: 17,
        dst: 9,
    },
    Header {
        size: Size::Half,
        mask: 0xff07,
        flags: 0x8106,
        src: 18,
        dst: 10,
    },
];

/// Offset of the flags, after the length.
const FLAGS: u32 = 2;

impl Lowering<'_> {
    /// Tests a node address; its lower 16 bits are area and node.
    pub(super) fn decnet_host(&mut self, direction: Direction, address: u32) -> Lowered<Condition> {
        // Little-endian in the packet.
        let [.., high, low] = address.to_be_bytes();
        let swapped = u32::from(low) << 8 | u32::from(high);
        self.in_direction(direction, |this, end| {
            let network = this.network(ethertype::DECNET)?;
            let at = this.place.network;
            let headers = HEADERS.iter().map(|header| {
                let node = match end {
                    End::Src => header.src,
                    End::Dst => header.dst,
                };
                let kind = masked(
                    this.values,
                    header.size,
                    at + FLAGS,
                    header.mask,
                    header.flags,
                );
                kind.and(equals(this.values, Size::Half, at + node, swapped))
            });
            Ok(network.and(Condition::Any(headers.collect())))
        })
    }
}
