//! PPP (RFC 1661): a protocol number, which for the protocols of interest is not the EtherType.

use super::ethertype as et;
use super::{EtherProto, LinkLayer, Place, equals};
use crate::ir::{Condition, Size, Values};

pub(super) struct Ppp {
    name: &'static str,
    type_field: u32,
    payload: u32,
    mpls: Option<EtherProto>,
}

impl Ppp {
    pub(super) const PPP: Self = Self {
        name: "PPP",
        type_field: 2,
        payload: 4,
        mpls: Some(MPLS_UNICAST),
    };
    pub(super) const SERIAL: Self = Self {
        name: "PPP over serial",
        type_field: 2,
        payload: 4,
        mpls: None,
    };
    pub(super) const ETHER: Self = Self {
        name: "PPPoE",
        type_field: 6,
        payload: 8,
        mpls: None,
    };
}

/// MPLS labels in PPP (RFC 3032, section 4.3).
const MPLS_UNICAST: u32 = 0x0281;

impl LinkLayer for Ppp {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> Place {
        Place::fixed(self.type_field, self.payload)
    }

    fn mpls(&self) -> Option<EtherProto> {
        self.mpls
    }

    fn protocol(&self, values: &mut Values, place: Place, proto: EtherProto) -> Condition {
        equals(values, Size::Half, place.type_field, ppp_number(proto))
    }
}

/// The PPP protocol number of an EtherType (IANA, PPP numbers); numbers without a counterpart
/// stand for themselves.
fn ppp_number(proto: EtherProto) -> u32 {
    match proto {
        et::IP => 0x0021,
        et::IP6 => 0x0057,
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
