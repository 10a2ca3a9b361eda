//! Instructions turned once into what the interpreter executes.
//!
//! A stretch of instructions that is entered at its beginning only becomes a row of [`Step`]s. On the
//! way, copies between registers are looked through, masks, shifts and tests become part of the step
//! that computes their operand, comparisons that follow each other become ranges and lists, and
//! what nothing reads is left out. Loads stay where nothing reads them, for they may reject the
//! packet; their order in a stretch does not matter.

use super::Insn;
use super::layout::{End, Layout};
use super::live::{before_each, word};
use super::opcode as op;
use super::range::Range;
use super::step::{Decoded, GROUP, Op, Step, bit, does, reg};
use super::validate::loop_target;

impl Decoded {
    /// Decodes validated instructions.
    pub(super) fn new(insns: &[Insn]) -> Self {
        let mut builder = Builder::new(insns);
        let mut at = 0;
        while at < insns.len() {
            at = match builder.places[at].entry {
                Entry::Never => at + 1,
                _ => builder.stretch(at),
            };
        }
        builder.finish()
    }
}

/// Where a program goes on that comes to an instruction.
#[derive(Clone, Copy)]
enum Entry {
    /// No jump leads here, as far as is known.
    Never,
    /// Some does.
    Wanted,
    Step(u32),
    /// With what is done at another instruction.
    Same(u32),
    /// The program ends with this number.
    Return(u32),
}

/// What is known of the place of an instruction.
#[derive(Clone, Copy)]
pub(super) struct Place {
    entry: Entry,
    /// The registers that are read there or later, as bits.
    pub(super) live: u32,
}

struct Builder<'a> {
    insns: &'a [Insn],
    places: Vec<Place>,
    steps: Vec<Step>,
    /// The first step of the stretch.
    begin: usize,
    constants: Vec<[u32; GROUP]>,
    /// For each register, one that has the same value: perhaps itself.
    same: [u8; reg::COUNT],
    /// The registers of which that is another one, as bits.
    copies: u32,
    /// For each register of which that is known, its value.
    values: [u32; reg::COUNT],
    /// Those registers, as bits.
    known: u32,
}

const ITSELF: [u8; reg::COUNT] = {
    let mut same = [0; reg::COUNT];
    let mut register = 0;
    while register < reg::COUNT {
        same[register] = register.to_le_bytes()[0];
        register += 1;
    }
    same
};

impl<'a> Builder<'a> {
    fn new(insns: &'a [Insn]) -> Self {
        let unknown = Place {
            entry: Entry::Never,
            live: 0,
        };
        let mut places = vec![unknown; insns.len()];
        places[0].entry = Entry::Wanted;
        let mut has_loop = false;
        for (at, insn) in insns.iter().enumerate() {
            if let Some(target) = loop_target(insn, at) {
                has_loop = true;
                places[target].entry = Entry::Wanted;
            }
        }
        before_each(insns, has_loop, &mut places);
        Self {
            insns,
            places,
            steps: Vec::with_capacity(insns.len()),
            begin: 0,
            constants: Vec::new(),
            same: ITSELF,
            copies: 0,
            values: [0; reg::COUNT],
            known: 0,
        }
    }

    /// Makes steps of the instructions from `first` until a jump, a return or another entry. What
    /// comes behind them.
    fn stretch(&mut self, first: usize) -> usize {
        self.begin = self.steps.len();
        if self.copies != 0 {
            self.same = ITSELF;
        }
        (self.copies, self.known) = (0, 0);
        let mut at = first;
        loop {
            let insn = self.insns[at];
            let class = insn.code & 7;
            if class == op::JMP || class == op::RET {
                self.end(first, at, &insn);
                return at + 1;
            }
            self.straight(&insn);
            at += 1;
            if !matches!(self.places[at].entry, Entry::Never) {
                self.lead(first, at, at);
                return at;
            }
        }
    }

