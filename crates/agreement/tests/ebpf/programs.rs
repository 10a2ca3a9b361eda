//! Programs that no compiler writes: random ones, long ones, and some that are hard to verify.

use proptest::prelude::*;
use ringtap_filter::program::opcode as op;
use ringtap_filter::{Insn, Program};

const SIZES: [u16; 3] = [op::W, op::H, op::B];
const ALU: [u16; 10] = [
    op::ADD,
    op::SUB,
    op::MUL,
    op::DIV,
    op::OR,
    op::AND,
    op::LSH,
    op::RSH,
    op::MOD,
    op::XOR,
];

/// Any valid program of 2 to 60 instructions without ancillary loads: scratch words that would be
/// loaded unset are stored first.
pub(crate) fn random() -> impl Strategy<Value = Program> {
    proptest::collection::vec((0..16_u8, any_constant(), any::<u8>(), any::<u8>()), 1..60).prop_map(
        |choices| {
            let stores = (0..4).map(|slot| Insn::new(op::ST, slot));
            let mut insns: Vec<Insn> = stores.collect();
            let len = choices.len();
            for (at, (kind, k, jt, jf)) in choices.into_iter().enumerate() {
                let left = len - at;
                insns.push(instruction(kind, k, jt, jf, left));
            }
            insns.push(Insn::new(op::RET | op::A, 0));
            Program::new(insns).expect("valid by construction")
        },
    )
}

/// Mostly small offsets, sometimes any number.
fn any_constant() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..80_u32, 1 => any::<u32>(), 1 => Just(0x7fff_u32), 1 => 1400..1600_u32]
}

fn instruction(kind: u8, k: u32, jt: u8, jf: u8, left: usize) -> Insn {
    let size = SIZES[usize::from(jt) % 3];
    let offset = k.min(op::SKF_AD_OFF - 1);
    let forward = |wish: u8| u8::try_from(usize::from(wish) % left.clamp(1, 12)).unwrap_or(0);
    let operation = ALU[usize::from(jt) % ALU.len()];
    match kind {
        0..=3 => Insn::new(op::LD | size | op::ABS, offset),
        4 | 5 => Insn::new(op::LD | size | op::IND, k),
        6 => Insn::new(op::LDX | op::MSH | op::B, k),
        7 => Insn::new(op::LDX | op::IMM, k),
        8 => Insn::new(
            if jt & 1 == 0 { op::ST } else { op::STX },
            u32::from(jf) % 4,
        ),
        9 => {
            let class = if jt & 1 == 0 { op::LD } else { op::LDX };
            Insn::new(class | op::MEM, u32::from(jf) % 4)
        }
        10 => Insn::new(op::MISC | if jt & 1 == 0 { op::TAX } else { op::TXA }, 0),
        11 => Insn::new(if jt & 1 == 0 { op::LD } else { op::LDX } | op::LEN, 0),
        12 => Insn::new(op::ALU | operation | op::X, 0),
        13 => Insn::new(op::ALU | operation, k % 31 + 1),
        _ => {
            let condition = [op::JEQ, op::JGT, op::JGE, op::JSET][usize::from(jt) % 4];
            let operand = if jf & 4 == 0 { op::K } else { op::X };
            Insn::jump(op::JMP | condition | operand, k, forward(jt), forward(jf))
        }
    }
}

fn program(insns: Vec<Insn>) -> Program {
    Program::new(insns).expect("a valid program")
}

/// Repeats a group of instructions up to the kernel's length, then returns A.
fn repeated(group: &[Insn]) -> Program {
    let room = op::KERNEL_MAX_INSNS - 1;
    let mut insns: Vec<Insn> = group
        .iter()
        .copied()
        .cycle()
        .take(room / group.len() * group.len())
        .collect();
    insns.push(Insn::new(op::RET | op::A, 0));
    program(insns)
}

/// Returns programs of about 4096 instructions, as long expressions give them.
pub(crate) fn long() -> Vec<(&'static str, Program)> {
    let half = op::LD | op::H | op::ABS;
    let many_values = |load: Insn| {
        let mut insns = vec![Insn::new(op::LDX | op::MSH | op::B, 14)];
        for value in 0..2_040 {
            insns.push(load);
            insns.push(Insn::jump(op::JMP | op::JEQ, value + 60_000, 0, 1));
            if value % 100 == 99 {
                insns.push(Insn::new(op::RET, value));
            }
        }
        insns.truncate(op::KERNEL_MAX_INSNS - 2);
        insns.push(Insn::new(op::RET, 0));
        insns.push(Insn::new(op::RET, 5));
        program(insns)
    };
    let ladder = {
        let mut insns = vec![Insn::new(half, 36)];
        for value in 0..4_090 {
            insns.push(Insn::jump(
                op::JMP | op::JEQ,
                value + 100,
                u8::from(value % 2 == 0),
                0,
            ));
        }
        insns.push(Insn::new(op::RET, 1));
        insns.push(Insn::new(op::RET, 2));
        insns.push(Insn::new(op::RET, 3));
        program(insns)
    };
    vec![
        (
            "the same half compared with many values",
            many_values(Insn::new(half, 36)),
        ),
        (
            "the same half behind the header compared with many values",
            many_values(Insn::new(op::LD | op::H | op::IND, 16)),
        ),
        ("one load, a ladder of comparisons", ladder),
        ("loads at growing offsets", {
            let mut insns: Vec<Insn> = (0..4_000)
                .map(|at| Insn::new(op::LD | op::B | op::ABS, at / 3))
                .collect();
            insns.push(Insn::new(op::RET | op::A, 0));
            program(insns)
        }),
    ]
}

