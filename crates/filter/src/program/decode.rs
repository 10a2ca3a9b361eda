//! Instructions turned once into what the interpreter executes: one dense operation per step, jump
//! targets absolute, and the commonest sequences fused into one: a load and a comparison with a
//! constant, the same at a place behind the IPv4 header, and comparisons with one constant after
//! the other that all lead to the same place.
//!
//! Step `i` stands for instruction `i`. A fused step also does the work of the instructions after
//! it, which keep their own steps for jumps that enter there; so fusing needs no analysis of
//! targets.

use super::Insn;
use super::opcode as op;
use super::validate::loop_target;

/// Constants of a list that are compared at once, without a jump between them.
pub(super) const LANES: usize = 4;

/// What a step does. Operands are in [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    LdImm,
    LdLen,
    LdMem,
    LdW,
    LdH,
    LdB,
    LdWInd,
    LdHInd,
    LdBInd,
    LdAncillary,
    LdxImm,
    LdxLen,
    LdxMem,
    LdxMsh,
    St,
    Stx,
    AddK,
    SubK,
    MulK,
    DivK,
    OrK,
    AndK,
    LshK,
    RshK,
    ModK,
    XorK,
    AddX,
    SubX,
    MulX,
    DivX,
    OrX,
    AndX,
    LshX,
    RshX,
    ModX,
    XorX,
    Neg,
    Ja,
    /// A jump backwards, of which only so many are made.
    JaBack,
    JeqK,
    JgtK,
    JgeK,
    JsetK,
    JeqX,
    JgtX,
    JgeX,
    JsetX,
    RetK,
    RetA,
    Tax,
    Txa,
    // A load, then a comparison.
    LdWJeq,
    LdWJgt,
    LdWJge,
    LdWJset,
    LdHJeq,
    LdHJgt,
    LdHJge,
    LdHJset,
    LdBJeq,
    LdBJgt,
    LdBJge,
    LdBJset,
    LdWIndJeq,
    LdWIndJgt,
    LdWIndJge,
    LdWIndJset,
    LdHIndJeq,
    LdHIndJgt,
    LdHIndJge,
    LdHIndJset,
    LdBIndJeq,
    LdBIndJgt,
    LdBIndJge,
    LdBIndJset,
    LdLenJgt,
    LdLenJge,
    /// Load, mask (`second`), equality.
    LdWAndJeq,
    LdHAndJeq,
    LdBAndJeq,
    LdBIndAndJeq,
    AndJeq,
    /// Load, mask (`compare`).
    LdBAnd,
    LdBIndAnd,
    /// Mask and shift by `compare`.
    AndLsh,
    AndRsh,
    /// X from an IPv4 header length, a load at X.
    MshLdWInd,
    MshLdHInd,
    MshLdBInd,
    /// X from scratch memory, then arithmetic with it.
    LdxMemAddX,
    LdxMemSubX,
    /// A shift by a constant, then A to X, or to word `compare` of scratch memory.
    LshTax,
    RshTax,
    LshSt,
    RshSt,
    /// X from an IPv4 header length, a 16-bit load at X, comparison.
    MshLdHIndJeq,
    /// Comparison with each of a list of constants.
    JeqAny,
    /// The same after a load; the list begins at `compare` and has `second` groups of constants.
    LdWJeqAny,
    LdHJeqAny,
    LdBJeqAny,
    LdHIndJeqAny,
}

/// One step, 16 bytes: operation, constant of the load, constant of the fused comparison, where to go on.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) jt: u16,
    pub(super) jf: u16,
    pub(super) k: u32,
    /// The value compared with, in fused steps.
    pub(super) compare: u32,
    /// The offset of the second load, in steps that fuse two, or a mask.
    pub(super) second: u16,
}

/// The executable form of a valid program.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub(super) steps: Box<[Step]>,
    /// The constants of lists, [`LANES`] compared at once: for [`Op::JeqAny`] so many as `compare`
    /// says from index `k`.
    pub(super) constants: Box<[[u32; LANES]]>,
    /// Whether the program has scratch memory at all.
    pub(super) uses_memory: bool,
}

impl Decoded {
    /// Decodes validated instructions.
    pub(super) fn new(insns: &[Insn]) -> Self {
        let plain: Vec<Step> = insns
            .iter()
            .enumerate()
            .map(|(at, i)| step(i, at))
            .collect();
        let mut steps = plain.clone();
        for (at, pair) in plain.windows(2).enumerate() {
            if let Some(op) = fused(pair[0].op, pair[1].op) {
                let [load, jump] = [pair[0], pair[1]];
                steps[at] = Step {
                    op,
                    k: load.k,
                    compare: jump.k,
                    ..jump
                };
            } else if let Some(op) = fused_straight(pair[0].op, pair[1].op) {
                steps[at].op = op;
                steps[at].compare = pair[1].k;
            }
        }
        fuse_masks(&plain, &mut steps);
        let constants = fuse_alternatives(&plain, &mut steps).into_boxed_slice();
        fuse_header_lengths(&plain, &mut steps);
        // Loads need a store before them, which validation made sure of.
        let uses_memory = plain.iter().any(|step| matches!(step.op, Op::St | Op::Stx));
        Self {
            steps: steps.into_boxed_slice(),
            constants,
            uses_memory,
        }
    }
}

