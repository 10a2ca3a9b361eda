//! OSI protocols: CLNP, ES-IS, and IS-IS with its packet types.

use super::encapsulation::in_range;
use super::{Lowered, Lowering};
use crate::ir::{Condition, Size};
use crate::language::Proto;
use crate::link::{ethertype as et, masked};

/// Network layer protocol identifiers (ISO/IEC TR 9577).
pub(super) mod nlpid {
    pub(in crate::lower) const CLNP: u32 = 0x81;
    pub(in crate::lower) const ESIS: u32 = 0x82;
    pub(in crate::lower) const ISIS: u32 = 0x83;
}

/// Packet types of IS-IS (ISO/IEC 10589, clause 9).
mod pdu {
    pub(super) const L1_HELLO: u32 = 15;
    pub(super) const L2_HELLO: u32 = 16;
    pub(super) const POINT_TO_POINT_HELLO: u32 = 17;
    pub(super) const L1_LINK_STATE: u32 = 18;
    pub(super) const L2_LINK_STATE: u32 = 20;
    pub(super) const L1_COMPLETE: u32 = 24;
    pub(super) const L2_COMPLETE: u32 = 25;
    pub(super) const L1_PARTIAL: u32 = 26;
    pub(super) const L2_PARTIAL: u32 = 27;
}

/// Returns the packet types of a protocol's name, in the order in which they are tested.
pub(super) fn isis_types(proto: Proto) -> &'static [u32] {
    use pdu::*;
    match proto {
        Proto::IsisL1 => &[
            L1_PARTIAL,
            L1_COMPLETE,
            L1_LINK_STATE,
            L1_HELLO,
            POINT_TO_POINT_HELLO,
        ],
        Proto::IsisL2 => &[
            L2_PARTIAL,
            L2_COMPLETE,
            L2_LINK_STATE,
            L2_HELLO,
            POINT_TO_POINT_HELLO,
        ],
        Proto::IsisIih => &[POINT_TO_POINT_HELLO, L1_HELLO, L2_HELLO],
        Proto::IsisLsp => &[L1_LINK_STATE, L2_LINK_STATE],
        Proto::IsisSnp => &[L2_PARTIAL, L1_PARTIAL, L1_COMPLETE, L2_COMPLETE],
        Proto::IsisCsnp => &[L1_COMPLETE, L2_COMPLETE],
        Proto::IsisPsnp => &[L1_PARTIAL, L2_PARTIAL],
        _ => &[],
    }
}

impl Lowering<'_> {
    /// Tests for an OSI packet with this identifier as its first byte after the LLC header (three bytes on
    /// Ethernet).
    pub(super) fn over_osi(&mut self, identifier: u32) -> Lowered<Condition> {
        self.network(et::SAP_ISO)?;
        Ok(self.link.osi(self.values, self.place, identifier))
    }

    /// Tests for an IS-IS packet of this type. The three upper bits of the type's byte are
    /// reserved, and ignored as in libpcap 1.11.
    pub(super) fn isis_type(&mut self, number: u32) -> Lowered<Condition> {
        const TYPE: u32 = 4;
        const MAX: u32 = 0x1f;
        in_range("IS-IS packet type", Some(number), MAX)?;
        let isis = self.over_osi(nlpid::ISIS)?;
        let at = self.link.osi_header(self.place) + TYPE;
        Ok(isis.and(masked(self.values, Size::Byte, at, MAX, number)))
    }

    /// Tests for an IS-IS packet of one of these types.
    pub(super) fn isis_types(&mut self, numbers: &[u32]) -> Lowered<Condition> {
        let types: Lowered<Vec<_>> = numbers.iter().map(|&n| self.isis_type(n)).collect();
        Ok(Condition::Any(types?))
    }
}
