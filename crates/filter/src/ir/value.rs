//! Values: what can be computed from a packet.

use std::collections::HashMap;

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
    /// The width's field in a load instruction.
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
    /// A number that the compiler computed from numbers in the expression. It is emitted as one,
    /// but tests on it are only decided where nothing was tested before: that is where libpcap
    /// does it, and deciding one elsewhere makes other loads, which may reject a packet, go away.
    Folded(u32),
    /// The packet's length on the wire.
    Length,
    /// Packet bytes at a constant offset, which begins where `index` says.
    Load {
        size: Size,
        index: Option<ValueId>,
        offset: u32,
    },
    /// Four times the low nibble of a byte: the length of the IPv4 header that begins there.
    HeaderLength {
        offset: u32,
    },
    /// The packet's metadata, by `SKF_AD_` number.
    Ancillary {
        size: Size,
        number: u32,
    },
    Negate(ValueId),
    Binary(Operator, ValueId, ValueId),
}

/// Names a value in its [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(u32);

/// All values of one compilation, each once.
#[derive(Debug, Default)]
pub(crate) struct Values {
    list: Vec<Value>,
    ids: HashMap<Value, ValueId>,
    fold: bool,
}

impl Values {
    /// Empty. With `fold`, operations whose result is known are replaced by it; loads in them are
    /// then not made any more, as libpcap's optimiser does.
    pub(crate) fn new(fold: bool) -> Self {
        Self {
            fold,
            ..Self::default()
        }
    }

    /// The value behind an id.
    pub(crate) fn get(&self, id: ValueId) -> Value {
        self.list[id.0 as usize]
    }

    /// The number, if the value is one.
    pub(crate) fn constant_of(&self, id: ValueId) -> Option<u32> {
        match self.get(id) {
            Value::Constant(n) => Some(n),
            _ => None,
        }
    }

    /// The number, if the value is one, written or computed.
    pub(crate) fn number_of(&self, id: ValueId) -> Option<u32> {
        match self.get(id) {
            Value::Constant(n) | Value::Folded(n) => Some(n),
            _ => None,
        }
    }

    fn folded_number(&mut self, number: u32) -> ValueId {
        self.intern(Value::Folded(number))
    }

    /// A field under a mask that the compiler makes itself.
    pub(crate) fn masked(&mut self, load: ValueId, mask: u32) -> ValueId {
        if self.fold && mask == 0 {
            return self.constant(0);
        }
        let mask = self.constant(mask);
        self.intern(Value::Binary(Operator::And, load, mask))
    }

    fn intern(&mut self, value: Value) -> ValueId {
        if let Some(&id) = self.ids.get(&value) {
            return id;
        }
        // One value needs several bytes of expression, whose length is bounded far below this.
        let id = ValueId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(value);
        self.ids.insert(value, id);
        id
    }

    pub(crate) fn constant(&mut self, number: u32) -> ValueId {
        self.intern(Value::Constant(number))
    }

    pub(crate) fn length(&mut self) -> ValueId {
        self.intern(Value::Length)
    }

    pub(crate) fn load(&mut self, size: Size, offset: u32) -> ValueId {
        self.intern(Value::Load {
            size,
            index: None,
            offset,
        })
    }

    pub(crate) fn header_length(&mut self, offset: u32) -> ValueId {
        self.intern(Value::HeaderLength { offset })
    }

    pub(crate) fn ancillary(&mut self, size: Size, number: u32) -> ValueId {
        self.intern(Value::Ancillary { size, number })
    }

    /// Packet bytes at `index + offset`. A constant sum that leaves the range of packets is kept as
    /// an index, because a large constant offset means something else. When folding, the sum wraps
    /// around, as in libpcap's optimiser: `ip[-1]` is the byte before the IP header.
    pub(crate) fn load_at(&mut self, size: Size, index: ValueId, offset: u32) -> ValueId {
        const LARGEST: u32 = i32::MAX as u32;
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

    /// `left operator right`. Constant division by zero and shifts beyond 31 bits are the caller's
    /// to reject.
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

/// The result for two numbers, where the machine gives one.
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
