//! Headers with an address family in one byte: OpenBSD's pf log and Solaris IP interfaces.

use super::ethertype as et;
use super::{Bits, DirectionField, EtherProto, HeaderOffsets, LinkLayer, equals};
use crate::ir::{Condition, Size, Values};
use crate::language::ast::Operator;

/// The offset of the address family, the second byte of both headers.
const FAMILY: u32 = 1;

fn is_family(
    values: &mut Values,
    place: HeaderOffsets,
    proto: EtherProto,
    inet6: u32,
) -> Condition {
    const AF_INET: u32 = 2;
    let family = match proto {
        et::IP => AF_INET,
        et::IP6 => inet6,
        _ => return Condition::Constant(false),
    };
    equals(values, Size::Byte, place.type_field, family)
}

/// Packets that the filter `pf` logged (pflog(4)). The header's length is its first byte, rounded
/// up to words.
pub(super) struct PfLog;

impl LinkLayer for PfLog {
    fn name(&self) -> &'static str {
        "OpenBSD pflog"
    }

    fn place(&self, values: &mut Values) -> HeaderOffsets {
        let cell = values.new_cell();
        let payload = values.place_in(cell);
        HeaderOffsets {
            payload,
            network: payload,
            ..HeaderOffsets::fixed(FAMILY, 0)
        }
    }

    fn prologue(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        let cell = values.cell_of(place.payload)?;
        let length = values.load(Size::Byte, 0);
        let three = values.constant(3);
        let more = values.binary(Operator::Add, length, three);
        let words = values.masked(more, !3);
        Some(Condition::Set(cell, words))
    }

    fn is_pf(&self) -> bool {
        true
    }

    fn direction(&self) -> Option<DirectionField> {
        Some(DirectionField {
            size: Size::Byte,
            offset: 60,
            incoming: Some(Bits::all(1)),
            outgoing: Some(Bits::all(2)),
        })
    }

    /// Tests the address family of the capturing host. Here it is Linux's, as in libpcap on Linux.
    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        const AF_INET6: u32 = 10;
        is_family(values, place, proto, AF_INET6)
    }
}

/// Solaris (`dl_ipnetinfo` of `<sys/dlpi.h>`).
pub(super) struct Ipnet;

impl LinkLayer for Ipnet {
    fn name(&self) -> &'static str {
        "Solaris ipnet"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(FAMILY, 24)
    }

    fn direction(&self) -> Option<DirectionField> {
        Some(DirectionField {
            size: Size::Half,
            offset: 2,
            incoming: Some(Bits::all(2)),
            outgoing: Some(Bits::all(1)),
        })
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        /// `AF_INET6` of Solaris.
        const AF_INET6: u32 = 26;
        is_family(values, place, proto, AF_INET6)
    }
}
