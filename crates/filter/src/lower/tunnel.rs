//! Tunnels over UDP. Primitives after a tunnel test the inner packet. Its offset is computed where
//! the tunnel is found, and kept in cells.

use ringtap_packet::protocol;

use super::encapsulation::in_range;
use super::protocol::ipproto;
use super::{Lowered, Lowering};
use crate::ir::{Cell, Condition, Offset, Relation, Size, Test, ValueId, Values};
use crate::language::ast::Operator;
use crate::link::{self, HeaderOffsets, equals, ethertype, field, masked};

/// Ports, lengths and numbers of the headers (RFC 768, RFC 8200, RFC 7348, RFC 8926), in bytes.
const UDP_HEADER: u32 = 8;
const IP6_HEADER: u32 = 40;
const GENEVE_PORT: u32 = protocol::GENEVE_PORT as u32;
const GENEVE_HEADER: u32 = 8;
const VXLAN_PORT: u32 = protocol::VXLAN_PORT as u32;
const VXLAN_HEADER: u32 = 8;
const LARGEST_NETWORK: u32 = (1 << 24) - 1;

/// The cells with the offsets of the inner packet's parts.
#[derive(Clone, Copy)]
pub(super) struct Inner {
    header: Cell,
    type_field: Cell,
    payload: Cell,
}

impl Inner {
    pub(super) fn new(values: &mut Values) -> Self {
        Self {
            header: values.new_cell(),
            type_field: values.new_cell(),
            payload: values.new_cell(),
        }
    }

    pub(super) fn place(self, values: &mut Values, osi: u32) -> HeaderOffsets {
        HeaderOffsets {
            header: values.place_in(self.header),
            type_field: values.place_in(self.type_field),
            payload: values.place_in(self.payload),
            network: values.place_in(self.payload),
            osi,
        }
    }

    /// Sets type and payload of an Ethernet frame.
    fn with_frame(self, values: &mut Values) -> Condition {
        let frame = values.place_in(self.header);
        let type_field = values.distance(frame + link::ETHERNET_TYPE);
        let payload = values.distance(frame + link::ETHERNET_HEADER);
        Condition::Set(self.type_field, type_field).and(Condition::Set(self.payload, payload))
    }

    /// Sets the offsets behind a tunnel that was found, whose header has the type: of an Ethernet frame,
    /// or of a network layer. `behind` is the distance of the inner packet.
    pub(super) fn found_by_type(
        self,
        values: &mut Values,
        found: Condition,
        behind: ValueId,
        type_field: Offset,
    ) -> Condition {
        let found = found.and(Condition::Set(self.header, behind));
        let frame = self.with_frame(values);
        let distance = values.distance(type_field);
        let payload = values.cell(self.header);
        let bare = Condition::Set(self.type_field, distance);
        let bare = bare.and(Condition::Set(self.payload, payload));
        let is_frame = equals(values, Size::Half, type_field, ethertype::BRIDGED);
        found.and(is_frame.and(frame).or(bare))
    }
}

impl Lowering<'_> {
    /// Tests for a Geneve tunnel; later primitives test the inner packet.
    pub(super) fn geneve(&mut self, network: Option<u32>) -> Lowered<Condition> {
        in_range("Geneve VNI", network, LARGEST_NETWORK)?;
        self.tunnel(|this, udp, inner| this.geneve_header(udp, network, inner))
    }

    /// Tests for a VXLAN tunnel; later primitives test the inner frame.
    pub(super) fn vxlan(&mut self, network: Option<u32>) -> Lowered<Condition> {
        in_range("VXLAN VNI", network, LARGEST_NETWORK)?;
        self.tunnel(|this, udp, inner| this.vxlan_header(udp, network, inner))
    }

    /// Tests for a tunnel over UDP. `header` makes the tests after the IP header, where UDP begins.
    fn tunnel(
        &mut self,
        mut header: impl FnMut(&mut Self, Offset, Inner) -> Condition,
    ) -> Lowered<Condition> {
        let inner = Inner::new(self.values);
        let over_ip4 = {
            let outer = self.over_ip4(ipproto::UDP)?;
            let first = self.first_fragment();
            let udp = self.values.behind_header(self.place.network);
            outer.and(first).and(header(self, udp, inner))
        };
        let over_ip6 = {
            let outer = self.network(ethertype::IP6)?;
            let at = self.place.network;
            let next = equals(self.values, Size::Byte, at + 6, ipproto::UDP);
            outer.and(next).and(header(self, at + IP6_HEADER, inner))
        };
        self.link = link::in_tunnel();
        // As in libpcap, the length before an OSI header still comes from the outer link layer.
        self.place = inner.place(self.values, self.place.osi);
        self.inner_packet = Some(inner);
        Ok(over_ip4.or(over_ip6))
    }

    /// Tests port, flags and network of VXLAN, and sets the offset of the inner frame.
    fn vxlan_header(&mut self, udp: Offset, network: Option<u32>, inner: Inner) -> Condition {
        /// The flag for a valid network identifier.
        const NETWORK_VALID: u32 = 0x08;
        let values = &mut *self.values;
        let at = udp + UDP_HEADER;
        let mut found = equals(values, Size::Half, udp + 2, VXLAN_PORT);
        let valid = field(values, Size::Byte, at, Relation::AnyBit, NETWORK_VALID);
        found = found.and(valid);
        if let Some(network) = network {
            found = found.and(masked(values, Size::Word, at + 4, !0xff, network << 8));
        }
        let behind = values.distance(at + VXLAN_HEADER);
        found = found.and(Condition::Set(inner.header, behind));
        found.and(inner.with_frame(values))
    }

    /// Tests port, version and network of Geneve, and sets the offset of the inner packet.
    fn geneve_header(&mut self, udp: Offset, network: Option<u32>, inner: Inner) -> Condition {
        const VERSION: u32 = 0xc0;
        const OPTION_WORDS: u32 = 0x3f;
        let values = &mut *self.values;
        let at = udp + UDP_HEADER;
        let mut found = equals(values, Size::Half, udp + 2, GENEVE_PORT);
        found = found.and(masked(values, Size::Byte, at, VERSION, 0));
        if let Some(network) = network {
            found = found.and(masked(values, Size::Word, at + 4, !0xff, network << 8));
        }
        let first = values.load(Size::Byte, at);
        let words = values.masked(first, OPTION_WORDS);
        let two = values.constant(2);
        let options = values.binary(Operator::ShiftLeft, words, two);
        let behind = values.sum(at + GENEVE_HEADER, options);
        inner.found_by_type(values, found, behind, at + 2)
    }

    /// Returns the test whether the current packet has a link-layer header, if that is not certain.
    pub(super) fn has_link_header(&mut self) -> Option<Condition> {
        let inner = self.inner_packet?;
        let left = self.values.cell(inner.header);
        let right = self.values.cell(inner.payload);
        let same = Test {
            left,
            relation: Relation::Equal,
            right,
        };
        Some(Condition::Test(same).negated())
    }
}
