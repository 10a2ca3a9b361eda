//! ATM as SunATM delivers it: a byte with the traffic's type, the virtual path, the virtual channel
//! (two bytes), then the reassembled frame. The type identifies LLC frames and emulated Ethernets
//! (LANE); after `lane`, the rest of an expression tests the emulated frame.

use super::ethernet::Ethernet;
use super::llc::{self, LLC_BYTES};
use super::{
    AddressField, ETHERNET_HEADER, ETHERNET_TYPE, EtherProto, HeaderOffsets, LinkLayer, equals,
    masked,
};
use crate::ir::{Condition, Offset, Size, Values};

/// The length of the header before the frame, in bytes.
const HEADER_BYTES: u32 = 4;

/// Types of traffic, in the low bits of the first byte.
pub(crate) mod traffic {
    pub(crate) const LANE: u32 = 1;
    pub(crate) const LLC: u32 = 2;
}

/// Offsets in the header.
pub(crate) mod header {
    pub(crate) const PATH: u32 = 1;
    pub(crate) const CHANNEL: u32 = 2;
    /// The offset of a signalling message's type (Q.2931, 4.4), after protocol discriminator and call
    /// reference.
    pub(crate) const MESSAGE_TYPE: u32 = 9;
}

/// Tests whether the traffic is of this type.
pub(crate) fn is_traffic(values: &mut Values, place: HeaderOffsets, kind: u32) -> Condition {
    masked(values, Size::Byte, place.header, 0xf, kind)
}

pub(super) struct SunAtm;

impl LinkLayer for SunAtm {
    fn name(&self) -> &'static str {
        "SunATM"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        llc::place(HEADER_BYTES)
    }

    fn is_atm(&self) -> bool {
        true
    }

    fn llc(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        Some(is_traffic(values, place, traffic::LLC))
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let llc = is_traffic(values, place, traffic::LLC);
        llc.and(llc::protocol(values, place.payload, proto))
    }
}

/// An emulated Ethernet frame after a LANE header (ATM Forum, LAN Emulation over ATM 1.0, 3.3).
struct Lane;

/// The length of the client identifier before the emulated frame, in bytes.
const LANE_BYTES: u32 = 2;

/// Returns the link layer after `lane` and its offsets; `before` is the link layer before it. Behind a second
/// `lane`, control frames are no longer recognised, as in libpcap.
pub(crate) fn lane(before: &dyn LinkLayer) -> (&'static dyn LinkLayer, HeaderOffsets) {
    let link: &dyn LinkLayer = match before.is_atm() {
        true => &Lane,
        false => &Ethernet::PLAIN,
    };
    (link, Lane::inside())
}

impl Lane {
    /// Returns the offsets in the emulated Ethernet frame.
    fn inside() -> HeaderOffsets {
        const BEFORE: u32 = HEADER_BYTES + LANE_BYTES;
        HeaderOffsets {
            header: Offset::from(BEFORE),
            osi: LLC_BYTES,
            ..HeaderOffsets::fixed(BEFORE + ETHERNET_TYPE, BEFORE + ETHERNET_HEADER)
        }
    }

    /// Tests whether a frame is no control frame, which has this identifier.
    fn is_data(values: &mut Values, place: HeaderOffsets) -> Condition {
        const CONTROL: u32 = 0xff00;
        let identifier = place.header + LANE_BYTES.wrapping_neg();
        equals(values, Size::Half, identifier, CONTROL).negated()
    }
}

impl LinkLayer for Lane {
    fn name(&self) -> &'static str {
        "LANE"
    }

    fn place(&self, _: &mut Values) -> HeaderOffsets {
        Self::inside()
    }

    fn address(
        &self,
        values: &mut Values,
        place: HeaderOffsets,
        which: AddressField,
        address: [u8; 6],
    ) -> Option<Condition> {
        let data = Self::is_data(values, place);
        Some(data.and(Ethernet::PLAIN.address(values, place, which, address)?))
    }

    fn multicast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        let data = Self::is_data(values, place);
        Some(data.and(Ethernet::PLAIN.multicast(values, place)?))
    }

    fn has_vlan(&self) -> bool {
        true
    }

    fn mpls(&self) -> Option<EtherProto> {
        Ethernet::PLAIN.mpls()
    }

    fn llc(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        Ethernet::PLAIN.llc(values, place)
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let data = Self::is_data(values, place);
        data.and(Ethernet::PLAIN.protocol(values, place, proto))
    }
}
