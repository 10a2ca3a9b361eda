//! Instruction selection, node by node.

use crate::error::ErrorKind;
use crate::ir::{Cell, Graph, NodeId, Relation, Step, Test, Value, ValueId, Values};
use crate::language::ast::Operator;
use crate::program::Insn;
use crate::program::opcode as op;

use super::scratch::Scratch;

/// The instructions of a node before its conditional jump, and that jump without targets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) id: NodeId,
    /// The instructions before the jump: a range of [`Blocks::insns`].
    pub(super) from: usize,
    pub(super) to: usize,
    /// Code and constant of the jump, which is `ja` if both outcomes lead to one place.
    pub(super) jump: (u16, u32),
    pub(super) yes: NodeId,
    pub(super) no: NodeId,
}

/// Blocks in an order in which every jump goes forward.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    pub(super) list: Vec<Block>,
    pub(super) insns: Vec<Insn>,
}

impl Blocks {
    /// Returns a bit for each word of scratch memory that is loaded from.
    pub(super) fn words_loaded(&self) -> u16 {
        let is_load = |code| matches!(code, LD_MEM | LDX_MEM);
        let loads = self.insns.iter().filter(|insn| is_load(insn.code));
        loads.fold(0, |words, insn| words | bit(insn.k))
    }

    /// Removes stores to words that are never loaded.
    fn drop_dead_stores(&mut self) {
        let loaded = self.words_loaded();
        let is_dead = |insn: &Insn| insn.code == op::ST && loaded & bit(insn.k) == 0;
        if !self.insns.iter().any(is_dead) {
            return;
        }
        let mut insns = Vec::with_capacity(self.insns.len());
        for block in &mut self.list {
            let from = insns.len();
            let used = &self.insns[block.from..block.to];
            insns.extend(used.iter().filter(|insn| !is_dead(insn)).copied());
            (block.from, block.to) = (from, insns.len());
        }
        self.insns = insns;
    }

    /// Returns the number of instructions, without the returns.
    pub(super) fn size(&self) -> usize {
        self.list.len() + self.insns.len()
    }
}

/// The values in registers and scratch memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Machine {
    a: Option<ValueId>,
    x: Option<ValueId>,
    /// The cell that holds the same value as A.
    cell: Option<Cell>,
    /// Bit `n`: word `n` holds the value that [`Scratch`] keeps there.
    kept: u16,
}

impl Machine {
    fn meet(&mut self, other: Self) {
        if self.a != other.a {
            self.a = None;
        }
        if self.x != other.x {
            self.x = None;
        }
        if self.cell != other.cell {
            self.cell = None;
        }
        self.kept &= other.kept;
    }
}

/// Selects instructions for all nodes in `order`. `scratch` names the values to keep in memory, and
/// counts how often each value is computed.
pub(super) fn blocks(
    graph: &Graph,
    values: &Values,
    order: &[NodeId],
    reuse: bool,
    scratch: &mut Scratch,
) -> Result<Blocks, ErrorKind> {
    let mut entries: Vec<Option<Machine>> = vec![None; if reuse { graph.ids() } else { 0 }];
    let mut selector = Selector {
        values,
        scratch,
        insns: Vec::with_capacity(order.len()),
        machine: Machine::default(),
        reuse,
    };
    let mut list = Vec::with_capacity(order.len());
    for &id in order {
        let Some(node) = graph.node(id) else { continue };
        let entry = entries.get(id.number()).copied().flatten();
        selector.machine = entry.unwrap_or_default();
        let from = selector.insns.len();
        let (jump, turned) = match node.step {
            Step::Test(test) => selector.test(graph.test(test))?,
            Step::Set(cell, value) => (selector.set(cell, value)?, false),
        };
        let (yes, no) = match turned {
            true => (node.no, node.yes),
            false => (node.yes, node.no),
        };
        for target in [node.yes, node.no] {
            match entries.get_mut(target.number()) {
                Some(Some(there)) => there.meet(selector.machine),
                Some(unset) => *unset = Some(selector.machine),
                None => {}
            }
        }
        list.push(Block {
            id,
            from,
            to: selector.insns.len(),
            jump,
            yes,
            no,
        });
    }
    let insns = selector.insns;
    let mut blocks = Blocks { list, insns };
    if reuse {
        blocks.drop_dead_stores();
    }
    Ok(blocks)
}

