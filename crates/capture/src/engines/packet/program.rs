//! The program that the kernel runs on each packet: the rules of the capture, then the filter.

use ringtap_sys::packet::Instruction;

use crate::engines::interface::Scope;
use crate::options::{CaptureOptions, Direction, Stage};

/// `ld [k]`, `ld #k`, `jeq #k`, `jge #k`, `ret #k` (linux/filter.h, linux/bpf_common.h).
const LOAD_WORD: u16 = 0x20;
const LOAD_IMMEDIATE: u16 = 0x00;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER_OR_EQUAL: u16 = 0x35;
const RETURN: u16 = 0x06;
/// The class of an operation, and that of all returns.
const CLASS: u16 = 0x07;
const CLASS_RETURN: u16 = 0x06;

/// Offsets at which a load yields what the kernel knows of a packet (`SKF_AD_OFF` and following).
const PROTOCOL: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = 0xffff_f000 + 4;
const INTERFACE_INDEX: u32 = 0xffff_f000 + 8;
const RANDOM: u32 = 0xffff_f000 + 56;

/// `ETH_P_ALL` of linux/if_ether.h.
const ALL_PROTOCOLS: u16 = 3;
/// `PACKET_OUTGOING` of packet(7).
const OUTGOING: u32 = 4;
/// Loopback has this index in every network namespace (`LOOPBACK_IFINDEX`).
const LOOPBACK_INDEX: u32 = 1;

/// Returns whether the socket supports leaving out sent packets.
pub(super) fn can_ignore_outgoing(scope: Scope, direction: Direction) -> bool {
    match direction {
        Direction::In => true,
        Direction::Out => false,
        Direction::Both => scope == Scope::Loopback,
    }
}

/// Accepts every packet, up to `snaplen` bytes.
pub(super) fn accept(snaplen: u32) -> Vec<Instruction> {
    vec![instruction(RETURN, snaplen)]
}

/// Returns a program that is studied only up to a stage: it is called, or runs to its end, and accepts
/// nothing.
pub(super) fn cut_short(program: Vec<Instruction>, study: Option<Stage>) -> Vec<Instruction> {
    match study {
        None | Some(Stage::Copy) => program,
        Some(Stage::Hook) => accept(0),
        Some(Stage::Filter | Stage::Timestamp) => {
            let returns_nothing = |each: Instruction| match each.code & CLASS {
                CLASS_RETURN => instruction(RETURN, 0),
                _ => each,
            };
            program.into_iter().map(returns_nothing).collect()
        }
    }
}

/// Returns `filter` after the rules of the options. Packets on loopback are captured once: as they come in,
/// or as they go out if only that direction is requested.
pub(super) fn with_rules(
    scope: Scope,
    options: &CaptureOptions,
    outgoing_ignored: bool,
    filter: &[Instruction],
) -> Vec<Instruction> {
    let mut program = Vec::new();
    match options.direction {
        Direction::Out => program.extend(keep_outgoing()),
        _ if outgoing_ignored => {}
        Direction::In => program.extend(drop_outgoing()),
        Direction::Both => match scope {
            Scope::Interface => {}
            Scope::Loopback => program.extend(drop_outgoing()),
            Scope::Any => program.extend(drop_outgoing_on_loopback()),
        },
    }
    if let Some(protocol) = options
        .protocol
        .filter(|&protocol| protocol != ALL_PROTOCOLS)
    {
        program.extend([
            instruction(LOAD_WORD, PROTOCOL),
            jump(JUMP_EQUAL, protocol.into(), 1, 0),
            instruction(RETURN, 0),
        ]);
    }
    if let Some(one_in) = options.sample.filter(|one_in| one_in.get() > 1) {
        program.extend([
            instruction(LOAD_WORD, RANDOM),
            jump(JUMP_GREATER_OR_EQUAL, u32::MAX / one_in, 0, 1),
            instruction(RETURN, 0),
        ]);
    }
    if !program.is_empty() {
        // The filter may expect the accumulator to be zero at its start.
        program.push(instruction(LOAD_IMMEDIATE, 0));
    }
    program.extend_from_slice(filter);
    program
}

fn drop_outgoing() -> [Instruction; 3] {
    [
        instruction(LOAD_WORD, PACKET_TYPE),
        jump(JUMP_EQUAL, OUTGOING, 0, 1),
        instruction(RETURN, 0),
    ]
}

fn keep_outgoing() -> [Instruction; 3] {
    [
        instruction(LOAD_WORD, PACKET_TYPE),
        jump(JUMP_EQUAL, OUTGOING, 1, 0),
        instruction(RETURN, 0),
    ]
}

