//! Follows a program forward on all paths at once: the values that each conditional jump compares,
//! and the facts that earlier comparisons on every path have established.

use std::rc::Rc;

use super::behind;
use super::field::{self, Field};
use super::symbol::{Kind, Symbol};
use crate::LinkType;
use crate::ir::Relation;
use crate::program::{Insn, opcode as op};

/// The most facts that are kept, and the most numbers in a set; the oldest facts are dropped first.
const MOST_FACTS: usize = 64;
const MOST_NUMBERS: usize = 64;

/// Values known to equal one of a few numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts(Vec<(Rc<Symbol>, Vec<u32>)>);

impl Facts {
    /// Returns the only numbers that the value can be.
    pub(super) fn of(&self, value: &Symbol) -> Option<&[u32]> {
        let found = self.0.iter().find(|(known, _)| **known == *value);
        found.map(|(_, numbers)| &numbers[..])
    }

    fn learn(&mut self, value: &Rc<Symbol>, number: u32) {
        self.0.retain(|(known, _)| known != value);
        self.0.push((Rc::clone(value), vec![number]));
        let excess = self.0.len().saturating_sub(MOST_FACTS);
        self.0.drain(..excess);
    }

    fn keep(&mut self, value: &Symbol, holds: impl Fn(u32) -> bool) {
        if let Some((_, numbers)) = self.0.iter_mut().find(|(known, _)| **known == *value) {
            numbers.retain(|&number| holds(number));
        }
    }

    fn meet(&mut self, other: &Self) {
        self.0.retain_mut(|(value, numbers)| {
            let Some(others) = other.of(value) else {
                return false;
            };
            for number in others {
                if !numbers.contains(number) {
                    numbers.push(*number);
                }
            }
            numbers.len() <= MOST_NUMBERS
        });
    }
}

/// A comparison at a conditional jump.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) left: Rc<Symbol>,
    pub(super) relation: Relation,
    pub(super) right: Rc<Symbol>,
    pub(super) yes: Goal,
    pub(super) no: Goal,
    /// The facts known when the comparison is reached.
    pub(super) facts: Facts,
}

/// The end of a path: the next comparison, by the index of its instruction, or a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    Node(usize),
    /// Keeps this many bytes; 0 rejects the packet.
    Return(u32),
    /// Keeps a computed number of bytes.
    ReturnComputed,
}

#[derive(Clone, Debug)]
struct State {
    a: Rc<Symbol>,
    x: Rc<Symbol>,
    scratch: Vec<Rc<Symbol>>,
    facts: Facts,
}

impl State {
    fn with(register: &Rc<Symbol>) -> Self {
        Self {
            a: Rc::clone(register),
            x: Rc::clone(register),
            scratch: vec![Rc::clone(register); SCRATCH_WORDS],
            facts: Facts::default(),
        }
    }

    /// Forgets values that were computed from the old content of a word.
    fn forget(&mut self, word: usize) {
        let registers = [&mut self.a, &mut self.x];
        for value in registers.into_iter().chain(&mut self.scratch) {
            if value.uses_word(word) {
                *value = Symbol::unknown();
            }
        }
        self.facts.0.retain(|(value, _)| !value.uses_word(word));
    }

    fn meet(&mut self, other: &Self, link: LinkType) {
        let field = |facts: &Facts, value: &Symbol| {
            let (field, _) = field::of(link, facts, value)?;
            let Kind::Load { bytes, .. } = value.kind else {
                return None;
            };
            let Field { name, style, part } = field;
            part.is_none().then_some(Kind::Field { name, style, bytes })
        };
        let (here, there) = (&self.facts, &other.facts);
        for (own, others) in [(&mut self.a, &other.a), (&mut self.x, &other.x)] {
            if own != others {
                let named =
                    field(here, own).filter(|own| Some(own) == field(there, others).as_ref());
                let start = || common_start(link, own, others);
                *own = Symbol::new(named.or_else(start).unwrap_or(Kind::Unknown));
            }
        }
        self.facts.meet(&other.facts);
        for number in 0..SCRATCH_WORDS {
            let (own, others) = (&self.scratch[number], &other.scratch[number]);
            let start = (own != others).then(|| common_start(link, own, others));
            if let Some(start) = start.flatten() {
                self.scratch[number] = Symbol::new(start);
                continue;
            }
            let word = Symbol::new(Kind::Word(number));
            if self.scratch[number] != other.scratch[number] && self.scratch[number] != word {
                self.forget(number);
                self.scratch[number] = word;
            }
        }
    }
}

