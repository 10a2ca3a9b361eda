//! IEEE 802.11 frames, plain and after the receive headers of drivers: Prism, radiotap, AVS, PPI.
//!
//! Both headers vary in length. The receive header contains its own length. The frame's MAC header
//! is two bytes longer in QoS data frames, and some drivers pad it to words. Both lengths are
//! computed before the rest of a filter, if it needs them.

mod address;
mod prefix;

use super::llc::{self, LLC_BYTES, LLC_SNAP_BYTES};
use super::{AddressField, EtherProto, HeaderOffsets, LinkLayer, field, masked};
use crate::ir::{Condition, Offset, Relation, Size, ValueId, Values};
use crate::language::ast::Operator;
pub(super) use prefix::Prefix;

/// The offset of the first byte of the frame control field: version, type, subtype (IEEE 802.11,
/// 9.2.4.1).
const CONTROL: u32 = 0;
/// The offset of the second byte: to and from the distribution system, and other flags.
const FLAGS: u32 = 1;
/// Type field: set in control frames, and in extension frames.
const TYPE_CONTROL: u32 = 0x04;
/// Type field: set in data frames, and in extension frames.
const TYPE_DATA: u32 = 0x08;
/// Subtype field of data frames: QoS.
const SUBTYPE_QOS: u32 = 0x80;

/// The length of the usual MAC header, which ends with the third address and the sequence number.
const MAC_BYTES: u32 = 24;

/// 802.11 after a receive header.
pub(super) struct Wlan {
    prefix: Prefix,
}

impl Wlan {
    pub(super) fn new(prefix: Prefix) -> Self {
        Self { prefix }
    }

    /// Tests a bit of the frame control field.
    fn has(values: &mut Values, place: HeaderOffsets, byte: u32, bit: u32) -> Condition {
        let at = place.header + byte;
        field(values, Size::Byte, at, Relation::AnyBit, bit)
    }

    /// Tests whether the frame carries data: it then has an LLC header, unless it is encrypted.
    fn is_data(values: &mut Values, place: HeaderOffsets) -> Condition {
        let control = Self::has(values, place, CONTROL, TYPE_CONTROL);
        control
            .negated()
            .and(Self::has(values, place, CONTROL, TYPE_DATA))
    }

    /// Stores the end of the MAC header in the payload's cell of `place`. Only data frames have
    /// more than the usual header: two bytes for QoS, and padding.
    fn set_payload(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        let cell = values.cell_of(place.payload)?;
        let usual = values.distance(place.header + MAC_BYTES);
        let with_qos = {
            let bytes = Self::qos_bytes(values, place);
            values.binary(Operator::Add, bytes, usual)
        };
        let data = Self::has(values, place, CONTROL, TYPE_DATA)
            .and(Self::has(values, place, CONTROL, TYPE_CONTROL).negated());
        let mut longer = data.and(Condition::Set(cell, with_qos));
        if self.prefix.tells_padding() {
            let end = values.cell(cell);
            longer = longer
                .and(prefix::is_padded(values))
                .and(prefix::rounded_up(values, cell, end));
        }
        let usual = Condition::Set(cell, usual);
        Some(usual.and(longer.or(Condition::Constant(true))))
    }

    /// Returns the bytes of QoS control of a data frame: two if the highest bit of the subtype is
    /// set.
    fn qos_bytes(values: &mut Values, place: HeaderOffsets) -> ValueId {
        const QOS_BYTES: u32 = 2;
        let control = values.load(Size::Byte, place.header + CONTROL);
        let shift = values.constant((SUBTYPE_QOS / QOS_BYTES).trailing_zeros());
        let shifted = values.binary(Operator::ShiftRight, control, shift);
        values.masked(shifted, QOS_BYTES)
    }
}

impl LinkLayer for Wlan {
    fn name(&self) -> &'static str {
        self.prefix.name()
    }

    fn place(&self, values: &mut Values) -> HeaderOffsets {
        let header = match self.prefix {
            Prefix::None => Offset::from(0),
            _ => {
                let cell = values.new_cell();
                values.place_in(cell)
            }
        };
        let cell = values.new_cell();
        let llc = values.place_in(cell);
        HeaderOffsets {
            header,
            type_field: llc,
            payload: llc,
            network: llc + LLC_SNAP_BYTES,
            osi: LLC_BYTES,
        }
    }

    fn prologue(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        let used =
            |values: &mut Values, at: Offset| at.base.is_some_and(|base| values.is_used(base));
        let payload = match used(values, place.payload) {
            true => self.set_payload(values, place),
            false => None,
        };
        let header = match used(values, place.header) {
            true => self.prefix.set_length(values, place.header),
            false => None,
        };
        [header, payload]
            .into_iter()
            .flatten()
            .reduce(Condition::and)
    }

    fn requirement(&self, values: &mut Values) -> Option<Condition> {
        self.prefix.requirement(values)
    }

    fn has_vlan(&self) -> bool {
        self.prefix != Prefix::Ppi
    }

    fn has_radio(&self) -> bool {
        self.prefix.is_radio()
    }

    fn llc(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        Some(Self::is_data(values, place))
    }

    fn frame_control(&self, place: HeaderOffsets) -> Option<Offset> {
        Some(place.header)
    }

    fn protocol(&self, values: &mut Values, place: HeaderOffsets, proto: EtherProto) -> Condition {
        let data = Self::is_data(values, place);
        data.and(llc::protocol(values, place.payload, proto))
    }

    fn address(
        &self,
        values: &mut Values,
        place: HeaderOffsets,
        which: AddressField,
        address: [u8; 6],
    ) -> Option<Condition> {
        Some(address::is(values, place, which, address))
    }

    fn multicast(&self, values: &mut Values, place: HeaderOffsets) -> Option<Condition> {
        Some(address::is_group(values, place))
    }
}

/// Tests a part of the frame control field.
fn control_is(values: &mut Values, place: HeaderOffsets, mask: u32, number: u32) -> Condition {
    masked(values, Size::Byte, place.header + CONTROL, mask, number)
}
