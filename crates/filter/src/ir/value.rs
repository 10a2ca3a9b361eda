//! Values that can be computed from a packet.

use super::index::Index;
use crate::language::ast::Operator;
use crate::program::opcode as op;

/// The width of a packet access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Size {
    Byte,
    Half,
    Word,
}

impl Size {
    /// Returns the width in bytes.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }

    /// Returns the width's field in a load instruction.
    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Byte => op::B,
            Self::Half => op::H,
            Self::Word => op::W,
        }
    }
}

/// A 32-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    Constant(u32),
    /// A number that the compiler computed from numbers in the expression. It is emitted as a
    /// number, but tests on it are decided only if no test comes before. libpcap does the same;
    /// deciding one elsewhere would remove other loads, which may reject a packet.
    Folded(u32),
    /// The packet's length on the wire.
    Length,
    /// Packet bytes at a constant offset from `index`.
    Load {
        size: Size,
        index: Option<ValueId>,
        offset: u32,
    },
    /// Four times the low nibble of a byte: the length of the IPv4 header that begins there.
    HeaderLength {
        offset: u32,
    },
    /// The value stored in a cell; 0 on paths that stored none.
    Cell(Cell),
    /// The packet's metadata, by `SKF_AD_` number.
    Ancillary {
        size: Size,
        number: u32,
    },
    Negate(ValueId),
    Binary(Operator, ValueId, ValueId),
    /// The protocol at which a walk over the headers after an IP header ends.
    Chain(Chain),
}

/// A walk over the headers after an IP header. Each names the next, until one is of the wanted protocol or
/// names none (RFC 8200, section 4; RFC 4302). A program needs a loop for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    pub(crate) version: IpVersion,
    /// The offset of the IP header, in bytes from the start of the packet.
    pub(crate) at: u32,
    pub(crate) wanted: u32,
}

/// The version of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IpVersion {
    V4,
    V6,
}

/// A number that [`Condition::Set`](super::Condition::Set) stores for later values, in a word of
/// scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Cell(pub(crate) u32);

/// An offset in the packet, in bytes from its start: a constant plus an optional value that is only known at
/// run time (usually a [`Cell`]), after headers of variable length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) base: Option<ValueId>,
    pub(crate) constant: u32,
}

impl From<u32> for Offset {
    fn from(constant: u32) -> Self {
        Self {
            base: None,
            constant,
        }
    }
}

impl std::ops::Add<u32> for Offset {
    type Output = Self;

    fn add(self, bytes: u32) -> Self {
        Self {
            constant: self.constant.wrapping_add(bytes),
            ..self
        }
    }
}

impl std::ops::AddAssign<u32> for Offset {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

/// Constant offsets above this do not mean packet bytes.
const LARGEST: u32 = i32::MAX as u32;

/// Returns an offset that can be written as a constant. One that is too large is replaced by
/// another that no packet reaches, so that a load from it still rejects the packet.
fn reachable(at: Offset) -> Offset {
    const BEYOND: u32 = LARGEST - 8;
    match at.base {
        None if at.constant >= LARGEST => Offset::from(BEYOND),
        _ => at,
    }
}

/// The id of a value in its [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(u32);

impl ValueId {
    /// Returns the index in lists with an element for each value.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// All values of one compilation, each stored once.
#[derive(Debug, Default)]
pub(crate) struct Values {
    list: Vec<Value>,
    index: Index,
    fold: bool,
    cells: u32,
}

impl Values {
    /// Returns an empty list. With `fold`, operations whose result is known are replaced by it;
    /// their loads then disappear, as in libpcap's optimiser.
    pub(crate) fn new(fold: bool) -> Self {
        // Enough for most filters.
        const USUAL: usize = 40;
        Self {
            list: Vec::with_capacity(USUAL),
            fold,
            ..Self::default()
        }
    }

