//! Cisco HDLC (RFC 1547, section 4.3.1) and Frame Relay (RFC 2427).

use super::ethertype as et;
use super::{EtherProto, HeaderOffsets, LinkLayer, equals};
use crate::ir::{Condition, Offset, Size, Values};

/// An EtherType after address and control. OSI protocols have two of their service access points in its
/// place, and a byte before their header.
pub(super) struct CiscoHdlc;

impl LinkLayer for CiscoHdlc {
    fn name(&self) -> &'static str {
        "Cisco HDLC"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(2, 4)
    }

    fn mpls(&self) -> Option<EtherProto> {
        Some(et::MPLS)
    }

    fn osi_header(&self, place: HeaderOffsets) -> Offset {
        place.payload + 1
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        const OSI: u32 = et::SAP_ISO << 8 | et::SAP_ISO;
        let number = if proto == et::SAP_ISO { OSI } else { proto };
        equals(values, Size::Half, place.type_field, number)
    }
}

/// A two-byte address, control, and a network layer protocol identifier (ISO/IEC TR 9577).
///
/// The network layer begins after it. ringtap reads it at the packet's start, like libpcap, so `ip` is
/// correct and `host` is not.
pub(super) struct FrameRelay;

/// Returns unnumbered information with this identifier.
const fn unnumbered(identifier: u32) -> u32 {
    0x0300 | identifier
}

impl LinkLayer for FrameRelay {
    fn name(&self) -> &'static str {
        "Frame Relay"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(2, 0)
    }

    fn osi(&self, values: &mut Values, place: HeaderOffsets, identifier: u32) -> Condition {
        equals(values, Size::Half, place.type_field, unnumbered(identifier))
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let identifiers: &[u32] = match proto {
            et::IP => &[0xcc],
            et::IP6 => &[0x8e],
            // CLNP, ES-IS, IS-IS.
            et::SAP_ISO => &[0x81, 0x82, 0x83],
            _ => return Condition::Constant(false),
        };
        let is = |&identifier| self.osi(values, place, identifier);
        let any = identifiers.iter().map(is).reduce(Condition::or);
        any.unwrap_or(Condition::Constant(false))
    }
}
