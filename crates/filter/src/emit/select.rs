//! Instruction selection, node by node.

use std::collections::HashMap;

use crate::error::ErrorKind;
use crate::ir::{Cell, Graph, NodeId, Relation, Step, Test, Value, ValueId, Values};
use crate::language::ast::Operator;
use crate::program::Insn;
use crate::program::opcode as op;

/// The instructions of one node, without targets.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: NodeId,
    pub(super) body: Vec<Insn>,
    /// Code and constant of the conditional jump at the end, if there is one.
    pub(super) jump: Option<(u16, u32)>,
    pub(super) yes: NodeId,
    pub(super) no: NodeId,
}

/// What the registers hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Registers {
    a: Option<ValueId>,
    x: Option<ValueId>,
}

impl Registers {
    fn meet(&mut self, other: Self) {
        if self.a != other.a {
            self.a = None;
        }
        if self.x != other.x {
            self.x = None;
        }
    }
}

/// Blocks in an order in which every jump goes forward.
pub(super) fn blocks(graph: &Graph, values: &Values, reuse: bool) -> Result<Vec<Block>, ErrorKind> {
    let mut entries: HashMap<NodeId, Registers> = HashMap::new();
    let mut blocks = Vec::new();
    for id in graph.order() {
        let Some(node) = graph.node(id) else { continue };
        let registers = match reuse {
            true => entries.get(&id).copied().unwrap_or_default(),
            false => Registers::default(),
        };
        let mut selector = Selector {
            values,
            body: Vec::new(),
            registers,
        };
        let slot = values.cells();
        let jump = match node.step {
            Step::Test(test) => Some(selector.test(test, slot)?),
            Step::Set(cell, value) => {
                selector.set(cell, value, slot)?;
                None
            }
        };
        for target in [node.yes, node.no] {
            entries
                .entry(target)
                .and_modify(|there| there.meet(selector.registers))
                .or_insert(selector.registers);
        }
        blocks.push(Block {
            id,
            body: selector.body,
            jump,
            yes: node.yes,
            no: node.no,
        });
    }
    Ok(blocks)
}

struct Selector<'a> {
    values: &'a Values,
    body: Vec<Insn>,
    registers: Registers,
}

impl Selector<'_> {
    fn push(&mut self, code: u16, k: u32) {
        self.body.push(Insn::new(code, k));
    }

    /// Brings the operands where the jump wants them; returns the jump.
    fn test(&mut self, test: Test, slot: u32) -> Result<(u16, u32), ErrorKind> {
        let code = match test.relation {
            Relation::Equal => op::JEQ,
            Relation::Greater => op::JGT,
            Relation::GreaterEqual => op::JGE,
            Relation::AnyBit => op::JSET,
        } | op::JMP;
        if let Some(number) = self.values.number_of(test.right) {
            self.load_a(test.left, slot)?;
            return Ok((code | op::K, number));
        }
        self.load_both(test.left, test.right, slot)?;
        Ok((code | op::X, 0))
    }

    /// Stores a value; what is loaded from the cell is then in the register, too.
    fn set(&mut self, cell: Cell, value: ValueId, slot: u32) -> Result<(), ErrorKind> {
        if cell.0 >= op::MEMWORDS {
            return Err(ErrorKind::TooLarge);
        }
        self.load_a(value, slot)?;
        self.push(op::ST, cell.0);
        Ok(())
    }

    /// Whether a value can be brought into X without touching A.
    fn direct_to_x(&self, id: ValueId) -> bool {
        self.registers.x == Some(id)
            || matches!(
                self.values.get(id),
                Value::Constant(_)
                    | Value::Folded(_)
                    | Value::Length
                    | Value::HeaderLength { .. }
                    | Value::Cell(_)
            )
    }

    /// `left` into A and `right` into X, with scratch words from `slot` on.
    fn load_both(&mut self, left: ValueId, right: ValueId, slot: u32) -> Result<(), ErrorKind> {
        let simple = matches!(
            self.values.get(right),
            Value::Constant(_)
                | Value::Folded(_)
                | Value::Length
                | Value::HeaderLength { .. }
                | Value::Cell(_)
        );
        if simple {
            self.load_a(left, slot)?;
            return self.load_x(right, slot);
        }
        if slot >= op::MEMWORDS {
            return Err(ErrorKind::TooLarge);
        }
        self.load_a(right, slot)?;
        self.push(op::ST, slot);
        self.load_a(left, slot + 1)?;
        self.push(op::LDX | op::MEM, slot);
        self.registers.x = Some(right);
        Ok(())
    }

    fn load_x(&mut self, id: ValueId, slot: u32) -> Result<(), ErrorKind> {
        if self.registers.x == Some(id) {
            return Ok(());
        }
        match self.values.get(id) {
            Value::Constant(n) | Value::Folded(n) => self.push(op::LDX | op::IMM, n),
            Value::Length => self.push(op::LDX | op::LEN, 0),
            Value::HeaderLength { offset } => self.push(op::LDX | op::MSH | op::B, offset),
            Value::Cell(cell) => self.push(op::LDX | op::MEM, cell.0),
            _ => {
                self.load_a(id, slot)?;
                self.push(op::MISC | op::TAX, 0);
            }
        }
        self.registers.x = Some(id);
        Ok(())
    }

    fn load_a(&mut self, id: ValueId, slot: u32) -> Result<(), ErrorKind> {
        if self.registers.a == Some(id) {
            return Ok(());
        }
        match self.values.get(id) {
            Value::Constant(n) | Value::Folded(n) => self.push(op::LD | op::IMM, n),
            Value::Length => self.push(op::LD | op::LEN, 0),
            Value::Load {
                size,
                index: None,
                offset,
            } => {
                self.push(op::LD | op::ABS | size.code(), offset);
            }
            Value::Load {
                size,
                index: Some(index),
                offset,
            } => {
                self.load_x(index, slot)?;
                self.push(op::LD | op::IND | size.code(), offset);
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
        }
        self.registers.a = Some(id);
        Ok(())
    }

    fn binary(
        &mut self,
        operator: Operator,
        left: ValueId,
        right: ValueId,
        slot: u32,
    ) -> Result<(), ErrorKind> {
        let code = op::ALU
            | match operator {
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
            };
        let commutes = matches!(
            operator,
            Operator::Add | Operator::Multiply | Operator::And | Operator::Or | Operator::Xor
        );
        let (left, right) = match commutes && self.direct_to_x(left) && !self.direct_to_x(right) {
            true => (right, left),
            false => (left, right),
        };
        if let Some(number) = self
            .values
            .constant_of(right)
            .filter(|&n| valid(operator, n))
        {
            self.load_a(left, slot)?;
            self.push(code | op::K, number);
            return Ok(());
        }
        self.load_both(left, right, slot)?;
        self.push(code | op::X, 0);
        Ok(())
    }
}

/// Whether the machine takes this constant operand.
fn valid(operator: Operator, number: u32) -> bool {
    match operator {
        Operator::Divide | Operator::Modulus => number != 0,
        Operator::ShiftLeft | Operator::ShiftRight => number < 32,
        _ => true,
    }
}
