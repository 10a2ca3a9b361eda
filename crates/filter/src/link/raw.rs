//! IP without a link-layer header, and SLIP (RFC 1055), whose header has no type: the version is
//! the high nibble of the first byte.

use super::ethertype as et;
use super::{Bits, DirectionField, EtherProto, HeaderOffsets, LinkLayer, masked};
use crate::ir::{Condition, Size, Values};

pub(super) struct Raw {
    name: &'static str,
    versions: Versions,
    payload: u32,
    /// Whether the first byte is the direction.
    has_direction: bool,
}

/// The versions of IP that can occur.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Versions {
    Either,
    V4,
    V6,
}

impl Raw {
    const fn new(name: &'static str, versions: Versions, payload: u32) -> Self {
        Self {
            name,
            versions,
            payload,
            has_direction: false,
        }
    }

    pub(super) const EITHER: Self = Self::new("Raw IP", Versions::Either, 0);
    pub(super) const V4: Self = Self::new("Raw IPv4", Versions::V4, 0);
    pub(super) const V6: Self = Self::new("Raw IPv6", Versions::V6, 0);
    /// SLIP with a header of direction and compressed header. As in libpcap, the version is read
    /// from its first byte, so `ip` does not work here; `ip[…]` and `link[…]` do.
    pub(super) const SLIP: Self = Self {
        has_direction: true,
        ..Self::new("SLIP", Versions::Either, 16)
    };
    /// The same for BSD/OS, with a longer header.
    pub(super) const SLIP_BSDOS: Self = Self::new("BSD/OS SLIP", Versions::Either, 24);
}

impl LinkLayer for Raw {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(0, self.payload)
    }

    fn has_type_field(&self) -> bool {
        false
    }

    fn direction(&self) -> Option<DirectionField> {
        self.has_direction.then_some(DirectionField {
            size: Size::Byte,
            offset: 0,
            incoming: Some(Bits::all(0)),
            outgoing: None,
        })
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let version = match (self.versions, proto) {
            (Versions::V4, et::IP) | (Versions::V6, et::IP6) => return Condition::Constant(true),
            (Versions::Either, et::IP) => 0x40,
            (Versions::Either, et::IP6) => 0x60,
            _ => return Condition::Constant(false),
        };
        masked(values, Size::Byte, place.type_field, 0xf0, version)
    }
}