/// `ldxb 4*([k]&0xf)`, `ldh [x + second]`, `jeq`.
fn fuse_header_lengths(plain: &[Step], steps: &mut [Step]) {
    for (at, three) in plain.windows(3).enumerate() {
        let list = matches!(steps[at + 1].op, Op::LdHIndJeqAny);
        if [Op::LdxMsh, Op::LdHInd, Op::JeqK] == [three[0].op, three[1].op, three[2].op] && !list {
            let [header, load, jump] = [three[0], three[1], three[2]];
            let op = Op::MshLdHIndJeq;
            let Ok(second) = u16::try_from(load.k) else {
                continue;
            };
            steps[at] = Step {
                op,
                k: header.k,
                compare: jump.k,
                second,
                ..jump
            };
        }
    }
}

/// A load, `and`, `jeq`.
fn fuse_masks(plain: &[Step], steps: &mut [Step]) {
    for (at, three) in plain.windows(3).enumerate() {
        let [load, mask, jump] = [three[0], three[1], three[2]];
        let op = match load.op {
            Op::LdW => Op::LdWAndJeq,
            Op::LdH => Op::LdHAndJeq,
            Op::LdB => Op::LdBAndJeq,
            Op::LdBInd => Op::LdBIndAndJeq,
            _ => continue,
        };
        if (mask.op, jump.op) != (Op::AndK, Op::JeqK) {
            continue;
        }
        if let Ok(second) = u16::try_from(mask.k) {
            steps[at] = Step {
                op,
                k: load.k,
                compare: jump.k,
                second,
                ..jump
            };
        }
    }
}

/// Runs of `jeq` that go on to the next when unequal and to one place when equal. Returns the
/// constants of all runs.
fn fuse_alternatives(plain: &[Step], steps: &mut [Step]) -> Vec<[u32; LANES]> {
    let mut constants = Vec::new();
    let mut at = 0;
    while at < plain.len() {
        let continues = |n: usize| {
            let (this, before) = (&plain[n], &plain[n - 1]);
            this.op == Op::JeqK && usize::from(before.jf) == n && before.jt == this.jt
        };
        let mut end = at + 1;
        while plain[at].op == Op::JeqK && end < plain.len() && continues(end) {
            end += 1;
        }
        if end - at > 1 {
            // Programs are far shorter than 16 bits count.
            let index = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
            let first = u32::from(index(constants.len()));
            constants.extend(plain[at..end].chunks(LANES).map(lanes));
            let count = index(constants.len()) - index(first as usize);
            let jf = plain[end - 1].jf;
            steps[at] = Step {
                op: Op::JeqAny,
                k: first,
                compare: count.into(),
                jf,
                ..plain[at]
            };
            let before = at.checked_sub(1).and_then(|n| plain.get(n));
            if let Some(load) = before
                && let Some(op) = before_list(load.op)
            {
                steps[at - 1] = Step {
                    op,
                    k: load.k,
                    second: count,
                    compare: first,
                    ..steps[at]
                };
            }
        }
        at = end;
    }
    constants
}

/// Constants of comparisons side by side; what is missing repeats the last.
fn lanes(steps: &[Step]) -> [u32; LANES] {
    std::array::from_fn(|lane| {
        let step = steps.get(lane).or(steps.last());
        step.map_or(0, |step| step.k)
    })
}

/// The operation for a load before a list of constants.
fn before_list(load: Op) -> Option<Op> {
    Some(match load {
        Op::LdW => Op::LdWJeqAny,
        Op::LdH => Op::LdHJeqAny,
        Op::LdB => Op::LdBJeqAny,
        Op::LdHInd => Op::LdHIndJeqAny,
        _ => return None,
    })
}

/// The operation that does both, where there is one: a load and a comparison.
fn fused(load: Op, jump: Op) -> Option<Op> {
    let [jeq, jgt, jge, jset] = match load {
        Op::LdW => [Op::LdWJeq, Op::LdWJgt, Op::LdWJge, Op::LdWJset],
        Op::LdH => [Op::LdHJeq, Op::LdHJgt, Op::LdHJge, Op::LdHJset],
        Op::LdB => [Op::LdBJeq, Op::LdBJgt, Op::LdBJge, Op::LdBJset],
        Op::LdWInd => [Op::LdWIndJeq, Op::LdWIndJgt, Op::LdWIndJge, Op::LdWIndJset],
        Op::LdHInd => [Op::LdHIndJeq, Op::LdHIndJgt, Op::LdHIndJge, Op::LdHIndJset],
        Op::LdBInd => [Op::LdBIndJeq, Op::LdBIndJgt, Op::LdBIndJge, Op::LdBIndJset],
        _ => {
            return match (load, jump) {
                (Op::LdLen, Op::JgtK) => Some(Op::LdLenJgt),
                (Op::LdLen, Op::JgeK) => Some(Op::LdLenJge),
                (Op::AndK, Op::JeqK) => Some(Op::AndJeq),
                _ => None,
            };
        }
    };
    match jump {
        Op::JeqK => Some(jeq),
        Op::JgtK => Some(jgt),
        Op::JgeK => Some(jge),
        Op::JsetK => Some(jset),
        _ => None,
    }
}

