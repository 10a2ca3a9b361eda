//! The interpreter: the reference for what a program means.
//!
//! Every packet access is bounds-checked; nothing else needs a check, because a [`Program`]
//! (super::Program) is valid.

use std::ops::BitXor as _;

use super::MAX_ROUNDS;
use super::opcode as op;
use super::step::{ALL, Decoded, FEW, GROUP, Op, Shape, Step, does, reg};

/// What the kernel knows of a packet beside its bytes: the values of the Linux ancillary loads
/// (`SKF_AD_*` of `linux/filter.h`). The VLAN loads need Linux 3.8, the tag protocol 4.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// EtherType of the payload, in host order.
    pub protocol: u16,
    /// `PACKET_HOST` (0) to `PACKET_OUTGOING` (4).
    pub pkttype: u8,
    /// Index of the interface.
    pub ifindex: u32,
    /// Packet mark.
    pub mark: u32,
    /// Receive queue.
    pub queue: u32,
    /// ARP hardware type of the interface.
    pub hatype: u16,
    /// Flow hash.
    pub rxhash: u32,
    /// The CPU that handled the packet.
    pub cpu: u32,
    /// Tag control information of a VLAN tag that was stripped.
    pub vlan_tci: Option<u16>,
    /// Tag protocol identifier of that tag, in host order.
    pub vlan_tpid: u16,
    /// Offset of the payload in bytes.
    pub pay_offset: u32,
    /// What a load of a random number gives.
    pub random: u32,
}

impl Ancillary {
    /// The value at `offset` from `SKF_AD_OFF`. The netlink attribute searches depend on the
    /// packet's netlink content and are not supported: they give 0, as for a packet without.
    fn load(&self, offset: u32, a: u32, x: u32) -> u32 {
        match offset {
            op::SKF_AD_PROTOCOL => u32::from(self.protocol),
            op::SKF_AD_PKTTYPE => u32::from(self.pkttype),
            op::SKF_AD_IFINDEX => self.ifindex,
            op::SKF_AD_MARK => self.mark,
            op::SKF_AD_QUEUE => self.queue,
            op::SKF_AD_HATYPE => u32::from(self.hatype),
            op::SKF_AD_RXHASH => self.rxhash,
            op::SKF_AD_CPU => self.cpu,
            op::SKF_AD_ALU_XOR_X => a ^ x,
            op::SKF_AD_VLAN_TAG => u32::from(self.vlan_tci.unwrap_or(0)),
            op::SKF_AD_VLAN_TAG_PRESENT => u32::from(self.vlan_tci.is_some()),
            op::SKF_AD_PAY_OFFSET => self.pay_offset,
            op::SKF_AD_RANDOM => self.random,
            op::SKF_AD_VLAN_TPID => u32::from(self.vlan_tpid),
            _ => 0,
        }
    }
}

/// Where ancillary values come from: nowhere for a file, the kernel's metadata for a live packet.
trait Metadata {
    fn get(&self, offset: u32, a: u32, x: u32) -> Option<u32>;
}

impl Metadata for () {
    #[inline(always)]
    fn get(&self, _: u32, _: u32, _: u32) -> Option<u32> {
        None
    }
}

impl Metadata for Ancillary {
    #[inline]
    fn get(&self, offset: u32, a: u32, x: u32) -> Option<u32> {
        Some(self.load(offset, a, x))
    }
}

impl Decoded {
    #[inline]
    pub(super) fn run(&self, data: &[u8], len: u32) -> u32 {
        // Clearing memory that is not used would be a good part of a short program's time.
        let accepted = match self.uses_memory {
            false => execute(self, data, &(), Registers::<FEW>::new(len)),
            true => execute(self, data, &(), Registers::<ALL>::new(len)),
        };
        accepted.unwrap_or(0)
    }

    pub(super) fn run_with(&self, data: &[u8], len: u32, ancillary: &Ancillary) -> u32 {
        execute(self, data, ancillary, Registers::<ALL>::new(len)).unwrap_or(0)
    }

    /// Whether a number is in the list of a step. All are compared: where the list ends is known
    /// beforehand, where a match is found is not.
    #[inline(always)]
    fn has(&self, step: &Step, number: u32) -> bool {
        let list = self.constants.get(step.from as usize..);
        let list = list.map_or(&[][..], |list| list);
        let in_group =
            |group: &[u32; GROUP]| group.iter().fold(false, |any, &n| any | (n == number));
        list.iter()
            .take(step.width as usize)
            .fold(false, |any, group| any | in_group(group))
    }
}

