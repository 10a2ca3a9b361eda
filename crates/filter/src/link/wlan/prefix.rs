//! The headers before 802.11 frames.

use super::super::{equals, field, masked};
use crate::ir::{Cell, Condition, Offset, Relation, Size, ValueId, Values};
use crate::language::ast::Operator;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::link) enum Prefix {
    None,
    /// The header of Prism cards, or an AVS header in its place.
    Prism,
    /// <https://www.radiotap.org>.
    Radiotap,
    /// Absolute Value Systems.
    Avs,
    /// Per-Packet Information, of CACE Technologies.
    Ppi,
}

impl Prefix {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "802.11",
            Self::Prism => "802.11 with Prism header",
            Self::Radiotap => "802.11 with radiotap header",
            Self::Avs => "802.11 with AVS header",
            Self::Ppi => "Per-Packet Information",
        }
    }

    /// Returns whether `radio[…]` reads it.
    pub(super) fn is_radio(self) -> bool {
        matches!(self, Self::Prism | Self::Radiotap | Self::Avs)
    }

    /// Returns whether it records that the MAC header was padded to words.
    pub(super) fn tells_padding(self) -> bool {
        self == Self::Radiotap
    }

    /// Returns the condition for packets of this kind: PPI can carry other link types. Its
    /// little-endian number is compared in network byte order.
    pub(super) fn requirement(self, values: &mut Values) -> Option<Condition> {
        const WLAN: u32 = 105_u32.swap_bytes();
        (self == Self::Ppi).then(|| equals(values, Size::Word, 4, WLAN))
    }

    /// Stores the header's length in the cell of `end`.
    pub(super) fn set_length(self, values: &mut Values, end: Offset) -> Option<Condition> {
        let cell = values.cell_of(end)?;
        match self {
            Self::None => None,
            Self::Radiotap | Self::Ppi => {
                let high = values.load(Size::Byte, 3);
                let low = values.load(Size::Byte, 2);
                let eight = values.constant(8);
                let high = values.binary(Operator::ShiftLeft, high, eight);
                let length = values.binary(Operator::Or, low, high);
                Some(Condition::Set(cell, length))
            }
            Self::Avs => {
                let length = values.load(Size::Word, 4);
                Some(Condition::Set(cell, length))
            }
            Self::Prism => {
                /// An AVS header's magic number, without its version.
                const AVS: u32 = 0x8021_1000;
                const PRISM_BYTES: u32 = 144;
                let is_avs = masked(values, Size::Word, 0, 0xffff_f000, AVS);
                let avs = values.load(Size::Word, 4);
                let prism = values.constant(PRISM_BYTES);
                let avs = is_avs.and(Condition::Set(cell, avs));
                Some(avs.or(Condition::Set(cell, prism)))
            }
        }
    }
}

/// Tests whether a radiotap header says that the MAC header was padded: the first word of its bitmap is the
/// last and has the flags field, and the flag is set. As in libpcap, the field is read after one word. Fields
/// are little-endian.
pub(super) fn is_padded(values: &mut Values) -> Condition {
    const PRESENT: u32 = 4;
    const FIRST_FIELD: u32 = 8;
    const TIMESTAMP_BYTES: u32 = 8;
    const HAS_TIMESTAMP: u32 = 1_u32.swap_bytes();
    const HAS_FLAGS: u32 = 2_u32.swap_bytes();
    const MORE_WORDS: u32 = 0x8000_0000_u32.swap_bytes();
    const PADDED: u32 = 0x20;
    let present =
        |values: &mut Values, bit| field(values, Size::Word, PRESENT, Relation::AnyBit, bit);
    let flag = |values: &mut Values, at| field(values, Size::Byte, at, Relation::AnyBit, PADDED);
    let timestamp = present(values, HAS_TIMESTAMP);
    let behind = timestamp
        .clone()
        .and(flag(values, FIRST_FIELD + TIMESTAMP_BYTES));
    let first = timestamp.negated().and(flag(values, FIRST_FIELD));
    present(values, HAS_FLAGS)
        .and(present(values, MORE_WORDS).negated())
        .and(behind.or(first))
}

/// Stores `end`, rounded up to words, in the cell.
pub(super) fn rounded_up(values: &mut Values, cell: Cell, end: ValueId) -> Condition {
    let three = values.constant(3);
    let more = values.binary(Operator::Add, end, three);
    let words = values.masked(more, !3);
    Condition::Set(cell, words)
}
