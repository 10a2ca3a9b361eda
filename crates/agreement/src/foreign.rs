//! Runs foreign programs and detects undefined behaviour. libpcap's programs with `mpls`, `pppoes`
//! or `geneve` load words of scratch memory that they have not stored on some paths; its
//! `bpf_filter` then returns whatever is on the stack.

use ringtap_filter::Insn;
use ringtap_filter::program::opcode as op;

/// The number of steps after which a program counts as endless.
const STEPS: usize = 100_000;

/// Returns whether the verdict on a packet depends on memory that the program has not written.
#[must_use]
pub fn is_undefined(program: &[Insn], data: &[u8], len: u32) -> bool {
    run(program, data, len).is_none()
}

/// Returns the verdict on a packet whose metadata is all 0, as with
/// [`Ancillary::default`](ringtap_filter::Ancillary); `None` if it is undefined.
#[must_use]
pub fn run(program: &[Insn], data: &[u8], len: u32) -> Option<u32> {
    Machine::new(data, len).run(program)
}

/// Like [`run`], on the packet with zeros appended for every possible offset.
#[must_use]
pub fn run_padded(program: &[Insn], data: &[u8], len: u32) -> Option<u32> {
    run_without_ends(program, data, len, None)
}

/// Like [`run_padded`]; a division by zero returns `quotient`, if there is one, and the program
/// continues.
#[must_use]
pub fn run_without_ends(
    program: &[Insn],
    data: &[u8],
    len: u32,
    quotient: Option<u32>,
) -> Option<u32> {
    let mut machine = Machine::new(data, len);
    machine.is_padded = true;
    machine.quotient = quotient;
    machine.run(program)
}

/// Returns whether a packet has the number zero at a test for any of all 32 bits, which libpcap's optimiser
/// takes to be always true.
#[must_use]
pub fn loses_zero(program: &[Insn], data: &[u8], len: u32) -> bool {
    let mut machine = Machine::new(data, len);
    machine.run(program);
    machine.lost_zero
}

/// Like [`run`], with indices that wrap around at 32 bits. Returns the verdict if the packet
/// reaches a load with such an index; `None` if it does not, or if the verdict is undefined.
#[must_use]
pub fn run_wrapping(program: &[Insn], data: &[u8], len: u32) -> Option<u32> {
    let mut machine = Machine::new(data, len);
    machine.wraps = true;
    let verdict = machine.run(program);
    verdict.filter(|_| machine.wrapped)
}

/// Scratch memory; `None` for words that have not been written.
pub type Words = [Option<u32>; 16];

/// Returns the scratch memory at the end of a program.
#[must_use]
pub fn words(program: &[Insn], data: &[u8], len: u32) -> Words {
    let mut machine = Machine::new(data, len);
    machine.run(program);
    machine.slots
}

/// Like [`run`], but the words in `kept` never change, whatever is stored to them. Without
/// metadata, loads of it are beyond the packet, as in libpcap's `bpf_filter`.
#[must_use]
pub fn run_keeping(
    program: &[Insn],
    data: &[u8],
    len: u32,
    kept: Words,
    has_metadata: bool,
) -> Option<u32> {
    let mut machine = Machine::new(data, len);
    machine.kept = kept;
    machine.slots = kept;
    machine.has_metadata = has_metadata;
    machine.run(program)
}

#[derive(Default)]
struct Machine<'a> {
    data: &'a [u8],
    has_metadata: bool,
    is_padded: bool,
    /// The result of a division by zero; `None` rejects the packet.
    quotient: Option<u32>,
    len: u32,
    a: u32,
    x: u32,
    slots: Words,
    /// Whether the sum of X and an offset wraps around; otherwise it is beyond every packet.
    wraps: bool,
    /// Whether a load had a sum that wraps around.
    wrapped: bool,
    /// Whether zero reached a test that should have distinguished it from other numbers.
    lost_zero: bool,
    /// Words that stores do not change.
    kept: Words,
}

enum Step {
    Skip(i64),
    End(u32),
    Undefined,
}

impl<'a> Machine<'a> {
    fn new(data: &'a [u8], len: u32) -> Self {
        Self {
            data,
            len,
            has_metadata: true,
            ..Self::default()
        }
    }

    fn run(&mut self, program: &[Insn]) -> Option<u32> {
        let mut at = 0;
        for _ in 0..STEPS {
            let insn = program.get(at)?;
            match self.step(*insn) {
                Step::Skip(count) => {
                    let target = i64::try_from(at).unwrap_or(i64::MAX) + 1 + count;
                    at = usize::try_from(target).unwrap_or(usize::MAX);
                }
                Step::End(verdict) => return Some(verdict),
                Step::Undefined => return None,
            }
        }
        None
    }

    fn step(&mut self, insn: Insn) -> Step {
        let Insn { code, k, .. } = insn;
        let slot = (k % 16) as usize;
        match code & 7 {
            class @ (op::LD | op::LDX) => {
                let value = match code & 0xe0 {
                    op::MEM if self.slots[slot].is_none() => return Step::Undefined,
                    op::MEM => self.slots[slot],
                    op::IMM => Some(k),
                    op::LEN => Some(self.len),
                    op::ABS | op::IND if k >= op::SKF_AD_OFF && !self.has_metadata => None,
                    op::ABS if k >= op::SKF_AD_OFF => Some(0),
                    op::ABS => self.bytes(k, code),
                    // Metadata of the kernel at an offset from the end of a header of variable
                    // length: no kernel supports that.
                    op::IND if k >= op::SKF_AD_OFF => return Step::Undefined,
                    op::MSH => self.bytes(k, op::B).map(|byte| (byte & 0xf) * 4),
                    _ => self.index(k).and_then(|at| self.bytes(at, code)),
                };
                let Some(value) = value else {
                    return Step::End(0);
                };
                *(if class == op::LD {
                    &mut self.a
                } else {
                    &mut self.x
                }) = value;
            }
            op::ST => self.slots[slot] = self.kept[slot].or(Some(self.a)),
            op::STX => self.slots[slot] = self.kept[slot].or(Some(self.x)),
            op::ALU => {
                let operand = if code & op::X == 0 { k } else { self.x };
                match apply(code & 0xf0, self.a, operand).or(self.quotient) {
                    Some(a) => self.a = a,
                    None => return Step::End(0),
                }
            }
            op::JMP => return Step::Skip(self.jump(insn)),
            op::MISC if code & 0xf8 == op::TAX => self.x = self.a,
            op::MISC => self.a = self.x,
            _ if code & 0x18 == op::A => return Step::End(self.a),
            _ => return Step::End(k),
        }
        Step::Skip(0)
    }

