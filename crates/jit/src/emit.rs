//! Translates classic BPF into the code generator's intermediate form, for one packet's verdict.
//!
//! `A`, `X` and `M[]` are variables that become SSA values; jump targets become blocks. Every
//! packet load is either proven to be in bounds by [`Facts`] or preceded by a comparison.

mod set;

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I32, I64};
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, MemFlags, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use ringtap_filter::program::MAX_ROUNDS;

use crate::facts::{Bounds, Facts, end};
use crate::op::{Alu, Op, Operand, SCRATCH_WORDS, Test, Width};
use crate::plan::{GUARD_BYTES, How, Join, Plan, Question, resolve};

/// The packet, as values of the generated code.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    /// Address of the first byte.
    pub(crate) data: Value,
    /// Captured bytes, as 64 bits.
    pub(crate) caplen: Value,
    /// Bytes on the wire, as 32 bits.
    pub(crate) len: Value,
    /// Address of the packet's metadata, 0 if there is none.
    pub(crate) metadata: Value,
}

/// A packet load before its bytes are swapped: equality can be tested on it directly.
#[derive(Clone, Copy)]
struct Raw {
    value: Value,
    width: Width,
    /// Its place in the packet, unless only the running code knows it.
    place: Option<PacketOffset>,
}

/// A place in the packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct PacketOffset {
    /// The value of `X` that the offset counts from, if not from the packet's start.
    index: Option<Value>,
    offset: u32,
}

impl Raw {
    /// Returns the number in the unswapped bytes if they equal `k`; `None` if they cannot.
    fn constant(self, k: u32) -> Option<u32> {
        match self.width {
            Width::Byte => u8::try_from(k).ok().map(u32::from),
            Width::Half => u16::try_from(k)
                .ok()
                .map(|half| u32::from(half.swap_bytes())),
            Width::Word => Some(k.swap_bytes()),
        }
    }

    /// Returns the bits of `k` as they lie in the unswapped bytes.
    fn mask(self, k: u32) -> u32 {
        let bytes = k.swap_bytes();
        match self.width {
            Width::Byte => bytes >> 24,
            Width::Half => bytes >> 16,
            Width::Word => bytes,
        }
    }
}

/// A load from the packet.
#[derive(Clone, Copy)]
struct Load {
    /// Address that the offset counts from.
    base: Value,
    place: PacketOffset,
    width: Width,
    /// The captured length that it needs, unless it is known to be in bounds.
    least: Option<Value>,
}

/// The answer to a question. Equalities that must all hold are combined into one number that is
/// zero, which takes fewer instructions than several truth values.
#[derive(Clone, Copy)]
enum Answer {
    Truth(Value),
    /// Yes if the two values are equal.
    Equal(Value, Value),
    /// Yes if the value is zero.
    Difference(Value),
    /// Yes if the value is not zero.
    Bits(Value),
}

/// The final target of a jump.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    Verdict(u32),
    Code(usize),
}

/// Writes the code of one program for one packet; an exit block takes the verdict.
pub(crate) struct Emitter<'p, 'f, 'c> {
    builder: &'p mut FunctionBuilder<'f>,
    ops: &'c [Op],
    facts: &'c [Facts],
    plan: &'c Plan,
    packet: Packet,
    a: Variable,
    x: Variable,
    scratch: Vec<Variable>,
    /// Number of backward jumps so far, if the program has any.
    rounds: Option<Variable>,
    raw: HashMap<Value, Raw>,
    blocks: Vec<Option<Block>>,
    exit: Block,
    /// The common block for all rejections, so that they cost one value.
    reject: Block,
}

