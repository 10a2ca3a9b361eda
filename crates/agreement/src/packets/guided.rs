//! Packets made for a program: a walk along one path sets every deciding byte to the value that the path
//! needs. So every test of a filter passes and fails on some packet, whatever the link type. Every load is
//! the first one after the end of some packet.

use ringtap_filter::Insn;
use ringtap_filter::program::opcode as op;

use super::Packet;
use crate::Random;
use crate::foreign::apply;

/// The longest packet, in bytes.
const LONGEST: usize = 2_048;
/// The number of steps of a walk: foreign programs may loop.
const STEPS: usize = 3_000;
const SLOTS: usize = 16;

/// Makes `count` walks: returns the packets, and each of them cut at one of the offsets that its
/// walk loaded from.
#[must_use]
pub fn packets(program: &[Insn], count: usize, random: &mut Random) -> Vec<Packet> {
    let mut packets = Vec::with_capacity(2 * count);
    let accepts = accepting(program);
    for _ in 0..count {
        let mut walk = Walk::new(&accepts, random);
        walk.run(program, random);
        let (data, len, ends) = walk.finish(random);
        if !ends.is_empty() {
            let at = random.below(u32::try_from(ends.len()).unwrap_or(1));
            let end = ends[at as usize].min(data.len());
            packets.push((data[..end].to_vec(), len));
        }
        packets.push((data, len));
    }
    packets
}

/// The value of a register, and its origin.
#[derive(Clone, Default)]
struct Value {
    number: u32,
    origin: Origin,
    /// The operations on the loaded number since.
    changes: Vec<(u16, u32)>,
}

#[derive(Clone, Copy, Default)]
enum Origin {
    #[default]
    Constant,
    Length,
    Bytes {
        at: usize,
        size: usize,
    },
}

impl Value {
    fn constant(number: u32) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Applies an operation with a constant.
    fn change(&mut self, operation: u16, k: u32) {
        let Some(number) = apply(operation, self.number, k) else {
            *self = Self::constant(0);
            return;
        };
        self.number = number;
        self.changes.push((operation, k));
    }

    /// Returns the number that the load must give for the value to become `wanted`, as far as
    /// possible.
    fn wanted_of_load(&self, wanted: u32, random: &mut Random) -> u32 {
        let noise = random.below(u32::MAX);
        self.changes
            .iter()
            .rev()
            .fold(wanted, |wanted, &(operation, k)| match operation {
                op::AND => wanted & k | noise & !k,
                op::OR => wanted & !k,
                op::XOR => wanted ^ k,
                op::ADD => wanted.wrapping_sub(k),
                op::SUB => wanted.wrapping_add(k),
                op::LSH => wanted.checked_shr(k).unwrap_or(0),
                op::RSH => wanted.checked_shl(k).unwrap_or(0) | noise & !(u32::MAX << (k & 31)),
                op::MUL => wanted.checked_div(k).unwrap_or(0),
                op::DIV => wanted.wrapping_mul(k),
                op::NEG => wanted.wrapping_neg(),
                _ => wanted,
            })
    }
}

/// Returns the instructions from which a packet can still be accepted.
fn accepting(program: &[Insn]) -> Vec<bool> {
    let mut accepts = vec![false; program.len()];
    for (at, insn) in program.iter().enumerate().rev() {
        let at_target = |skip: usize| accepts.get(at + 1 + skip).copied().unwrap_or(false);
        accepts[at] = match (insn.code & 7, insn.code & 0xf0) {
            (op::RET, _) => insn.code & 0x18 == op::A || insn.k > 0,
            // A jump to the start of a loop, which has some way out.
            (op::JMP, op::JA) => insn.k.cast_signed() < 0 || at_target(insn.k as usize),
            (op::JMP, _) => at_target(insn.jt.into()) || at_target(insn.jf.into()),
            _ => at_target(0),
        };
    }
    accepts
}