/// Returns the start that both values stand for, if it is the same.
fn common_start(link: LinkType, own: &Symbol, others: &Symbol) -> Option<Kind> {
    let start = behind::start(link, own)?;
    (behind::start(link, others)? == start).then_some(Kind::Start(start))
}

const SCRATCH_WORDS: usize = op::MEMWORDS as usize;

/// Returns the comparison at each instruction that is a reachable conditional jump, and the goal of
/// the program's first instruction.
pub(super) fn nodes(insns: &[Insn], link: LinkType) -> (Vec<Option<Node>>, Goal) {
    let goals = goals(insns);
    let mut states: Vec<Option<State>> = vec![None; insns.len()];
    let mut nodes = vec![None; insns.len()];
    if let Some(first) = states.first_mut() {
        *first = Some(State::with(&Symbol::constant(0)));
    }
    for (at, insn) in insns.iter().enumerate() {
        if is_loop_head(insns, at) {
            states[at] = Some(State::with(&Symbol::unknown()));
        }
        let Some(state) = states[at].take() else {
            continue;
        };
        if is_branch(insn) {
            let [yes, no] = branch_targets(insn, at);
            let node = compared(insn, &state, [goals[yes], goals[no]]);
            for (outcome, target) in [(true, yes), (false, no)] {
                let mut state = state.clone();
                suppose(&mut state.facts, &node, outcome);
                flow(&mut states, target, state, link);
            }
            nodes[at] = Some(node);
        } else if insn.code & 7 == op::JMP {
            flow(&mut states, jump_target(insn, at), state, link);
        } else if insn.code & 7 != op::RET {
            flow(&mut states, at + 1, after(insn, state), link);
        }
    }
    (nodes, goals.first().copied().unwrap_or(Goal::Return(0)))
}

pub(super) fn is_branch(insn: &Insn) -> bool {
    insn.code & 7 == op::JMP && insn.code & 0xf0 != op::JA
}

/// Returns the targets of a conditional jump: if the test holds, and if it does not.
pub(super) fn branch_targets(insn: &Insn, at: usize) -> [usize; 2] {
    [insn.jt, insn.jf].map(|skip| at + 1 + usize::from(skip))
}

/// Returns the target of an unconditional jump, which may lie before it.
pub(super) fn jump_target(insn: &Insn, at: usize) -> usize {
    (at + 1).wrapping_add_signed(insn.k.cast_signed() as isize)
}

/// Returns whether a later instruction jumps here.
fn is_loop_head(insns: &[Insn], at: usize) -> bool {
    let back = |(from, insn): (usize, &Insn)| {
        insn.code == op::JMP | op::JA && jump_target(insn, from) == at && from >= at
    };
    // Few programs have a loop; only those are scanned.
    has_loop(insns) && insns.iter().enumerate().any(back)
}

/// Returns whether the program jumps backwards.
pub(super) fn has_loop(insns: &[Insn]) -> bool {
    let is_back = |insn: &Insn| insn.code == op::JMP | op::JA && insn.k.cast_signed() < 0;
    insns.iter().any(is_back)
}

