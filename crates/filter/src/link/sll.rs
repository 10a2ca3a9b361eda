//! Linux cooked captures, versions 1 and 2: a made-up header with the EtherType.

use super::ethertype as et;
use super::{Bits, DirectionField, EtherProto, HeaderOffsets, LLC_MAX, LinkLayer, equals, snap};
use crate::ir::{Condition, Size, Values};
use crate::program::opcode::PACKET_OUTGOING;

/// `ETH_P_802_3` and `ETH_P_802_2`: Linux's values for frames with a length instead of a type,
/// without and with an LLC header.
const LINUX_802_3: u32 = 1;
const LINUX_802_2: u32 = 4;

pub(super) struct Sll;

impl LinkLayer for Sll {
    fn name(&self) -> &'static str {
        "Linux cooked v1"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(14, 16)
    }

    fn direction(&self) -> Option<DirectionField> {
        Some(DirectionField {
            size: Size::Half,
            offset: 0,
            incoming: None,
            outgoing: Some(Bits::all(PACKET_OUTGOING)),
        })
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let (type_field, payload) = (place.type_field, place.payload);
        let has_llc = equals(values, Size::Half, type_field, LINUX_802_2);
        match proto {
            et::SAP_ISO | et::SAP_IP | et::SAP_NETBEUI => {
                has_llc.and(equals(values, Size::Half, payload, proto << 8 | proto))
            }
            et::SAP_IPX => {
                let by_type = equals(values, Size::Half, type_field, et::IPX);
                let without_llc = equals(values, Size::Half, type_field, LINUX_802_3);
                let by_sap = equals(values, Size::Byte, payload, et::SAP_IPX);
                let in_snap = snap(values, payload, et::IPX);
                by_type.or(without_llc).or(has_llc.and(by_sap.or(in_snap)))
            }
            et::ATALK | et::AARP => {
                let by_type = equals(values, Size::Half, type_field, proto);
                by_type.or(has_llc.and(snap(values, payload, proto)))
            }
            _ if proto <= LLC_MAX => has_llc.and(equals(values, Size::Byte, payload, proto)),
            _ => equals(values, Size::Half, type_field, proto),
        }
    }
}

pub(super) struct Sll2;

impl LinkLayer for Sll2 {
    fn name(&self) -> &'static str {
        "Linux cooked v2"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets::fixed(0, 20)
    }

    fn direction(&self) -> Option<DirectionField> {
        Some(DirectionField {
            size: Size::Byte,
            offset: 10,
            incoming: None,
            outgoing: Some(Bits::all(PACKET_OUTGOING)),
        })
    }

    fn interface_index(&self) -> Option<u32> {
        Some(4)
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        equals(values, Size::Half, place.type_field, proto)
    }
}
