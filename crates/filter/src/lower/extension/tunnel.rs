//! `TUNNEL inner ( … )`: conditions on the inner packet. Afterwards the expression refers to the
//! outer packet again.

use ringtap_packet::protocol;

use super::super::protocol::ipproto;
use super::super::tunnel::Inner;
use super::super::{Lowered, Lowering};
use crate::error::{CompileError, ErrorKind};
use crate::ir::{Cell, Condition, Offset, Size, ValueId};
use crate::language::ast::{Expr, Numbers, Operator, Span, Tunnel};
use crate::link::{self, HeaderOffsets, equals, ethertype, masked};
use crate::program::opcode::MEMWORDS;

/// Over UDP (RFC 768, 3GPP TS 29.281).
const UDP_HEADER: u32 = 8;
const GTPU_PORT: u32 = protocol::GTP_U_PORT as u32;
/// The most extension headers of GTP-U that are skipped.
const MOST_GTPU_HEADERS: usize = 3;
/// Over IP (RFC 2784, RFC 2890).
const GRE: u32 = protocol::GRE as u32;

impl Lowering<'_> {
    /// Lowers a condition on the inner packet; `span` is the tunnel's.
    pub(in super::super) fn inner(
        &mut self,
        tunnel: Tunnel,
        inner: &Expr,
        span: &Span,
    ) -> Result<Condition, CompileError> {
        let outer = (
            self.link,
            self.place,
            self.labels,
            self.inner_packet,
            self.transport,
            self.walked,
        );
        // The walk of an enclosing `deep` was made for the outer packet.
        self.transport = None;
        let found = self.find_tunnel(tunnel);
        let found = found.map_err(|kind| CompileError::new(span.clone(), kind));
        let condition = found.and_then(|found| {
            self.fits_in_memory(span)?;
            Ok(found.and(self.expr(inner)?))
        });
        (
            self.link,
            self.place,
            self.labels,
            self.inner_packet,
            self.transport,
            self.walked,
        ) = outer;
        condition
    }

    /// Reports an error if there is no memory for a tunnel or walk, before the following ones are
    /// lowered.
    pub(super) fn fits_in_memory(&self, span: &Span) -> Result<(), CompileError> {
        if self.values.cells() > MEMWORDS {
            return Err(CompileError::new(span.clone(), ErrorKind::TooManyPlaces));
        }
        Ok(())
    }

    /// Finds the tunnel and moves to the inner packet.
    pub(in super::super) fn find_tunnel(&mut self, tunnel: Tunnel) -> Lowered<Condition> {
        match tunnel {
            Tunnel::Vxlan(network) => self.vxlan(network),
            Tunnel::Gtpu(tunnel) => self.gtpu(tunnel),
            Tunnel::Gre(key) => self.gre(key),
            Tunnel::Vlan(id) => self.vlan(id),
            Tunnel::Mpls(label) => self.mpls(label),
            Tunnel::Pppoes(session) => self.pppoe_session(session),
            Tunnel::Geneve(network) => self.geneve(network),
        }
    }

    /// Returns the test for a protocol over IP, and the offset of its header.
    fn behind_ip(&mut self, number: u32) -> Lowered<(Condition, Offset)> {
        const IP6_NEXT: u32 = 6;
        const IP6_HEADER: u32 = 40;
        let start = self.values.new_cell();
        let network = self.place.network;
        let over_ip4 = {
            let carried = self.over_ip4(number)?;
            let first = self.first_fragment();
            let behind = self.values.behind_header(network);
            let behind = self.values.distance(behind);
            carried.and(first).and(Condition::Set(start, behind))
        };
        let over_ip6 = {
            let ip6 = self.network(ethertype::IP6)?;
            let carried = equals(self.values, Size::Byte, network + IP6_NEXT, number);
            let behind = self.values.distance(network + IP6_HEADER);
            ip6.and(carried).and(Condition::Set(start, behind))
        };
        Ok((over_ip4.or(over_ip6), self.values.place_in(start)))
    }

    /// Returns the test for UDP packets to a port, and the offset after the UDP header.
    fn behind_udp(&mut self, port: u32) -> Lowered<(Condition, Offset)> {
        let (found, udp) = self.behind_ip(ipproto::UDP)?;
        let to_port = equals(self.values, Size::Half, udp + 2, port);
        Ok((found.and(to_port), udp + UDP_HEADER))
    }

    /// Tests for a user's packet in a GTP-U tunnel: version 1, message type 255.
    fn gtpu(&mut self, tunnel: Option<u32>) -> Lowered<Condition> {
        const VERSION_AND_TYPE: u32 = 0xf0;
        const VERSION_1: u32 = 0x30;
        const USER_PACKET: u32 = 0xff;
        let (mut found, at) = self.behind_udp(GTPU_PORT)?;
        let version = masked(self.values, Size::Byte, at, VERSION_AND_TYPE, VERSION_1);
        let user = equals(self.values, Size::Byte, at + 1, USER_PACKET);
        found = found.and(version).and(user);
        if let Some(tunnel) = tunnel {
            found = found.and(equals(self.values, Size::Word, at + 4, tunnel));
        }
        let packet = self.values.new_cell();
        found = found.and(self.gtpu_options(at, packet));
        let place = self.values.place_in(packet);
        self.link = link::bare_ip();
        self.place = HeaderOffsets {
            header: place,
            type_field: place,
            payload: place,
            network: place,
            osi: 0,
        };
        self.labels = 0;
        self.inner_packet = None;
        Ok(found)
    }

    /// Finds the inner packet: after the header, its optional fields, and extension headers.
    fn gtpu_options(&mut self, at: Offset, packet: Cell) -> Condition {
        const OPTIONAL_FIELDS: u32 = 0x07;
        const EXTENSIONS: u32 = 0x04;
        const HEADER: u32 = 8;
        const WITH_OPTIONS: u32 = 12;
        let end = |this: &mut Self, length| {
            let end = this.values.distance(at + length);
            Condition::Set(packet, end)
        };
        let bare = masked(self.values, Size::Byte, at, OPTIONAL_FIELDS, 0);
        let bare = bare.and(end(self, HEADER));
        let fields = masked(self.values, Size::Byte, at, EXTENSIONS, 0);
        let fields = fields.and(end(self, WITH_OPTIONS));
        let walk = self.gtpu_extensions(MOST_GTPU_HEADERS, at + (WITH_OPTIONS - 1), packet);
        bare.or(fields).or(walk)
    }

    /// Skips extension headers: each begins with its length in units of 4 bytes and ends with the
    /// next one's type. `kind` is the offset of the first one's type.
    fn gtpu_extensions(&mut self, left: usize, kind: Offset, packet: Cell) -> Condition {
        let none = equals(self.values, Size::Byte, kind, 0);
        let here = self.values.distance(kind + 1);
        let none = none.and(Condition::Set(packet, here));
        if left == 0 {
            return none;
        }
        let next = self.values.new_cell();
        let units = self.values.load(Size::Byte, kind + 1);
        let two = self.values.constant(2);
        let length = self.values.binary(Operator::ShiftLeft, units, two);
        let next_kind = self.values.sum(kind, length);
        let place = self.values.place_in(next);
        let further = self.gtpu_extensions(left - 1, place, packet);
        none.or(Condition::Set(next, next_kind).and(further))
    }

    fn gre(&mut self, key: Option<u32>) -> Lowered<Condition> {
        const ROUTING_OR_VERSION: u32 = 0x4007;
        const HAS_KEY: u32 = 0x20;
        let (mut found, at) = self.behind_ip(GRE)?;
        found = found.and(masked(self.values, Size::Half, at, ROUTING_OR_VERSION, 0));
        if let Some(key) = key {
            let has_key = masked(self.values, Size::Byte, at, HAS_KEY, HAS_KEY);
            let checksum = self.gre_field(at, 0x80, 5);
            let load = self.values.load_at(Size::Word, checksum, at + 4);
            let same = super::member(self.values, load, &[Numbers::new(key, key)]);
            found = found.and(has_key).and(same);
        }
        let inner = Inner::new(self.values);
        let behind = self.gre_end(at);
        found = inner.found_by_type(self.values, found, behind, at + 2);
        self.link = link::in_tunnel();
        let osi = link::in_tunnel().place(self.values).osi;
        self.place = inner.place(self.values, osi);
        self.labels = 0;
        self.inner_packet = Some(inner);
        Ok(found)
    }

    /// Returns the length of an optional field: 4 bytes if a bit of the first byte is set,
    /// otherwise 0.
    fn gre_field(&mut self, at: Offset, bit: u32, shift: u32) -> ValueId {
        let flags = self.values.load(Size::Byte, at);
        let bit = self.values.masked(flags, bit);
        let shift = self.values.constant(shift);
        self.values.binary(Operator::ShiftRight, bit, shift)
    }

    /// Returns the distance of the data after the header: checksum, key and sequence number are optional.
    fn gre_end(&mut self, at: Offset) -> ValueId {
        let checksum = self.gre_field(at, 0x80, 5);
        let key = self.gre_field(at, 0x20, 3);
        let sequence = self.gre_field(at, 0x10, 2);
        let length = self.values.binary(Operator::Add, checksum, key);
        let length = self.values.binary(Operator::Add, length, sequence);
        self.values.sum(at + 4, length)
    }
}
