//! DECnet Phase IV addresses, in the routing headers.

use super::{End, Lowered, Lowering};
use crate::ir::{Condition, Size};
use crate::language::ast::Direction;
use crate::link::{equals, ethertype, masked};

/// A form of the routing header (DECnet Routing Layer Functional Specification 2.0.0, 9): the bits
/// of the flags that identify it, as a load and a mask, and the offsets of the node addresses, source
/// and destination. The short or long header begins after a length of two bytes, or after one more byte
/// of padding.
type Header = (Size, u32, u32, [u32; 2]);

const HEADERS: [Header; 4] = [
    (Size::Byte, 0x07, 0x02, [5, 3]),
    (Size::Half, 0xff07, 0x8102, [6, 4]),
    (Size::Byte, 0x07, 0x06, [17, 9]),
    (Size::Half, 0xff07, 0x8106, [18, 10]),
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
            let headers = HEADERS.map(|(size, mask, flags, [src, dst])| {
                let node = if end == End::Src { src } else { dst };
                let kind = masked(this.values, size, at + FLAGS, mask, flags);
                kind.and(equals(this.values, Size::Half, at + node, swapped))
            });
            Ok(network.and(Condition::Any(headers.into())))
        })
    }
}
