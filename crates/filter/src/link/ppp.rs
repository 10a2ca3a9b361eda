//! PPP (RFC 1661): a protocol number, which differs from the EtherType for the protocols that
//! matter.

use ringtap_packet::ether_type::ppp;

use super::ethertype as et;
use super::{Bits, DirectionField, EtherProto, HeaderOffsets, LinkLayer, equals};
use crate::ir::{Condition, Size, Values};

pub(super) struct Ppp {
    name: &'static str,
    type_field: u32,
    payload: u32,
    mpls: Option<EtherProto>,
    /// Whether the first byte, in place of the address, is the direction.
    has_direction: bool,
    /// Whether packets with Van Jacobson's header compression (RFC 1144) count as IP.
    has_compressed: bool,
}

impl Ppp {
    pub(super) const PPP: Self = Self {
        mpls: Some(MPLS_UNICAST),
        ..Self::new("PPP", 2, 4)
    };
    pub(super) const SERIAL: Self = Self::new("PPP over serial", 2, 4);
    pub(super) const ETHER: Self = Self::new("PPPoE", 6, 8);
    /// PPP as pppd sees it.
    pub(super) const PPPD: Self = Self {
        has_direction: true,
        ..Self::new("PPP with direction", 2, 4)
    };
    pub(super) const BSDOS: Self = Self {
        has_compressed: true,
        ..Self::new("BSD/OS PPP", 5, 24)
    };

    const fn new(name: &'static str, type_field: u32, payload: u32) -> Self {
        Self {
            name,
            type_field,
            payload,
            mpls: None,
            has_direction: false,
            has_compressed: false,
        }
    }
}

/// MPLS labels in PPP (RFC 3032, section 4.3).
const MPLS_UNICAST: u32 = ppp::MPLS as u32;

impl LinkLayer for Ppp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(self.type_field, self.payload)
    }

    fn mpls(&self) -> Option<EtherProto> {
        self.mpls
    }

    fn direction(&self) -> Option<DirectionField> {
        self.has_direction.then_some(DirectionField {
            size: Size::Byte,
            offset: 0,
            incoming: Some(Bits::all(0)),
            outgoing: Some(Bits::all(1)),
        })
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        const COMPRESSED: u32 = 0x002d;
        const UNCOMPRESSED_OF_COMPRESSED: u32 = 0x002f;
        let mut is = |number| equals(values, Size::Half, place.type_field, number);
        let plain = is(ppp_number(proto));
        if self.has_compressed && proto == et::IP {
            return plain.or(is(COMPRESSED)).or(is(UNCOMPRESSED_OF_COMPRESSED));
        }
        plain
    }
}

/// Returns the PPP protocol number of an EtherType (IANA, PPP numbers); other numbers are returned
/// unchanged.
fn ppp_number(proto: EtherProto) -> u32 {
    match proto {
        et::IP => ppp::IPV4.into(),
        et::IP6 => ppp::IPV6.into(),
        // DECnet Phase IV, AppleTalk, Xerox NS.
        0x6003 => 0x0027,
        et::ATALK => 0x0029,
        0x0600 => 0x0025,
        et::SAP_ISO => 0x0023,
        et::SAP_STP => 0x0031,
        et::SAP_IPX => 0x002b,
        other => other,
    }
}
