//! IP without a link-layer header: the version is the high nibble of the first byte.

use super::ethertype as et;
use super::{EtherProto, LinkLayer, Place, masked};
use crate::ir::{Condition, Size, Values};

/// Which versions can be there.
pub(super) enum Raw {
    Either,
    V4,
    V6,
}

impl LinkLayer for Raw {
    fn name(&self) -> &'static str {
        match self {
            Self::Either => "Raw IP",
            Self::V4 => "Raw IPv4",
            Self::V6 => "Raw IPv6",
        }
    }

    fn place(&self, _: &mut Values) -> Place {
        Place::fixed(0, 0)
    }

    fn protocol(&self, values: &mut Values, place: Place, proto: EtherProto) -> Condition {
        match (self, proto) {
            (Self::V4, et::IP) | (Self::V6, et::IP6) => Condition::Constant(true),
            (Self::Either, et::IP) => masked(values, Size::Byte, place.type_field, 0xf0, 0x40),
            (Self::Either, et::IP6) => masked(values, Size::Byte, place.type_field, 0xf0, 0x60),
            _ => Condition::Constant(false),
        }
    }
}
