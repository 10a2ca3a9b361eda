//! Encapsulations that move the offsets of all later primitives: VLAN tags, MPLS labels, PPPoE
//! sessions. (Tunnels are in a file of their own.)

use super::{Lowered, Lowering};
use crate::error::ErrorKind;
use crate::ir::{Condition, Size};
use crate::link::{self, EtherProto, HeaderOffsets, ethertype, masked};

/// The bytes that an encapsulation adds before the network layer.
const TAG: u32 = 4;
const LABEL: u32 = 4;
const PPPOE_HEADER: u32 = 6;

impl Lowering<'_> {
    /// Tests for a VLAN tag; all later primitives read four bytes further.
    pub(super) fn vlan(&mut self, id: Option<u32>) -> Lowered<Condition> {
        const MAX: u32 = 4095;
        if self.labels > 0 {
            return Err(ErrorKind::BehindLabels("vlan"));
        }
        if !self.link.has_vlan() {
            return Err(self.not_here("vlan"));
        }
        in_range("VLAN", id, MAX)?;
        let tagged = self.network(ethertype::VLAN)?;
        let tagged = tagged.or(self.network(ethertype::QINQ)?);
        let mut tagged = tagged.or(self.network(ethertype::QINQ_OLD)?);
        if let Some(id) = id {
            tagged = tagged.and(masked(self.values, Size::Half, self.place.network, MAX, id));
        }
        self.place.type_field += TAG;
        self.place.payload += TAG;
        self.place.network += TAG;
        Ok(tagged)
    }

    /// Tests for an MPLS label (RFC 3032): the first one by the link layer's protocol, a later one
    /// because the label before it is not the bottom of the stack.
    pub(super) fn mpls(&mut self, label: Option<u32>) -> Lowered<Condition> {
        const MAX: u32 = (1 << 20) - 1;
        let number = self.link.mpls().ok_or_else(|| self.not_here("mpls"))?;
        in_range("MPLS label", label, MAX)?;
        let mut found = match self.labels {
            0 => self.network(number)?,
            _ => self.last_label().negated(),
        };
        if let Some(label) = label {
            let at = self.place.network;
            found = found.and(masked(self.values, Size::Word, at, MAX << 12, label << 12));
        }
        self.place.network += LABEL;
        // The value may be a mark of a link type without such bytes, which is below zero.
        self.place.osi = self.place.osi.wrapping_add(LABEL);
        self.labels += 1;
        Ok(found)
    }

    /// Tests whether the label before the network layer has the bottom-of-stack bit.
    fn last_label(&mut self) -> Condition {
        // Inside a tunnel after labels there is no label. The offset is then beyond every packet, which
        // rejects it, as in libpcap.
        let at = self.place.network + 2_u32.wrapping_neg();
        masked(self.values, Size::Byte, at, 1, 1)
    }

    /// Tests the protocol after labels. No field names it, but the IP header has a version.
    pub(super) fn behind_labels(&mut self, proto: EtherProto) -> Lowered<Condition> {
        let version = match proto {
            ethertype::IP => 0x40,
            ethertype::IP6 => 0x60,
            _ => return Err(ErrorKind::BehindLabels("a protocol other than ip and ip6")),
        };
        let at = self.place.network;
        let last = self.last_label();
        Ok(last.and(masked(self.values, Size::Byte, at, 0xf0, version)))
    }

    /// Tests for a PPPoE session (RFC 2516); later primitives test the PPP payload.
    pub(super) fn pppoe_session(&mut self, session: Option<u32>) -> Lowered<Condition> {
        const MAX: u32 = 0xffff;
        in_range("PPPoE session", session, MAX)?;
        let mut found = self.network(ethertype::PPPOE_SESSION)?;
        if let Some(session) = session {
            // The session is in the lower half of this word.
            let at = self.place.network;
            found = found.and(masked(self.values, Size::Word, at, MAX, session));
        }
        let header = self.place.network + PPPOE_HEADER;
        self.link = link::in_pppoe();
        self.place = HeaderOffsets {
            header,
            type_field: header,
            payload: header + 2,
            network: header + 2,
            osi: 0,
        };
        Ok(found)
    }
}

/// Reports an error if the number after an encapsulation's name does not fit into its field.
pub(super) fn in_range(field: &'static str, value: Option<u32>, max: u32) -> Lowered<()> {
    match value {
        Some(value) if value > max => Err(ErrorKind::OutOfRange { field, value, max }),
        _ => Ok(()),
    }
}
