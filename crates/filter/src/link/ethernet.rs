//! Ethernet: destination, source, type or length (IEEE 802.3), with 802.1Q tags between them. Also after the
//! header of an analyser, and with the tag of a switch.

use super::ethertype as et;
use super::{
    Addresses, Bits, DirectionField, ETHERNET_HEADER, ETHERNET_TYPE, EtherProto, HeaderOffsets,
    LLC_MAX, LinkLayer, equals, field, snap,
};
use crate::ir::{Condition, Offset, Relation, Size, Values};

/// An LLC header without sequence numbers (IEEE 802.2), in bytes.
const LLC_HEADER: u32 = 3;

pub(super) struct Ethernet {
    name: &'static str,
    /// The length of data before the frame, in bytes.
    before: u32,
    /// The tag of a switch between the addresses and the type, in bytes.
    tag: u32,
    /// The direction in the tag's first byte.
    direction: Option<DirectionField>,
}

impl Ethernet {
    pub(super) const PLAIN: Self = Self {
        name: "Ethernet",
        before: 0,
        tag: 0,
        direction: None,
    };
    /// A header of Hilscher's netANALYZER.
    pub(super) const NETANALYZER: Self = Self {
        name: "netANALYZER",
        before: 4,
        ..Self::PLAIN
    };
    /// The same, with preamble and start-of-frame delimiter.
    pub(super) const NETANALYZER_TRANSPARENT: Self = Self {
        name: "transparent netANALYZER",
        before: 12,
        ..Self::PLAIN
    };
    /// The tag of Broadcom's switches (net/dsa/tag_brcm.c): its first three bits are the operation,
    /// 0 towards the processor, 1 from it.
    pub(super) const BROADCOM: Self = Self {
        name: "Broadcom DSA",
        tag: 4,
        direction: Some(in_tag(Bits::under(0xe0, 0), Bits::under(0xe0, 0x20))),
        ..Self::PLAIN
    };
    /// The tag of Marvell's switches (net/dsa/tag_dsa.c): its first two bits are the mode. Frames to
    /// the processor (0) and for a sniffer (2) come in, those from the processor (1) go out.
    pub(super) const MARVELL: Self = Self {
        name: "Marvell DSA",
        tag: 4,
        direction: Some(in_tag(Bits::under(0x40, 0), Bits::under(0xc0, 0x40))),
        ..Self::PLAIN
    };
}

/// Returns the direction by bits of the first byte of a switch's tag.
const fn in_tag(incoming: Bits, outgoing: Bits) -> DirectionField {
    DirectionField {
        size: Size::Byte,
        offset: ETHERNET_TYPE,
        incoming: Some(incoming),
        outgoing: Some(outgoing),
    }
}

impl LinkLayer for Ethernet {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        let before = self.before + self.tag;
        HeaderOffsets {
            header: Offset::from(self.before),
            osi: LLC_HEADER,
            ..HeaderOffsets::fixed(before + ETHERNET_TYPE, before + ETHERNET_HEADER)
        }
    }

    fn addresses(&self) -> Option<Addresses> {
        Some(Addresses { dst: 0, src: 6 })
    }

    fn llc(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        /// Novell's frames without an LLC header begin with an unused checksum.
        const NO_CHECKSUM: u32 = 0xffff;
        if self.before != 0 {
            return None;
        }
        let (type_field, payload) = (place.type_field, place.payload);
        let is_length = field(values, Size::Half, type_field, Relation::Greater, LLC_MAX).negated();
        Some(is_length.and(equals(values, Size::Half, payload, NO_CHECKSUM).negated()))
    }

    fn mpls(&self) -> Option<EtherProto> {
        Some(et::MPLS)
    }

    fn has_vlan(&self) -> bool {
        true
    }

    fn direction(&self) -> Option<DirectionField> {
        self.direction
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let (type_field, payload) = (place.type_field, place.payload);
        let is_length = field(values, Size::Half, type_field, Relation::Greater, LLC_MAX).negated();
        match proto {
            et::SAP_ISO | et::SAP_IP | et::SAP_NETBEUI => {
                is_length.and(equals(values, Size::Half, payload, proto << 8 | proto))
            }
            et::SAP_IPX => {
                let by_type = equals(values, Size::Half, type_field, et::IPX);
                let in_snap = snap(values, payload, et::IPX);
                let by_sap = equals(values, Size::Byte, payload, et::SAP_IPX);
                let without_llc = equals(values, Size::Half, payload, 0xffff);
                by_type.or(is_length.and(in_snap.or(by_sap).or(without_llc)))
            }
            et::ATALK | et::AARP => {
                let by_type = equals(values, Size::Half, type_field, proto);
                by_type.or(is_length.and(snap(values, payload, proto)))
            }
            // As in libpcap, directly after the field: if it is the field of a Geneve header, the payload
            // lies after options.
            _ if proto <= LLC_MAX => {
                is_length.and(equals(values, Size::Byte, type_field + 2, proto))
            }
            _ => equals(values, Size::Half, type_field, proto),
        }
    }
}