/// The registers of a program, by number: a power of two, so that no number is outside, and as many
/// as the program has.
struct Registers<const COUNT: usize>([u32; COUNT]);

impl<const COUNT: usize> Registers<COUNT> {
    #[inline(always)]
    fn new(len: u32) -> Self {
        let mut registers = Self([0; COUNT]);
        registers.set(reg::LEN, len);
        registers
    }

    #[inline(always)]
    fn get(&self, register: u8) -> u32 {
        self.0[usize::from(register) % COUNT]
    }

    #[inline(always)]
    fn set(&mut self, register: u8, value: u32) {
        self.0[usize::from(register) % COUNT] = value;
    }

    /// X from the length of an IPv4 header, A from what is behind it.
    #[inline(always)]
    fn behind_header(&mut self, data: &[u8], step: &Step) -> Option<u32> {
        let length = (byte(data, usize::from(step.header))? & 0xf) << 2;
        self.set(reg::X, length);
        let value = part(data, step.behind(length), step)?;
        self.set(reg::A, value);
        Some(value)
    }
}

/// Executes to the return. `None` where a load or a division rejects the packet.
#[inline(always)]
fn execute<M: Metadata, const COUNT: usize>(
    program: &Decoded,
    data: &[u8],
    metadata: &M,
    mut registers: Registers<COUNT>,
) -> Option<u32> {
    let mut at = 0;
    let mut rounds = 0;
    loop {
        let step = program.steps.get(at)?;
        at += 1;
        match step.shape {
            Shape::Word => {
                let value = word(data, step.k as usize)?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::Half => {
                let value = half(data, step.k as usize)?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::Byte => {
                let value = byte(data, step.k as usize)?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::WordAtX => {
                let value = word(data, step.behind(registers.get(reg::X)))?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::HalfAtX => {
                let value = half(data, step.behind(registers.get(reg::X)))?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::ByteAtX => {
                let value = byte(data, step.behind(registers.get(reg::X)))?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::Part => {
                let value = part(data, step.k as usize, step)?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::PartAtX => {
                let value = part(data, step.behind(registers.get(reg::X)), step)?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::PartAt => {
                let value = part(data, step.behind(registers.get(step.right)), step)?;
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::Behind => {
                let value = registers.behind_header(data, step)?;
                at = step.next(step.holds(value), at);
            }
            Shape::BehindTwo => {
                let value = registers.behind_header(data, step)?;
                at = step.next(step.is_one_of_two(value), at);
            }
            Shape::BehindList => {
                let value = registers.behind_header(data, step)?;
                at = step.next(program.has(step, value), at);
            }
            Shape::Length => {
                let value = registers.get(reg::LEN);
                registers.set(reg::A, value);
                at = step.next(step.holds(value), at);
            }
            Shape::A => at = step.next(step.holds(registers.get(reg::A)), at),
            Shape::Two => {
                let value = part(data, step.k as usize, step)?;
                registers.set(reg::A, value);
                at = step.next(step.is_one_of_two(value), at);
            }
            Shape::TwoAtX => {
                let value = part(data, step.behind(registers.get(reg::X)), step)?;
                registers.set(reg::A, value);
                at = step.next(step.is_one_of_two(value), at);
            }
            Shape::TwoA => at = step.next(step.is_one_of_two(registers.get(reg::A)), at),
            Shape::List => {
                let value = part(data, step.k as usize, step)?;
                registers.set(reg::A, value);
                at = step.next(program.has(step, value), at);
            }
            Shape::ListAtX => {
                let value = part(data, step.behind(registers.get(reg::X)), step)?;
                registers.set(reg::A, value);
                at = step.next(program.has(step, value), at);
            }
            Shape::ListA => at = step.next(program.has(step, registers.get(reg::A)), at),
            Shape::LoadA => {
                registers.set(reg::A, part(data, step.k as usize, step)?);
            }
            Shape::LoadAAtX => {
                registers.set(
                    reg::A,
                    part(data, step.behind(registers.get(reg::X)), step)?,
                );
            }
            Shape::LoadX => {
                registers.set(reg::X, part(data, step.k as usize, step)?);
            }
            Shape::Load => {
                let base = registers.get(step.right);
                registers.set(step.to, part(data, step.behind(base), step)?);
            }
            Shape::Sum => at = step.next(step.apply(&mut registers, u32::wrapping_add), at),
            Shape::Subtract => at = step.next(step.apply(&mut registers, u32::wrapping_sub), at),
            Shape::Multiply => at = step.next(step.apply(&mut registers, u32::wrapping_mul), at),
            Shape::Xor => at = step.next(step.apply(&mut registers, u32::bitxor), at),
            Shape::Jump => at = step.yes as usize,
            Shape::Return => return Some(step.k),
            Shape::Any => {
                let (left, right) = (registers.get(step.left), registers.get(step.right));
                let right_sum = right.wrapping_add(step.k);
                let value = if step.loads() {
                    part(data, step.behind(right), step)?
                } else if step.computes() {
                    match step.op {
                        Op::Return => return Some(left.wrapping_add(right_sum)),
                        Op::Back if rounds == MAX_ROUNDS => return None,
                        Op::Back => {
                            rounds += 1;
                            0
                        }
                        Op::Ancillary => {
                            let value = metadata.get(
                                step.k,
                                registers.get(reg::A),
                                registers.get(reg::X),
                            )?;
                            step.cut(value)
                        }
                        op => step.cut(apply(op, left, right_sum)?),
                    }
                } else {
                    step.cut(left.wrapping_add(right_sum))
                };
                registers.set(step.to, value);
                let leads = match step.does & does::ANY_TEST {
                    0 => false,
                    does::TEST => step.holds(value),
                    does::TEST_TWO => step.is_one_of_two(value),
                    _ => program.has(step, value),
                };
                at = step.next(leads, at);
            }
        }
    }
}

impl Step {
    /// Puts what becomes of two registers into a third, and tests it if that is asked for.
    #[inline(always)]
    fn apply<const COUNT: usize>(
        &self,
        registers: &mut Registers<COUNT>,
        operation: impl FnOnce(u32, u32) -> u32,
    ) -> bool {
        let right = registers.get(self.right).wrapping_add(self.k);
        let value = operation(registers.get(self.left), right);
        registers.set(self.to, value);
        self.tests() && self.holds(value)
    }

    /// The step after this one, `at` being the next one. A branch, not a conditional move: the next
    /// step would wait for the test, whereas with a predicted branch the processor goes ahead.
    #[inline(always)]
    fn next(&self, leads: bool, at: usize) -> usize {
        if leads {
            self.yes as usize
        } else {
            rather_not();
            at
        }
    }

    /// The place of a load at a register. No packet is so long that it would wrap around.
    #[inline(always)]
    fn behind(&self, base: u32) -> usize {
        (base as usize).saturating_add(self.k as usize)
    }

    #[inline(always)]
    fn holds(&self, value: u32) -> bool {
        value.wrapping_sub(self.from) <= self.width
    }

    #[inline(always)]
    fn is_one_of_two(&self, value: u32) -> bool {
        (value == self.from) | (value == self.width)
    }

    #[inline(always)]
    fn cut(&self, value: u32) -> u32 {
        value >> (self.shift & 31) & self.mask
    }
}

#[inline(always)]
fn apply(op: Op, left: u32, right: u32) -> Option<u32> {
    Some(match op {
        Op::Subtract => left.wrapping_sub(right),
        Op::Multiply => left.wrapping_mul(right),
        Op::Divide => left.checked_div(right)?,
        Op::Remainder => left.checked_rem(right)?,
        Op::Or => left | right,
        Op::And => left & right,
        Op::Xor => left ^ right,
        Op::ShiftLeft => left.checked_shl(right).unwrap_or(0),
        Op::ShiftRight => left.checked_shr(right).unwrap_or(0),
        Op::Greater => u32::from(left > right),
        Op::GreaterEqual => u32::from(left >= right),
        Op::Ancillary | Op::Return | Op::Back => 0,
    })
}

/// Four bytes as a number.
#[inline(always)]
fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

#[inline(always)]
fn half(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(2)?)?.first_chunk()?;
    Some(u32::from(u16::from_be_bytes(*bytes)))
}

#[inline(always)]
fn byte(data: &[u8], at: usize) -> Option<u32> {
    data.get(at).map(|&byte| u32::from(byte))
}

/// What a step takes of the packet bytes at `at`.
#[inline(always)]
fn part(data: &[u8], at: usize, step: &Step) -> Option<u32> {
    let word = match word(data, at) {
        Some(word) => word,
        None => last_bytes(data, at, step.size)?,
    };
    Some(step.cut(word))
}

/// `size` bytes behind which the packet ends sooner than a word does, as the upper bytes of a word.
#[cold]
#[inline(never)]
fn last_bytes(data: &[u8], at: usize, size: u8) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(size.into())?)?;
    let number = bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte));
    Some(number << (32 - 8 * u32::from(size)))
}

#[cold]
#[inline]
fn rather_not() {}