/// Returns programs made to multiply the verifier's states.
pub(crate) fn hostile() -> Vec<(&'static str, Program)> {
    let mut all = hostile_offsets();
    all.extend(hostile_values());
    all
}

const TAX: Insn = Insn::new(op::MISC | op::TAX, 0);

fn byte(k: u32) -> Insn {
    Insn::new(op::LD | op::B | op::ABS, k)
}

fn add(k: u32) -> Insn {
    Insn::new(op::ALU | op::ADD, k)
}

fn indirect(size: u16, k: u32) -> Insn {
    Insn::new(op::LD | size | op::IND, k)
}

/// Varies the possible values of X when it becomes an offset.
fn hostile_offsets() -> Vec<(&'static str, Program)> {
    let txa = Insn::new(op::MISC | op::TXA, 0);
    vec![
        (
            "X grows on one of two paths, then addresses",
            repeated(&[
                byte(20),
                Insn::jump(op::JMP | op::JSET, 1, 0, 3),
                txa,
                add(1),
                TAX,
                indirect(op::B, 1),
            ]),
        ),
        (
            "X takes a constant on each of two paths",
            repeated(&[
                byte(21),
                Insn::jump(op::JMP | op::JGT, 7, 0, 2),
                Insn::new(op::LDX | op::IMM, 3),
                Insn::new(op::JMP | op::JA, 1),
                Insn::new(op::LDX | op::IMM, 40),
                indirect(op::H, 0),
            ]),
        ),
        ("nothing but loads at X", {
            let mut insns = vec![Insn::new(op::LDX | op::MSH | op::B, 14)];
            insns.resize(4_095, indirect(op::W, 2));
            insns.push(Insn::new(op::RET | op::A, 0));
            program(insns)
        }),
        (
            "each load gives the next offset",
            repeated(&[TAX, indirect(op::B, 0)]),
        ),
        (
            "the sum of offsets grows on two paths",
            repeated(&[
                indirect(op::B, 14),
                Insn::jump(op::JMP | op::JSET | op::X, 0, 0, 1),
                add(8),
                Insn::new(op::ALU | op::ADD | op::X, 0),
                Insn::new(op::ALU | op::AND, 0x3f),
                TAX,
            ]),
        ),
        (
            "scratch words carry offsets",
            repeated(&[
                byte(22),
                Insn::new(op::ST, 3),
                Insn::jump(op::JMP | op::JEQ, 64, 1, 0),
                Insn::new(op::ST, 3),
                Insn::new(op::LDX | op::MEM, 3),
                indirect(op::B, 0),
            ]),
        ),
    ]
}

/// Varies the possible values of A when it is compared or divided.
fn hostile_values() -> Vec<(&'static str, Program)> {
    vec![
        (
            "divisions and shifts by X",
            repeated(&[
                byte(23),
                TAX,
                Insn::new(op::LD | op::LEN, 0),
                Insn::new(op::ALU | op::DIV | op::X, 0),
                Insn::new(op::ALU | op::LSH | op::X, 0),
                Insn::new(op::ALU | op::MOD | op::X, 0),
            ]),
        ),
        ("constants decide every jump", {
            let mut insns = vec![Insn::new(op::LD | op::IMM, 0)];
            for value in 0..1_360 {
                insns.push(Insn::jump(op::JMP | op::JEQ, value, 0, 1));
                insns.push(add(1));
                insns.push(Insn::jump(op::JMP | op::JGE, value, 0, 0));
            }
            insns.push(Insn::new(op::RET | op::A, 0));
            program(insns)
        }),
        ("many values meet, and are compared again", {
            let half = 1_000_u32;
            let mut insns = vec![Insn::new(op::LD | op::H | op::ABS, 36)];
            for value in 0..half {
                insns.push(Insn::jump(op::JMP | op::JEQ, value + 50, 0, 1));
                insns.push(Insn::new(op::JMP | op::JA, 2 * (half - value - 1) + 1));
            }
            insns.push(Insn::new(op::RET, 0));
            for value in 0..half {
                insns.push(Insn::jump(op::JMP | op::JEQ, value + 500, 0, 1));
                insns.push(Insn::new(op::RET, value + 1));
            }
            insns.push(Insn::new(op::RET, 2_000));
            program(insns)
        }),
    ]
}
