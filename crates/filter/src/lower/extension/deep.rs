//! `deep ( … )`: the transport header after the extension headers of IPv6 (RFC 8200, section 4; RFC 4302; RFC
//! 6275), found once where the condition begins and kept in cells.

use super::super::protocol::ipproto;
use super::super::{Lowered, Lowering, after};
use crate::error::{CompileError, ErrorKind};
use crate::ir::{Cell, Condition, Offset, Size, ValueId};
use crate::language::Proto;
use crate::language::ast::{Expr, Numbers, Operator, Primitive, Span, Tunnel};
use crate::link::{ethertype, masked};

/// The most extension headers that are skipped.
pub(super) const MOST_HEADERS: usize = 5;

const IP6_HEADER: u32 = 40;
const IP6_NEXT: u32 = 6;
const IP4_PROTOCOL: u32 = 9;

/// Marks the protocol of a later fragment, which has no transport header, and of packets other than
/// IP.
const FRAGMENT_LATER: u32 = 0x100;
const NOT_IP: u32 = 0x200;

/// Headers whose length is in units of 8 bytes, without the first: hop-by-hop options, routing,
/// destination options, mobility, host identity, shim.
const LONG_HEADERS: [u32; 6] = [0, 43, 60, 135, 139, 140];

/// The end of the walk.
#[derive(Clone, Copy)]
pub(in super::super) struct Transport {
    /// The protocol, with the marks.
    protocol: Cell,
    /// The distance of its header from the packet's start; undefined in later fragments.
    header: Cell,
}

/// Returns whether the walk skips headers of this number, so that it never ends at them.
fn is_passed(number: u32) -> bool {
    LONG_HEADERS.contains(&number) || matches!(number, ipproto::FRAGMENT | ipproto::AH)
}

