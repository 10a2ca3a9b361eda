//! Random valid programs, and packets that match them with some probability.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use ringtap_filter::program::opcode as op;
use ringtap_filter::{Ancillary, Insn, Program};

/// Every load, store, move and computation of classic BPF.
const PLAIN: [u16; 36] = [
    0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0x00, 0x60, 0x80, 0x01, 0x61, 0x81, 0xb1, 0x02, 0x03, 0x04,
    0x0c, 0x14, 0x1c, 0x24, 0x2c, 0x34, 0x3c, 0x44, 0x4c, 0x54, 0x5c, 0x64, 0x6c, 0x74, 0x7c, 0x84,
    0x94, 0x9c, 0xa4, 0xac,
];
/// Packet loads, the most frequent instructions of filters.
const LOADS: [u16; 7] = [0x20, 0x28, 0x30, 0x40, 0x48, 0x50, 0xb1];
const MOVES: [u16; 2] = [0x07, 0x87];
const JUMPS: [u16; 8] = [0x15, 0x1d, 0x25, 0x2d, 0x35, 0x3d, 0x45, 0x4d];
/// Scratch words that programs use; all are stored first.
const WORDS: u32 = 4;

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => 0_u32..4,
        6 => 0_u32..70,
        2 => select([0x0101_u32, 0x0100, 0x0001_0001, 0x0101_0101].as_slice()),
        1 => select([31_u32, 32, 33, u32::MAX, 1 << 31].as_slice()),
        1 => (0_u32..16).prop_map(|word| op::SKF_AD_OFF + 4 * word),
        1 => (0_u32..8).prop_map(|below| op::SKF_AD_OFF - below),
        1 => (0_u32..8).prop_map(|below| (1 << 31) - below),
        1 => any::<u32>(),
    ]
}

/// Returns one instruction whose operands may still be invalid.
fn insn() -> impl Strategy<Value = Insn> {
    let code = prop_oneof![
        6 => select(LOADS.as_slice()),
        6 => select(PLAIN.as_slice()),
        1 => select(MOVES.as_slice()),
        3 => select(JUMPS.as_slice()),
        6 => Just(0x15),
        1 => select([0x05_u16, 0x06, 0x16].as_slice()),
    ];
    // Distances are repeated, so that runs of tests share their targets.
    let distance = prop_oneof![3 => Just(0_u8), 2 => Just(1), 2 => 0_u8..12, 2 => Just(u8::MAX)];
    (code, number(), distance.clone(), distance).prop_map(|(code, k, jt, jf)| Insn {
        code,
        jt,
        jf,
        k,
    })
}

/// Changes operands and distances so that the validator accepts them.
fn fit(insns: &mut [Insn]) {
    let count = insns.len();
    for (at, insn) in insns.iter_mut().enumerate() {
        let near = u8::try_from(count.saturating_sub(at + 2)).unwrap_or(u8::MAX);
        match insn.code {
            0x05 => insn.k %= u32::from(near) + 1,
            code if code & 7 == op::JMP => {
                insn.jt = insn.jt.min(near);
                insn.jf = insn.jf.min(near);
            }
            0x02 | 0x03 | 0x60 | 0x61 => insn.k %= WORDS,
            0x34 | 0x94 => insn.k = insn.k.max(1),
            0x64 | 0x74 => insn.k %= 32,
            0x20 | 0x28 | 0x30 if insn.k > op::SKF_AD_OFF => {
                insn.k = op::SKF_AD_OFF + (insn.k - op::SKF_AD_OFF) % 64 / 4 * 4;
            }
            _ => {}
        }
        if insn.code & 7 != op::JMP {
            (insn.jt, insn.jf) = (0, 0);
        }
    }
}

fn valid(insns: Vec<Insn>) -> Program {
    Program::new(insns).expect("bent to be valid")
}

/// Returns a program of any instructions in any order.
pub(crate) fn program() -> impl Strategy<Value = Program> {
    (vec(insn(), 0..50), number(), any::<bool>()).prop_map(|(body, k, by_value)| {
        let mut insns: Vec<Insn> = (0..WORDS).map(|word| Insn::new(op::ST, word)).collect();
        insns.extend(body);
        insns.push(Insn::new(if by_value { 0x16 } else { 0x06 }, k));
        insns.extend([Insn::new(op::RET, 0); 2]);
        fit(&mut insns);
        valid(insns)
    })
}

/// Returns such a program with some instructions replaced by backward jumps, to anywhere after the
/// stores.
pub(crate) fn looping() -> impl Strategy<Value = Program> {
    let jumps = vec((any::<usize>(), any::<usize>()), 1..4);
    (program(), jumps).prop_map(|(program, jumps)| {
        let mut insns = program.insns().to_vec();
        let first = WORDS as usize;
        let inside = |from: usize, to: usize, number: usize| from + number % (to - from);
        for (place, target) in jumps {
            let at = inside(first, insns.len() - 1, place);
            let back = at + 1 - inside(first, at + 1, target);
            let distance = u32::try_from(back).expect("short programs");
            insns[at] = Insn::new(op::JMP | op::JA, distance.wrapping_neg());
        }
        Program::with_loops(insns).expect("bent to be valid")
    })
}

/// A load, its offset, the constants that its value is compared with, and whether it must equal
/// one.
type Test = (u16, u32, Vec<u32>, bool);

fn test() -> impl Strategy<Value = Test> {
    let constants = prop_oneof![3 => 1_usize..3, 2 => 3_usize..12].prop_flat_map(|count| {
        vec(
            prop_oneof![0_u32..3, Just(0x0101), Just(0x0101_0101)],
            count,
        )
    });
    (
        select(LOADS[..6].as_ref()),
        0_u32..48,
        constants,
        proptest::bool::weighted(0.8),
    )
}