    fn jump(&mut self, insn: Insn) -> i64 {
        const ANY_OF_ALL: u16 = op::JMP | op::JSET | op::K;
        let Insn { code, k, jt, jf } = insn;
        self.lost_zero |= code == ANY_OF_ALL && k == u32::MAX && jt == jf && self.a == 0;
        let other = if code & op::X == 0 { k } else { self.x };
        let holds = match code & 0xf0 {
            op::JA => return i64::from(k.cast_signed()),
            op::JEQ => self.a == other,
            op::JGT => self.a > other,
            op::JGE => self.a >= other,
            _ => self.a & other != 0,
        };
        i64::from(if holds { jt } else { jf })
    }

    /// Returns the offset of a load with X.
    fn index(&mut self, offset: u32) -> Option<u32> {
        let (at, wrapped) = self.x.overflowing_add(offset);
        self.wrapped |= wrapped;
        (self.wraps || !wrapped).then_some(at)
    }

    fn bytes(&self, at: u32, code: u16) -> Option<u32> {
        let size = match code & 0x18 {
            op::H => 2,
            op::B => 1,
            _ => 4,
        };
        let at = at as usize;
        let in_packet = self
            .data
            .len()
            .checked_sub(size)
            .is_some_and(|last| at <= last);
        let byte = |at: usize| u32::from(self.data.get(at).copied().unwrap_or(0));
        (in_packet || self.is_padded)
            .then(|| (at..at + size).fold(0, |number, at| number << 8 | byte(at)))
    }
}

/// Does arithmetic; `None` for a division by zero.
pub(crate) fn apply(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        op::ADD => a.wrapping_add(operand),
        op::SUB => a.wrapping_sub(operand),
        op::MUL => a.wrapping_mul(operand),
        op::DIV => a.checked_div(operand)?,
        op::MOD => a.checked_rem(operand)?,
        op::AND => a & operand,
        op::OR => a | operand,
        op::XOR => a ^ operand,
        op::LSH => a.checked_shl(operand).unwrap_or(0),
        op::RSH => a.checked_shr(operand).unwrap_or(0),
        _ => a.wrapping_neg(),
    })
}

#[cfg(test)]
mod tests {
    use ringtap_filter::Insn;
    use ringtap_filter::program::opcode as op;

    use super::{is_undefined, loses_zero, run, run_keeping, run_wrapping, words};

    #[test]
    fn only_a_path_that_loads_unset_memory_counts() {
        let program = [
            Insn::new(op::LD | op::B | op::ABS, 0),
            Insn::jump(op::JMP | op::JEQ, 1, 0, 1),
            Insn::new(op::ST, 0),
            Insn::new(op::LD | op::MEM, 0),
            Insn::new(op::RET | op::A, 0),
        ];
        assert!(!is_undefined(&program, &[1], 1));
        assert!(is_undefined(&program, &[2], 1));
        assert!(!is_undefined(&program, &[], 1));
        assert_eq!(run(&program, &[1], 1), Some(1));
        assert_eq!(run(&program, &[], 1), Some(0));
    }
    #[test]
    fn only_zero_is_lost_where_both_outcomes_lead_to_one_place() {
        let program = |jf| {
            [
                Insn::new(op::LD | op::B | op::ABS, 0),
                Insn::jump(op::JMP | op::JSET, u32::MAX, 0, jf),
                Insn::new(op::RET, 0),
                Insn::new(op::RET, 1),
            ]
        };
        assert!(loses_zero(&program(0), &[0], 1));
        assert!(!loses_zero(&program(0), &[1], 1));
        assert!(!loses_zero(&program(1), &[0], 1));
    }

    #[test]
    fn an_index_wraps_around_only_where_asked_for() {
        let program = |x| {
            [
                Insn::new(op::LDX | op::IMM, x),
                Insn::new(op::LD | op::B | op::IND, 2),
                Insn::new(op::RET | op::A, 0),
            ]
        };
        assert_eq!(run(&program(u32::MAX), &[5, 6, 7], 3), Some(0));
        assert_eq!(run_wrapping(&program(u32::MAX), &[5, 6, 7], 3), Some(6));
        assert_eq!(run_wrapping(&program(u32::MAX), &[5], 3), Some(0));
        assert_eq!(run_wrapping(&program(0), &[5, 6, 7], 3), None);
    }

    #[test]
    fn kept_words_are_not_stored_over() {
        let program = [
            Insn::new(op::LD | op::IMM, 7),
            Insn::new(op::ST, 3),
            Insn::new(op::LD | op::MEM, 3),
            Insn::new(op::RET | op::A, 0),
        ];
        let mut kept = words(&program, &[], 0);
        assert_eq!((kept[2], kept[3]), (None, Some(7)));
        kept[3] = Some(9);
        assert_eq!(run_keeping(&program, &[], 0, kept, true), Some(9));
    }
}