impl Lowering<'_> {
    /// Lowers a condition in `deep ( … )`.
    pub(in super::super) fn deep(
        &mut self,
        inner: &Expr,
        span: &Span,
    ) -> Result<Condition, CompileError> {
        if self.transport.is_some() {
            // An enclosing `deep` also covers what is inside it.
            return self.expr(inner);
        }
        let (transport, walk) = match self.walked {
            Some((place, transport)) if place == self.place => (transport, None),
            _ => {
                let transport = Transport {
                    protocol: self.values.new_cell(),
                    header: self.values.new_cell(),
                };
                let walk = self.walk(transport);
                let walk = walk.map_err(|kind| CompileError::new(span.clone(), kind))?;
                self.fits_in_memory(span)?;
                (transport, Some(walk))
            }
        };
        self.walked = Some((self.place, transport));
        self.transport = Some(transport);
        let condition = self.expr(inner);
        self.transport = None;
        let condition = condition?;
        Ok(after(walk, condition))
    }

    /// Rejects primitives in `deep` that move all later offsets: the walk was made for one place.
    pub(in super::super) fn stays_in_place(&self, primitive: &Primitive) -> Lowered<()> {
        let name = match primitive {
            _ if self.transport.is_none() => return Ok(()),
            Primitive::VlanIn(_) | Primitive::Tunnel(Tunnel::Vlan(_)) => "vlan",
            Primitive::Tunnel(Tunnel::Mpls(_)) => "mpls",
            Primitive::Tunnel(Tunnel::Pppoes(_)) => "pppoes",
            Primitive::Tunnel(Tunnel::Geneve(_)) => "geneve",
            Primitive::Tunnel(Tunnel::Vxlan(_)) => "vxlan",
            _ => return Ok(()),
        };
        Err(ErrorKind::MovesInDeep(name))
    }

    /// Finds the transport header; the condition is always true.
    fn walk(&mut self, found: Transport) -> Lowered<Condition> {
        let over_ip4 = self.network(ethertype::IP)?.and(self.walk_ip4(found));
        let at = self.place.network;
        let next = self.values.load(Size::Byte, at + IP6_NEXT);
        let ip6 = self.network(ethertype::IP6)?;
        let over_ip6 = ip6.and(self.walk_ip6(found, MOST_HEADERS, next, at + IP6_HEADER));
        let not_ip = self.values.constant(NOT_IP);
        Ok(over_ip4
            .or(over_ip6)
            .or(Condition::Set(found.protocol, not_ip)))
    }

    fn walk_ip4(&mut self, found: Transport) -> Condition {
        let at = self.place.network;
        let protocol = self.values.load(Size::Byte, at + IP4_PROTOCOL);
        let behind = self.values.behind_header(at);
        let first = self.first_fragment();
        first
            .and(self.end(found, protocol, behind))
            .or(self.end_without(found, protocol))
    }

    /// Walks on from a header whose number is `next`, with `left` steps left.
    fn walk_ip6(&mut self, found: Transport, left: usize, next: ValueId, at: Offset) -> Condition {
        if left == 0 {
            return self.end(found, next, at);
        }
        let behind = self.values.new_cell();
        let passed = Condition::Any(vec![
            self.long_header(next, at, behind),
            self.first_of_fragments(next, at, behind),
            self.authentication(next, at, behind),
        ]);
        let after = self.values.load(Size::Byte, at);
        let place = self.values.place_in(behind);
        let passed = passed.and(self.walk_ip6(found, left - 1, after, place));
        let is_fragment = self.number_is(next, ipproto::FRAGMENT);
        let later = is_fragment.and(self.end_without(found, after));
        passed.or(later).or(self.end(found, next, at))
    }

    fn number_is(&mut self, value: ValueId, number: u32) -> Condition {
        super::member(self.values, value, &[Numbers::new(number, number)])
    }

    fn long_header(&mut self, next: ValueId, at: Offset, behind: Cell) -> Condition {
        let numbers = LONG_HEADERS.map(|number| self.number_is(next, number));
        let end = self.behind_units(at, 1, 3);
        Condition::Any(numbers.into()).and(Condition::Set(behind, end))
    }

    /// Handles a fragment header before the first fragment, which has the data after it.
    fn first_of_fragments(&mut self, next: ValueId, at: Offset, behind: Cell) -> Condition {
        const LENGTH: u32 = 8;
        const OFFSET_BITS: u32 = 0xfff8;
        let is_fragment = self.number_is(next, ipproto::FRAGMENT);
        let first = masked(self.values, Size::Half, at + 2, OFFSET_BITS, 0);
        let end = self.values.distance(at + LENGTH);
        is_fragment.and(first).and(Condition::Set(behind, end))
    }

    /// Skips an authentication header, whose length is in units of 4 bytes, of which it leaves out two.
    fn authentication(&mut self, next: ValueId, at: Offset, behind: Cell) -> Condition {
        let is_authentication = self.number_is(next, ipproto::AH);
        let end = self.behind_units(at, 2, 2);
        is_authentication.and(Condition::Set(behind, end))
    }

    /// Returns the distance of the data after a header. Its second byte counts units of two to the power of
    /// `shift` bytes; it leaves out `more` units.
    fn behind_units(&mut self, at: Offset, more: u32, shift: u32) -> ValueId {
        let count = self.values.load(Size::Byte, at + 1);
        let more = self.values.constant(more);
        let count = self.values.binary(Operator::Add, count, more);
        let shift = self.values.constant(shift);
        let length = self.values.binary(Operator::ShiftLeft, count, shift);
        self.values.sum(at, length)
    }

    fn end(&mut self, found: Transport, protocol: ValueId, at: Offset) -> Condition {
        let header = self.values.distance(at);
        Condition::Set(found.protocol, protocol).and(Condition::Set(found.header, header))
    }

    /// Ends the walk in a later fragment: the protocol is known, its header is missing.
    fn end_without(&mut self, found: Transport, protocol: ValueId) -> Condition {
        let mark = self.values.constant(FRAGMENT_LATER);
        let marked = self.values.binary(Operator::Add, protocol, mark);
        Condition::Set(found.protocol, marked)
    }

    /// Tests, in `deep`, whether the packet is of this protocol, over either version of IP, later fragments
    /// included. `None` outside `deep`, and for numbers of extension headers.
    pub(in super::super) fn deep_protocol(&mut self, number: u32) -> Option<Condition> {
        let transport = self
            .transport
            .filter(|_| number < 0x100 && !is_passed(number))?;
        let protocol = self.values.cell(transport.protocol);
        let protocol = self.values.masked(protocol, !FRAGMENT_LATER);
        Some(self.number_is(protocol, number))
    }

    /// Returns, in `deep`, a load from a transport header, over either version of IP if the protocol allows
    /// both, and the condition that the bytes are there.
    pub(in super::super) fn deep_access(
        &mut self,
        proto: Proto,
        index: ValueId,
        size: Size,
    ) -> Lowered<Option<(ValueId, Condition)>> {
        const IP: Option<u32> = Some(ethertype::IP);
        let (number, network) = match proto {
            Proto::Tcp => (ipproto::TCP, None),
            Proto::Udp => (ipproto::UDP, None),
            Proto::Sctp => (ipproto::SCTP, None),
            Proto::Pim => (ipproto::PIM, None),
            Proto::Icmp => (ipproto::ICMP, IP),
            Proto::Igmp => (ipproto::IGMP, IP),
            Proto::Igrp => (ipproto::IGRP, IP),
            Proto::Vrrp => (ipproto::VRRP, IP),
            Proto::Carp => (ipproto::CARP, IP),
            Proto::Icmp6 => (ipproto::ICMP6, Some(ethertype::IP6)),
            _ => return Ok(None),
        };
        let Some((is_there, at)) = self.deep_header(number) else {
            return Ok(None);
        };
        let network = network.map(|network| self.network(network)).transpose()?;
        let load = self.values.load_at(size, index, at);
        Ok(Some((load, after(network, is_there))))
    }

    /// Returns, in `deep`, the test for a header of this protocol, and its offset.
    pub(in super::super) fn deep_header(&mut self, number: u32) -> Option<(Condition, Offset)> {
        let transport = self.transport?;
        let protocol = self.values.cell(transport.protocol);
        let is_there = self.number_is(protocol, number);
        Some((is_there, self.values.place_in(transport.header)))
    }
}