impl<'p, 'f, 'c> Emitter<'p, 'f, 'c> {
    /// Prepares to write at the builder's current block; `exit` takes the verdict.
    pub(crate) fn new(
        builder: &'p mut FunctionBuilder<'f>,
        (ops, facts, plan): (&'c [Op], &'c [Facts], &'c Plan),
        packet: Packet,
        exit: Block,
    ) -> Self {
        let zero = builder.ins().iconst(I32, 0);
        let mut register = || {
            let variable = builder.declare_var(I32);
            builder.def_var(variable, zero);
            variable
        };
        let (a, x) = (register(), register());
        let scratch = (0..SCRATCH_WORDS).map(|_| register()).collect();
        let has_loop = ops.iter().any(|op| matches!(op, Op::Back(_)));
        let rounds = has_loop.then(&mut register);
        let blocks = (0..ops.len())
            .map(|at| plan.is_start(at).then(|| builder.create_block()))
            .collect();
        let reject = builder.create_block();
        let raw = HashMap::new();
        Self {
            builder,
            ops,
            facts,
            plan,
            packet,
            a,
            x,
            scratch,
            rounds,
            raw,
            blocks,
            exit,
            reject,
        }
    }

    /// Writes the complete program.
    pub(crate) fn program(mut self) {
        let mut open = true;
        let mut is_loop = vec![false; self.ops.len()];
        for op in self.ops {
            if let Op::Back(target) = *op {
                is_loop[target] = true;
            }
        }
        for (at, &is_loop) in is_loop.iter().enumerate() {
            if let Some(block) = self.blocks[at] {
                if open {
                    self.builder.ins().jump(block, &[]);
                }
                self.builder.switch_to_block(block);
                // All forward jumps to here have been written.
                if !is_loop {
                    self.builder.seal_block(block);
                }
                open = true;
            }
            if open {
                open = self.instruction(at);
            }
        }
        for (block, is_loop) in self.blocks.iter().zip(is_loop) {
            if let (Some(block), true) = (block, is_loop) {
                self.builder.seal_block(*block);
            }
        }
        self.builder.switch_to_block(self.reject);
        self.builder.seal_block(self.reject);
        let zero = BlockArg::from(self.number(0));
        self.builder.ins().jump(self.exit, &[zero]);
    }

    /// Writes one instruction; returns false if the code does not continue after it.
    fn instruction(&mut self, at: usize) -> bool {
        if self.facts[at].rejects() {
            self.verdict(0);
            return false;
        }
        match self.ops[at] {
            Op::Return(k) => {
                self.verdict(k);
                return false;
            }
            Op::ReturnA => {
                let a = self.builder.use_var(self.a);
                self.builder.ins().jump(self.exit, &[BlockArg::from(a)]);
                return false;
            }
            Op::Jump(target) => {
                self.go(self.goal(target));
                return false;
            }
            Op::Back(target) => {
                self.back(target);
                return false;
            }
            Op::Branch { .. } => {
                self.decision(at);
                return false;
            }
            Op::Packet { .. } | Op::PacketAtX { .. } => self.load_packet(at),
            Op::IndexHeaderLength { offset } => self.load_header_length(at, offset),
            Op::Ancillary { offset } => self.load_ancillary(offset),
            Op::AncillaryXor => {
                self.require_metadata();
                self.alu(Alu::Xor, Operand::X);
            }
            Op::Alu(alu, operand) => self.alu(alu, operand),
            op => self.move_value(op),
        }
        true
    }

    /// Starts another round of a loop, or rejects after too many.
    fn back(&mut self, target: usize) {
        let Some(rounds) = self.rounds else {
            return self.verdict(0);
        };
        let before = self.builder.use_var(rounds);
        let now = self.builder.ins().iadd_imm(before, 1);
        self.builder.def_var(rounds, now);
        let most = i64::from(MAX_ROUNDS);
        let compare = IntCC::UnsignedLessThanOrEqual;
        let accept = self.builder.ins().icmp_imm(compare, now, most);
        self.require(accept);
        self.go(Goal::Code(target));
    }

    fn number(&mut self, k: u32) -> Value {
        self.builder.ins().iconst(I32, i64::from(k))
    }

    fn verdict(&mut self, k: u32) {
        self.go(Goal::Verdict(k));
    }

    fn goal(&self, at: usize) -> Goal {
        let at = resolve(self.ops, at);
        match self.ops[at] {
            _ if self.facts[at].rejects() => Goal::Verdict(0),
            Op::Return(k) => Goal::Verdict(k),
            _ => Goal::Code(at),
        }
    }

    fn destination(&mut self, goal: Goal) -> (Block, Vec<BlockArg>) {
        match goal {
            Goal::Verdict(0) => (self.reject, Vec::new()),
            Goal::Verdict(k) => (self.exit, vec![BlockArg::from(self.number(k))]),
            Goal::Code(at) => match self.blocks[at] {
                Some(block) => (block, Vec::new()),
                None => unreachable!("the plan starts a block at every target"),
            },
        }
    }

    fn go(&mut self, goal: Goal) {
        let (block, args) = self.destination(goal);
        self.builder.ins().jump(block, &args);
    }

    /// Rejects unless `accept` is true, and continues in a new block.
    fn require(&mut self, accept: Value) {
        let next = self.builder.create_block();
        self.builder.ins().brif(accept, next, &[], self.reject, &[]);
        self.builder.switch_to_block(next);
        self.builder.seal_block(next);
    }

    /// Returns whether at least that many bytes were captured.
    fn captures(&mut self, least: Value) -> Value {
        let code = IntCC::UnsignedGreaterThanOrEqual;
        self.builder.ins().icmp(code, self.packet.caplen, least)
    }

    fn require_captured(&mut self, least: Value) {
        let accept = self.captures(least);
        self.require(accept);
    }

    /// Splits `address + offset` into an address and a displacement that fits a load instruction.
    fn address(&mut self, base: Value, offset: u32) -> (Value, i32) {
        match i32::try_from(offset) {
            Ok(offset) => (base, offset),
            Err(_) => (self.builder.ins().iadd_imm(base, i64::from(offset)), 0),
        }
    }

    /// Loads from a place that is known to be inside the packet.
    fn load(&mut self, base: Value, offset: u32, width: Width) -> Value {
        let (address, offset) = self.address(base, offset);
        // The load must stay after its comparison: not `can_move`.
        let flags = MemFlags::new().with_notrap();
        match width {
            Width::Byte => self.builder.ins().uload8(I32, flags, address, offset),
            Width::Half => self.builder.ins().uload16(I32, flags, address, offset),
            Width::Word => self.builder.ins().load(I32, flags, address, offset),
        }
    }

    /// Loads into `A` and remembers the unswapped bytes.
    fn load_a(&mut self, base: Value, offset: u32, width: Width, place: Option<PacketOffset>) {
        let value = self.load(base, offset, width);
        let ordered = match width {
            Width::Byte => value,
            Width::Half => {
                let swapped = self.builder.ins().bswap(value);
                self.builder.ins().ushr_imm(swapped, 16)
            }
            Width::Word => self.builder.ins().bswap(value),
        };
        let raw = Raw {
            value,
            width,
            place,
        };
        self.raw.insert(ordered, raw);
        self.builder.def_var(self.a, ordered);
    }

    fn load_packet(&mut self, at: usize) {
        let load = self.load_of(at, self.facts[at].proven);
        if let Some(least) = load.least {
            self.require_captured(least);
        }
        self.load_a(load.base, load.place.offset, load.width, Some(load.place));
    }

    /// Returns `X`, always by the same name while its value is the same.
    fn index(&mut self) -> Value {
        let x = self.builder.use_var(self.x);
        self.builder.func.dfg.resolve_aliases(x)
    }

    fn load_header_length(&mut self, at: usize, offset: u32) {
        let Facts { required, proven } = self.facts[at];
        if proven.start < end(offset, 1) {
            let least = self.length(required.start);
            self.require_captured(least);
        }
        let byte = self.load(self.packet.data, offset, Width::Byte);
        let low = self.builder.ins().band_imm(byte, 0x0f);
        let length = self.builder.ins().ishl_imm(low, 2);
        self.builder.def_var(self.x, length);
    }

    fn require_metadata(&mut self) {
        let metadata = self.packet.metadata;
        let accept = self.builder.ins().icmp_imm(IntCC::NotEqual, metadata, 0);
        self.require(accept);
    }

    fn load_ancillary(&mut self, offset: u32) {
        self.require_metadata();
        let (address, offset) = self.address(self.packet.metadata, offset);
        let flags = MemFlags::trusted();
        let value = self.builder.ins().load(I32, flags, address, offset);
        self.builder.def_var(self.a, value);
    }

    fn move_value(&mut self, op: Op) {
        let (to, value) = match op {
            Op::Const(k) => (self.a, self.number(k)),
            Op::IndexConst(k) => (self.x, self.number(k)),
            Op::Len => (self.a, self.packet.len),
            Op::IndexLen => (self.x, self.packet.len),
            Op::FromScratch(word) => (self.a, self.builder.use_var(self.scratch[word])),
            Op::IndexFromScratch(word) => (self.x, self.builder.use_var(self.scratch[word])),
            Op::Store(word) => (self.scratch[word], self.builder.use_var(self.a)),
            Op::StoreIndex(word) => (self.scratch[word], self.builder.use_var(self.x)),
            Op::ToIndex => (self.x, self.builder.use_var(self.a)),
            Op::FromIndex => (self.a, self.builder.use_var(self.x)),
            Op::Negate => {
                let a = self.builder.use_var(self.a);
                (self.a, self.builder.ins().ineg(a))
            }
            _ => unreachable!("loads, arithmetic and jumps are written elsewhere"),
        };
        self.builder.def_var(to, value);
    }

    fn operand(&mut self, operand: Operand) -> Value {
        match operand {
            Operand::K(k) => self.number(k),
            Operand::X => self.builder.use_var(self.x),
        }
    }

    fn alu(&mut self, alu: Alu, operand: Operand) {
        let a = self.builder.use_var(self.a);
        let b = self.operand(operand);
        if matches!((alu, operand), (Alu::Div | Alu::Mod, Operand::X)) {
            let accept = self.builder.ins().icmp_imm(IntCC::NotEqual, b, 0);
            self.require(accept);
        }
        let ins = self.builder.ins();
        let value = match alu {
            Alu::Add => ins.iadd(a, b),
            Alu::Sub => ins.isub(a, b),
            Alu::Mul => ins.imul(a, b),
            Alu::Div => ins.udiv(a, b),
            Alu::Mod => ins.urem(a, b),
            Alu::Or => ins.bor(a, b),
            Alu::And => ins.band(a, b),
            Alu::Xor => ins.bxor(a, b),
            Alu::Shl => ins.ishl(a, b),
            Alu::Shr => ins.ushr(a, b),
        };
        let value = match alu {
            // Processors take a shift's distance modulo 32; in BPF the result is 0 from 32 on.
            Alu::Shl | Alu::Shr => {
                let code = IntCC::UnsignedLessThan;
                let fits = self.builder.ins().icmp_imm(code, b, 32);
                let zero = self.number(0);
                self.builder.ins().select(fits, value, zero)
            }
            _ => value,
        };
        self.builder.def_var(self.a, value);
    }

    fn decision(&mut self, at: usize) {
        let Some(decision) = self.plan.decision(at) else {
            unreachable!("the plan decides every conditional jump that is reached")
        };
        let (yes, no) = (self.goal(decision.yes), self.goal(decision.no));
        if yes == no {
            return self.go(yes);
        }
        let answer = self.answer(&decision.question, self.facts[at].proven);
        let answer = self.truth(answer);
        if let (Goal::Verdict(yes), Goal::Verdict(no)) = (yes, no) {
            let (yes, no) = (self.number(yes), self.number(no));
            let verdict = self.builder.ins().select(answer, yes, no);
            let verdict = BlockArg::from(verdict);
            self.builder.ins().jump(self.exit, &[verdict]);
            return;
        }
        let (then, then_args) = self.destination(yes);
        let (otherwise, else_args) = self.destination(no);
        self.builder
            .ins()
            .brif(answer, then, &then_args, otherwise, &else_args);
    }

    /// Answers a question, given the lengths proven before its decision.
    ///
    /// Nesting is bounded: the plan limits what a decision may cost.
    fn answer(&mut self, question: &Question, proven: Bounds) -> Answer {
        match question {
            Question::One { test, operand } => self.test(*test, *operand),
            Question::OneOf(set) => Answer::Truth(self.one_of(set)),
            Question::Joined(join) => self.joined(join, proven),
        }
    }

    /// Returns the answer as a truth value.
    fn truth(&mut self, answer: Answer) -> Value {
        match answer {
            Answer::Truth(value) => value,
            Answer::Equal(a, b) => self.builder.ins().icmp(IntCC::Equal, a, b),
            Answer::Difference(value) => self.builder.ins().icmp_imm(IntCC::Equal, value, 0),
            Answer::Bits(value) => self.builder.ins().icmp_imm(IntCC::NotEqual, value, 0),
        }
    }

    fn joined(&mut self, join: &Join, proven: Bounds) -> Answer {
        if let Some(pair) = self.pair(join, proven) {
            return Answer::Truth(self.one_of_pair(&pair));
        }
        let first = self.answer(&join.first, proven);
        let mut inside = Vec::new();
        for at in join.between.clone() {
            match self.ops[at] {
                Op::Alu(alu, operand) => self.alu(alu, operand),
                _ => inside.extend(self.load_ahead(at, proven, join.rejecting)),
            }
        }
        let mut second = self.answer(&join.second, proven);
        if join.inverted {
            second = match second {
                Answer::Truth(value) => {
                    Answer::Truth(self.builder.ins().icmp_imm(IntCC::Equal, value, 0))
                }
                Answer::Equal(a, b) => {
                    Answer::Truth(self.builder.ins().icmp(IntCC::NotEqual, a, b))
                }
                Answer::Difference(value) => Answer::Bits(value),
                Answer::Bits(value) => Answer::Difference(value),
            };
        }
        for inside in inside {
            let truth = self.truth(second);
            second = Answer::Truth(self.builder.ins().band(truth, inside));
        }
        self.both_or_either(join.how, first, second)
    }

    fn both_or_either(&mut self, how: How, first: Answer, second: Answer) -> Answer {
        let differences = (self.difference(first), self.difference(second));
        match (how, differences, (first, second)) {
            (How::Both, (Some(first), Some(second)), _) => {
                Answer::Difference(self.builder.ins().bor(first, second))
            }
            (How::Either, _, (Answer::Bits(first), Answer::Bits(second))) => {
                Answer::Bits(self.builder.ins().bor(first, second))
            }
            (how, ..) => {
                let (first, second) = (self.truth(first), self.truth(second));
                Answer::Truth(match how {
                    How::Both => self.builder.ins().band(first, second),
                    How::Either => self.builder.ins().bor(first, second),
                })
            }
        }
    }

    /// Returns a number that is zero exactly if the answer is yes, if that takes one instruction.
    fn difference(&mut self, answer: Answer) -> Option<Value> {
        match answer {
            Answer::Difference(value) => Some(value),
            Answer::Equal(a, b) => Some(self.builder.ins().bxor(a, b)),
            Answer::Truth(_) | Answer::Bits(_) => None,
        }
    }

    /// Loads into `A` even if the program would not have reached this instruction. `proven` holds
    /// the lengths proven before the decision. Returns whether the load was in bounds, unless that
    /// is known.
    fn load_ahead(&mut self, at: usize, proven: Bounds, rejecting: bool) -> Option<Value> {
        let Load {
            base,
            place,
            width,
            least,
        } = self.load_of(at, proven);
        let Some(least) = least else {
            self.load_a(base, place.offset, width, Some(place));
            return None;
        };
        assert!(
            rejecting && proven.start >= GUARD_BYTES,
            "the plan guards such loads only"
        );
        let inside = self.captures(least);
        let address = self.builder.ins().iadd_imm(base, i64::from(place.offset));
        let address = self.builder.ins().select(inside, address, self.packet.data);
        self.load_a(address, 0, width, None);
        Some(inside)
    }

    /// Returns the place that a load reads, and the length that it needs beyond the proven ones.
    fn load_of(&mut self, at: usize, proven: Bounds) -> Load {
        let required = self.facts[at].required;
        match self.ops[at] {
            Op::Packet { offset, width } => {
                let is_proven = proven.start >= end(offset, width.bytes());
                let index = None;
                Load {
                    base: self.packet.data,
                    place: PacketOffset { index, offset },
                    width,
                    least: (!is_proven).then(|| self.length(required.start)),
                }
            }
            Op::PacketAtX { offset, width } => {
                let index = self.index();
                let x = self.builder.ins().uextend(I64, index);
                let is_proven = proven.index >= end(offset, width.bytes());
                let least = (!is_proven).then(|| {
                    let beyond = self.length(required.index);
                    self.builder.ins().iadd(x, beyond)
                });
                let index = Some(index);
                Load {
                    base: self.builder.ins().iadd(self.packet.data, x),
                    place: PacketOffset { index, offset },
                    width,
                    least,
                }
            }
            _ => unreachable!("only loads read the packet"),
        }
    }

    /// Returns a captured length. Those of packets have 32 bits; none reaches a longer one.
    fn length(&mut self, bytes: u64) -> Value {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.builder.ins().iconst(I64, bytes)
    }

    /// Returns `A`, and its unswapped bytes if it was loaded from the packet.
    fn accumulator(&mut self) -> (Value, Option<Raw>) {
        let a = self.builder.use_var(self.a);
        let a = self.builder.func.dfg.resolve_aliases(a);
        (a, self.raw.get(&a).copied())
    }

    fn test(&mut self, test: Test, operand: Operand) -> Answer {
        let (a, raw) = self.accumulator();
        let code = match (test, operand, raw) {
            (Test::Equal, Operand::K(k), Some(raw)) => return self.equal(raw, k),
            (Test::AnyBit, Operand::K(k), Some(raw)) => {
                let mask = i64::from(raw.mask(k));
                return Answer::Bits(self.builder.ins().band_imm(raw.value, mask));
            }
            (Test::AnyBit, ..) => {
                let b = self.operand(operand);
                return Answer::Bits(self.builder.ins().band(a, b));
            }
            (Test::Equal, ..) => return Answer::Equal(a, self.operand(operand)),
            (Test::Greater, ..) => IntCC::UnsignedGreaterThan,
            (Test::GreaterOrEqual, ..) => IntCC::UnsignedGreaterThanOrEqual,
        };
        let b = self.operand(operand);
        Answer::Truth(self.builder.ins().icmp(code, a, b))
    }

    fn equal(&mut self, raw: Raw, k: u32) -> Answer {
        match raw.constant(k) {
            Some(k) => Answer::Equal(raw.value, self.number(k)),
            None => Answer::Truth(self.builder.ins().iconst(I8, 0)),
        }
    }
}