/// The operation that does both and goes on to the instruction after them; the second one's
/// constant is in `compare`.
fn fused_straight(first: Op, second: Op) -> Option<Op> {
    Some(match (first, second) {
        (Op::LdB, Op::AndK) => Op::LdBAnd,
        (Op::LdBInd, Op::AndK) => Op::LdBIndAnd,
        (Op::AndK, Op::LshK) => Op::AndLsh,
        (Op::AndK, Op::RshK) => Op::AndRsh,
        (Op::LdxMsh, Op::LdWInd) => Op::MshLdWInd,
        (Op::LdxMsh, Op::LdHInd) => Op::MshLdHInd,
        (Op::LdxMsh, Op::LdBInd) => Op::MshLdBInd,
        (Op::LdxMem, Op::AddX) => Op::LdxMemAddX,
        (Op::LdxMem, Op::SubX) => Op::LdxMemSubX,
        (Op::LshK, Op::Tax) => Op::LshTax,
        (Op::RshK, Op::Tax) => Op::RshTax,
        (Op::LshK, Op::St) => Op::LshSt,
        (Op::RshK, Op::St) => Op::RshSt,
        _ => return None,
    })
}

/// The step of one instruction. Targets fit 16 bits, because a program is at most 65,535
/// instructions long and validated jumps stay inside.
fn step(insn: &Insn, at: usize) -> Step {
    let target = |offset: u64| u16::try_from(at as u64 + 1 + offset).unwrap_or(u16::MAX);
    if let Some(back) = loop_target(insn, at) {
        return Step {
            op: Op::JaBack,
            jt: u16::try_from(back).unwrap_or(u16::MAX),
            jf: 0,
            k: insn.k,
            compare: 0,
            second: 0,
        };
    }
    let (jt, jf) = match insn.code & 0xff {
        c if c == op::JMP | op::JA => (target(u64::from(insn.k)), 0),
        c if c & 7 == op::JMP => (target(u64::from(insn.jt)), target(u64::from(insn.jf))),
        _ => (0, 0),
    };
    Step {
        op: operation(insn),
        jt,
        jf,
        k: insn.k,
        compare: 0,
        second: 0,
    }
}

fn operation(insn: &Insn) -> Op {
    let code = insn.code;
    let immediate = code & op::X == 0;
    match code & 7 {
        op::LD => load(insn),
        op::LDX => match code & 0xe0 {
            op::IMM => Op::LdxImm,
            op::LEN => Op::LdxLen,
            op::MEM => Op::LdxMem,
            _ => Op::LdxMsh,
        },
        op::ST => Op::St,
        op::STX => Op::Stx,
        op::ALU => arithmetic(code, immediate),
        op::JMP => match (code & 0xf0, immediate) {
            (op::JA, _) => Op::Ja,
            (op::JEQ, true) => Op::JeqK,
            (op::JEQ, false) => Op::JeqX,
            (op::JGT, true) => Op::JgtK,
            (op::JGT, false) => Op::JgtX,
            (op::JGE, true) => Op::JgeK,
            (op::JGE, false) => Op::JgeX,
            (_, true) => Op::JsetK,
            (_, false) => Op::JsetX,
        },
        op::RET if code & 0x18 == op::A => Op::RetA,
        op::RET => Op::RetK,
        _ if code & 0xf8 == op::TAX => Op::Tax,
        _ => Op::Txa,
    }
}

fn load(insn: &Insn) -> Op {
    match (insn.code & 0xe0, insn.code & 0x18) {
        (op::IMM, _) => Op::LdImm,
        (op::LEN, _) => Op::LdLen,
        (op::MEM, _) => Op::LdMem,
        (op::ABS, _) if insn.k >= op::SKF_AD_OFF => Op::LdAncillary,
        (op::ABS, op::W) => Op::LdW,
        (op::ABS, op::H) => Op::LdH,
        (op::ABS, _) => Op::LdB,
        (_, op::W) => Op::LdWInd,
        (_, op::H) => Op::LdHInd,
        (_, _) => Op::LdBInd,
    }
}

fn arithmetic(code: u16, immediate: bool) -> Op {
    let pair = match code & 0xf0 {
        op::ADD => [Op::AddK, Op::AddX],
        op::SUB => [Op::SubK, Op::SubX],
        op::MUL => [Op::MulK, Op::MulX],
        op::DIV => [Op::DivK, Op::DivX],
        op::OR => [Op::OrK, Op::OrX],
        op::AND => [Op::AndK, Op::AndX],
        op::LSH => [Op::LshK, Op::LshX],
        op::RSH => [Op::RshK, Op::RshX],
        op::MOD => [Op::ModK, Op::ModX],
        op::XOR => [Op::XorK, Op::XorX],
        _ => [Op::Neg, Op::Neg],
    };
    pair[usize::from(!immediate)]
}
