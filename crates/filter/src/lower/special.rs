//! Broadcast and multicast, lengths, direction.

use super::{Lowered, Lowering, bad};
use crate::error::ErrorKind;
use crate::ir::{Condition, Relation, Size};
use crate::language::Proto;
use crate::language::ast::{ByteTest, Operator};
use crate::link::{Bits, compare, equals, ethertype, field, masked};
use crate::program::opcode as op;

impl Lowering<'_> {
    pub(super) fn broadcast(&mut self, proto: Option<Proto>) -> Lowered<Condition> {
        match proto {
            None | Some(Proto::Link) => self.link_broadcast(),
            Some(Proto::Ip) => {
                let mask = self.options.netmask.ok_or(ErrorKind::NetmaskUnknown)?;
                let at = self.place.network + 16;
                let network = self.network(ethertype::IP)?;
                let zeros = masked(self.values, Size::Word, at, !mask, 0);
                let ones = masked(self.values, Size::Word, at, !mask, !mask);
                Ok(network.and(zeros.or(ones)))
            }
            Some(proto) => Err(bad(proto.name(), "broadcast")),
        }
    }

    pub(super) fn multicast(&mut self, proto: Option<Proto>) -> Lowered<Condition> {
        const CLASS_D: u32 = 224;
        let at = self.place.network;
        match proto {
            None | Some(Proto::Link) => self.link_multicast(),
            Some(Proto::Ip) => {
                let network = self.network(ethertype::IP)?;
                let at = at + 16;
                let class = field(self.values, Size::Byte, at, Relation::GreaterEqual, CLASS_D);
                Ok(network.and(class))
            }
            Some(Proto::Ip6) => {
                let network = self.network(ethertype::IP6)?;
                Ok(network.and(equals(self.values, Size::Byte, at + 24, 0xff)))
            }
            Some(proto) => Err(bad(proto.name(), "multicast")),
        }
    }

    pub(super) fn not_here(&self, primitive: &'static str) -> ErrorKind {
        ErrorKind::NotOnLinkType {
            primitive,
            link: self.link.name(),
        }
    }

    /// Tests the packet's length.
    pub(super) fn length(&mut self, relation: Relation, bytes: u32) -> Condition {
        let left = self.values.length();
        compare(self.values, left, relation, bytes)
    }

    pub(super) fn byte(&mut self, offset: u32, test: ByteTest, number: u32) -> Condition {
        let index = self.values.constant(offset);
        let left = self.values.load_at(Size::Byte, index, self.place.header);
        let right = self.values.constant(number);
        let (relation, opposite) = match test {
            ByteTest::Equal => (Relation::Equal, false),
            ByteTest::And => (Relation::AnyBit, false),
            ByteTest::Or => {
                let either = self.values.binary(Operator::Or, left, right);
                return compare(self.values, either, Relation::Equal, 0).negated();
            }
            ByteTest::Greater => (Relation::Greater, false),
            ByteTest::Less => (Relation::GreaterEqual, true),
        };
        let test = compare(self.values, left, relation, number);
        if opposite { test.negated() } else { test }
    }

    /// Tests whether the host sent or received the packet: recorded in the header, or known only to
    /// the kernel.
    pub(super) fn has_direction(&mut self, outbound: bool) -> Lowered<Condition> {
        let (load, incoming, outgoing) = match self.link.direction() {
            Some(at) => {
                let load = self.values.load(at.size, at.offset);
                (load, at.incoming, at.outgoing)
            }
            None if self.options.ancillary => {
                let load = self.values.ancillary(Size::Half, op::SKF_AD_PKTTYPE);
                (load, None, Some(Bits::all(op::PACKET_OUTGOING)))
            }
            None => return Err(self.not_here("a test of the direction in a file")),
        };
        let (same, other) = match outbound {
            true => (outgoing, incoming),
            false => (incoming, outgoing),
        };
        let bits = same.or(other).unwrap_or(Bits::all(0));
        let mask = bits.mask;
        let left = mask.map_or(load, |mask| self.values.masked(load, mask));
        let is = compare(self.values, left, Relation::Equal, bits.value);
        Ok(if same.is_some() { is } else { is.negated() })
    }

    pub(super) fn interface_index(&mut self, index: u32) -> Lowered<Condition> {
        let left = match self.link.interface_index() {
            Some(at) => self.values.load(Size::Word, at),
            None if self.options.ancillary => self.values.ancillary(Size::Word, op::SKF_AD_IFINDEX),
            None => return Err(self.not_here("a test of the interface index in a file")),
        };
        Ok(compare(self.values, left, Relation::Equal, index))
    }
}