struct Walk<'a> {
    /// The instructions from which the packet can still be accepted.
    accepts: &'a [bool],
    /// Whether the walk should end there.
    wants_acceptance: bool,
    data: Vec<u8>,
    len: Option<u32>,
    a: Value,
    x: Value,
    slots: [Value; SLOTS],
    /// How many of 8 tests for equality should hold.
    equal_of_8: u32,
    /// The offsets at and after which loads ended.
    ends: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(accepts: &'a [bool], random: &mut Random) -> Self {
        let filled = random.below(3) == 0;
        let data = (0..if filled { 128 } else { 0 })
            .map(|_| u8::try_from(random.below(256)).unwrap_or_default())
            .collect();
        Self {
            accepts,
            wants_acceptance: random.below(2) == 0,
            data,
            len: None,
            a: Value::default(),
            x: Value::default(),
            slots: Default::default(),
            equal_of_8: [1, 4, 4, 7][random.below(4) as usize],
            ends: Vec::new(),
        }
    }

    fn run(&mut self, program: &[Insn], random: &mut Random) {
        let mut at = 0;
        for _ in 0..STEPS {
            let Some(insn) = program.get(at) else { return };
            let Some(skip) = self.step(*insn, at, random) else {
                return;
            };
            // Loops jump by a negative number.
            let target = at as i64 + 1 + i64::from(skip);
            at = usize::try_from(target).unwrap_or(usize::MAX);
        }
    }

    /// Returns how many instructions to skip; `None` at the end.
    fn step(&mut self, insn: Insn, at: usize, random: &mut Random) -> Option<i32> {
        let Insn { code, k, .. } = insn;
        match code & 7 {
            op::LD | op::LDX => {
                let value = self.load(insn, random)?;
                *(if code & 7 == op::LD {
                    &mut self.a
                } else {
                    &mut self.x
                }) = value;
            }
            op::ST => *self.slots.get_mut(k as usize)? = self.a.clone(),
            op::STX => *self.slots.get_mut(k as usize)? = self.x.clone(),
            op::ALU => {
                let operand = if code & op::X == 0 { k } else { self.x.number };
                self.a.change(code & 0xf0, operand);
            }
            op::JMP => return Some(self.jump(insn, at, random)),
            op::MISC if code & 0xf8 == op::TAX => self.x = self.a.clone(),
            op::MISC => self.a = self.x.clone(),
            _ => return None,
        }
        Some(0)
    }

    fn load(&mut self, insn: Insn, random: &mut Random) -> Option<Value> {
        let Insn { code, k, .. } = insn;
        let size = match code & 0x18 {
            op::H => 2,
            op::B => 1,
            _ => 4,
        };
        match code & 0xe0 {
            op::IMM => Some(Value::constant(k)),
            op::MEM => self.slots.get(k as usize).cloned(),
            op::LEN => Some(Value {
                number: self.len.unwrap_or(u32::try_from(self.data.len()).ok()?),
                origin: Origin::Length,
                changes: Vec::new(),
            }),
            op::ABS => self.bytes(k, size),
            op::MSH => {
                let mut value = self.bytes(k, 1)?;
                value.change(op::AND, 0xf);
                value.change(op::LSH, 2);
                Some(value)
            }
            _ => {
                if random.below(2) == 0 || self.x.number > 256 {
                    let near = [0, 4, 8, 20, 24, 40][random.below(6) as usize];
                    let x = self.x.clone();
                    self.set(&x, near, random);
                    self.x.number = self.reload(&x);
                }
                self.bytes(self.x.number.checked_add(k)?, size)
            }
        }
    }

    fn bytes(&mut self, at: u32, size: usize) -> Option<Value> {
        let at = at as usize;
        let end = at.checked_add(size).filter(|end| *end <= LONGEST)?;
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.ends.extend([at, end - 1, end]);
        Some(Value {
            number: number(&self.data[at..end]),
            origin: Origin::Bytes { at, size },
            changes: Vec::new(),
        })
    }

    fn jump(&mut self, insn: Insn, at: usize, random: &mut Random) -> i32 {
        let Insn { code, k, jt, jf } = insn;
        let operation = code & 0xf0;
        if operation == op::JA {
            return k.cast_signed();
        }
        let other = if code & op::X == 0 { k } else { self.x.number };
        let accepts = |skip: u8| self.accepts.get(at + 1 + usize::from(skip)) == Some(&true);
        let holds = match operation {
            _ if self.wants_acceptance && accepts(jt) != accepts(jf) => {
                accepts(jt) == (random.below(16) > 0)
            }
            op::JEQ => random.below(8) < self.equal_of_8,
            _ => random.below(2) == 0,
        };
        let some = random.below(u32::MAX);
        let wanted = match (operation, holds) {
            (op::JEQ, true) | (op::JGE, true) | (op::JGT, false) => other,
            (op::JEQ, false) if random.below(2) == 0 => self.a.number,
            (op::JEQ, false) => some,
            (op::JGT, true) => other.saturating_add(1 + some % 3),
            (op::JGE, false) => other.saturating_sub(1 + some % 3),
            (op::JSET, true) => self.a.number | other & other.wrapping_neg(),
            _ => self.a.number & !other,
        };
        let a = self.a.clone();
        self.set(&a, wanted, random);
        self.a.number = self.reload(&a);
        let a = self.a.number;
        let holds = match operation {
            op::JEQ => a == other,
            op::JGT => a > other,
            op::JGE => a >= other,
            _ => a & other != 0,
        };
        i32::from(if holds { jt } else { jf })
    }

    /// Changes the packet so that the value becomes `wanted`, if the packet determines it.
    fn set(&mut self, value: &Value, wanted: u32, random: &mut Random) {
        let wanted = value.wanted_of_load(wanted, random);
        match value.origin {
            Origin::Constant => {}
            Origin::Length => self.len = Some(wanted),
            Origin::Bytes { at, size } => {
                self.data[at..at + size].copy_from_slice(&wanted.to_be_bytes()[4 - size..]);
            }
        }
    }

    /// Returns the present value.
    fn reload(&self, value: &Value) -> u32 {
        let loaded = match value.origin {
            Origin::Constant => return value.number,
            Origin::Length => self.len.unwrap_or_default(),
            Origin::Bytes { at, size } => number(&self.data[at..at + size]),
        };
        value
            .changes
            .iter()
            .fold(loaded, |number, &(operation, k)| {
                apply(operation, number, k).unwrap_or_default()
            })
    }

    /// Returns the packet, with the length that the walk needs if that is possible.
    fn finish(mut self, random: &mut Random) -> (Vec<u8>, u32, Vec<usize>) {
        if random.below(4) == 0 {
            self.data.extend([0x5a; 70]);
        }
        match self.len {
            Some(len) if (len as usize) <= LONGEST => {
                self.data.resize(len as usize, 0);
                (self.data, len, self.ends)
            }
            Some(len) => (self.data, len, self.ends),
            None => {
                let len = u32::try_from(self.data.len()).unwrap_or(u32::MAX);
                (self.data, len, self.ends)
            }
        }
    }
}

/// Returns a number of 1, 2 or 4 bytes in network byte order.
fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use ringtap_filter::{CompileOptions, LinkType, Tables, compile};

    use super::packets;
    use crate::Random;

    /// Makes packets for a filter with many conditions: some are accepted and some are not.
    #[test]
    fn walks_lead_to_both_ends() {
        let expression = "ip and tcp port 80 and src net 10 and tcp[tcpflags] & tcp-syn != 0";
        let options = CompileOptions::new(LinkType::ETHERNET);
        let program = compile(expression, &options, &Tables::new()).expect("valid");
        let packets = packets(program.insns(), 200, &mut Random(1));
        let accepted = packets
            .iter()
            .filter(|(data, len)| program.run(data, *len) > 0)
            .count();
        assert!(
            accepted > 5 && accepted < packets.len() - 5,
            "{accepted} of {}",
            packets.len()
        );
    }
}