/// Returns a program like those of filters: alternatives of tests that must all be true, with
/// common targets for success and failure.
pub(crate) fn filter() -> impl Strategy<Value = Program> {
    let groups = vec((vec((test(), mask()), 1..3), any::<bool>()), 1..5);
    (groups, end(), end()).prop_map(|(groups, failure, success)| {
        // Written from the end, so the first alternative of a group is written last.
        let mut insns = vec![failure, success];
        for (tests, header) in groups.into_iter().rev() {
            let success = insns.len() - 1;
            for (nth, ((code, offset, constants, equal), mask)) in tests.into_iter().enumerate() {
                let failure = if nth == 0 { 0 } else { insns.len() - 1 };
                let mut targets = [success, failure];
                if !equal {
                    targets.reverse();
                }
                write_test(&mut insns, &constants, targets);
                insns.extend(mask.map(|k| Insn::new(op::ALU | op::AND, k)));
                insns.push(Insn::new(code, offset));
            }
            if header {
                insns.push(Insn::new(op::LDX | op::MSH | op::B, 14));
            }
        }
        insns.reverse();
        valid(insns)
    })
}

/// Returns the bits of a value that are tested, as for a network.
fn mask() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![4 => Just(None), 1 => Just(Some(0x00ff)), 1 => Just(Some(0x0101_0000))]
}

/// Returns a constant verdict, or the last tested value as the verdict.
fn end() -> impl Strategy<Value = Insn> {
    prop_oneof![
        3 => Just(Insn::new(op::RET | op::K, 0)),
        2 => (1_u32..100).prop_map(|k| Insn::new(op::RET | op::K, k)),
        1 => Just(Insn::new(op::RET | op::A, 0)),
    ]
}

/// Writes comparisons into a list that is reversed later.
fn write_test(insns: &mut Vec<Insn>, constants: &[u32], [yes, no]: [usize; 2]) {
    for (nth, k) in constants.iter().enumerate() {
        let distance = |target: usize| u8::try_from(insns.len() - 1 - target).unwrap_or(0);
        let otherwise = if nth == 0 { no } else { insns.len() - 1 };
        insns.push(Insn::jump(0x15, *k, distance(yes), distance(otherwise)));
    }
}

/// Returns a program that tests whether one of two neighbouring fields is in its own set, as
/// filters for source and destination do; sometimes followed by a test of the last loaded value.
pub(crate) fn side_by_side() -> impl Strategy<Value = Program> {
    let field = || {
        let constant = prop_oneof![
            0_u32..3,
            Just(0x0100),
            Just(0x0101),
            Just(0x0001_0001),
            Just(0x0101_0101),
            Just(0xffff),
            Just(u32::MAX),
        ];
        vec(constant, 1..20)
    };
    let load = select([(op::W, 4_u32), (op::H, 2), (op::B, 1)].as_slice());
    let mode = select([op::ABS, op::IND].as_slice());
    // Mostly neighbours.
    let gap = prop_oneof![8 => Just(0_u32), 1 => 1_u32..4];
    let place = (0_u32..40, gap, any::<bool>(), any::<bool>());
    let rest = (any::<bool>(), vec(end(), 4), proptest::bool::weighted(0.7));
    (load, mode, place, [field(), field()], rest).prop_map(
        |(
            (width, bytes),
            mode,
            (offset, gap, reversed, checked),
            sets,
            (header, ends, rejects),
        )| {
            let mut places = [offset, offset + bytes + gap];
            if reversed {
                places.reverse();
            }
            // From the end: found, not found, and a last test of `A` that leads to one of two more
            // verdicts.
            let mut insns = vec![ends[0], ends[1], ends[2]];
            insns.push(if rejects {
                Insn::new(op::RET | op::K, 0)
            } else {
                ends[3]
            });
            insns.push(Insn::jump(op::JMP | op::JGT, 0x0100, 0, 1));
            let (yes, no) = (0, if rejects { 3 } else { 4 });
            for (set, place) in sets.iter().zip(places).rev() {
                let no = if place == places[0] {
                    insns.len() - 1
                } else {
                    no
                };
                write_test(&mut insns, set, [yes, no]);
                insns.push(Insn::new(op::LD | mode | width, place));
            }
            if header {
                insns.push(Insn::new(op::LDX | op::MSH | op::B, 14));
            }
            if checked {
                insns.push(Insn::new(op::LD | op::ABS | op::B, offset + 50));
            }
            insns.reverse();
            valid(insns)
        },
    )
}

/// Returns packets of few distinct bytes, of every length around the offsets that programs use.
pub(crate) fn packets() -> impl Strategy<Value = Vec<(Vec<u8>, u32)>> {
    let byte = prop_oneof![6 => 0_u8..2, 1 => 0_u8..70, 1 => any::<u8>()];
    let len = prop_oneof![0_u32..200, any::<u32>()];
    prop_oneof![
        3 => vec((vec(byte.clone(), 0..100), len.clone()), 1..12),
        1 => vec((vec(Just(1_u8), 0..100), len), 1..12),
    ]
}

/// Returns metadata with a distinct value for each load.
pub(crate) fn ancillary() -> Ancillary {
    Ancillary {
        protocol: 1,
        pkttype: 4,
        ifindex: 2,
        mark: 0x0101_0101,
        queue: 3,
        hatype: 0x0101,
        rxhash: 31,
        cpu: 5,
        vlan_tci: Some(0x0100),
        vlan_tpid: 0x8100,
        pay_offset: 14,
        random: u32::MAX,
        ..Ancillary::default()
    }
}
