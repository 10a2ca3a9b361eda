//! BSD loopback: a 4-byte address family before the IP header.

use super::ethertype as et;
use super::{EtherProto, LinkLayer, Place, equals};
use crate::ir::{Condition, Size, Values};

/// `AF_INET` and `AF_INET6` of Linux. The other systems agree on the former and differ, among
/// themselves too, on the latter.
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;

pub(super) struct Loopback {
    name: &'static str,
    /// Whether the family reads byte-swapped when loaded in network order.
    little_endian: bool,
}

impl Loopback {
    /// In the byte order of the host that captured.
    pub(super) fn null(swapped: bool) -> Self {
        Self {
            name: "BSD loopback",
            little_endian: cfg!(target_endian = "little") != swapped,
        }
    }

    /// In network byte order.
    pub(super) fn network_order() -> Self {
        Self {
            name: "OpenBSD loopback",
            little_endian: false,
        }
    }
}

impl LinkLayer for Loopback {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self) -> Place {
        Place {
            type_field: 0,
            payload: 4,
        }
    }

    fn protocol(&self, values: &mut Values, place: Place, proto: EtherProto) -> Condition {
        let family = match proto {
            et::IP => AF_INET,
            et::IP6 => AF_INET6,
            _ => return Condition::Constant(false),
        };
        let family = if self.little_endian {
            family.swap_bytes()
        } else {
            family
        };
        equals(values, Size::Word, place.type_field, family)
    }
}