    /// An instruction that leads to the next one.
    fn straight(&mut self, insn: &Insn) {
        let Insn { code, k, .. } = *insn;
        match code & 7 {
            op::LD => self.load(reg::A, code, k),
            op::LDX => self.load(reg::X, code, k),
            op::ST => self.store(reg::A, k),
            op::STX => self.store(reg::X, k),
            op::ALU => self.arithmetic(code, k),
            _ if code & 0xf8 == op::TAX => self.copy(reg::X, reg::A),
            _ => self.copy(reg::A, reg::X),
        }
    }

    /// The register to read for one, and what to add to it.
    fn operand(&self, register: u8) -> (u8, u32) {
        match self.known & bit(register) {
            0 => (self.same[usize::from(register)], 0),
            _ => (reg::ZERO, self.values[usize::from(register)]),
        }
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step);
        self.wrote(step.to);
    }

    /// What was known of a register holds no longer.
    fn wrote(&mut self, register: u8) {
        if self.copies != 0 {
            for (at, same) in self.same.iter_mut().enumerate() {
                if *same == register {
                    *same = ITSELF[at];
                    self.copies &= !(1 << at);
                }
            }
            self.same[usize::from(register)] = register;
            self.copies &= !bit(register);
        }
        self.known &= !bit(register);
    }

    fn is(&mut self, register: u8, value: u32) {
        self.values[usize::from(register)] = value;
        self.known |= bit(register);
    }

    fn copy(&mut self, to: u8, from: u8) {
        let (left, k) = self.operand(from);
        if left == to && k == 0 {
            return;
        }
        let is_known = self.known & bit(from) != 0;
        self.push(Step::sum(to, left, reg::ZERO, k));
        if is_known {
            self.is(to, k);
        } else {
            self.same[usize::from(to)] = left;
            self.copies |= bit(to);
        }
    }

    fn store(&mut self, register: u8, k: u32) {
        self.copy(word(k), register);
    }

    fn load(&mut self, to: u8, code: u16, k: u32) {
        let size = match code & 0x18 {
            op::W => 4,
            op::H => 2,
            _ => 1,
        };
        let step = match code & 0xe0 {
            op::IMM => {
                self.push(Step::sum(to, reg::ZERO, reg::ZERO, k));
                self.is(to, k);
                return;
            }
            op::LEN => return self.copy(to, reg::LEN),
            op::MEM => return self.copy(to, word(k)),
            op::MSH => {
                let mut step = Step::load(to, 1, reg::ZERO, k);
                step.and(0xf);
                step.shift_left(2);
                step
            }
            op::ABS if k >= op::SKF_AD_OFF => {
                // It may read both as they are.
                Step::compute(Op::Ancillary, to, reg::ZERO, reg::ZERO, k - op::SKF_AD_OFF)
            }
            op::ABS => Step::load(to, size, reg::ZERO, k),
            _ => match self.operand(reg::X) {
                // An offset does not wrap around.
                (base, more) if more.checked_add(k).is_some() => {
                    Step::load(to, size, base, more + k)
                }
                _ => Step::load(to, size, reg::X, k),
            },
        };
        self.push(step);
    }

    /// The last step, if it is where A comes from, and only A.
    fn source(&mut self) -> Option<&mut Step> {
        let last = self.steps[self.begin..].last_mut()?;
        (last.to == reg::A && !last.tests()).then_some(last)
    }

    /// What becomes of A in place.
    fn in_place(&mut self, change: impl Fn(&mut Step) -> bool) {
        if self.source().is_some_and(&change) {
            return self.wrote(reg::A);
        }
        let (left, k) = self.operand(reg::A);
        let mut step = Step::sum(reg::A, left, reg::ZERO, k);
        // The value as it is can be changed in all these ways, but for shifts to the left.
        if change(&mut step) {
            self.push(step);
        }
    }

    fn arithmetic(&mut self, code: u16, k: u32) {
        let immediate = code & op::X == 0;
        let (left, first) = self.operand(reg::A);
        let (right, second) = match immediate {
            true => (reg::ZERO, k),
            false => self.operand(reg::X),
        };
        let is_number = right == reg::ZERO;
        let operation = match code & 0xf0 {
            op::ADD => {
                let k = first.wrapping_add(second);
                return self.push(Step::sum(reg::A, left, right, k));
            }
            op::SUB if is_number => {
                let k = first.wrapping_sub(second);
                return self.push(Step::sum(reg::A, left, reg::ZERO, k));
            }
            op::AND if is_number => {
                return self.in_place(|step| {
                    step.and(second);
                    true
                });
            }
            op::RSH if is_number && second < 32 => {
                if self.source().is_some_and(|step| step.shift_right(second)) {
                    return self.wrote(reg::A);
                }
                let mut step = Step::sum(reg::A, left, reg::ZERO, first);
                step.shift_right(second);
                return self.push(step);
            }
            op::LSH
                if is_number
                    && second < 32
                    && self.source().is_some_and(|step| step.shift_left(second)) =>
            {
                return self.wrote(reg::A);
            }
            op::NEG => {
                // The number is what is subtracted; as a register, A holds it, too.
                let (right, k) = (left, first);
                return self.push(Step::compute(Op::Subtract, reg::A, reg::ZERO, right, k));
            }
            op::SUB => Op::Subtract,
            op::MUL => Op::Multiply,
            op::DIV => Op::Divide,
            op::MOD => Op::Remainder,
            op::OR => Op::Or,
            op::AND => Op::And,
            op::XOR => Op::Xor,
            op::LSH => Op::ShiftLeft,
            _ => Op::ShiftRight,
        };
        // Only the right side has a number.
        let left = if first == 0 { left } else { reg::A };
        self.push(Step::compute(operation, reg::A, left, right, second));
    }

    /// A jump or return at `at` ends the stretch.
    fn end(&mut self, first: usize, at: usize, insn: &Insn) {
        if insn.code & 7 == op::RET {
            if insn.code & 0x18 == op::A {
                let (left, k) = self.operand(reg::A);
                let step = Step::compute(Op::Return, reg::NOWHERE, left, reg::ZERO, k);
                self.push(step);
                return self.lead(first, at, at);
            }
            if self.steps.len() == self.begin {
                self.places[first].entry = Entry::Return(insn.k);
                return;
            }
            // Behind other steps: the return is a place of its own.
            self.lead(first, at, at);
            self.places[at].entry = Entry::Return(insn.k);
        } else if let Some(target) = loop_target(insn, at) {
            let step = Step::compute(Op::Back, reg::NOWHERE, reg::ZERO, reg::ZERO, 0);
            self.push(step);
            self.lead(first, target, target);
        } else if insn.code & 0xf0 == op::JA {
            let target = at + 1 + insn.k as usize;
            self.want(target);
            self.lead(first, target, target);
        } else {
            self.test(first, at, insn);
        }
    }

    fn want(&mut self, target: usize) {
        if let Entry::Never = self.places[target].entry {
            self.places[target].entry = Entry::Wanted;
        }
    }

    /// A conditional jump.
    fn test(&mut self, first: usize, at: usize, insn: &Insn) {
        let (yes, no) = targets(insn, at);
        let (right, k) = match insn.code & op::X == 0 {
            true => (reg::ZERO, insn.k),
            false => self.operand(reg::X),
        };
        if right != reg::ZERO {
            let (mut left, more) = self.operand(reg::A);
            if more != 0 {
                left = reg::A;
            }
            let operation = match insn.code & 0xf0 {
                op::JEQ => Op::Subtract,
                op::JGT => Op::Greater,
                op::JGE => Op::GreaterEqual,
                _ => Op::And,
            };
            self.push(Step::compute(operation, reg::NOWHERE, left, right, 0));
            // Nothing is left of a difference of equal numbers; other results are not 0.
            let is_zero = operation == Op::Subtract;
            let (yes, no) = if is_zero { (yes, no) } else { (no, yes) };
            let zero = Range { from: 0, width: 0 };
            return self.decide(first, Test::Range(zero), yes, no);
        }
        let test = Range::of(insn.code, k);
        let Some(test) = test else {
            self.want(no);
            return self.lead(first, no, no);
        };
        if insn.code & 0xf0 == op::JSET {
            let read_later = (self.places[yes].live | self.places[no].live) & bit(reg::A) != 0;
            if read_later || self.source().is_none() {
                let (left, more) = self.operand(reg::A);
                let to = if read_later { reg::NOWHERE } else { reg::A };
                self.push(Step::sum(to, left, reg::ZERO, more));
            }
            if let Some(step) = self.steps.last_mut() {
                step.and(k);
            }
            return self.decide(first, Test::Range(test), yes, no);
        }
        let (left, more) = self.operand(reg::A);
        let last = self.steps[self.begin..].last();
        let is_last = last.is_some_and(|step| self.same[usize::from(step.to)] == left);
        if !is_last || more != 0 {
            self.push(Step::sum(reg::NOWHERE, left, reg::ZERO, more));
        }
        let (test, yes, no) = self.follow(test, k, at);
        self.decide(first, test, yes, no);
    }

    /// What a test and those after it come to, which are made of the same value where it does not
    /// decide.
    fn follow(&mut self, test: Range, k: u32, at: usize) -> (Test, usize, usize) {
        let insn = self.insns[at];
        let (yes, no) = targets(&insn, at);
        let next = |at: usize| {
            let insn = self.insns.get(at)?;
            let is_test = insn.code & 7 == op::JMP && insn.code & 0xf0 != op::JA;
            let is_range = is_test && insn.code & op::X == 0 && insn.code & 0xf0 != op::JSET;
            is_range.then_some(insn)
        };
        // Equal to one of several.
        let first = self.constants.len();
        let (mut end, mut count) = (no, 1_usize);
        while insn.code & 0xf0 == op::JEQ
            && let Some(other) = next(end)
            && other.code & 0xf0 == op::JEQ
            && targets(other, end).0 == yes
        {
            if count == 1 {
                self.constants.push([k; GROUP]);
            } else if count.is_multiple_of(GROUP) {
                self.constants.push([other.k; GROUP]);
            }
            if let Some(group) = self.constants.last_mut() {
                group[count % GROUP] = other.k;
            }
            count += 1;
            end = targets(other, end).1;
        }
        if count == 2 {
            let pair = self.constants.pop().unwrap_or_default();
            return (Test::Two(pair[0], pair[1]), yes, end);
        }
        if count > 2 {
            return (Test::List(first, self.constants.len() - first), yes, end);
        }
        // In a range: two tests that lead to one place where they fail.
        let sides = [(Some(test), yes, no), (test.others(), no, yes)];
        for (range, inside, outside) in sides {
            let (Some(range), Some(other)) = (range, next(inside)) else {
                continue;
            };
            let (other_yes, other_no) = targets(other, inside);
            let Some(further) = Range::of(other.code, other.k) else {
                continue;
            };
            let ways = [
                (Some(further), other_yes, other_no),
                (further.others(), other_no, other_yes),
            ];
            for (further, target, fails) in ways {
                if fails == outside
                    && let Some(both) = further.and_then(|further| range.and(further))
                {
                    return (Test::Range(both), target, outside);
                }
            }
        }
        (Test::Range(test), yes, no)
    }

    /// The last step decides.
    fn decide(&mut self, first: usize, test: Test, yes: usize, no: usize) {
        if let Some(step) = self.steps.last_mut() {
            let (kind, from, width) = match test {
                Test::Range(range) => (does::TEST, range.from, range.width),
                Test::Two(one, other) => (does::TEST_TWO, one, other),
                // There are no more constants than instructions.
                Test::List(first, count) => (does::TEST_LIST, number(first), number(count)),
            };
            step.does |= kind;
            step.from = from;
            step.width = width;
        }
        self.want(yes);
        self.want(no);
        self.lead(first, yes, no);
    }

    /// The stretch that began at `first` leads to one of two instructions: what is not needed is
    /// taken out of it.
    fn lead(&mut self, first: usize, yes: usize, no: usize) {
        if self.steps.len() > self.begin {
            self.tidy(self.places[yes].live | self.places[no].live);
        }
        if self.steps.len() == self.begin {
            self.places[first].entry = Entry::Same(number(yes));
            return;
        }
        if let Some(step) = self.steps.last_mut() {
            step.is_last = true;
            step.yes = number(yes);
            // Programs are no longer than 16 bits count.
            step.header = u16::try_from(no).unwrap_or(u16::MAX);
        }
        self.places[first].entry = Entry::Step(number(self.begin));
    }

    /// Takes out of the stretch what nothing reads; `live` is read behind it.
    fn tidy(&mut self, mut live: u32) {
        let mut kept = self.steps.len();
        let mut at = self.steps.len();
        while at > self.begin {
            at -= 1;
            let step = self.steps[at];
            let is_read = live & bit(step.to) != 0;
            if !is_read && !step.decides() {
                continue;
            }
            // A copy of what was computed just before, and is not read itself, is computed there.
            if step.copies()
                && at > self.begin
                && self.steps[at - 1].to == step.left
                && live & bit(step.left) == 0
            {
                self.steps[at - 1].to = step.to;
                continue;
            }
            live = live & !bit(step.to) | step.reads();
            kept -= 1;
            self.steps[kept] = step;
        }
        if kept > self.begin {
            self.steps.drain(self.begin..kept);
        }
    }

    /// Where the way leads that begins at an instruction, once [`settle`](Self::settle) was there.
    fn end_of(&self, at: usize) -> End {
        match self.places[at].entry {
            Entry::Step(place) => End::Step(place as usize),
            Entry::Return(number) => End::Return(number),
            Entry::Same(_) | Entry::Never | Entry::Wanted => End::Return(0),
        }
    }

    /// Makes each entry that is the same as a later one what that is.
    fn settle(&mut self) {
        for at in (0..self.places.len()).rev() {
            if let Entry::Same(other) = self.places[at].entry {
                self.places[at].entry = self.places[other as usize].entry;
            }
        }
    }

    /// Lays out the steps, each before the one that comes where its test is not true; where that one
    /// has its place elsewhere, a jump to it, or the return that it comes to.
    fn finish(mut self) -> Decoded {
        self.settle();
        let mut steps = std::mem::take(&mut self.steps);
        let mut layout = Layout::new(steps.len());
        layout.lead(None, self.end_of(0));
        let mut follows = false;
        for (at, step) in steps.iter_mut().enumerate() {
            let ends = step.is_last.then(|| {
                let ends = [step.yes as usize, step.header.into()];
                ends.map(|at| self.end_of(at))
            });
            let place = layout.lay(at, *step, follows, ends);
            follows = !step.is_last;
            // From here on that is what is needed of it.
            step.yes = place;
        }
        let steps = layout.finish(&steps);
        Decoded {
            uses_memory: steps.iter().any(|step| step.to >= reg::MEMORY),
            steps,
            constants: self.constants,
        }
    }
}

/// A test, as a step makes it.
#[derive(Clone, Copy)]
enum Test {
    Range(Range),
    Two(u32, u32),
    /// So many groups of constants from an index.
    List(usize, usize),
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Where a conditional jump leads.
fn targets(insn: &Insn, at: usize) -> (usize, usize) {
    let target = |skip: u8| at + 1 + usize::from(skip);
    (target(insn.jt), target(insn.jf))
}
