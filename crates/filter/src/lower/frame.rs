//! Primitives that belong to certain link types: 802.11 frames, ATM, signalling system 7, pf logs.

use super::{Lowered, Lowering, after};
use crate::error::ErrorKind;
use crate::ir::{Condition, Offset, Relation as Compare, Size};
use crate::language::frame::{
    AtmField, Comparison, FramePrimitive, PfTest, SignalField, SignalFieldKind, SignalUnit, Traffic,
};
use crate::link::{atm, compare, equals, field, masked};

impl Lowering<'_> {
    pub(super) fn frame_primitive(&mut self, primitive: &FramePrimitive) -> Lowered<Condition> {
        match primitive {
            FramePrimitive::Type(bits) => {
                let at = self.frame_control("a test of the type of 802.11 frames")?;
                Ok(masked(self.values, Size::Byte, at, bits.mask, bits.number))
            }
            FramePrimitive::Direction(number) => {
                const DIRECTION: u32 = 3;
                let at = self.frame_control("a test of the direction of 802.11 frames")? + 1;
                Ok(masked(self.values, Size::Byte, at, DIRECTION, *number))
            }
            FramePrimitive::Atm(field, list) => self.atm_field(*field, list),
            FramePrimitive::Traffic(traffic) => self.traffic(*traffic),
            FramePrimitive::SignalUnit(unit) => self.signal_unit(*unit),
            FramePrimitive::Signal(field, list) => self.signal_field(*field, list),
            FramePrimitive::Pf(test) => self.pf(test),
        }
    }

    fn frame_control(&self, primitive: &'static str) -> Lowered<Offset> {
        let at = self.link.frame_control(self.place);
        at.ok_or_else(|| self.not_here(primitive))
    }

    fn atm_header(&self) -> Lowered<Offset> {
        match self.outer.is_atm() {
            true => Ok(self.place.header),
            false => Err(self.not_here("a test of the ATM header")),
        }
    }

    fn atm_field(&mut self, field: AtmField, list: &[Comparison]) -> Lowered<Condition> {
        let header = self.atm_header()?;
        let (size, at) = match field {
            AtmField::Path => (Size::Byte, atm::header::PATH),
            AtmField::Channel => (Size::Half, atm::header::CHANNEL),
        };
        Ok(self.any_of(list, |this, comparison| {
            this.compared(size, header + at, None, comparison)
        }))
    }

    /// Tests a kind of traffic by its well-known virtual channel on path 0 (ATM Forum, UNI 3.1,
    /// 3.4), or by the type that SunATM gives.
    fn traffic(&mut self, traffic: Traffic) -> Lowered<Condition> {
        const META: u32 = 1;
        const BROADCAST: u32 = 2;
        const OAM_SEGMENT: u32 = 3;
        const OAM_END_TO_END: u32 = 4;
        const SIGNALLING: u32 = 5;
        const ILMI: u32 = 16;
        self.atm_header()?;
        Ok(match traffic {
            Traffic::Lane => self.lane(),
            Traffic::MetaSignalling => self.channel(&[META]),
            Traffic::Broadcast => self.channel(&[BROADCAST]),
            Traffic::OamSegment => self.channel(&[OAM_SEGMENT]),
            Traffic::OamEndToEnd => self.channel(&[OAM_END_TO_END]),
            Traffic::Oam => self.channel(&[OAM_SEGMENT, OAM_END_TO_END]),
            Traffic::Signalling => self.channel(&[SIGNALLING]),
            Traffic::Ilmi => self.channel(&[ILMI]),
            Traffic::Connections => {
                let channel = self.channel(&[SIGNALLING]);
                channel.and(self.message(&message::CONNECTIONS))
            }
            Traffic::MetaConnections => {
                let channel = self.channel(&[META]);
                channel.and(self.message(&message::META_CONNECTIONS))
            }
        })
    }

    /// Tests for one of these channels on path 0.
    fn channel(&mut self, channels: &[u32]) -> Condition {
        let header = self.place.header;
        let path = equals(self.values, Size::Byte, header + atm::header::PATH, 0);
        let at = header + atm::header::CHANNEL;
        path.and(self.any_of(channels, |this, channel| {
            equals(this.values, Size::Half, at, channel)
        }))
    }

    /// Tests for a signalling message of one of these types.
    fn message(&mut self, types: &[u32]) -> Condition {
        let at = self.place.header + atm::header::MESSAGE_TYPE;
        self.any_of(types, |this, kind| {
            equals(this.values, Size::Byte, at, kind)
        })
    }

    /// Tests for LAN emulation. Later primitives test the emulated frame.
    fn lane(&mut self) -> Condition {
        let lane = atm::is_traffic(self.values, self.place, atm::traffic::LANE);
        (self.link, self.place) = atm::lane(self.link);
        lane
    }

    fn signal_unit_at(&self) -> Lowered<Offset> {
        let at = self.link.signal_unit().map(Offset::from);
        at.ok_or_else(|| self.not_here("a test of signal units"))
    }

    /// Tests the length indicator (Q.703, 2.3.3; Q.703 annex A for high-speed links): 0, 1 or 2,
    /// more.
    fn signal_unit(&mut self, unit: SignalUnit) -> Lowered<Condition> {
        const LENGTH: u32 = 0x3f;
        const LONG_LENGTH: u32 = 0xff80;
        let at = self.signal_unit_at()?;
        let high_speed = match unit {
            SignalUnit::Fill | SignalUnit::LinkStatus | SignalUnit::Message => false,
            SignalUnit::HighSpeedFill
            | SignalUnit::HighSpeedLinkStatus
            | SignalUnit::HighSpeedMessage => true,
        };
        let (size, at, mask) = match high_speed {
            false => (Size::Byte, at + 2, LENGTH),
            true => (Size::Half, at + 4, LONG_LENGTH),
        };
        let one = 1 << mask.trailing_zeros();
        let load = self.values.load(size, at);
        let length = self.values.masked(load, mask);
        let mut test = |relation, number| compare(self.values, length, relation, number);
        Ok(match unit {
            SignalUnit::Fill | SignalUnit::HighSpeedFill => test(Compare::Equal, 0),
            SignalUnit::Message | SignalUnit::HighSpeedMessage => test(Compare::Greater, 2 * one),
            SignalUnit::LinkStatus | SignalUnit::HighSpeedLinkStatus => {
                let some = test(Compare::Greater, 0);
                some.and(test(Compare::Greater, 2 * one).negated())
            }
        })
    }

    /// Tests the service information octet and the fields of the routing label (Q.704, 2.2).
    fn signal_field(&mut self, signal: SignalField, list: &[Comparison]) -> Lowered<Condition> {
        let mut at = self.signal_unit_at()?;
        if signal.high_speed {
            const EXTENDED: u32 = 3;
            at += EXTENDED;
        }
        let (name, max, size, offset, mask) = match signal.kind {
            SignalFieldKind::ServiceInformation => ("sio", 0xff, Size::Byte, 3, None),
            SignalFieldKind::Origin => ("opc", 0x3fff, Size::Word, 4, Some(0x00c0_ff0f)),
            SignalFieldKind::Destination => ("dpc", 0x3fff, Size::Word, 4, Some(0xff3f_0000)),
            SignalFieldKind::LinkSelection => ("sls", 0xf, Size::Byte, 7, Some(0xf0)),
        };
        for comparison in list {
            let value = comparison.number;
            if value > max {
                let field = name;
                return Err(ErrorKind::OutOfRange { field, value, max });
            }
        }
        Ok(self.any_of(list, |this, comparison| {
            // The label is in little-endian order, but loaded in network order.
            let number = match signal.kind {
                SignalFieldKind::ServiceInformation => comparison.number,
                SignalFieldKind::Origin => (comparison.number << 14).swap_bytes(),
                SignalFieldKind::Destination => comparison.number.swap_bytes(),
                SignalFieldKind::LinkSelection => comparison.number << 4,
            };
            let comparison = Comparison {
                number,
                ..comparison
            };
            this.compared(size, at + offset, mask, comparison)
        }))
    }

    /// Compares a field, under a mask, with a number.
    fn compared(
        &mut self,
        size: Size,
        at: Offset,
        mask: Option<u32>,
        comparison: Comparison,
    ) -> Condition {
        let (relation, opposite) = super::arith::comparison(comparison.relation);
        let load = self.values.load(size, at);
        let left = mask.map_or(load, |mask| self.values.masked(load, mask));
        let test = compare(self.values, left, relation, comparison.number);
        if opposite { test.negated() } else { test }
    }

    /// Combines the tests, one of which must hold.
    fn any_of<T: Copy>(
        &mut self,
        list: &[T],
        mut test: impl FnMut(&mut Self, T) -> Condition,
    ) -> Condition {
        let tests = list.iter().map(|&one| test(self, one));
        let any = tests.reduce(Condition::or);
        any.unwrap_or(Condition::Constant(false))
    }

    /// Tests fields of the header that pf writes before logged packets (pflog(4)).
    fn pf(&mut self, test: &PfTest) -> Lowered<Condition> {
        const ACTION: u32 = 2;
        const REASON: u32 = 3;
        const INTERFACE: u32 = 4;
        const RULE_SET: u32 = 20;
        const RULE: u32 = 36;
        const SUB_RULE: u32 = 40;
        if !self.link.is_pf() {
            return Err(self.not_here("a test of the pf log"));
        }
        let values = &mut *self.values;
        match test {
            PfTest::Interface(name) => self.pf_name(INTERFACE, "interface", name),
            PfTest::RuleSet(name) => self.pf_name(RULE_SET, "rule set", name),
            PfTest::Rule(number) => Ok(equals(values, Size::Word, RULE, *number)),
            PfTest::SubRule(number) => Ok(equals(values, Size::Word, SUB_RULE, *number)),
            PfTest::Reason(number) => Ok(equals(values, Size::Byte, REASON, *number)),
            PfTest::Action(number) => Ok(equals(values, Size::Byte, ACTION, *number)),
        }
    }

    /// Tests whether the name at an offset begins with this one, compared from its end.
    fn pf_name(&mut self, at: u32, what: &'static str, name: &str) -> Lowered<Condition> {
        const MAX: usize = 15;
        if name.len() > MAX {
            return Err(ErrorKind::NameTooLong { what, max: MAX });
        }
        let mut rest = name.as_bytes();
        let mut all: Option<Condition> = None;
        while !rest.is_empty() {
            let size = match rest.len() {
                1 => Size::Byte,
                2 | 3 => Size::Half,
                _ => Size::Word,
            };
            let (front, part) = rest.split_at(rest.len() - size.bytes());
            let number = part.iter().fold(0, |n, &byte| n << 8 | u32::from(byte));
            let offset = at + u32::try_from(front.len()).unwrap_or(u32::MAX);
            let test = field(self.values, size, offset, Compare::Equal, number);
            all = Some(after(all, test));
            rest = front;
        }
        Ok(all.unwrap_or(Condition::Constant(true)))
    }
}

/// Types of signalling messages (Q.2931, 4.4) that set up and release calls, in the order in which
/// they are tested.
mod message {
    const CALL_PROCEEDING: u32 = 0x02;
    const SETUP: u32 = 0x05;
    const CONNECT: u32 = 0x07;
    const CONNECT_ACKNOWLEDGE: u32 = 0x0f;
    const RELEASE: u32 = 0x4d;
    const RELEASE_COMPLETE: u32 = 0x5a;

    pub(super) const CONNECTIONS: [u32; 6] = [
        RELEASE_COMPLETE,
        RELEASE,
        CONNECT_ACKNOWLEDGE,
        CONNECT,
        SETUP,
        CALL_PROCEEDING,
    ];
    /// Channels are set up without an acknowledgement.
    pub(super) const META_CONNECTIONS: [u32; 5] =
        [RELEASE_COMPLETE, RELEASE, CONNECT, SETUP, CALL_PROCEEDING];
}