/// Returns where each instruction leads if no comparison comes before.
fn goals(insns: &[Insn]) -> Vec<Goal> {
    let mut goals: Vec<Goal> = (0..insns.len()).map(Goal::Node).collect();
    // The goal of a jump backwards is found in a second pass.
    for _ in 0..2 {
        for (at, insn) in insns.iter().enumerate().rev() {
            goals[at] = match insn.code & 7 {
                op::RET if insn.code & 0x18 == op::A => Goal::ReturnComputed,
                op::RET => Goal::Return(insn.k),
                _ if is_branch(insn) => Goal::Node(at),
                op::JMP => goals[jump_target(insn, at).min(insns.len() - 1)],
                _ => goals[(at + 1).min(insns.len() - 1)],
            };
        }
    }
    goals
}

fn flow(states: &mut [Option<State>], target: usize, state: State, link: LinkType) {
    match states.get_mut(target) {
        Some(Some(there)) => there.meet(&state, link),
        Some(unset) => *unset = Some(state),
        None => {}
    }
}

fn operand(insn: &Insn, state: &State) -> Rc<Symbol> {
    if insn.code & op::X == 0 {
        Symbol::constant(insn.k)
    } else {
        Rc::clone(&state.x)
    }
}

fn compared(insn: &Insn, state: &State, [yes, no]: [Goal; 2]) -> Node {
    let relation = match insn.code & 0xf0 {
        op::JEQ => Relation::Equal,
        op::JGT => Relation::Greater,
        op::JGE => Relation::GreaterEqual,
        _ => Relation::AnyBit,
    };
    Node {
        left: Rc::clone(&state.a),
        relation,
        right: operand(insn, state),
        yes,
        no,
        facts: state.facts.clone(),
    }
}

/// Learns from the outcome of a comparison.
fn suppose(facts: &mut Facts, node: &Node, outcome: bool) {
    let Some(number) = node.right.number() else {
        return;
    };
    if outcome && node.relation == Relation::Equal {
        facts.learn(&node.left, number);
    } else {
        facts.keep(&node.left, |left| {
            node.relation.holds(left, number) == outcome
        });
    }
}

/// Returns the state after an instruction that is neither a jump nor a return.
fn after(insn: &Insn, mut state: State) -> State {
    let Insn { code, k, .. } = *insn;
    let slot = (k as usize).min(SCRATCH_WORDS - 1);
    match code & 7 {
        op::LD => state.a = load(insn, &state),
        op::LDX => {
            state.x = match code & 0xe0 {
                op::MSH => Symbol::new(Kind::HeaderLength(k)),
                _ => load(insn, &state),
            }
        }
        op::ST | op::STX => {
            state.forget(slot);
            let stored = if code & 7 == op::ST {
                &state.a
            } else {
                &state.x
            };
            state.scratch[slot] = Rc::clone(stored);
        }
        op::ALU if code & 0xf0 == op::NEG => {
            state.a = Symbol::new(Kind::Negated(Rc::clone(&state.a)));
        }
        op::ALU => {
            let (left, right) = (Rc::clone(&state.a), operand(insn, &state));
            state.a = Symbol::new(Kind::Arithmetic(code & 0xf0, left, right));
        }
        _ if code & 0xf8 == op::TAX => state.x = Rc::clone(&state.a),
        _ => state.a = Rc::clone(&state.x),
    }
    state
}

fn load(insn: &Insn, state: &State) -> Rc<Symbol> {
    let Insn { code, k, .. } = *insn;
    let bytes = match code & 0x18 {
        op::W => 4,
        op::H => 2,
        _ => 1,
    };
    Symbol::new(match code & 0xe0 {
        op::IMM => Kind::Constant(k),
        op::LEN => Kind::Length,
        op::MEM => return Rc::clone(&state.scratch[(k as usize).min(SCRATCH_WORDS - 1)]),
        op::IND => {
            let (index, offset) = match state.x.number().and_then(|x| x.checked_add(k)) {
                Some(offset) => (None, offset),
                None => (Some(Rc::clone(&state.x)), k),
            };
            Kind::Load {
                bytes,
                index,
                offset,
            }
        }
        _ => match k.checked_sub(op::SKF_AD_OFF) {
            Some(number) => Kind::Ancillary(number),
            None => Kind::Load {
                bytes,
                index: None,
                offset: k,
            },
        },
    })
}