    /// Returns the value of an id.
    pub(crate) fn get(&self, id: ValueId) -> Value {
        self.list[id.0 as usize]
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns all ids.
    pub(crate) fn all(&self) -> impl Iterator<Item = ValueId> {
        (0..self.list.len()).map(|at| ValueId(u32::try_from(at).unwrap_or(u32::MAX)))
    }

    /// Returns whether a value is a load from a constant offset beyond every packet, which
    /// [`load_at`](Self::load_at) keeps as an index.
    pub(super) fn fails(&self, id: ValueId) -> bool {
        match self.get(id) {
            Value::Load {
                index: Some(index), ..
            } => self.number_of(index).is_some(),
            _ => false,
        }
    }

    /// Returns the number if the value is a constant of the expression.
    pub(crate) fn constant_of(&self, id: ValueId) -> Option<u32> {
        match self.get(id) {
            Value::Constant(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the number if the value is a constant, written or computed.
    pub(crate) fn number_of(&self, id: ValueId) -> Option<u32> {
        match self.get(id) {
            Value::Constant(n) | Value::Folded(n) => Some(n),
            _ => None,
        }
    }

    fn folded_number(&mut self, number: u32) -> ValueId {
        self.intern(Value::Folded(number))
    }

    /// Returns a field under a mask that the compiler adds.
    pub(crate) fn masked(&mut self, load: ValueId, mask: u32) -> ValueId {
        if self.fold && mask == 0 {
            return self.constant(0);
        }
        let mask = self.constant(mask);
        self.intern(Value::Binary(Operator::And, load, mask))
    }

    fn intern(&mut self, value: Value) -> ValueId {
        ValueId(self.index.intern(&mut self.list, value))
    }

    pub(crate) fn constant(&mut self, number: u32) -> ValueId {
        self.intern(Value::Constant(number))
    }

    pub(crate) fn length(&mut self) -> ValueId {
        self.intern(Value::Length)
    }

    /// Returns a new cell. Each needs a word of scratch memory; too many make the program too
    /// large.
    pub(crate) fn new_cell(&mut self) -> Cell {
        self.cells = self.cells.saturating_add(1);
        Cell(self.cells - 1)
    }

    /// Returns the number of cells.
    pub(crate) fn cells(&self) -> u32 {
        self.cells
    }

    pub(crate) fn cell(&mut self, cell: Cell) -> ValueId {
        self.intern(Value::Cell(cell))
    }

    /// Returns whether any value is computed from `value`.
    pub(crate) fn is_used(&self, value: ValueId) -> bool {
        self.list.iter().any(|user| match *user {
            Value::Load { index, .. } => index == Some(value),
            Value::Negate(inner) => inner == value,
            Value::Binary(_, left, right) => left == value || right == value,
            _ => false,
        })
    }

    /// Returns the offset whose distance from the packet's start is in a cell.
    pub(crate) fn place_in(&mut self, cell: Cell) -> Offset {
        Offset {
            base: Some(self.cell(cell)),
            constant: 0,
        }
    }

    /// Returns the cell that an offset is relative to, if any.
    pub(crate) fn cell_of(&self, at: Offset) -> Option<Cell> {
        match self.get(at.base?) {
            Value::Cell(cell) => Some(cell),
            _ => None,
        }
    }

    /// Returns a load of packet bytes at an offset.
    pub(crate) fn load(&mut self, size: Size, at: impl Into<Offset>) -> ValueId {
        let at = at.into();
        let at = reachable(at);
        self.intern(Value::Load {
            size,
            index: at.base,
            offset: at.constant,
        })
    }

    pub(crate) fn chain(&mut self, chain: Chain) -> ValueId {
        self.intern(Value::Chain(chain))
    }

    /// Returns the length of the IPv4 header at an offset.
    pub(crate) fn header_length(&mut self, at: Offset) -> ValueId {
        const WORDS: u32 = 0xf;
        if at.base.is_none() {
            let offset = reachable(at).constant;
            return self.intern(Value::HeaderLength { offset });
        }
        let first = self.load(Size::Byte, at);
        let words = self.masked(first, WORDS);
        let two = self.constant(2);
        self.binary(Operator::ShiftLeft, words, two)
    }

    /// Returns the offset after the IPv4 header at an offset.
    pub(crate) fn behind_header(&mut self, at: Offset) -> Offset {
        let length = self.header_length(at);
        let base = match at.base {
            Some(base) => self.binary(Operator::Add, length, base),
            None => length,
        };
        Offset {
            base: Some(base),
            ..at
        }
    }

    /// Returns the distance of `at` plus `more` bytes from the packet's start.
    pub(crate) fn sum(&mut self, at: Offset, more: ValueId) -> ValueId {
        let constant = self.constant(at.constant);
        let sum = self.binary(Operator::Add, more, constant);
        match at.base {
            Some(base) => self.binary(Operator::Add, sum, base),
            None => sum,
        }
    }

    /// Returns the distance of an offset from the packet's start.
    pub(crate) fn distance(&mut self, at: Offset) -> ValueId {
        let constant = self.constant(at.constant);
        match at.base {
            Some(base) if at.constant == 0 => base,
            Some(base) => self.binary(Operator::Add, base, constant),
            None => constant,
        }
    }

    pub(crate) fn ancillary(&mut self, size: Size, number: u32) -> ValueId {
        self.intern(Value::Ancillary { size, number })
    }

    /// Returns a load of packet bytes at `index + at`. A constant sum beyond the range of packets
    /// stays an index, because large constant offsets have another meaning. When folding, the sum
    /// wraps around, as in libpcap's optimiser: `ip[-1]` is the byte before the IP header.
    pub(crate) fn load_at(&mut self, size: Size, index: ValueId, at: impl Into<Offset>) -> ValueId {
        const SURELY_NO_WRAP: u32 = 1 << 30;
        let at = at.into();
        let Offset {
            base,
            constant: offset,
        } = at;
        if let Some(base) = base {
            if let Some(number) = self.number_of(index).filter(|&n| n < SURELY_NO_WRAP) {
                return self.load(size, at + number);
            }
            let index = self.binary(Operator::Add, index, base);
            return self.load_at(size, index, offset);
        }
        let sum = self.number_of(index).and_then(|n| match self.fold {
            true => Some(n.wrapping_add(offset)),
            false => n.checked_add(offset),
        });
        match sum.filter(|&sum| sum < LARGEST) {
            Some(sum) => self.load(size, sum),
            None => self.intern(Value::Load {
                size,
                index: Some(index),
                offset,
            }),
        }
    }

    pub(crate) fn negate(&mut self, value: ValueId) -> ValueId {
        match self.number_of(value) {
            Some(n) if self.fold => self.folded_number(n.wrapping_neg()),
            _ => self.intern(Value::Negate(value)),
        }
    }

    /// Returns `left operator right`. The caller rejects division by a constant zero and shifts by
    /// more than 31 bits.
    pub(crate) fn binary(&mut self, operator: Operator, left: ValueId, right: ValueId) -> ValueId {
        if self.fold
            && let Some(value) = self.folded(operator, left, right)
        {
            return value;
        }
        self.intern(Value::Binary(operator, left, right))
    }

    fn folded(&mut self, operator: Operator, left: ValueId, right: ValueId) -> Option<ValueId> {
        let (a, b) = (self.number_of(left), self.number_of(right));
        if let (Some(a), Some(b)) = (a, b) {
            return apply(operator, a, b).map(|n| self.folded_number(n));
        }
        match (operator, a, b) {
            (
                Operator::And
                | Operator::Multiply
                | Operator::Divide
                | Operator::Modulus
                | Operator::ShiftLeft
                | Operator::ShiftRight,
                Some(0),
                _,
            )
            | (Operator::And | Operator::Multiply, _, Some(0)) => Some(self.folded_number(0)),
            (
                Operator::Add
                | Operator::Subtract
                | Operator::Or
                | Operator::Xor
                | Operator::ShiftLeft
                | Operator::ShiftRight,
                _,
                Some(0),
            )
            | (Operator::Multiply | Operator::Divide, _, Some(1)) => Some(left),
            (Operator::Add | Operator::Or | Operator::Xor, Some(0), _)
            | (Operator::Multiply, Some(1), _) => Some(right),
            _ => None,
        }
    }
}

/// Returns the result for two numbers, if there is one.
pub(crate) fn apply(operator: Operator, a: u32, b: u32) -> Option<u32> {
    match operator {
        Operator::Add => Some(a.wrapping_add(b)),
        Operator::Subtract => Some(a.wrapping_sub(b)),
        Operator::Multiply => Some(a.wrapping_mul(b)),
        Operator::Divide => a.checked_div(b),
        Operator::Modulus => a.checked_rem(b),
        Operator::And => Some(a & b),
        Operator::Or => Some(a | b),
        Operator::Xor => Some(a ^ b),
        Operator::ShiftLeft => Some(a.checked_shl(b).unwrap_or(0)),
        Operator::ShiftRight => Some(a.checked_shr(b).unwrap_or(0)),
    }
}
