//! Headers with a plain field for the payload's protocol. It is an EtherType in captures of
//! Symantec firewalls and of IP over FireWire, or a number of ARCNET; LocalTalk carries only one
//! protocol.

use super::ethertype as et;
use super::{Addresses, EtherProto, HeaderOffsets, LinkLayer, equals};
use crate::ir::{Condition, Size, Values};

/// A header with an EtherType.
pub(super) struct EtherTyped {
    name: &'static str,
    type_field: u32,
    payload: u32,
}

impl EtherTyped {
    pub(super) const SYMANTEC: Self = Self {
        name: "Symantec Firewall",
        type_field: 6,
        payload: 44,
    };
    pub(super) const FIREWIRE: Self = Self {
        name: "Apple IP over IEEE 1394",
        type_field: 16,
        payload: 18,
    };
}

impl LinkLayer for EtherTyped {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(self.type_field, self.payload)
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        equals(values, Size::Half, place.type_field, proto)
    }
}

/// ARCNET: source, destination, and a system code of a byte (RFC 1201, RFC 1051).
pub(super) struct Arcnet {
    name: &'static str,
    type_field: u32,
    payload: u32,
}

impl Arcnet {
    pub(super) const ARCNET: Self = Self {
        name: "ARCNET",
        type_field: 2,
        payload: 6,
    };
    pub(super) const LINUX: Self = Self {
        name: "Linux ARCNET",
        type_field: 4,
        payload: 8,
    };

    /// Tests the destination: the second byte, where 0 means all hosts.
    fn is_for_all(values: &mut Values, place: HeaderOffsets) -> Condition {
        equals(values, Size::Byte, place.header + 1, 0)
    }
}

impl LinkLayer for Arcnet {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(self.type_field, self.payload)
    }

    fn stations(&self) -> Option<Addresses> {
        Some(Addresses { src: 0, dst: 1 })
    }

    fn broadcast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        Some(Self::is_for_all(values, place))
    }

    fn multicast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        Some(Self::is_for_all(values, place))
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        // The second codes are those of the older RFC.
        let codes: &[u32] = match proto {
            et::IP => &[0xd4, 0xf0],
            et::ARP => &[0xd5, 0xf1],
            et::RARP => &[0xd6],
            et::ATALK => &[0xdd],
            et::IP6 => &[0xc4],
            _ => return Condition::Constant(false),
        };
        let is_code = |&code| equals(values, Size::Byte, place.type_field, code);
        let any = codes.iter().map(is_code).reduce(Condition::or);
        any.unwrap_or(Condition::Constant(false))
    }
}

/// LocalTalk.
pub(super) struct LocalTalk;

impl LinkLayer for LocalTalk {
    fn name(&self) -> &'static str {
        "LocalTalk"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(0, 0)
    }

    fn has_type_field(&self) -> bool {
        false
    }

    fn protocol(&self, _: &mut Values, _: HeaderOffsets, proto: EtherProto) -> Condition {
        Condition::Constant(proto == et::ATALK)
    }
}
