//! The addresses of 802.11 frames (IEEE 802.11, 9.2.4.3 and table 9-30). The path through the
//! distribution system decides which of up to four are source and destination.

use super::super::{AddressField, HeaderOffsets, equals_address, field};
use super::{FLAGS, TYPE_CONTROL, TYPE_DATA, Wlan, control_is};
use crate::ir::{Condition, Relation, Size, Values};
use crate::language::frame::FrameAddress;

const ADDRESS_1: u32 = 4;
const ADDRESS_2: u32 = 10;
const ADDRESS_3: u32 = 16;
const ADDRESS_4: u32 = 24;

const TO_SYSTEM: u32 = 0x01;
const FROM_SYSTEM: u32 = 0x02;

/// Tests whether the address of that kind is this one.
pub(super) fn is(
    values: &mut Values,
    place: HeaderOffsets,
    which: AddressField,
    address: [u8; 6],
) -> Condition {
    let mut at =
        |values: &mut Values, offset| equals_address(values, place.header + offset, address);
    match which {
        AddressField::Src => source(values, place, &mut at),
        AddressField::Dst => destination(values, place, &mut at),
        AddressField::Frame(FrameAddress::First) => at(values, ADDRESS_1),
        AddressField::Frame(FrameAddress::Second) => {
            has_second(values, place).and(at(values, ADDRESS_2))
        }
        AddressField::Frame(FrameAddress::Third) => is_control(values, place)
            .negated()
            .and(at(values, ADDRESS_3)),
        AddressField::Frame(FrameAddress::Fourth) => {
            let both = TO_SYSTEM | FROM_SYSTEM;
            let relayed = super::masked(values, Size::Byte, place.header + FLAGS, both, both);
            relayed.and(at(values, ADDRESS_4))
        }
        AddressField::Frame(FrameAddress::Receiver) => {
            let data = Wlan::has(values, place, super::CONTROL, TYPE_DATA);
            data.and(at(values, ADDRESS_1))
        }
        AddressField::Frame(FrameAddress::Transmitter) => {
            let data = Wlan::has(values, place, super::CONTROL, TYPE_DATA);
            data.and(has_second(values, place))
                .and(at(values, ADDRESS_2))
        }
    }
}

/// Tests whether the destination is a group.
pub(super) fn is_group(values: &mut Values, place: HeaderOffsets) -> Condition {
    const GROUP: u32 = 1;
    destination(values, place, &mut |values, offset| {
        let at = place.header + offset;
        field(values, Size::Byte, at, Relation::AnyBit, GROUP)
    })
}

/// Tests the address at an offset from the frame's start.
type Test<'a> = &'a mut dyn FnMut(&mut Values, u32) -> Condition;

/// Tests the source of management and data frames.
fn source(values: &mut Values, place: HeaderOffsets, test: Test<'_>) -> Condition {
    let flag = |values: &mut Values, bit| Wlan::has(values, place, FLAGS, bit);
    let relayed = either(
        flag(values, TO_SYSTEM),
        test(values, ADDRESS_4),
        test(values, ADDRESS_3),
    );
    let data = either(flag(values, FROM_SYSTEM), relayed, test(values, ADDRESS_2));
    let management = test(values, ADDRESS_2);
    not_control(values, place, data, management)
}

/// Tests the destination of management and data frames.
fn destination(values: &mut Values, place: HeaderOffsets, test: Test<'_>) -> Condition {
    let to_system = Wlan::has(values, place, FLAGS, TO_SYSTEM);
    let data = either(to_system, test(values, ADDRESS_3), test(values, ADDRESS_1));
    let management = test(values, ADDRESS_1);
    not_control(values, place, data, management)
}

fn not_control(
    values: &mut Values,
    place: HeaderOffsets,
    data: Condition,
    management: Condition,
) -> Condition {
    let control = Wlan::has(values, place, super::CONTROL, TYPE_CONTROL);
    let is_data = Wlan::has(values, place, super::CONTROL, TYPE_DATA);
    control.negated().and(either(is_data, data, management))
}

/// Returns `yes` where the test holds, otherwise `no`.
fn either(test: Condition, yes: Condition, no: Condition) -> Condition {
    let opposite = test.clone().negated();
    opposite.and(no).or(test.and(yes))
}

fn is_control(values: &mut Values, place: HeaderOffsets) -> Condition {
    control_is(values, place, TYPE_CONTROL | TYPE_DATA, TYPE_CONTROL)
}

/// Tests whether there is a second address: CTS and ACK frames have none.
fn has_second(values: &mut Values, place: HeaderOffsets) -> Condition {
    const SUBTYPE: u32 = 0xf0;
    const CTS: u32 = 0xc0;
    const ACK: u32 = 0xd0;
    let cts = control_is(values, place, SUBTYPE, CTS).negated();
    let ack = control_is(values, place, SUBTYPE, ACK).negated();
    is_control(values, place).negated().or(cts.and(ack))
}