fn drop_outgoing_on_loopback() -> [Instruction; 5] {
    [
        instruction(LOAD_WORD, PACKET_TYPE),
        jump(JUMP_EQUAL, OUTGOING, 0, 3),
        instruction(LOAD_WORD, INTERFACE_INDEX),
        jump(JUMP_EQUAL, LOOPBACK_INDEX, 0, 1),
        instruction(RETURN, 0),
    ]
}

const fn instruction(code: u16, k: u32) -> Instruction {
    jump(code, k, 0, 0)
}

const fn jump(code: u16, k: u32, jt: u8, jf: u8) -> Instruction {
    Instruction { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use ringtap_filter::{Ancillary, Insn, Program};

    use super::*;

    /// Runs the program as the kernel would, for a packet of that type on that interface.
    fn run(program: &[Instruction], packet_type: u32, ifindex: u32, random: u32) -> u32 {
        let insns = program.iter().map(|i| Insn {
            code: i.code,
            jt: i.jt,
            jf: i.jf,
            k: i.k,
        });
        let ancillary = Ancillary {
            pkttype: u8::try_from(packet_type).unwrap(),
            ifindex,
            random,
            ..Ancillary::default()
        };
        Program::new(insns.collect())
            .unwrap()
            .run_with(&[0; 60], 60, &ancillary)
    }

    fn options(direction: Direction) -> CaptureOptions {
        CaptureOptions {
            direction,
            ..CaptureOptions::default()
        }
    }

    #[test]
    fn directions_are_told_apart() {
        let cases = [
            // scope, direction, ignored by the socket; incoming and outgoing on 1 and on 2
            (Scope::Interface, Direction::Both, false, [1, 1, 1, 1]),
            (Scope::Interface, Direction::In, false, [1, 0, 1, 0]),
            (Scope::Interface, Direction::Out, false, [0, 1, 0, 1]),
            (Scope::Interface, Direction::In, true, [1, 1, 1, 1]),
            (Scope::Loopback, Direction::Both, false, [1, 0, 1, 0]),
            (Scope::Loopback, Direction::Out, false, [0, 1, 0, 1]),
            (Scope::Any, Direction::Both, false, [1, 0, 1, 1]),
            (Scope::Any, Direction::In, false, [1, 0, 1, 0]),
            (Scope::Any, Direction::Out, false, [0, 1, 0, 1]),
        ];
        for (scope, direction, ignored, expected) in cases {
            let program = with_rules(scope, &options(direction), ignored, &accept(1));
            let seen = [(0, 1), (4, 1), (0, 2), (4, 2)].map(|(t, i)| run(&program, t, i, 0));
            assert_eq!(seen, expected, "{scope:?} {direction:?} {ignored}");
        }
    }

    #[test]
    fn a_protocol_is_told_from_others() {
        let mut options = options(Direction::Both);
        options.protocol = Some(0x806);
        let program = with_rules(Scope::Interface, &options, false, &accept(1));
        let insns = program.iter().map(|i| Insn {
            code: i.code,
            jt: i.jt,
            jf: i.jf,
            k: i.k,
        });
        let program = Program::new(insns.collect()).unwrap();
        for (protocol, expected) in [(0x806, 1), (0x800, 0)] {
            let ancillary = Ancillary {
                protocol,
                ..Ancillary::default()
            };
            assert_eq!(program.run_with(&[0; 60], 60, &ancillary), expected);
        }
        options.protocol = Some(ALL_PROTOCOLS);
        let rules = with_rules(Scope::Interface, &options, false, &accept(1));
        assert_eq!(rules, accept(1));
    }

    #[test]
    fn a_program_that_is_studied_accepts_nothing_before_the_copy() {
        let whole = with_rules(Scope::Any, &options(Direction::In), false, &accept(96));
        for (study, length, accepted) in [
            (None, whole.len(), 96),
            (Some(Stage::Copy), whole.len(), 96),
            (Some(Stage::Timestamp), whole.len(), 0),
            (Some(Stage::Filter), whole.len(), 0),
            (Some(Stage::Hook), 1, 0),
        ] {
            let program = cut_short(whole.clone(), study);
            assert_eq!(program.len(), length, "{study:?}");
            assert_eq!(run(&program, 0, 2, 0), accepted, "{study:?}");
        }
    }

    #[test]
    fn a_plain_capture_has_no_rules() {
        let program = with_rules(
            Scope::Interface,
            &options(Direction::Both),
            false,
            &accept(96),
        );
        assert_eq!(program, accept(96));
    }

    #[test]
    fn one_in_four_is_a_quarter_of_the_random_numbers() {
        let mut options = options(Direction::Both);
        options.sample = NonZeroU32::new(4);
        let program = with_rules(Scope::Interface, &options, false, &accept(96));
        assert_eq!(run(&program, 0, 2, 0x3fff_fffe), 96);
        assert_eq!(run(&program, 0, 2, 0x4000_0000), 0);
        assert_eq!(run(&program, 0, 2, u32::MAX), 0);
    }
}
