//! Captures made on Juniper routers: a magic number, and a header that does not name the payload's
//! protocol. Tests for any protocol therefore match.

use super::{Bits, DirectionField, EtherProto, HeaderOffsets, LinkLayer, masked};
use crate::ir::{Condition, Size, Values};

pub(super) struct Magic {
    name: &'static str,
    mask: u32,
    magic: u32,
    /// The offset of the network layer. Where libpcap does not know it, it lies one or two bytes
    /// before the packet's start, so tests on it read bytes of the header.
    payload: u32,
    /// The distance from there back to the start of the payload in libpcap: in a tunnel, OSI
    /// headers keep that distance from the payload.
    before: u32,
    /// The distance from there to an OSI header.
    osi: u32,
    has_direction: bool,
}

impl Magic {
    /// "MGC"
    const JUNIPER: u32 = 0x4d47_4300;

    const fn juniper(name: &'static str, payload: u32, osi: u32) -> Self {
        Self {
            name,
            mask: 0xffff_ff00,
            magic: Self::JUNIPER,
            payload,
            before: 0,
            osi,
            has_direction: true,
        }
    }

    /// PPP, Frame Relay and C-HDLC, also over several links.
    pub(super) const PPP: Self = Self::juniper("Juniper PPP, Frame Relay or C-HDLC", 4, NO_NOSNAP);
    /// The header's length is unknown.
    pub(super) const OTHER: Self = Self::juniper("Juniper", UNKNOWN, 0);
    pub(super) const GGSN: Self = Self::juniper("Juniper GGSN or monitor", 12, NO_NOSNAP);
    pub(super) const ATM1: Self = Self::juniper("Juniper ATM1", 4, 10);
    pub(super) const ATM2: Self = Self::juniper("Juniper ATM2", 8, 10);
    pub(super) const ETHERNET: Self = Self {
        before: 18,
        ..Self::juniper("Juniper Ethernet or PPPoE", 32, 21)
    };
    pub(super) const PPPOE_ATM: Self = Self::juniper("Juniper PPPoE over ATM", 6, NO_NOSNAP);
}

const NO_NOSNAP: u32 = 1_u32.wrapping_neg();
const UNKNOWN: u32 = 2_u32.wrapping_neg();

impl LinkLayer for Magic {
    fn name(&self) -> &'static str {
        self.name
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        HeaderOffsets {
            payload: self.payload.wrapping_sub(self.before).into(),
            osi: self.osi,
            ..HeaderOffsets::fixed(0, self.payload)
        }
    }

    fn has_type_field(&self) -> bool {
        self.magic == Self::JUNIPER
    }

    fn direction(&self) -> Option<DirectionField> {
        self.has_direction.then_some(DirectionField {
            size: Size::Byte,
            offset: 3,
            incoming: Some(Bits::under(1, 1)),
            outgoing: Some(Bits::under(1, 0)),
        })
    }

    fn protocol(&self, values: &mut Values, _: HeaderOffsets, _: EtherProto) -> Condition {
        masked(values, Size::Word, 0, self.mask, self.magic)
    }
}