const LD_MEM: u16 = op::LD | op::MEM;
const LDX_MEM: u16 = op::LDX | op::MEM;

/// Returns the bit of a word of scratch memory.
fn bit(word: u32) -> u16 {
    1_u16.checked_shl(word).unwrap_or(0)
}

struct Selector<'a> {
    values: &'a Values,
    scratch: &'a mut Scratch,
    insns: Vec<Insn>,
    machine: Machine,
    /// Whether values are reused to save instructions.
    reuse: bool,
}

impl Selector<'_> {
    fn push(&mut self, code: u16, k: u32) {
        self.insns.push(Insn::new(code, k));
    }

    /// Loads the operands for the jump; returns the jump and whether its outcomes are swapped.
    fn test(&mut self, test: Test) -> Result<((u16, u32), bool), ErrorKind> {
        let slot = self.values.cells();
        if let Some(number) = self.values.number_of(test.right) {
            if let Some(inner) = self.single_bit(test, number) {
                self.load_a(inner, slot)?;
                return Ok(((jump(Relation::AnyBit) | op::K, number), false));
            }
            self.load_a(test.left, slot)?;
            return Ok(((jump(test.relation) | op::K, number), false));
        }
        let swapped = self.load_both(test.left, test.right, true, slot)?;
        let (relation, turned) = match (swapped, test.relation) {
            (true, Relation::Greater) => (Relation::GreaterEqual, true),
            (true, Relation::GreaterEqual) => (Relation::Greater, true),
            (_, relation) => (relation, false),
        };
        Ok(((jump(relation) | op::X, 0), turned))
    }

    /// Returns the masked value of a test for a single bit, if no register or word already holds
    /// the result of the masking.
    fn single_bit(&self, test: Test, number: u32) -> Option<ValueId> {
        let Value::Binary(Operator::And, inner, mask) = self.values.get(test.left) else {
            return None;
        };
        let is_there = self.machine.a == Some(test.left) || self.kept(test.left).is_some();
        let is_bit = number.is_power_of_two() && self.values.number_of(mask) == Some(number);
        let fits = self.reuse && test.relation == Relation::Equal && is_bit && !is_there;
        fits.then_some(inner)
    }

    /// Stores a value; a later load from the cell finds it in the register, too.
    fn set(&mut self, cell: Cell, value: ValueId) -> Result<(u16, u32), ErrorKind> {
        if cell.0 >= op::MEMWORDS {
            return Err(ErrorKind::TooLarge);
        }
        self.load_a(value, self.values.cells())?;
        self.push(op::ST, cell.0);
        self.machine.cell = Some(cell);
        if let Some(x) = self.machine.x
            && self.is_cell(x, cell)
        {
            self.machine.x = None;
        }
        Ok((op::JMP | op::JA, 0))
    }

    fn is_cell(&self, id: ValueId, cell: Cell) -> bool {
        matches!(self.values.get(id), Value::Cell(other) if other == cell)
    }

    /// Returns whether A holds a value.
    fn is_in_a(&self, id: ValueId) -> bool {
        let by_cell = |cell| self.reuse && self.is_cell(id, cell);
        self.machine.a == Some(id) || self.machine.cell.is_some_and(by_cell)
    }

    /// Returns whether a value can be loaded into X without changing A.
    fn direct_to_x(&self, id: ValueId) -> bool {
        let simple = matches!(
            self.values.get(id),
            Value::Constant(_)
                | Value::Folded(_)
                | Value::Length
                | Value::HeaderLength { .. }
                | Value::Cell(_)
        );
        simple || self.kept(id).is_some()
    }

    /// Returns whether a value can be loaded into A without changing X. If `as_is`, X keeps its present
    /// value, otherwise it will hold another.
    fn spares_x(&self, id: ValueId, as_is: bool) -> bool {
        let x = self.machine.x.filter(|_| as_is);
        if as_is && self.machine.a == Some(id) || x == Some(id) || self.kept(id).is_some() {
            return true;
        }
        match self.values.get(id) {
            Value::Constant(_)
            | Value::Folded(_)
            | Value::Length
            | Value::Cell(_)
            | Value::Ancillary { .. } => true,
            Value::Load { index, .. } => index.is_none_or(|index| x == Some(index)),
            Value::HeaderLength { .. } | Value::Chain(_) => false,
            Value::Negate(inner) => self.spares_x(inner, as_is),
            Value::Binary(operator, left, right) => {
                self.immediate(operator, right).is_some() && self.spares_x(left, as_is)
            }
        }
    }

    /// Returns the word of scratch memory that holds a value now.
    fn kept(&self, id: ValueId) -> Option<u32> {
        let word = self.scratch.word(id)?;
        (self.machine.kept & 1 << word != 0).then_some(word)
    }

    /// Loads `left` into A and `right` into X, or the other way round if `commutes` allows it;
    /// returns whether they were swapped. Scratch words from `slot` on are free.
    fn load_both(
        &mut self,
        left: ValueId,
        right: ValueId,
        commutes: bool,
        slot: u32,
    ) -> Result<bool, ErrorKind> {
        if left == right && !self.direct_to_x(right) {
            self.load_a(left, slot)?;
            self.move_to_x(right);
            return Ok(false);
        }
        let pairs = [(left, right, false), (right, left, true)];
        let pairs = if commutes { &pairs[..] } else { &pairs[..1] };
        for &(into_a, into_x, swapped) in pairs {
            let ready = self.machine.x == Some(into_x) && self.spares_x(into_a, true);
            if ready || self.direct_to_x(into_x) {
                self.load_a(into_a, slot)?;
                self.load_x(into_x, slot)?;
                return Ok(swapped);
            }
        }
        for &(into_a, into_x, swapped) in pairs {
            if self.spares_x(into_a, false) {
                self.load_a(into_x, slot)?;
                self.move_to_x(into_x);
                self.load_a(into_a, slot)?;
                return Ok(swapped);
            }
        }
        if slot >= self.scratch.free_words() {
            return Err(ErrorKind::TooLarge);
        }
        self.load_a(right, slot)?;
        self.push(op::ST, slot);
        self.load_a(left, slot + 1)?;
        self.push(op::LDX | op::MEM, slot);
        self.machine.x = Some(right);
        Ok(false)
    }

    /// Moves A, which holds `id`, into X.
    fn move_to_x(&mut self, id: ValueId) {
        self.push(op::MISC | op::TAX, 0);
        self.machine.x = Some(id);
    }

    fn load_x(&mut self, id: ValueId, slot: u32) -> Result<(), ErrorKind> {
        if self.machine.x == Some(id) {
            return Ok(());
        }
        match self.values.get(id) {
            // If nothing else loads from the stored word, the store can be left out.
            Value::Cell(_) if self.is_in_a(id) => self.push(op::MISC | op::TAX, 0),
            Value::Constant(n) | Value::Folded(n) => self.push(op::LDX | op::IMM, n),
            Value::Length => self.push(op::LDX | op::LEN, 0),
            Value::HeaderLength { offset } => self.push(op::LDX | op::MSH | op::B, offset),
            Value::Cell(cell) => self.push(op::LDX | op::MEM, cell.0),
            _ => match self.kept(id).filter(|_| self.machine.a != Some(id)) {
                Some(word) => self.push(op::LDX | op::MEM, word),
                None => {
                    self.load_a(id, slot)?;
                    self.push(op::MISC | op::TAX, 0);
                }
            },
        }
        self.machine.x = Some(id);
        Ok(())
    }

    fn load_a(&mut self, id: ValueId, slot: u32) -> Result<(), ErrorKind> {
        if self.is_in_a(id) {
            self.machine.a = Some(id);
            return Ok(());
        }
        let simple = matches!(self.values.get(id), Value::Constant(_) | Value::Folded(_));
        if self.machine.x == Some(id) && !simple {
            self.push(op::MISC | op::TXA, 0);
        } else if let Some(word) = self.kept(id) {
            self.push(op::LD | op::MEM, word);
        } else {
            self.compute(id, slot)?;
            if let Some(word) = self.scratch.computed(id) {
                self.push(op::ST, word);
                self.machine.kept |= 1 << word;
            }
        }
        self.machine.a = Some(id);
        self.machine.cell = None;
        Ok(())
    }

    fn compute(&mut self, id: ValueId, slot: u32) -> Result<(), ErrorKind> {
        match self.values.get(id) {
            Value::Constant(n) | Value::Folded(n) => self.push(op::LD | op::IMM, n),
            Value::Length => self.push(op::LD | op::LEN, 0),
            Value::Load {
                size,
                index,
                offset,
            } => {
                let mode = match index {
                    None => op::ABS,
                    Some(index) => {
                        self.load_x(index, slot)?;
                        op::IND
                    }
                };
                self.push(op::LD | mode | size.code(), offset);
            }
            Value::HeaderLength { .. } => {
                self.load_x(id, slot)?;
                self.push(op::MISC | op::TXA, 0);
            }
            Value::Cell(cell) => self.push(op::LD | op::MEM, cell.0),
            Value::Ancillary { size, number } => {
                self.push(op::LD | op::ABS | size.code(), op::SKF_AD_OFF + number);
            }
            Value::Negate(inner) => {
                self.load_a(inner, slot)?;
                self.push(op::ALU | op::NEG, 0);
            }
            Value::Binary(operator, left, right) => self.binary(operator, left, right, slot)?,
            Value::Chain(chain) => {
                if slot >= self.scratch.free_words() {
                    return Err(ErrorKind::TooLarge);
                }
                self.insns.extend(super::chain::walk(chain, slot));
                self.machine.x = None;
            }
        }
        Ok(())
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: ValueId,
        right: ValueId,
        slot: u32,
    ) -> Result<(), ErrorKind> {
        let code = op::ALU | alu(operator);
        let commutes = matches!(
            operator,
            Operator::Add | Operator::Multiply | Operator::And | Operator::Or | Operator::Xor
        );
        for (value, number) in [(left, right), (right, left)] {
            if let Some(number) = self.immediate(operator, number) {
                self.load_a(value, slot)?;
                self.push(code | op::K, number);
                return Ok(());
            }
            if !commutes {
                break;
            }
        }
        self.load_both(left, right, commutes, slot)?;
        self.push(code | op::X, 0);
        Ok(())
    }

    /// Returns the number if the value can be a constant operand of the operator.
    fn immediate(&self, operator: Operator, operand: ValueId) -> Option<u32> {
        let number = self.values.number_of(operand)?;
        let valid = match operator {
            Operator::Divide | Operator::Modulus => number != 0,
            Operator::ShiftLeft | Operator::ShiftRight => number < 32,
            _ => true,
        };
        valid.then_some(number)
    }
}

fn jump(relation: Relation) -> u16 {
    op::JMP
        | match relation {
            Relation::Equal => op::JEQ,
            Relation::Greater => op::JGT,
            Relation::GreaterEqual => op::JGE,
            Relation::AnyBit => op::JSET,
        }
}

fn alu(operator: Operator) -> u16 {
    match operator {
        Operator::Add => op::ADD,
        Operator::Subtract => op::SUB,
        Operator::Multiply => op::MUL,
        Operator::Divide => op::DIV,
        Operator::Modulus => op::MOD,
        Operator::And => op::AND,
        Operator::Or => op::OR,
        Operator::Xor => op::XOR,
        Operator::ShiftLeft => op::LSH,
        Operator::ShiftRight => op::RSH,
    }
}
