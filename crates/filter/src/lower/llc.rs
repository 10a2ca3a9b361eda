//! 802.2 LLC frames and their types.

use super::{Lowered, Lowering, unknown};
use crate::ir::{Condition, Relation, Size};
use crate::link::{field, masked};
use crate::resolve::NameKind;

/// The comparison of the control field: under this mask, with this value (IEEE 802.2, 5.4).
type Control = (u32, u32);

const SUPERVISORY: u32 = 0x0f;
/// All bits but the poll/final bit.
const UNNUMBERED: u32 = 0xef;

/// The types of frames, by their names in the language.
const TYPES: &[(&str, Control)] = &[
    ("s", (0x03, 0x01)),
    ("u", (0x03, 0x03)),
    ("rr", (SUPERVISORY, 0x01)),
    ("rnr", (SUPERVISORY, 0x05)),
    ("rej", (SUPERVISORY, 0x09)),
    ("ui", (UNNUMBERED, 0x03)),
    ("ua", (UNNUMBERED, 0x63)),
    ("disc", (UNNUMBERED, 0x43)),
    ("dm", (UNNUMBERED, 0x0f)),
    ("sabme", (UNNUMBERED, 0x6f)),
    ("test", (UNNUMBERED, 0xe3)),
    ("xid", (UNNUMBERED, 0xaf)),
    ("frmr", (UNNUMBERED, 0x87)),
];

impl Lowering<'_> {
    /// Tests for LLC frames, or those of a type.
    pub(super) fn llc(&mut self, kind: Option<&str>) -> Lowered<Condition> {
        const CONTROL: u32 = 2;
        let found = self.link.llc(self.values, self.place);
        let llc = found.ok_or_else(|| self.not_here("llc"))?;
        let Some(kind) = kind else { return Ok(llc) };
        let at = self.place.payload + CONTROL;
        // Information frames have the lowest bit clear.
        if kind.eq_ignore_ascii_case("i") {
            let other = field(self.values, Size::Byte, at, Relation::AnyBit, 1);
            return Ok(llc.and(other.negated()));
        }
        let known = TYPES
            .iter()
            .find(|(name, _)| kind.eq_ignore_ascii_case(name));
        let &(_, (mask, control)) = known.ok_or_else(|| unknown(NameKind::LlcType, kind))?;
        Ok(llc.and(masked(self.values, Size::Byte, at, mask, control)))
    }
}
